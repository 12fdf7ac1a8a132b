"""Each end of the server's container is told once, with what the kubelet knows of it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.assemble.pod import Pod
from sidecar.catalog import signals
from sidecar.catalog.signals import EVIDENCE
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.readings import PodReading
from sidecar.model.report import EvidenceKey
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause, Confidence, Kind
from sidecar.parse.pod_status import parse_pod
from tests.fakes.kubelet import EPOCH, FakePod, container_id

NOW = Instant(5000.0, EPOCH + 60.0)


class Watcher:
    """The pod as a source tells it: each end once."""

    def __init__(self, fake: FakePod, *, given: str | None = None, ours: str | None = None) -> None:
        self.fake = fake
        self.pod = Pod()
        self.given, self.ours = given, ours
        self.seen: set[tuple[str, str]] = set()
        self.told: list[Evidence] = []

    def reading(self) -> PodReading:
        reading = parse_pod(self.fake.text())
        fresh = [one for one in reading.ended if (one[0], one[1].container_id) not in self.seen]
        self.seen |= {(name, one.container_id) for name, one in fresh}
        return replace(reading, ended=tuple(fresh), given=self.given, ours=self.ours)

    def look(self, container: str | None = None, at: Instant = NOW) -> tuple[Evidence, ...]:
        found = self.pod.see(self.reading(), at, container_id=container)
        self.told += found
        return found

    def start_anew(self) -> None:
        """Our own restart: the source begins at nothing, the memory is kept."""
        memory = self.pod.memory()
        self.pod, self.seen = Pod(), set()
        self.pod.remember(memory)

    def amount(self) -> float:
        return sum(one.amount for one in self.told if one.signal == signals.CONTAINER_TERMINATED)


def amounts(found: Sequence[Evidence]) -> list[tuple[str, float]]:
    return [(one.signal, one.amount) for one in found]


def watched() -> Watcher:
    watcher = Watcher(FakePod(), given="vllm")
    assert watcher.look() == ()
    return watcher


def test_what_ended_before_the_first_look_is_not_told() -> None:
    fake = FakePod()
    fake.server.end(137, "OOMKilled")
    fake.server.restart()
    fake.server.end(1)
    watcher = Watcher(fake, given="vllm")
    assert watcher.look() == ()
    fake.server.restart()
    assert watcher.look() == ()
    fake.server.end(1)
    assert amounts(watcher.look()) == [(signals.CONTAINER_TERMINATED, 1)]


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (1, "Error", Kind.CRASHED),
        (0, "Completed", Kind.CRASHED),
        (137, "Error", Kind.KILLED),
        (139, "Error", Kind.KILLED),
        (128, "StartError", Kind.CRASHED),
        (255, "Unknown", Kind.CRASHED),
    ],
)
def test_an_end_is_a_failure_whose_kind_the_exit_code_tells(
    code: int, reason: str, kind: Kind
) -> None:
    watcher = watched()
    watcher.fake.server.end(code, reason, second=30)
    (found,) = watcher.look()
    assert (found.cause, found.kind, found.weight) == (
        Cause.ENGINE_FAILURE,
        kind,
        Weight.CONSEQUENCE,
    )
    assert found.confidence is Confidence.CONFIRMED
    # The kubelet cuts to whole seconds: what led to the end did not come after it.
    assert found.at == Instant(NOW.monotonic - 29.0, EPOCH + 31.0)


def test_the_runtimes_word_for_an_oom_kill_decides_nothing_alone() -> None:
    watcher = watched()
    watcher.fake.server.end(137, "OOMKilled")
    killed, ended = watcher.look()
    assert (killed.cause, killed.kind) == (Cause.HOST_OOM, Kind.CGROUP)
    assert (killed.weight, killed.confidence) == (Weight.SUPPORT, Confidence.SUSPECTED)
    assert ended.cause is Cause.ENGINE_FAILURE
    for one in (killed, ended):
        assert EvidenceKey(one.cause, one.source, one.signal) in EVIDENCE


def test_waiting_and_running_again_are_not_told_a_second_time() -> None:
    watcher = watched()
    server = watcher.fake.server
    server.end(1)
    assert len(watcher.look()) == 1
    server.back_off()
    assert watcher.look() == ()
    server.restart()
    assert watcher.look() == ()


def test_of_several_restarts_between_two_looks_the_count_is_told_and_the_last_reason() -> None:
    watcher = watched()
    server = watcher.fake.server
    for code in (1, 1, 137):
        server.end(code)
        server.restart()
    (found,) = watcher.look()
    assert (found.amount, found.kind) == (3, Kind.KILLED)


def test_restarts_of_which_no_end_is_told_count_too() -> None:
    watcher = watched()
    watcher.fake.server.run = 2
    (found,) = watcher.look()
    assert (found.amount, found.at) == (2, NOW)


def test_a_count_that_the_kubelet_lost_goes_on_from_where_it_is() -> None:
    watcher = watched()
    watcher.fake.server.run = 4
    watcher.look()
    watcher.fake.server.run = 0
    assert watcher.look() == ()
    watcher.fake.server.run = 1
    assert amounts(watcher.look()) == [(signals.CONTAINER_TERMINATED, 1)]


def test_another_container_of_the_pod_is_nobodys_business() -> None:
    watcher = Watcher(FakePod("proxy"), given="vllm")
    watcher.look()
    watcher.fake.beside[0].end(137, "OOMKilled")
    watcher.fake.ours.end(1)
    assert watcher.look() == ()


def test_the_servers_container_is_known_by_its_cgroup_before_its_name() -> None:
    watcher = Watcher(FakePod("proxy"), given="proxy")
    watcher.look(container_id("vllm", 0))
    watcher.fake.server.end(1)
    assert len(watcher.look(container_id("vllm", 0))) == 1
    watcher.fake.server.restart()
    watcher.look()
    watcher.given = None
    watcher.fake.server.end(1)
    assert len(watcher.look(container_id("vllm", 0))) == 1, "the name holds, ids change"


def test_it_is_the_only_one_that_is_not_ours() -> None:
    watcher = Watcher(FakePod(), ours="sidecar")
    watcher.look()
    watcher.fake.server.end(1)
    assert len(watcher.look()) == 1


@pytest.mark.parametrize("ours", [None, "misspelt"])
def test_where_it_cannot_be_told_which_is_the_servers_nothing_is_told(ours: str | None) -> None:
    watcher = Watcher(FakePod(), ours=ours)
    watcher.look()
    watcher.fake.server.end(1)
    assert watcher.look() == ()
    assert Watcher(FakePod("proxy"), ours="sidecar").look() == ()


def test_a_cgroup_that_is_ours_is_not_taken_for_the_servers() -> None:
    watcher = Watcher(FakePod("proxy"), ours="sidecar")
    watcher.look(container_id("sidecar", 0))
    watcher.fake.ours.end(1)
    assert watcher.look(container_id("sidecar", 0)) == ()


def test_what_ended_before_the_servers_container_was_known_is_told_then() -> None:
    watcher = Watcher(FakePod("proxy"))
    watcher.look()
    watcher.fake.server.end(137, "OOMKilled")
    watcher.look()
    watcher.fake.server.restart()
    watcher.look()
    found = watcher.look(container_id("vllm", 1))
    assert amounts(found) == [(signals.CONTAINER_OOM_KILLED, 1), (signals.CONTAINER_TERMINATED, 1)]


def test_what_happened_while_we_were_away_is_told_once() -> None:
    watcher = watched()
    watcher.fake.server.end(1)
    watcher.look()
    watcher.fake.server.restart()
    watcher.fake.server.end(137)
    watcher.fake.server.restart()
    watcher.start_anew()
    assert [(one.kind, one.amount) for one in watcher.look()] == [(Kind.KILLED, 1)]
    watcher.start_anew()
    assert watcher.look() == ()


def test_another_pod_of_the_same_name_begins_anew() -> None:
    watcher = watched()
    watcher.fake.server.run = 7
    watcher.fake.uid = "another"
    watcher.start_anew()
    assert watcher.look() == ()
    assert watcher.pod.memory() is not None
    assert watcher.amount() == 0


def test_without_a_reading_there_is_no_memory() -> None:
    assert Pod().memory() is None


DEEDS = st.lists(st.sampled_from(["end", "kill", "wait", "run", "look", "look", "anew"]))


@given(DEEDS)
def test_each_end_is_counted_once_however_the_looks_fall(deeds: list[str]) -> None:
    watcher = watched()
    server = watcher.fake.server
    ends = 0
    for deed in deeds:
        match deed, server.state:
            case "end" | "kill", "running":
                server.end(*((137, "OOMKilled") if deed == "kill" else (1, "Error")))
                ends += 1
            case "wait", "terminated":
                server.back_off()
            case "run", "terminated" | "waiting":
                server.restart()
            case "look", _:
                watcher.look()
            case "anew", _:
                watcher.start_anew()
            case _:
                pass
    watcher.look()
    assert watcher.amount() == ends
    if server.state == "running":
        assert watcher.amount() == server.run
