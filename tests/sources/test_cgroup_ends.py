"""The end of a process of the server is a moment to read the count, which may be gone at once."""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.config import Settings
from sidecar.model.readings import CgroupReading
from sidecar.model.vocabulary import Way
from sidecar.sources.cgroup import CgroupSource
from sidecar.sources.cgroup_places import watch
from sidecar.sources.cgroup_places.directory import Directory
from sidecar.sources.cgroup_places.watch import ENDS_MOST, Alarm
from sidecar.wiring import host_sources
from tests.fakes.cgroup_tree import V1_CONTROL, V2_EVENTS, CgroupTree

COUNTERS = {1: ("memory.oom_control", V1_CONTROL), 2: ("memory.events", V2_EVENTS)}


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as begun:
        yield begun
        begun.kill()


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """The pids of a process and of its child."""
    program = ["sh", "-c", "sleep 60 & echo $!; exec sleep 60"]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as root:
        assert root.stdout is not None
        child = int(root.stdout.readline())
        yield root.pid, child
        os.kill(child, signal.SIGKILL)
        root.kill()


class Server:
    """A cgroup that announces nothing, as one that may only be read, and its source."""

    def __init__(self, tmp_path: Path, version: int, pids: list[int]) -> None:
        tree = CgroupTree(tmp_path)
        self.place = tree.v1("ctr") if version == 1 else tree.v2("ctr")
        self.version = version
        self.source = CgroupSource(
            Clock(),
            limit_s=10,
            path=self.place,
            pids=lambda: pids,
            proc_root=tree.proc,
            cgroup_root=tree.cgroup,
        )

    def count(self, kills: int) -> None:
        name, form = COUNTERS[self.version]
        (self.place / name).write_text(form.format(max=kills, kill=kills))

    async def told(self) -> tuple[bool, int | None]:
        reading = (await self.source.sample()).reading
        assert isinstance(reading, CgroupReading)
        return reading.gone, reading.events.get("oom_kill")


@pytest.fixture(autouse=True)
def nothing_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "announce", lambda directory: None)


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("version", [1, 2])
async def test_the_count_is_kept_that_stood_when_a_process_ended(
    tmp_path: Path, process: subprocess.Popen[bytes], version: int
) -> None:
    server = Server(tmp_path, version, [os.getpid(), process.pid])
    assert await server.told() == (False, 0)
    waiting = asyncio.ensure_future(server.source.wait())
    server.count(1)
    process.kill()
    async with asyncio.timeout(10):
        await waiting
    shutil.rmtree(server.place)
    assert [await server.told() for _ in range(2)] == [(False, 1), (True, None)]
    await server.source.close()


async def test_it_is_read_at_once_also_while_nobody_waits(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    server = Server(tmp_path, 1, [process.pid])
    await server.source.open()
    server.count(1)
    process.kill()
    process.wait()
    await asyncio.sleep(0.1)
    # What is gone cannot be read any more.
    (server.place / "memory.oom_control").write_text("")
    shutil.rmtree(server.place)
    assert [await server.told() for _ in range(2)] == [(False, 1), (True, None)]
    await server.source.close()


@pytest.mark.parametrize("version", [1, 2])
async def test_an_end_without_a_kill_does_not_wake(
    tmp_path: Path, process: subprocess.Popen[bytes], version: int
) -> None:
    server = Server(tmp_path, version, [process.pid])
    await server.source.open()
    waiting = asyncio.ensure_future(server.source.wait())
    process.kill()
    done, _ = await asyncio.wait({waiting}, timeout=0.3)
    assert not done
    waiting.cancel()
    await server.source.close()


async def test_who_comes_later_is_followed_too(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    pids: list[int] = []
    server = Server(tmp_path, 1, pids)
    await server.source.open()
    pids.append(process.pid)
    await server.source.sample()
    server.count(1)
    process.kill()
    async with asyncio.timeout(10):
        await server.source.wait()
    await server.source.close()


async def test_descriptors_are_given_back_at_the_end_of_each_and_at_the_close(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    before = open_descriptors()
    server = Server(tmp_path, 1, [os.getpid(), process.pid])
    await server.source.open()
    both = open_descriptors()
    await server.source.sample()
    assert open_descriptors() == both
    server.count(1)
    process.kill()
    async with asyncio.timeout(10):
        await server.source.wait()
    assert open_descriptors() == both - 1
    await server.source.close()
    assert open_descriptors() == before


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EMFILE, errno.ESRCH])
async def test_a_refusal_leaves_what_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(pid: int) -> int:
        raise OSError(number, "refused")

    announced = os.eventfd(0, os.EFD_NONBLOCK)
    monkeypatch.setattr(os, "pidfd_open", refused)
    monkeypatch.setattr(watch, "announce", lambda directory: announced)
    server = Server(tmp_path, 1, [os.getpid()])
    await server.source.open()
    server.count(1)
    os.eventfd_write(announced, 1)
    async with asyncio.timeout(10):
        await server.source.wait()
    assert await server.told() == (False, 1)
    await server.source.close()


async def test_without_an_epoll_descriptor_the_counters_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise OSError(errno.EMFILE, "refused")

    monkeypatch.setattr("select.epoll", refused)
    server = Server(tmp_path, 1, [os.getpid()])
    assert await server.told() == (False, 0)
    server.count(1)
    assert await server.told() == (False, 1)
    await server.source.close()


@pytest.mark.parametrize("pid", [0, -1, 1 << 40])
def test_what_is_no_pid_is_followed_by_nobody(pid: int) -> None:
    alarm = Alarm()
    descriptor = alarm.begin()
    assert descriptor is not None
    before = open_descriptors()
    alarm.follow([pid])
    assert open_descriptors() == before
    alarm.close()
    os.close(descriptor)


def test_so_many_are_followed_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pidfd_open", lambda pid: os.eventfd(0))
    alarm = Alarm()
    descriptor = alarm.begin()
    assert descriptor is not None
    before = open_descriptors()
    for _ in range(2):
        alarm.follow(range(1, 10_000))
        assert open_descriptors() - before == ENDS_MOST
    alarm.close()
    os.close(descriptor)


def test_what_was_taken_is_not_told_again(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    announced = os.eventfd(0, os.EFD_NONBLOCK)
    monkeypatch.setattr(watch, "announce", lambda directory: announced)
    alarm = Alarm()
    descriptor = alarm.begin()
    assert descriptor is not None
    alarm.watch(Directory(1, Path("/none"), "/none", Way.PATH))
    alarm.follow([process.pid])
    assert not alarm.take()
    os.eventfd_write(announced, 1)
    assert not alarm.take()
    assert alarm.is_announced
    process.kill()
    process.wait()
    assert alarm.take()
    assert not alarm.take()
    alarm.close()
    os.close(descriptor)


async def test_each_process_of_the_servers_tree_is_followed(
    tmp_path: Path, family: tuple[int, int]
) -> None:
    root, child = family
    place = CgroupTree(tmp_path).v1("ctr")
    settings = Settings(target="http://localhost:1", pid=root, cgroup=str(place))
    process, cgroup = host_sources(settings, Clock())
    assert isinstance(cgroup, CgroupSource)
    await process.open()
    await cgroup.open()
    (place / "memory.oom_control").write_text(V1_CONTROL.format(kill=1))
    os.kill(child, signal.SIGKILL)
    async with asyncio.timeout(10):
        await cgroup.wait()
    await process.close()
    await cgroup.close()
