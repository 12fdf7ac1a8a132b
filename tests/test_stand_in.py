"""A recording is played as it was: its port, its answers, its log, its cgroup, at its pace."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from blockbuster import BlockBuster

from sidecar.recording.folder import Recording
from sidecar.stand_in import StandIn
from tests.fakes.clock import FakeClock, settle
from tests.fakes.patience import until

T0 = 1_700_000_000.0
ROWS: dict[str, list[dict[str, Any]]] = {
    "metrics": [
        {"t": 0, "status": 200, "content_type": "text/plain", "body": "a 1\n"},
        {"t": 2, "status": 200, "content_type": "text/x", "body": "ä 2\n"},
        {"t": 4, "status": 500, "body": ""},
        {"t": 6, "status": None, "error": "refused"},
        {"t": 8, "status": 200, "body": "a 3\n"},
        {"t": 10, "status": None, "error": "timeout"},
    ],
    "health": [{"t": 0, "status": 200}, {"t": 4, "status": 503}],
    "log": [{"t": 1, "line": "INFO one"}, {"t": 3, "line": "ERROR zwölf"}, {"t": 3}],
    "cgroup": [
        {"t": 0, "version": 2, "path": "/pod/vllm", "files": {"memory.events": "oom_kill 0\n"}},
        {"t": 5, "version": 2, "path": "/pod/vllm", "files": {"memory.events": "oom_kill 1\n"}},
        {"t": 7, "version": 2, "path": "/pod/vllm", "files": None},
    ],
    "kernel_log": [{"t": 5, "line": "6,1,1,-;oom-kill:oom_memcg=/pod/vllm,task_memcg=/pod/vllm,x"}],
}


@pytest.fixture(autouse=True)
def it_may_write(no_blocking_call: BlockBuster) -> None:
    no_blocking_call.deactivate()


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    folder = tmp_path / "recording"
    folder.mkdir()
    for name, rows in ROWS.items():
        moved = [{**row, "t": T0 + row["t"]} for row in rows]
        text = "".join(f"{json.dumps(row)}\n" for row in moved)
        (folder / f"{name}.jsonl").write_text(text)
    return Recording(folder)


@contextlib.asynccontextmanager
async def playing(recording: Recording, folder: Path) -> AsyncIterator[tuple[StandIn, FakeClock]]:
    clock = FakeClock()
    stand_in = StandIn(recording, folder, clock)
    stop = asyncio.Event()
    await stand_in.open()
    task = asyncio.create_task(stand_in.play(stop, stop.set))
    try:
        yield stand_in, clock
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await stand_in.close()
        await settle()


async def ask(stand_in: StandIn, path: str = "/metrics") -> tuple[int, str, str]:
    timeout = aiohttp.ClientTimeout(total=0.3)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"http://127.0.0.1:{stand_in.port}{path}") as response,
    ):
        return response.status, response.headers.get("Content-Type", ""), await response.text()


async def test_each_answer_is_the_one_that_was_recorded(
    recording: Recording, tmp_path: Path
) -> None:
    async with playing(recording, tmp_path / "x") as (stand_in, clock):
        assert await ask(stand_in) == (200, "text/plain", "a 1\n")
        assert (await ask(stand_in, "/health"))[0] == 200
        assert (await ask(stand_in, "/else"))[0] == 404
        await clock.advance(2)
        assert await ask(stand_in) == (200, "text/x", "ä 2\n")
        await clock.advance(2)
        assert (await ask(stand_in))[0] == 500
        assert (await ask(stand_in, "/health"))[0] == 503


async def test_a_port_that_refused_refuses_and_comes_back_as_the_same_port(
    recording: Recording, tmp_path: Path
) -> None:
    async with playing(recording, tmp_path / "x") as (stand_in, clock):
        port = stand_in.port
        await clock.advance(6)
        with pytest.raises(aiohttp.ClientConnectorError):
            await ask(stand_in)
        await clock.advance(2)
        assert (await ask(stand_in))[2] == "a 3\n"
        assert stand_in.port == port


async def test_a_server_that_timed_out_does_not_answer(
    recording: Recording, tmp_path: Path
) -> None:
    async with playing(recording, tmp_path / "x") as (stand_in, clock):
        await clock.advance(10)
        with pytest.raises(TimeoutError):
            await ask(stand_in)


async def test_logs_grow_line_by_line_at_their_moments(
    recording: Recording, tmp_path: Path
) -> None:
    async with playing(recording, tmp_path / "x") as (stand_in, clock):
        assert stand_in.log.read_text() == ""
        await clock.advance(1)
        assert stand_in.log.read_text() == "INFO one\n"
        await clock.advance(2)
        assert stand_in.log.read_text() == "INFO one\nERROR zwölf\n\n"


async def test_the_kernel_speaks_of_the_cgroup_where_it_lies_now(
    recording: Recording, tmp_path: Path
) -> None:
    async with playing(recording, tmp_path / "x") as (stand_in, clock):
        events = stand_in.cgroup / "memory.events"
        assert events.read_text() == "oom_kill 0\n"
        await clock.advance(5)
        assert events.read_text() == "oom_kill 1\n"
        place = stand_in.cgroup
        assert stand_in.kernel_log.read_text() == (
            f"6,1,1,-;oom-kill:oom_memcg={place},task_memcg={place},x\n"
        )


async def test_its_end_is_told_and_its_last_moment_stays(
    recording: Recording, tmp_path: Path
) -> None:
    clock = FakeClock()
    stand_in = StandIn(recording, tmp_path / "x", clock)
    ended = asyncio.Event()
    await stand_in.open()
    task = asyncio.create_task(stand_in.play(asyncio.Event(), ended.set))
    await clock.advance(9)
    assert not ended.is_set()
    await clock.advance(1)
    await until(ended.is_set)
    await task
    assert (stand_in.cgroup / "memory.events").read_text() == "oom_kill 1\n"
    await stand_in.close()
