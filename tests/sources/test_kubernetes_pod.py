"""Our own pod by the API: each end is told once, whatever breaks, and nothing is asked of others."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sidecar.model.readings import PodReading
from sidecar.model.vocabulary import Fault, Source, TerminationReason
from sidecar.sources import kubernetes
from sidecar.sources.base import Waking
from sidecar.sources.kube_api import Access
from sidecar.sources.kubernetes import MOST_BODY, KubernetesSource, OurPod
from tests.fakes.kube_api import KubeApi, running_api
from tests.fakes.kube_pods import event
from tests.fakes.kubelet import UID
from tests.fakes.patience import until
from tests.fakes.scaled_clock import ScaledClock

pytestmark = pytest.mark.component("openssl")

OURS = OurPod("vllm-0", given="vllm", ours="sidecar")


class Watched:
    """A source, and all that its samples told."""

    def __init__(self, api: KubeApi, pod: OurPod = OURS) -> None:
        access = Access("127.0.0.1", api.port, api.account)
        # Pauses between attempts pass fifty times faster.
        self.source = KubernetesSource(ScaledClock(50), access=access, pod=pod)
        self.codes: list[int | None] = []
        self.faults: list[Fault] = []
        self.last: PodReading | None = None

    async def look(self) -> PodReading | Fault:
        sample = await self.source.sample()
        assert sample.source is Source.KUBERNETES
        if isinstance(sample.reading, PodReading):
            self.last = sample.reading
            self.codes += [one.exit_code for name, one in self.last.ended if name == "vllm"]
            return self.last
        assert sample.fault is not None
        self.faults.append(sample.fault)
        return sample.fault

    async def sees(self, condition: Callable[[PodReading], bool]) -> PodReading:
        async def there() -> bool:
            got = await self.look()
            return isinstance(got, PodReading) and condition(got)

        await until(there)
        assert self.last is not None
        return self.last

    async def meets(self, fault: Fault) -> None:
        async def there() -> bool:
            return await self.look() is fault

        await until(there)

    async def ends(self) -> None:
        """Close it, and wait for its thread, which a program would not do."""
        await self.source.close()
        thread = self.source._thread
        await until(lambda: thread is None or not thread.is_alive())

    async def follows(self, api: KubeApi) -> None:
        """Until a watch runs."""

        async def there() -> bool:
            await self.look()
            return api.pods.watching > 0

        await until(there)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[KubeApi]:
    async with running_api(tmp_path / "account") as api:
        yield api


@pytest.fixture
async def watched(api: KubeApi) -> AsyncIterator[Watched]:
    watched = Watched(api)
    yield watched
    await watched.ends()


def restarts(reading: PodReading) -> int:
    return reading.containers[0].restarts


async def test_the_pod_is_listed_once_and_then_watched(api: KubeApi, watched: Watched) -> None:
    await watched.source.open()
    reading = await watched.sees(lambda _: True)
    assert (reading.uid, reading.given, reading.ours) == (UID, "vllm", "sidecar")
    assert [one.name for one in reading.containers] == ["vllm", "sidecar"]
    await watched.follows(api)
    for _ in range(5):
        await watched.look()
    assert api.pods.verbs() == ["list", "watch"]
    assert watched.faults == []


async def test_an_end_wakes_and_is_told_once(api: KubeApi, watched: Watched) -> None:
    await watched.source.open()
    await watched.follows(api)
    assert isinstance(watched.source, Waking)
    await watched.source.wait()
    waiting = asyncio.ensure_future(watched.source.wait())
    assert api.pods.pod is not None
    server = api.pods.pod.server
    server.end(137, "OOMKilled")
    api.pods.change()
    await asyncio.wait_for(waiting, 10)
    reading = await watched.sees(lambda one: bool(one.ended))
    assert [one.reason for _, one in reading.ended] == [TerminationReason.OOM_KILLED]
    for step in (server.back_off, server.restart):
        step()
        api.pods.change()
    await watched.sees(lambda one: restarts(one) == 1)
    assert watched.codes == [137]


async def test_restarts_that_nobody_saw_are_counted_and_the_last_one_is_told(
    api: KubeApi, watched: Watched
) -> None:
    await watched.source.open()
    await watched.follows(api)
    assert api.pods.pod is not None
    for code in (1, 2, 3):
        api.pods.pod.server.end(code)
        api.pods.pod.server.restart()
    api.pods.change()
    await watched.sees(lambda one: restarts(one) == 3)
    assert watched.codes == [3]


async def test_all_that_came_between_two_samples_is_told_with_the_next(
    api: KubeApi, watched: Watched
) -> None:
    await watched.source.open()
    await watched.follows(api)
    assert api.pods.pod is not None
    for code in (1, 2, 3):
        api.pods.pod.server.end(code)
        api.pods.change()
        api.pods.pod.server.restart()
    api.pods.change()
    api.pods.bookmark(900)
    await watched.sees(lambda one: restarts(one) == 3)
    assert watched.codes == [1, 2, 3]


async def test_a_watch_that_is_cut_or_ends_goes_on_from_where_it_was(
    api: KubeApi, watched: Watched
) -> None:
    await watched.source.open()
    await watched.follows(api)
    assert api.pods.pod is not None
    server = api.pods.pod.server
    server.end(1)
    api.pods.change()
    await watched.sees(lambda one: bool(one.ended))
    for breaks in (api.pods.cut, api.pods.end):
        breaks()
        await until(lambda: api.pods.watching == 0)
        server.restart()
        server.end(2)
        api.pods.change()
        await watched.sees(lambda one: bool(one.ended))
    assert watched.codes == [1, 2, 2]
    assert api.pods.verbs() == ["list", "watch", "watch", "watch"]
    assert watched.faults == []


async def test_a_bookmark_moves_the_place_from_which_is_watched(
    api: KubeApi, watched: Watched
) -> None:
    await watched.source.open()
    await watched.follows(api)
    api.pods.bookmark(500)
    api.pods.end()
    await until(lambda: api.pods.watching == 0)
    await watched.follows(api)
    assert api.pods.asked[-1][1]["resourceVersion"] == "500"


async def test_a_watch_that_brings_nothing_is_followed_by_a_list(
    api: KubeApi, watched: Watched
) -> None:
    await watched.source.open()
    await watched.follows(api)
    api.pods.end()
    await until(lambda: api.pods.watching == 0)
    await watched.follows(api)
    assert api.pods.verbs() == ["list", "watch", "list", "watch"]


@pytest.mark.parametrize("noise", [b"", b"\n"])
async def test_a_watch_that_never_ends_and_tells_nothing_is_left(
    noise: bytes, api: KubeApi, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As through a proxy that keeps our connection and has lost the one to the API."""
    scale = 50
    monkeypatch.setattr(kubernetes, "_WATCH_MOST_S", 0.5 if not noise else 0.5 * scale)
    await watched.source.open()
    await watched.follows(api)
    assert api.pods.pod is not None
    # Nobody tells the watch.
    api.pods.pod.server.end(7)
    api.pods.pod.version += 1

    async def told() -> bool:
        if noise:
            api.pods.say(noise)
        await watched.look()
        return watched.codes == [7]

    await until(told)
    assert api.pods.verbs()[:3] == ["list", "watch", "list"]
    assert watched.faults == []


@pytest.mark.parametrize("how", ["event", "status"])
async def test_a_version_that_is_forgotten_leads_to_a_new_list(
    how: str, api: KubeApi, watched: Watched
) -> None:
    await watched.source.open()
    await watched.follows(api)
    assert api.pods.pod is not None
    api.pods.bookmark(101)
    if how == "event":
        api.pods.expire()
    else:
        api.pods.end()
        await until(lambda: api.pods.watching == 0)
        api.pods.expired = 10_000
    api.pods.pod.version = 20_000
    api.pods.pod.server.end(9)
    await watched.sees(lambda one: bool(one.ended))
    assert watched.codes == [9]
    assert api.pods.verbs().count("list") == 2
    assert watched.faults == []


async def test_a_renewed_token_is_used(api: KubeApi, watched: Watched) -> None:
    await watched.source.open()
    await watched.follows(api)
    api.tokens = {"second"}
    api.pods.cut()
    await watched.meets(Fault.DENIED)
    api.give_token("second")
    assert api.pods.pod is not None
    api.pods.pod.server.end(4)
    await watched.sees(lambda one: bool(one.ended))
    assert watched.codes == [4]


async def test_with_the_right_to_get_only_the_pod_is_asked_for_again_and_again(
    api: KubeApi, watched: Watched
) -> None:
    api.pods.forbidden = {"list", "watch"}
    await watched.source.open()
    assert api.pods.pod is not None
    for code in (1, 2):
        await watched.sees(lambda one: one.containers[0].running)
        api.pods.pod.server.end(code)
        await watched.sees(lambda one: bool(one.ended))
        api.pods.pod.server.restart()
    assert watched.codes == [1, 2]
    assert set(watched.faults) <= {Fault.BUSY}
    assert api.pods.verbs().count("list") == 1


async def test_with_the_right_to_list_only_the_pod_is_listed_again_and_again(
    api: KubeApi, watched: Watched
) -> None:
    api.pods.forbidden = {"watch", "get"}
    await watched.source.open()
    await until(lambda: "watch" in api.pods.verbs())
    assert api.pods.pod is not None
    api.pods.pod.server.end(5)
    await watched.sees(lambda one: bool(one.ended))
    assert watched.codes == [5]
    assert api.pods.verbs().count("watch") == 1


async def test_without_any_right_it_is_denied_until_there_is_one(
    api: KubeApi, watched: Watched
) -> None:
    api.pods.forbidden = {"list", "watch", "get"}
    await watched.source.open()
    await watched.meets(Fault.DENIED)
    api.pods.forbidden = set()
    await watched.sees(lambda _: True)
    await watched.follows(api)


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (404, Fault.ABSENT),
        (401, Fault.DENIED),
        (429, Fault.HTTP_STATUS),
        (500, Fault.HTTP_STATUS),
        (302, Fault.HTTP_STATUS),
    ],
)
async def test_a_refusal_is_a_fault_until_it_ends(
    status: int, fault: Fault, api: KubeApi, watched: Watched
) -> None:
    api.pods.status = status
    await watched.source.open()
    await watched.meets(fault)
    api.pods.status = None
    await watched.sees(lambda _: True)


async def test_a_failure_amid_a_watch_is_a_fault_until_the_pod_is_listed_again(
    api: KubeApi, watched: Watched
) -> None:
    await watched.source.open()
    await watched.follows(api)
    api.pods.say(event("ERROR", {"kind": "Status", "code": 500}))
    await watched.meets(Fault.HTTP_STATUS)
    await watched.sees(lambda _: True)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"<html>SECRET-CANARY</html>", Fault.MALFORMED),
        (b"[" * 50_000, Fault.MALFORMED),
        (json.dumps({"items": [{"metadata": {}}]}).encode(), Fault.MALFORMED),
        (b" " * (MOST_BODY + 1), Fault.TOO_LARGE),
    ],
)
async def test_a_body_that_is_none_is_a_fault_until_one_comes(
    body: bytes, fault: Fault, api: KubeApi, watched: Watched
) -> None:
    api.pods.body = body
    await watched.source.open()
    await watched.meets(fault)
    api.pods.body = None
    await watched.sees(lambda _: True)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"SECRET-CANARY\n", Fault.MALFORMED),
        (b'{"type": "MODIFIED", "object": 7}\n', Fault.MALFORMED),
        (b"x" * (MOST_BODY + 100_000), Fault.TOO_LARGE),
    ],
)
async def test_an_event_that_is_none_is_a_fault_and_the_pod_is_listed_anew(
    line: bytes, fault: Fault, api: KubeApi, watched: Watched
) -> None:
    await watched.source.open()
    await watched.follows(api)
    api.pods.say(line)
    await watched.meets(fault)
    await watched.sees(lambda _: True)
    assert api.pods.verbs().count("list") == 2


async def test_blank_lines_between_events_are_nothing(api: KubeApi, watched: Watched) -> None:
    await watched.source.open()
    await watched.follows(api)
    assert api.pods.pod is not None
    api.pods.say(b"\n\n")
    api.pods.pod.server.end(6)
    api.pods.change()
    await watched.sees(lambda one: bool(one.ended))
    assert watched.faults == []


@pytest.mark.parametrize("how", ["stamp", "event"])
async def test_the_end_of_the_pod_is_told_before_it_comes(
    how: str, api: KubeApi, watched: Watched
) -> None:
    await watched.source.open()
    await watched.follows(api)
    assert api.pods.pod is not None
    if how == "stamp":
        api.pods.pod.deleting = True
    api.pods.change("MODIFIED" if how == "stamp" else "DELETED")
    await watched.sees(lambda one: one.deleting)


async def test_an_api_that_is_gone_is_refused_and_found_again(
    api: KubeApi, watched: Watched
) -> None:
    port, api.port = api.port, 1
    alone = Watched(api)
    api.port = port
    await alone.source.open()
    await alone.meets(Fault.REFUSED)
    await alone.ends()
    await watched.source.open()
    await watched.sees(lambda _: True)


async def test_a_pod_that_is_not_there_is_absent(api: KubeApi, watched: Watched) -> None:
    # A pod on the host's network has the host's name.
    api.pods.pod = None
    await watched.source.open()
    await watched.meets(Fault.ABSENT)


async def test_outside_of_a_cluster_and_without_an_account_it_is_absent_for_ever(
    api: KubeApi, tmp_path: Path
) -> None:
    clock = ScaledClock(50)
    for access, pod in (
        (Access(None), OURS),
        (Access("127.0.0.1", api.port, api.account), OurPod(None)),
        (Access("127.0.0.1", api.port, tmp_path / "nothing"), OURS),
    ):
        source = KubernetesSource(clock, access=access, pod=pod)
        await source.open()
        for _ in range(3):
            assert (await source.sample()).fault is Fault.ABSENT
        waiting = asyncio.ensure_future(source.wait())
        await source.close()
        await source.close()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert api.pods.asked == []


async def test_an_authority_that_is_not_ours_is_refused(
    api: KubeApi, watched: Watched, tmp_path: Path
) -> None:
    async with running_api(tmp_path / "other") as other:
        (api.account / "ca.crt").write_bytes((other.account / "ca.crt").read_bytes())
        await watched.source.open()
        await watched.meets(Fault.DENIED)
        assert api.pods.asked == []


async def test_closing_ends_the_watch(api: KubeApi, watched: Watched) -> None:
    await watched.source.open()
    await watched.follows(api)
    assert watched.source._thread is not None
    await watched.ends()
