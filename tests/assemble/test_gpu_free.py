"""Free memory over time -> what stays free: only what was watched while the server served counts."""

from dataclasses import replace

import pytest

from sidecar.assemble.gpus import Gpus
from sidecar.model.readings import Gpu, GpuProcess, NvmlReading, Process, ProcessReading
from sidecar.model.samples import Instant

GPU = Gpu(0, "GPU-0", "a", 1000, 0, 0, 0, utilization=0.0, processes=())
LOST = replace(GPU, lost=True, free=None, used=None, processes=None)


class Watched:
    """The GPUs at an interval of 5 s."""

    def __init__(self) -> None:
        self.gpus = Gpus()
        self.at = 0.0

    def see(
        self,
        free: int | None,
        seconds: float,
        *,
        serves: bool = True,
        held: tuple[tuple[int, int | None], ...] = (),
    ) -> int | None:
        """So much is free for so long; None: the GPU is lost. ``held`` by whom."""
        gpu = LOST if free is None else replace(GPU, free=free)
        if held:
            gpu = replace(gpu, processes=tuple(GpuProcess(*one) for one in held))
        for _ in range(round(seconds / 5)):
            self.gpus.feed(NvmlReading("1", (gpu,)), self.moment(), serves=serves)
            self.gpus.judge()
            self.at += 5
        return self.durable()

    def miss(self, seconds: float) -> None:
        """The driver does not answer for so long."""
        for _ in range(round(seconds / 5)):
            self.gpus.miss()
            self.at += 5

    def durable(self) -> int | None:
        return self.gpus.budgets(self.moment())[0].free_durable

    def others(self) -> int | None:
        return self.gpus.budgets(self.moment())[0].cotenant_durable

    def moment(self) -> Instant:
        return Instant(self.at, self.at)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_nothing_is_durable_before_all_of_the_horizon_was_watched(watched: Watched) -> None:
    assert watched.see(40, 600) is None
    assert watched.see(40, 5) == 40


def test_the_least_counts_until_it_is_older_than_the_horizon(watched: Watched) -> None:
    watched.see(40, 600)
    assert watched.see(7, 5) == 7
    assert watched.see(40, 595) == 7
    assert watched.see(40, 15) == 40


def test_a_server_that_does_not_serve_proves_nothing(watched: Watched) -> None:
    watched.see(40, 700)
    assert watched.see(900, 5, serves=False) is None
    assert watched.see(60, 600) is None
    assert watched.see(60, 5) == 60


def test_another_server_begins_the_horizon_anew(watched: Watched) -> None:
    for pid in (1, 9):
        watched.gpus.see_processes(ProcessReading((Process(pid, "vllm", born=pid),), root=pid))
        assert watched.see(40 + pid, 600) is None
        assert watched.see(40 + pid, 5) == 40 + pid


@pytest.mark.parametrize("how", ["lost", "silent"])
def test_a_short_gap_is_not_watched_and_forgets_nothing(watched: Watched, how: str) -> None:
    watched.see(40, 600)
    watched.see(7, 5)
    if how == "lost":
        assert watched.see(None, 20) is None
    else:
        watched.miss(20)
        assert watched.durable() is None
    assert watched.see(40, 5) == 7
    # 600 s after it; those of the gap, and the 5 s before the next reading, were not watched.
    assert watched.see(40, 600) == 7
    assert watched.see(40, 15) == 40


@pytest.mark.parametrize("gap", [40, 250, 700])
def test_after_a_long_gap_it_is_proven_anew(watched: Watched, gap: float) -> None:
    watched.see(40, 700)
    watched.miss(gap)
    assert watched.see(50, 595) is None
    assert watched.see(50, 20) == 50


def test_readings_far_apart_prove_nothing(watched: Watched) -> None:
    for _ in range(60):
        watched.see(40, 5)
        watched.at += 85
    assert watched.see(40, 5) is None


SERVER = (Process(1, "vllm", born=1), Process(2, "VLLM::EngineCor", born=2))
OURS = ((2, 700),)


def test_the_most_of_others_counts_until_it_is_older_than_the_horizon(watched: Watched) -> None:
    watched.gpus.see_processes(ProcessReading(SERVER, root=1))
    watched.see(300, 600, held=OURS)
    assert watched.others() is None
    watched.see(300, 5, held=OURS)
    assert watched.others() == 0
    watched.see(300, 5, held=(*OURS, (77, 1)))
    assert watched.others() == 1
    watched.see(300, 595, held=OURS)
    assert watched.others() == 1
    watched.see(300, 15, held=OURS)
    assert watched.others() == 0


@pytest.mark.parametrize("how", ["size", "pid", "namespace", "processes"])
def test_one_reading_that_hides_whose_it_is_proves_nobody_absent(
    watched: Watched, how: str
) -> None:
    ours = ProcessReading(SERVER, root=1)
    watched.gpus.see_processes(ours)
    watched.see(300, 610, held=OURS)
    assert watched.others() == 0
    if how == "namespace":
        watched.gpus.see_processes(replace(ours, host_pids=False))
    if how == "processes":
        watched.gpus.see_processes(None)
    hidden = {"size": ((2, None),), "pid": ((2, 600), (0, 100))}
    watched.see(300, 5, held=hidden.get(how, OURS))
    watched.gpus.see_processes(ours)
    assert watched.see(300, 595, held=OURS) == 300
    assert watched.others() is None
    watched.see(300, 15, held=OURS)
    assert watched.others() == 0


def test_where_nobody_looked_for_others_they_are_not_known(watched: Watched) -> None:
    for _ in range(130):
        watched.gpus.feed(NvmlReading("1", (replace(GPU, free=40),)), watched.moment(), serves=True)
        watched.at += 5
    assert (watched.durable(), watched.others()) == (40, None)


def test_another_card_in_the_same_place_begins_anew(watched: Watched) -> None:
    watched.see(40, 700)
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
    assert len(watch.slots) <= 62
    assert gpus.budgets(now)[0].free_durable is not None
