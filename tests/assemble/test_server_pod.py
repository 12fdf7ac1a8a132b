"""What the kubelet tells counts together with all else that is known of the server."""

from collections.abc import Sequence

from sidecar.assemble.server import Server
from sidecar.assemble.window import OpenWindow
from sidecar.classify.decide import find_failures
from sidecar.model.evidence import Evidence
from sidecar.model.readings import (
    CgroupReading,
    Container,
    MetricsReading,
    PodReading,
    Reading,
    Termination,
)
from sidecar.model.samples import Instant, Sample
from sidecar.model.vocabulary import (
    Cause,
    Confidence,
    Fault,
    Kind,
    ServerState,
    Source,
    TerminationReason,
    Way,
)

UNIX = 1_700_000_000.0
IDS = ("a" * 64, "b" * 64)


def at(second: float) -> Instant:
    return Instant(100.0 + second, UNIX + second)


def pod(
    restarts: int = 0,
    ended: Sequence[Termination] = (),
    *,
    given: str | None = "vllm",
    deleting: bool = False,
) -> PodReading:
    return PodReading(
        uid="u",
        containers=(
            Container("vllm", IDS[restarts], restarts, running=restarts == 1 or not ended),
            Container("sidecar", "c" * 64, 0, running=True),
        ),
        ended=tuple(("vllm", one) for one in ended),
        given=given,
        deleting=deleting,
    )


def killed(second: float, reason: TerminationReason, code: int = 137) -> Termination:
    return Termination(IDS[0], reason, code, UNIX + second)


class Watch:
    """One server and one window; the server has served."""

    def __init__(self) -> None:
        self.server = Server(frozenset())
        self.window = OpenWindow(start=UNIX, end=UNIX + 15)
        serving = MetricsReading(naming="vllm:", found=frozenset(), engines={})
        self.see(Source.VLLM_METRICS, 1, serving)
        self.see(Source.KUBERNETES, 1, pod())

    def see(self, source: Source, second: float, reading: Reading) -> tuple[Evidence, ...]:
        return self.server.see(Sample(source, at(second), reading=reading), self.window)

    def refuse(self, second: float) -> None:
        sample = Sample(Source.VLLM_METRICS, at(second), fault=Fault.REFUSED)
        self.server.see(sample, self.window)

    def causes(self) -> list[tuple[Cause, Kind, Confidence]]:
        found = find_failures(self.server.freeze(self.window, at(14)))
        return [(one.cause, one.kind, one.confidence) for one in found]


def test_a_container_that_ended_is_a_failure_that_shows_at_once() -> None:
    watch = Watch()
    watch.see(Source.KUBERNETES, 4, pod(ended=[killed(3, TerminationReason.ERROR)]))
    assert watch.causes() == [(Cause.ENGINE_FAILURE, Kind.KILLED, Confidence.CONFIRMED)]


def test_the_runtimes_word_and_the_end_together_make_a_kill_for_memory_likely() -> None:
    watch = Watch()
    watch.see(Source.KUBERNETES, 4, pod(ended=[killed(3, TerminationReason.OOM_KILLED)]))
    assert watch.causes() == [(Cause.HOST_OOM, Kind.CGROUP, Confidence.SUSPECTED)]


def test_a_stop_that_somebody_asked_for_is_no_failure_even_if_a_child_was_killed_before() -> None:
    watch = Watch()
    watch.see(Source.KUBERNETES, 3, pod(deleting=True))
    watch.refuse(4)
    late = killed(4, TerminationReason.OOM_KILLED, code=143)
    watch.see(Source.KUBERNETES, 5, pod(ended=[late], deleting=True))
    assert watch.causes() == []
    assert watch.server.life.state is ServerState.STOPPED


def test_an_end_that_is_told_late_leaves_the_next_start_alone() -> None:
    watch = Watch()
    watch.server.life.move(ServerState.STARTING, at(6))
    watch.see(Source.KUBERNETES, 9, pod(1, [killed(3, TerminationReason.ERROR, code=1)]))
    assert watch.server.life.state is ServerState.STARTING


def test_the_container_of_the_servers_cgroup_is_the_servers_and_one_that_is_shared_is_not() -> None:
    for way, told in ((Way.PID, 1), (Way.OWN, 0), (Way.POD, 0)):
        watch = Watch()
        cgroup = CgroupReading(version=2, path="/kubepods/x", container=IDS[0], way=way)
        watch.server.pod.server = None
        watch.see(Source.CGROUP, 2, cgroup)
        ended = [killed(3, TerminationReason.ERROR)]
        found = watch.see(Source.KUBERNETES, 4, pod(ended=ended, given=None))
        assert len(found) == told, way
