"""The log is followed from its end; what was lost is counted, and what is not readable is said."""

import asyncio
import errno
import os
import socket
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.readings import KernelReading
from sidecar.model.vocabulary import Fault, Source
from sidecar.sources.kernel_log import KernelLogSource
from sidecar.sources.kernel_places import Kmsg

SUMMARY = (
    "6,595,1397749679,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,"
    "mems_allowed=0,oom_memcg=/vllm,task_memcg=/vllm,task=VLLM::EngineCor,pid={pid},uid=0\n"
)


def kill(pid: int) -> str:
    return SUMMARY.format(pid=pid)


async def pids(source: KernelLogSource) -> list[int | None]:
    sample = await source.sample()
    assert sample.source is Source.KERNEL_LOG
    assert isinstance(sample.reading, KernelReading), sample.fault
    return [kill.pid for kill in sample.reading.kills]


def append(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def rotate(path: Path, text: str) -> None:
    path.rename(path.with_suffix(".1"))
    path.write_text(text)


def delete(path: Path) -> None:
    path.unlink()


def write(path: Path, text: str) -> None:
    path.write_text(text)


def make_directory(path: Path) -> None:
    path.mkdir()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kern.log"
    path.write_text(kill(1))
    return path


async def test_only_what_comes_after_opening_is_told_and_told_once(log: Path) -> None:
    source = KernelLogSource(Clock(), path=log)
    await source.open()
    assert await pids(source) == []
    append(log, kill(2))
    assert await pids(source) == [2]
    assert await pids(source) == []
    await source.close()


async def test_a_kill_wakes_and_other_lines_do_not(log: Path) -> None:
    source = KernelLogSource(Clock(), path=log)
    await source.open()
    waiting = asyncio.ensure_future(source.wait())
    append(log, "6,1,1,-;usb 1-1: new device\n")
    done, _ = await asyncio.wait({waiting}, timeout=0.1)
    assert not done
    append(log, kill(2))
    async with asyncio.timeout(10):
        await waiting
    assert await pids(source) == [2]
    await source.close()


async def test_half_a_line_waits_for_its_end(log: Path) -> None:
    source = KernelLogSource(Clock(), path=log)
    await source.open()
    append(log, kill(2)[:100])
    assert await pids(source) == []
    append(log, kill(2)[100:])
    assert await pids(source) == [2]
    await source.close()


async def test_rotation_and_truncation_lose_nothing(log: Path) -> None:
    source = KernelLogSource(Clock(), path=log)
    await source.open()
    append(log, kill(2))
    rotate(log, kill(3))
    assert await pids(source) == [2, 3]
    os.truncate(log, 0)
    assert await pids(source) == []
    append(log, kill(4))
    assert await pids(source) == [4]
    await source.close()


async def test_a_log_that_appears_later_is_followed_from_then(tmp_path: Path) -> None:
    source = KernelLogSource(Clock(), path=tmp_path / "kern.log")
    await source.open()
    assert (await source.sample()).fault is Fault.ABSENT
    (tmp_path / "kern.log").write_text(kill(1))
    assert await pids(source) == []
    await source.close()
    await source.close()


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/tmp"])
async def test_what_is_neither_a_file_nor_the_kernels_device_is_unsupported(device: str) -> None:
    source = KernelLogSource(Clock(), path=Path(device))
    await source.open()
    assert (await source.sample()).fault is Fault.UNSUPPORTED
    await source.close()


async def test_a_pipe_or_a_socket_is_unsupported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name in ("pipe", "socket"):
            source = KernelLogSource(Clock(), path=tmp_path / name)
            assert (await source.sample()).fault is Fault.UNSUPPORTED


async def test_a_log_that_is_deleted_is_absent_after_its_last_kill_was_told(log: Path) -> None:
    source = KernelLogSource(Clock(), path=log)
    await source.open()
    append(log, kill(2))
    delete(log)
    assert await pids(source) == [2]
    assert (await source.sample()).fault is Fault.ABSENT
    assert (await source.sample()).fault is Fault.ABSENT
    write(log, kill(3))
    assert await pids(source) == [3]
    assert await pids(source) == []
    await source.close()


async def test_a_log_that_a_directory_takes_the_place_of_is_a_fault(log: Path) -> None:
    source = KernelLogSource(Clock(), path=log)
    await source.open()
    delete(log)
    make_directory(log)
    assert (await source.sample()).reading is None
    assert (await source.sample()).fault is Fault.UNSUPPORTED
    await source.close()


def test_a_device_that_only_ever_fails_is_given_up() -> None:
    def read(descriptor: int, size: int) -> bytes:
        raise OSError(errno.EINVAL, "Invalid argument")

    with pytest.raises(OSError, match="Invalid"):
        Kmsg(-1, read).read(4096)


async def test_a_device_that_refuses_is_denied(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("sidecar.sources.kernel_places.os.open", refuse)
    source = KernelLogSource(Clock(), path=log)
    await source.open()
    assert (await source.sample()).fault is Fault.DENIED


async def test_a_recording_keeps_only_lines_about_kills(log: Path) -> None:
    rows: list[object] = []
    source = KernelLogSource(Clock(), path=log, tap=lambda at, row: rows.append(row["line"]))
    await source.open()
    append(log, "5,1,1,-;audit: comm=secret\n" + kill(2))
    await source.sample()
    await source.close()
    assert rows == [kill(2).rstrip()]


def test_overwritten_records_are_counted_by_their_numbers() -> None:
    script: list[bytes | OSError] = [
        b"6,10,1,-;a\n",
        OSError(errno.EPIPE, "overtaken"),
        b"6,25,2,-;b\n SUBSYSTEM=pci\n DEVICE=+pci\n",
        OSError(errno.EINVAL, "too long"),
        b"6,27,3,-;c\n",
        BlockingIOError(errno.EAGAIN, "nothing left"),
    ]

    def read(descriptor: int, size: int) -> bytes:
        step = script.pop(0)
        if isinstance(step, OSError):
            raise step
        return step

    device = Kmsg(-1, read)
    assert device.read(100) == [
        ("6,10,1,-;a", (10,)),
        ("6,25,2,-;b", (25,)),
        ("6,27,3,-;c", (27,)),
    ]
    assert device.lost == 14 + 1
