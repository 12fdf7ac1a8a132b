"""A container's log by the API: no line is lost or told twice, whatever breaks."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.kubernetes import Access, Container, KubernetesFeed
from sidecar.sources.log_places.position import PodPosition, Position
from sidecar.sources.log_places.streams import StreamPlace
from tests.fakes.kube_api import KubeApi, running_api
from tests.fakes.log_reader import Reader
from tests.fakes.patience import until
from tests.fakes.scaled_clock import ScaledClock

pytestmark = pytest.mark.component("openssl")


def read(api: KubeApi, *, pod: str | None = "vllm-0", resume: Position | None = None) -> Reader:
    access = Access("127.0.0.1", api.port, api.account)
    feed = KubernetesFeed(access, Container("vllm", pod))
    # Pauses between attempts pass twenty times faster.
    return Reader(StreamPlace(ScaledClock(20), "kubernetes:vllm", feed, resume=resume))


async def follows(reader: Reader, api: KubeApi) -> None:
    async def there() -> bool:
        await reader.look()
        return api.asked[-1].get("follow") == "true"

    await until(there)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[KubeApi]:
    async with running_api(tmp_path / "account") as api:
        yield api


def at(second: int, fraction: str = ".5") -> str:
    return f"2026-01-31T10:00:{second:02}{fraction}Z"


async def test_what_was_there_is_looked_back_on_and_what_comes_is_told(api: KubeApi) -> None:
    api.say((at(1), "old"), (at(1), "older"))
    reader = read(api)
    await reader.place.open()
    assert reader.place.lookback() == b"old\nolder\n"
    assert reader.place.lookback() is None
    api.say((at(1), "same time"), (at(2), "new: with  spaces "), (at(2), ""))
    await reader.reads(b"same time\nnew: with  spaces \n\n")
    assert reader.place.position() == PodPosition(at(2), 2)
    await reader.place.close()


async def test_a_cut_amid_a_line_loses_and_doubles_nothing(api: KubeApi) -> None:
    reader = read(api)
    await reader.place.open()
    api.say((at(1), "one"), (at(3, ".123456789"), "two"), (at(3, ".123456789"), "three"))
    await reader.reads(b"one\ntwo\nthree\n")
    api.cut(f"{at(3, '.2')} half of".encode())
    api.runs[-1].append((at(3, ".2"), "half of it"))
    await reader.reads(b"one\ntwo\nthree\nhalf of it\n")
    api.say((at(3, ".2"), "more of the same time"))
    await reader.reads(b"one\ntwo\nthree\nhalf of it\nmore of the same time\n")
    await reader.place.close()


async def test_the_last_words_of_a_run_are_fetched_before_the_next_run_is_told(
    api: KubeApi,
) -> None:
    reader = read(api)
    await reader.place.open()
    api.say((at(1), "one"))
    await reader.reads(b"one\n")
    api.restart((at(2), "torch.OutOfMemoryError: CUDA out of memory."))
    api.say((at(9), "second run"))
    await reader.reads(b"one\ntorch.OutOfMemoryError: CUDA out of memory.\nsecond run\n")
    await reader.place.close()


async def test_a_renewed_token_is_used(api: KubeApi) -> None:
    reader = read(api)
    await reader.place.open()
    api.say((at(1), "one"))
    await reader.reads(b"one\n")
    api.tokens = {"second"}
    api.cut()
    await reader.meets(Fault.DENIED)
    api.give_token("second")
    api.runs[-1].append((at(2), "two"))
    await reader.reads(b"one\ntwo\n")
    await reader.place.close()


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (403, Fault.DENIED),
        (404, Fault.ABSENT),
        (410, Fault.HTTP_STATUS),
        (429, Fault.HTTP_STATUS),
        (500, Fault.HTTP_STATUS),
    ],
)
async def test_a_refusal_is_a_fault_until_it_ends(status: int, fault: Fault, api: KubeApi) -> None:
    api.status = status
    reader = read(api)
    await reader.place.open()
    await reader.meets(fault)
    api.status = None
    if fault is Fault.ABSENT:
        api.say((at(1), "from its begin"))
        await reader.reads(b"from its begin\n")
    else:
        await follows(reader, api)
        api.say((at(1), "new"))
        await reader.reads(b"new\n")
    await reader.place.close()


async def test_a_pod_that_is_not_there_and_no_cluster_at_all_are_absent(api: KubeApi) -> None:
    for reader in (read(api, pod="other"), read(api, pod=None)):
        await reader.place.open()
        await reader.meets(Fault.ABSENT)
        await reader.place.close()
    outside = StreamPlace(Clock(), "k", KubernetesFeed(Access(None), Container("vllm", "vllm-0")))
    await outside.open()
    assert await outside.read() is Fault.ABSENT
    await outside.close()


async def test_an_authority_that_is_not_ours_is_refused(api: KubeApi, tmp_path: Path) -> None:
    async with running_api(tmp_path / "other") as other:
        (api.account / "ca.crt").write_bytes((other.account / "ca.crt").read_bytes())
        reader = read(api)
        await reader.place.open()
        await reader.meets(Fault.DENIED)
        assert api.asked == []
        await reader.place.close()


async def test_slow_small_chunks_are_put_together(api: KubeApi) -> None:
    api.chunk = 3
    reader = read(api)
    await reader.place.open()
    api.say((at(1), "a line in many pieces"), (at(2), "é" * 20))
    await reader.reads(f"a line in many pieces\n{'é' * 20}\n".encode())
    await reader.place.close()


async def test_a_later_run_goes_on_at_the_position(api: KubeApi) -> None:
    api.say((at(1), "told"), (at(1), "told too"), (at(1), "new"), (at(2), "newer"))
    reader = read(api, resume=PodPosition(at(1), 2))
    await reader.place.open()
    await reader.reads(b"new\nnewer\n")
    assert reader.place.lookback() is None
    await reader.place.close()


async def test_more_than_is_taken_waits_at_the_server(api: KubeApi) -> None:
    reader = read(api)
    await reader.place.open()
    line = "x" * 1000
    api.say(*[(at(n // 400, f".{n:09}"), line) for n in range(12_000)])
    assert isinstance(reader.place, StreamPlace)
    channel = reader.place._channel
    assert channel is not None
    await until(lambda: channel.waiting_bytes > 3_900_000)
    await asyncio.sleep(0.1)
    assert channel.waiting_bytes < 5_000_000
    got = await reader.place.read()
    assert not isinstance(got, Fault)
    assert got[0].lag_bytes > 2_500_000
    reader.data = got[0].data
    await reader.reads(f"{line}\n".encode() * 12_000)
    await reader.place.close()
