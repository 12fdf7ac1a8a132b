"""Free memory over time -> what stays free: only what was watched while the server served counts."""

from dataclasses import replace

import pytest

from sidecar.assemble.gpus import Gpus
from sidecar.model.readings import Gpu, NvmlReading, Process, ProcessReading
from sidecar.model.samples import Instant

GPU = Gpu(0, "GPU-0", "a", 1000, 0, 0, 0, utilization=0.0, processes=())
LOST = replace(GPU, lost=True, free=None, used=None, processes=None)


class Watched:
    """The GPUs at an interval of 5 s."""

    def __init__(self) -> None:
        self.gpus = Gpus()
        self.at = 0.0

    def see(self, free: int | None, seconds: float, *, serves: bool = True) -> int | None:
        """So much is free for so long; None: the GPU is lost."""
        gpu = LOST if free is None else replace(GPU, free=free)
        for _ in range(round(seconds / 5)):
            self.gpus.feed(NvmlReading("1", (gpu,)), self.moment(), serves=serves)
            self.at += 5
        return self.durable()

    def miss(self, seconds: float) -> None:
        """The driver does not answer for so long."""
        for _ in range(round(seconds / 5)):
            self.gpus.miss()
            self.at += 5

    def durable(self) -> int | None:
        return self.gpus.budgets(self.moment())[0].free_durable

    def moment(self) -> Instant:
        return Instant(self.at, self.at)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_nothing_is_durable_before_a_quarter_of_the_horizon_was_watched(watched: Watched) -> None:
    assert watched.see(40, 150) is None
    assert watched.see(40, 5) == 40


def test_the_least_counts_until_it_is_older_than_the_horizon(watched: Watched) -> None:
    watched.see(40, 300)
    assert watched.see(7, 5) == 7
    assert watched.see(40, 595) == 7
    assert watched.see(40, 15) == 40


def test_a_server_that_does_not_serve_proves_nothing(watched: Watched) -> None:
    watched.see(40, 600)
    assert watched.see(900, 5, serves=False) is None
    assert watched.see(60, 150) is None
    assert watched.see(60, 5) == 60


def test_another_server_begins_the_horizon_anew(watched: Watched) -> None:
    for pid in (1, 9):
        watched.gpus.see_processes(ProcessReading((Process(pid, "vllm", born=pid),), root=pid))
        assert watched.see(40 + pid, 150) is None
        assert watched.see(40 + pid, 5) == 40 + pid


@pytest.mark.parametrize("how", ["lost", "silent"])
def test_a_gap_makes_it_no_larger_and_is_not_watched(watched: Watched, how: str) -> None:
    watched.see(7, 300)
    watched.see(40, 100)
    if how == "lost":
        assert watched.see(None, 250) is None
    else:
        watched.miss(250)
        assert watched.durable() is None
    # 100 s of what was watched before lie within the horizon, and all of it is remembered.
    assert watched.see(40, 5) == 7
    assert watched.see(40, 300) == 7


def test_after_a_long_gap_it_is_proven_anew(watched: Watched) -> None:
    watched.see(40, 600)
    watched.miss(700)
    assert watched.see(50, 140) is None
    assert watched.see(50, 15) == 40


def test_another_card_in_the_same_place_begins_anew(watched: Watched) -> None:
    watched.see(40, 600)
    other = replace(GPU, uuid="GPU-1", free=90)
    watched.gpus.feed(NvmlReading("1", (other,)), watched.moment(), serves=True)
    assert watched.durable() is None


@pytest.mark.parametrize("interval", [0.05, 1.0, 30.0, 60.0])
def test_what_is_kept_does_not_grow_with_the_clock(interval: float) -> None:
    gpus, now = Gpus(), Instant(0, 0)
    for n in range(int(1500 / interval)):
        now = Instant(n * interval, n * interval)
        gpus.feed(NvmlReading("1", (replace(GPU, free=100 + n),)), now, serves=True)
    (watch,) = gpus.free.values()
    assert len(watch.slots) <= 61
    assert gpus.budgets(now)[0].free_durable is not None
