"""The server's processes are all found, orphans too, and nobody else's."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.readings import ProcessReading
from sidecar.model.vocabulary import Fault, Source
from sidecar.recording.rows import read_processes
from sidecar.sources.process import ProcessSource
from tests.fakes.proc_tree import ProcTree


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    made = ProcTree(tmp_path / "proc")
    made.start(1, 0, "init", born=1)
    made.start(50, 1, "bash")
    made.start(100, 50, "vllm", born=200)
    made.start(101, 100, "VLLM::EngineCor", born=210, pages=1000)
    made.start(102, 101, "VLLM::Worker_TP", born=220)
    return made


def source(tree: ProcTree, pid: int | None = None, port: int | None = None) -> ProcessSource:
    return ProcessSource(Clock(), limit_s=10, pid=pid, port=port, proc_root=tree.root)


async def pids(watched: ProcessSource) -> list[int]:
    sample = await watched.sample()
    assert sample.source is Source.PROCESS
    assert isinstance(sample.reading, ProcessReading), sample.fault
    return [one.pid for one in sample.reading.processes]


async def test_children_of_children_belong_to_the_tree(tree: ProcTree) -> None:
    watched = source(tree, pid=100)
    assert await pids(watched) == [100, 101, 102]
    assert watched.root_pid == 100
    reading = (await watched.sample()).reading
    assert isinstance(reading, ProcessReading)
    engine = reading.processes[1]
    assert (engine.comm, engine.rss) == ("VLLM::EngineCor", 1000 * os.sysconf("SC_PAGE_SIZE"))
    await watched.close()


async def test_an_orphan_and_what_it_starts_stay_in_the_tree_while_they_live(
    tree: ProcTree,
) -> None:
    watched = source(tree, pid=100)
    await pids(watched)
    tree.end(100)
    tree.zombie(101)
    tree.start(102, 1, "VLLM::Worker_TP", born=220)
    tree.start(103, 102, "nvcc", born=300)
    assert await pids(watched) == [102, 103]
    assert watched.root_pid is None
    tree.end(102)
    tree.end(103)
    assert await pids(watched) == []
    await watched.close()


async def test_a_pid_that_recurs_is_another_process(tree: ProcTree) -> None:
    watched = source(tree, pid=100)
    await pids(watched)
    for pid in (100, 101, 102):
        tree.end(pid)
    tree.start(100, 50, "postgres", born=900)
    assert await pids(watched) == []
    await watched.close()


async def test_the_server_is_found_by_its_port_and_again_after_a_restart(tree: ProcTree) -> None:
    watched = source(tree, port=8000)
    assert (await watched.sample()).fault is Fault.ABSENT
    tree.listen({8000: 777, 9000: 778})
    tree.hold(100, 777)
    tree.hold(50, 778)
    assert await pids(watched) == [100, 101, 102]
    for pid in (100, 101, 102):
        tree.end(pid)
    tree.listen({})
    assert await pids(watched) == []
    tree.start(200, 50, "vllm", born=500)
    tree.listen({8000: 999}, "tcp6")
    tree.hold(200, 999)
    assert await pids(watched) == [200]
    assert watched.root_pid == 200
    await watched.close()


async def test_of_several_listeners_the_eldest_is_the_root(tree: ProcTree) -> None:
    tree.listen({8000: 777})
    for pid in (101, 100, 102):
        tree.hold(pid, 777)
    watched = source(tree, port=8000)
    await pids(watched)
    assert watched.root_pid == 100
    await watched.close()


async def test_a_port_forwarder_is_not_the_server(tree: ProcTree) -> None:
    tree.start(60, 1, "docker-proxy")
    tree.listen({8000: 777})
    tree.hold(60, 777)
    watched = source(tree, port=8000)
    assert (await watched.sample()).fault is Fault.ABSENT
    await watched.close()


async def test_a_pid_that_never_was_is_absent_and_found_when_it_comes(tree: ProcTree) -> None:
    watched = source(tree, pid=300)
    assert (await watched.sample()).fault is Fault.ABSENT
    tree.start(300, 1, "odd ) name (", born=300)
    assert await pids(watched) == [300]
    await watched.close()


async def read(watched: ProcessSource) -> ProcessReading:
    reading = (await watched.sample()).reading
    assert isinstance(reading, ProcessReading)
    return reading


async def test_the_first_process_and_when_each_began_are_told(tree: ProcTree) -> None:
    watched = source(tree, pid=100)
    reading = await read(watched)
    assert reading.root == 100
    assert [one.born for one in reading.processes] == [200, 210, 220]
    tree.end(100)
    assert (await read(watched)).root is None
    await watched.close()


async def test_an_orphan_that_holds_the_port_is_not_the_server(tree: ProcTree) -> None:
    tree.listen({8000: 777})
    for pid in (100, 101):
        tree.hold(pid, 777)
    watched = source(tree, port=8000)
    await pids(watched)
    tree.end(100)
    for _ in range(3):
        reading = await read(watched)
        assert (reading.root, [one.pid for one in reading.processes]) == (None, [101, 102])
    tree.start(300, 50, "vllm", born=900)
    tree.start(301, 300, "VLLM::EngineCor", born=910)
    tree.listen({8000: 999})
    tree.hold(300, 999)
    reading = await read(watched)
    assert (reading.root, [one.pid for one in reading.processes]) == (300, [101, 102, 300, 301])
    await watched.close()


async def looks(watched: ProcessSource, count: int) -> list[int]:
    """The pids of the last of so many looks."""
    for _ in range(count - 1):
        await pids(watched)
    return await pids(watched)


async def test_processes_that_are_not_ours_are_not_read_again_and_again(
    tree: ProcTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in range(1000, 1200):
        tree.start(pid, 1, "other")
    opened: list[str] = []
    really = os.open

    def counted(path: str, flags: int, *rest: int, **named: int) -> int:
        opened.append(str(path))
        return really(path, flags, *rest, **named)

    watched = source(tree, pid=100)
    await looks(watched, 11)
    monkeypatch.setattr(os, "open", counted)
    assert await looks(watched, 40) == [100, 101, 102]
    monkeypatch.undo()
    assert 40 * 3 <= sum("/stat" in path for path in opened) < 40 * 3 + 3 * 210
    await watched.close()


async def test_a_child_is_found_though_its_parent_was_listed_later(tree: ProcTree) -> None:
    watched = source(tree, pid=100)
    await looks(watched, 6)
    tree.start(201, 200, "VLLM::Worker_TP", born=300)
    assert await looks(watched, 5) == [100, 101, 102]
    tree.start(200, 101, "python3", born=299)
    assert await looks(watched, 6) == [100, 101, 102, 200, 201]
    assert await looks(watched, 60) == [100, 101, 102, 200, 201]
    await watched.close()


async def test_a_pid_that_was_anothers_may_be_ours_later(tree: ProcTree) -> None:
    tree.start(300, 1, "cron", born=20)
    watched = source(tree, pid=100)
    await looks(watched, 20)
    tree.start(300, 101, "VLLM::Worker_TP", born=400)
    assert await looks(watched, 20) == [100, 101, 102, 300]
    await watched.close()


async def test_the_next_server_may_have_been_there_for_long(tree: ProcTree) -> None:
    tree.start(300, 50, "vllm", born=250)
    tree.listen({8000: 777})
    tree.hold(100, 777)
    watched = source(tree, port=8000)
    assert await looks(watched, 30) == [100, 101, 102]
    for pid in (100, 101, 102):
        tree.end(pid)
    tree.listen({8000: 999})
    tree.hold(300, 999)
    assert await pids(watched) == [300]
    await watched.close()


async def test_a_front_end_that_listens_for_the_server_leads_to_it(tree: ProcTree) -> None:
    tree.start(103, 100, "vllm-rs", born=205)
    tree.listen({8000: 777})
    tree.hold(103, 777)
    watched = source(tree, port=8000)
    reading = await read(watched)
    assert (reading.root, [one.pid for one in reading.processes]) == (100, [100, 101, 102, 103])
    await watched.close()


async def test_pinned_memory_is_read_where_it_is_told_and_else_unknown(tree: ProcTree) -> None:
    tree.pin(101, locked_kib=8, pinned_kib=1000)
    tree.pin(102, locked_kib=0, pinned_kib=0)
    watched = source(tree, pid=100)
    assert [one.pinned for one in (await read(watched)).processes] == [None, 1008 * 1024, 0]
    tree.pin(101, locked_kib=0, pinned_kib=2000)
    for _ in range(11):
        assert (await read(watched)).processes[1].pinned == 1008 * 1024
    assert (await read(watched)).processes[1].pinned == 2000 * 1024
    await watched.close()


async def test_a_status_that_is_no_status_is_unknown(tree: ProcTree) -> None:
    (tree.root / "100" / "status").write_bytes(b"VmPin:\nVmLck:\t many kB\n\xff")
    watched = source(tree, pid=100)
    assert (await read(watched)).processes[0].pinned is None
    await watched.close()


@pytest.mark.parametrize(("number", "is_host"), [(4026531836, True), (4026532501, False)])
async def test_pids_are_the_hosts_in_its_own_namespace_only(
    tree: ProcTree, number: int, *, is_host: bool
) -> None:
    tree.name_space(number)
    watched = source(tree, pid=100)
    assert (await read(watched)).host_pids is is_host
    await watched.close()


async def test_where_the_namespace_is_hidden_pids_are_not_taken_for_the_hosts(
    tree: ProcTree,
) -> None:
    watched = source(tree, pid=100)
    assert not (await read(watched)).host_pids
    await watched.close()


async def test_what_is_recorded_is_read_as_it_was_seen(tree: ProcTree) -> None:
    tree.pin(101, locked_kib=0, pinned_kib=4)
    rows: list[Mapping[str, object]] = []
    watched = ProcessSource(
        Clock(), limit_s=10, pid=100, proc_root=tree.root, tap=lambda _, row: rows.append(row)
    )
    reading = await read(watched)
    assert read_processes(json.loads(json.dumps(rows[0]))) == reading
    await watched.close()


async def test_real_processes_and_a_real_listener_are_found() -> None:
    program = (
        "import socket, subprocess, sys\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "print(server.getsockname()[1], child.pid, flush=True)\n"
        "input()\n"
        "child.communicate(b'x')\n"
    )
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdout is not None
    port, child = map(int, (await server.stdout.readline()).split())
    watched = ProcessSource(Clock(), limit_s=30, port=port)
    assert await pids(watched) == sorted([server.pid, child])
    assert watched.root_pid == server.pid
    (mine, _) = (await read(watched)).processes
    assert mine.born is not None
    assert mine.pinned == 0
    await server.communicate(b"x\n")
    assert await pids(watched) == []
    await watched.close()
