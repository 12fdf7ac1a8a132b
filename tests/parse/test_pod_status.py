"""What the API says of a pod: numbers and closed words come through, texts never, rubbish is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.readings import Container, PodReading, Termination
from sidecar.model.vocabulary import TerminationReason
from sidecar.parse.pod_status import (
    MOST_CONTAINERS,
    Bookmark,
    Broken,
    Changed,
    Expired,
    parse_event,
    parse_list,
    parse_pod,
)
from tests.fakes.kubelet import EPOCH, UID, FakeContainer, FakePod, container_id


def event(kind: str, body: object) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode()


def test_a_pod_is_its_containers_and_those_that_run_on_beside_them() -> None:
    reading = parse_pod(FakePod().text())
    assert reading == PodReading(
        uid=UID,
        containers=(
            Container("vllm", container_id("vllm", 0), 0, running=True),
            Container("sidecar", container_id("sidecar", 0), 0, running=True),
        ),
    )


@pytest.mark.parametrize(
    ("code", "reason", "word"),
    [
        (137, "OOMKilled", TerminationReason.OOM_KILLED),
        (1, "Error", TerminationReason.ERROR),
        (0, "Completed", TerminationReason.COMPLETED),
        (128, "ContainerCannotRun", TerminationReason.OTHER),
    ],
)
def test_an_end_is_told_with_its_code_and_a_closed_word(
    code: int, reason: str, word: TerminationReason
) -> None:
    pod = FakePod()
    pod.server.end(code, reason, second=7)
    expected = ("vllm", Termination(container_id("vllm", 0), word, code, EPOCH + 7.0))
    assert parse_pod(pod.text()).ended == (expected,)
    pod.server.back_off()
    waiting = parse_pod(pod.text())
    assert waiting.ended == (expected,)
    assert not waiting.containers[0].running
    pod.server.restart()
    running = parse_pod(pod.text())
    assert running.ended == (expected,)
    assert running.containers[0] == Container("vllm", container_id("vllm", 1), 1, running=True)


def test_the_run_before_is_told_before_the_present_one() -> None:
    pod = FakePod()
    pod.server.end(1)
    pod.server.restart()
    pod.server.end(2)
    assert [one.exit_code for _, one in parse_pod(pod.text()).ended] == [1, 2]


def test_an_end_without_an_id_is_that_of_the_present_run_and_one_without_a_time_has_none() -> None:
    pod = FakePod()
    pod.server.end()
    body = pod.json()
    told = body["status"]["containerStatuses"][0]["state"]["terminated"]
    del told["containerID"], told["exitCode"]
    told["finishedAt"] = None
    (_, ended), *_ = parse_pod(json.dumps(body).encode()).ended
    assert ended == Termination(container_id("vllm", 0), TerminationReason.ERROR, None, None)


def test_no_text_comes_through() -> None:
    pod = FakePod()
    pod.server.end(3, reason="SECRET-CANARY")
    assert "CANARY" not in repr(parse_pod(pod.text()))


def test_a_pod_that_is_to_go_says_so() -> None:
    pod = FakePod()
    assert not parse_pod(pod.text()).deleting
    pod.deleting = True
    assert parse_pod(pod.text()).deleting


def test_a_pod_of_too_many_containers_is_cut() -> None:
    pod = FakePod(*(f"c{n}" for n in range(200)))
    assert len(parse_pod(pod.text()).containers) == MOST_CONTAINERS


@pytest.mark.parametrize(
    "status",
    [
        {"name": "../../etc", "restartCount": 1},
        {"name": "x" * 64, "restartCount": 1},
        {"name": "vllm", "restartCount": -1},
        {"name": "vllm", "restartCount": 10**30},
        {"name": "vllm", "restartCount": True},
        {"name": 7},
        {},
    ],
)
def test_a_status_that_cannot_be_is_left_out(status: dict[str, object]) -> None:
    body = FakePod().json()
    body["status"]["containerStatuses"] = [status, FakeContainer("other").status()]
    names = [one.name for one in parse_pod(json.dumps(body).encode()).containers]
    assert names == ["other", "sidecar"]


def test_a_pod_of_which_nothing_is_known_yet_has_no_containers() -> None:
    body = FakePod().json()
    body["status"] = {}
    assert parse_pod(json.dumps(body).encode()).containers == ()


def test_a_list_gives_the_pod_and_the_version_to_watch_from() -> None:
    pod = FakePod()
    text = json.dumps({"metadata": {"resourceVersion": "77"}, "items": [pod.json()]}).encode()
    assert parse_list(text).version == "77"
    assert parse_list(text).pod == parse_pod(pod.text())
    for items in ("[]", "null"):
        nothing = f'{{"metadata": {{"resourceVersion": "77"}}, "items": {items}}}'
        assert parse_list(nothing.encode()).pod is None


def test_events_are_told_apart() -> None:
    pod = FakePod()
    for kind in ("ADDED", "MODIFIED"):
        assert parse_event(event(kind, pod.json())) == Changed("100", parse_pod(pod.text()))
    gone = parse_event(event("DELETED", pod.json()))
    assert isinstance(gone, Changed)
    assert gone.pod.deleting
    assert parse_event(event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})) == Bookmark("9")
    assert parse_event(event("ERROR", {"kind": "Status", "code": 410})) == Expired()
    assert parse_event(event("ERROR", {"kind": "Status", "code": 500})) == Broken()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"<html>502 Bad Gateway</html>",
        b'{"type": "SHOUTED", "object": {}}',
        b'{"type": "MODIFIED", "object": {"metadata": {"resourceVersion": "1"}}}',
        b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1\\r\\nX: y"}}}',
        b'{"metadata": {"uid": 5}}',
        b'{"metadata": {}, "items": []}',
        b'{"metadata": {"resourceVersion": "1"}, "items": 5}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_what_is_no_answer_of_the_api_is_refused(text: bytes) -> None:
    for parse in (parse_event, parse_list, parse_pod):
        with pytest.raises(ValueError, match=r".*"):
            parse(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
PLACES = (
    *("metadata", "spec", "status", "containerStatuses", "initContainerStatuses", "lastState"),
    *("state", "terminated", "restartCount", "containerID", "name", "finishedAt", "reason"),
)


def altered(value: Any, name: str, to: object) -> Any:
    """The value with everything that bears a name replaced."""
    if isinstance(value, dict):
        return {key: to if key == name else altered(one, name, to) for key, one in value.items()}
    return [altered(one, name, to) for one in value] if isinstance(value, list) else value


@given(st.sampled_from(PLACES), JSON)
def test_whatever_stands_in_a_place_it_is_a_pod_or_refused(name: str, to: object) -> None:
    pod = FakePod()
    pod.server.end()
    try:
        reading = parse_pod(json.dumps(altered(pod.json(), name, to)).encode())
    except ValueError:
        return
    assert all(isinstance(one.restarts, int) for one in reading.containers)
    assert all(isinstance(one.container_id, str) for _, one in reading.ended)
