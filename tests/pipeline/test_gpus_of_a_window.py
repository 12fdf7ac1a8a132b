"""GPUs and processes beside a server, from samples to the window: whose memory, and what stays free."""

import pytest

from sidecar.classify.policy import Policy
from sidecar.derive.placement import Placement, placement
from sidecar.model.budget import GpuBudget, Sight
from sidecar.model.readings import (
    Gpu,
    GpuProcess,
    HealthReading,
    NvmlReading,
    Process,
    ProcessReading,
    Reading,
)
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.vocabulary import Fault, Source
from sidecar.pipeline import Pipeline

SERVER = ProcessReading((Process(1, "vllm", born=1), Process(2, "VLLM::EngineCor", born=2)), root=1)
UP = HealthReading(200)


def gpus(*held: tuple[int, int], utilization: float = 0.0) -> NvmlReading:
    """One GPU of 1,000 bytes."""
    used = sum(size for _, size in held)
    gpu = Gpu(
        0, "GPU-0", "a", 1000, used, 1000 - used, 0,
        utilization=utilization, processes=tuple(GpuProcess(*one) for one in held),
    )  # fmt: skip
    return NvmlReading("1", (gpu,))


class Daemon:
    """A pipeline with windows of 10 s that is told everything every 5 s."""

    def __init__(self, *, nvml_first: bool = True) -> None:
        self.nvml_first = nvml_first
        self.pipeline = Pipeline(window_s=10.0, policy=Policy(), configured=frozenset())
        self.at = 1000.0

    def see(
        self, *, health: Reading | Fault, nvml: Reading | Fault, process: Reading | Fault
    ) -> GpuBudget | None:
        """One tick; the GPU of the window that it closes, if it does."""
        now = Instant(self.at, self.at)
        read = [(Source.NVML, nvml), (Source.PROCESS, process), (Source.VLLM_HEALTH, health)]
        given = dict(read if self.nvml_first else reversed(read))
        samples = tuple(
            Sample(source, now, fault=got)
            if isinstance(got, Fault)
            else Sample(source, now, reading=got)
            for source, got in given.items()
        )
        closed = self.pipeline.step(Tick(now, samples)).closed
        self.at += 5
        return closed[-1].window.gpus[0] if closed else None


def test_a_window_tells_whose_memory_it_was_and_what_stayed_free() -> None:
    daemon = Daemon()
    shown = [
        daemon.see(health=UP, nvml=gpus((2, 700), (77, 100)), process=SERVER) for _ in range(125)
    ]
    first, last = shown[0], shown[-1]
    assert first is not None
    assert first.free_durable is None
    assert last is not None
    assert (last.sight, last.vllm, last.cotenant) == (Sight.SEEN, 700, 100)
    assert (last.free_durable, last.cotenant_durable, last.expected) == (200, 100, True)


def test_a_server_that_is_gone_or_cannot_be_seen_leaves_no_figure() -> None:
    daemon = Daemon()
    for _ in range(124):
        daemon.see(health=UP, nvml=gpus((2, 700)), process=SERVER)
    blind = daemon.see(health=UP, nvml=gpus((2, 700)), process=Fault.DENIED)
    assert blind is not None
    assert (blind.sight, blind.vllm, blind.free_durable) == (Sight.NO_SERVER, None, 300)
    daemon.see(health=UP, nvml=gpus((2, 700)), process=SERVER)
    failed = daemon.see(health=UP, nvml=Fault.TIMEOUT, process=SERVER)
    assert failed is not None
    assert (failed.total, failed.vllm, failed.free_durable) == (None, None, None)
    assert (failed.sight, failed.cotenant) == (Sight.HIDDEN, None)
    assert failed.expected


def test_a_gpu_is_idle_only_if_it_was_so_all_through_the_window() -> None:
    daemon = Daemon()
    daemon.see(health=UP, nvml=gpus((2, 700)), process=SERVER)
    daemon.see(health=UP, nvml=gpus((2, 700), utilization=0.5), process=SERVER)
    worked = daemon.see(health=UP, nvml=gpus((2, 700)), process=SERVER)
    daemon.see(health=UP, nvml=gpus((2, 700)), process=SERVER)
    rested = daemon.see(health=UP, nvml=gpus((2, 700)), process=SERVER)
    assert worked is not None
    assert worked.utilization == 0.25
    assert rested is not None
    assert placement((worked,), tokens_flow=True) == ()
    assert placement((rested,), tokens_flow=True) == (Placement.IDLE_WHILE_SERVING,)


OWN = gpus((2, 700))
FOREIGN = ProcessReading(SERVER.processes, root=1, host_pids=False)


@pytest.mark.parametrize("nvml_first", [True, False])
@pytest.mark.parametrize(
    ("nvml", "process", "sight", "others"),
    [
        (gpus((2, 700), (77, 100)), SERVER, Sight.SEEN, 100),
        (gpus((2, 700), (77, 1)), SERVER, Sight.SEEN, 1),
        (gpus((2, 600), (0, 100)), SERVER, Sight.OTHER_NAMESPACE, None),
        (OWN, FOREIGN, Sight.OTHER_NAMESPACE, None),
        (OWN, Fault.DENIED, Sight.NO_SERVER, None),
    ],
)
def test_what_was_seen_between_two_windows_ends_counts(
    nvml: Reading,
    process: Reading | Fault,
    sight: Sight,
    others: int | None,
    nvml_first: bool,  # noqa: FBT001  (a parameter of the test)
) -> None:
    daemon = Daemon(nvml_first=nvml_first)
    # At a multiple of ten a window closes; the reading before it is in its middle.
    for _ in range(125):
        daemon.see(health=UP, nvml=OWN, process=SERVER)
    daemon.see(health=UP, nvml=nvml, process=process)
    crowded = daemon.see(health=UP, nvml=OWN, process=SERVER)
    daemon.see(health=UP, nvml=OWN, process=SERVER)
    after = daemon.see(health=UP, nvml=OWN, process=SERVER)
    assert crowded is not None
    assert (crowded.sight, crowded.cotenant, crowded.cotenant_durable) == (sight, others, others)
    assert after is not None
    assert (after.sight, after.cotenant, after.cotenant_durable) == (Sight.SEEN, 0, others)


def test_orphans_that_went_before_the_windows_end_are_nobodys() -> None:
    """A dying server's memory is listed a little longer; that is no co-tenant to be freed."""
    daemon = Daemon()
    for _ in range(3):
        daemon.see(health=UP, nvml=OWN, process=SERVER)
    dead = ProcessReading((), root=None)
    daemon.see(health=Fault.REFUSED, nvml=OWN, process=dead)
    left = daemon.see(health=Fault.REFUSED, nvml=OWN, process=dead)
    daemon.see(health=Fault.REFUSED, nvml=OWN, process=dead)
    gone = daemon.see(health=Fault.REFUSED, nvml=gpus(), process=dead)
    assert left is not None
    assert (left.cotenant, left.orphans) == (700, 700)
    assert gone is not None
    assert gone.cotenant is None
