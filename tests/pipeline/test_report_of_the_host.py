"""What the report says of host memory, processes and the kernel log, from samples to the report."""

import pytest

from sidecar.classify.policy import Policy
from sidecar.model.readings import CgroupReading, KernelReading, Process, ProcessReading, Reading
from sidecar.model.report import Report
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.vocabulary import Fault, LimitOwner, Party, Source
from sidecar.pipeline import Pipeline

GIB = 1024**3
SERVER = (
    Process(1, "vllm", born=1),
    Process(2, "VLLM::EngineCor", born=2, pinned=3 * GIB),
    Process(3, "VLLM::Worker", born=3, pinned=GIB),
)


def new_pipeline() -> Pipeline:
    return Pipeline(window_s=10.0, policy=Policy(), configured=frozenset())


def report(pipeline: Pipeline, at: float, **read: Reading | Fault) -> Report:
    """The report after one tick in which these sources spoke."""
    instant = Instant(at, at)
    samples = tuple(
        Sample(Source(name), instant, fault=got)
        if isinstance(got, Fault)
        else Sample(Source(name), instant, reading=got)
        for name, got in read.items()
    )
    return pipeline.step(Tick(instant, samples)).report


def grown(at: float) -> CgroupReading:
    return CgroupReading(
        2, "/c", identity=7, current=GIB + int(at) * 1000, limit=2 * GIB, reclaimable=0
    )


def test_growth_is_told_while_the_cgroup_is_read() -> None:
    pipeline = new_pipeline()
    shown = [report(pipeline, float(at), cgroup=grown(at)).outlook for at in range(1000, 1030)]
    first, last = shown[0], shown[-1]
    assert first is not None
    assert last is not None
    assert first.growth is None
    assert last.growth == pytest.approx(1000)
    assert last.headroom == {LimitOwner.OWN: GIB - 1029 * 1000}
    assert report(pipeline, 1030.0, cgroup=Fault.DENIED).outlook is None


def test_processes_are_counted_by_role_while_they_can_be_seen() -> None:
    pipeline = new_pipeline()
    assert report(pipeline, 1000.0).processes is None
    counted = report(pipeline, 1001.0, process=ProcessReading(SERVER, root=1)).processes
    assert counted is not None
    assert counted.parties == {
        Party.API_SERVER: 1,
        Party.ENGINE: 1,
        Party.WORKER: 1,
        Party.OTHER: 0,
    }
    assert (counted.orphaned, counted.pinned) == (0, 4 * GIB)
    assert report(pipeline, 1002.0, process=Fault.DENIED).processes is None


def test_engines_without_a_server_are_orphans_and_unread_pins_are_unknown() -> None:
    left = (Process(2, "VLLM::EngineCor", born=2), Process(3, "VLLM::Worker", born=3))
    counted = report(new_pipeline(), 1000.0, process=ProcessReading(left)).processes
    assert counted is not None
    assert (counted.orphaned, counted.pinned) == (2, None)


def test_lost_records_add_up_and_are_unknown_before_the_log_was_read() -> None:
    pipeline = new_pipeline()
    assert report(pipeline, 1000.0, kernel_log=Fault.DENIED).kernel_lost is None
    assert report(pipeline, 1001.0, kernel_log=KernelReading()).kernel_lost == 0
    assert report(pipeline, 1002.0, kernel_log=KernelReading(lost=3)).kernel_lost == 3
    assert report(pipeline, 1003.0, kernel_log=KernelReading(lost=2)).kernel_lost == 5
    assert report(pipeline, 1004.0).kernel_lost == 5
