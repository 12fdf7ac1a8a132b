"""A disk that answers late, as a network's does, holds nothing up, and what it brings is told then."""

import asyncio
import os
import threading
from pathlib import Path

from sidecar.clock import Clock
from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.container_files import Layout, finder
from sidecar.sources.log_places.files import FilesPlace
from tests.fakes.patience import until


async def test_a_read_that_hangs_is_a_fault_and_its_lines_come_later(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    answers = threading.Event()
    answers.set()

    def pread(descriptor: int, most: int, offset: int) -> bytes:
        answers.wait(30)
        return os.pread(descriptor, most, offset)

    place = FilesPlace(Clock(), "log", finder(str(log), Layout.PLAIN), pread=pread, limit_s=0.05)
    await place.open()
    await place.read()
    log.write_text("one\n")
    answers.clear()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    counting = asyncio.ensure_future(count())
    assert await place.read() is Fault.TIMEOUT
    assert await place.read() is Fault.BUSY
    counting.cancel()
    assert turns > 5
    answers.set()
    data = b""

    async def told() -> bool:
        nonlocal data
        got = await place.read()
        if not isinstance(got, Fault):
            data += b"".join(portion.data for portion in got)
        return data == b"one\n"

    await until(told)
    await place.close()


async def test_closing_does_not_wait_and_the_file_is_given_back_in_the_end(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    log.touch()
    answers = threading.Event()
    answers.set()

    def pread(descriptor: int, most: int, offset: int) -> bytes:
        answers.wait(30)
        return os.pread(descriptor, most, offset)

    place = FilesPlace(Clock(), "log", finder(str(log), Layout.PLAIN), pread=pread, limit_s=0.05)
    await place.open()
    tail = place._follower._tails[str(log)]
    assert tail.descriptor is not None
    log.write_text("one\n")
    answers.clear()
    await place.read()
    async with asyncio.timeout(5):
        await place.close()
    answers.set()
    await until(lambda: tail.descriptor is None)
