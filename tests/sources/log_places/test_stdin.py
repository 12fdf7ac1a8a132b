"""Output that is piped into us: told line by line; the writer never waits for us; an end is no fault."""

import asyncio
import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.channel import MOST_QUEUED
from sidecar.sources.log_places.stdin import StdinFeed
from sidecar.sources.log_places.streams import StreamPlace
from tests.fakes.log_reader import Reader
from tests.fakes.patience import until


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


def read(descriptor: int) -> Reader:
    return Reader(StreamPlace(Clock(), "stdin", StdinFeed(descriptor), endless=False))


async def test_lines_are_told_whole_and_soon(pipe: tuple[int, int]) -> None:
    reader = read(pipe[0])
    await reader.place.open()
    os.write(pipe[1], b"one\ntw")
    await reader.reads(b"one\n")
    waiting = asyncio.ensure_future(reader.place.wait())
    os.write(pipe[1], b"o\n")
    async with asyncio.timeout(10):
        await waiting
    await reader.reads(b"one\ntwo\n")
    assert os.get_blocking(pipe[0])
    await reader.place.close()


async def test_the_end_is_silence_and_the_last_line_needs_no_end(pipe: tuple[int, int]) -> None:
    reader = read(pipe[0])
    await reader.place.open()
    os.write(pipe[1], b"one\nlast")
    os.close(pipe[1])
    await reader.reads(b"one\nlast\n")
    for _ in range(3):
        await reader.look()
    assert reader.faults == set()
    await reader.place.close()


async def test_a_writer_that_is_too_fast_is_not_held_up_and_what_is_dropped_is_counted(
    pipe: tuple[int, int],
) -> None:
    reader = read(pipe[0])
    await reader.place.open()
    line = b"x" * 999 + b"\n"
    lines = MOST_QUEUED // len(line) + 3000

    def write() -> None:
        for _ in range(lines):
            os.write(pipe[1], line)
        os.close(pipe[1])

    # Nobody takes anything out meanwhile.
    async with asyncio.timeout(20):
        await asyncio.get_running_loop().run_in_executor(None, write)
    place = reader.place
    assert isinstance(place, StreamPlace)
    channel, thread = place._channel, place._thread
    assert channel is not None
    assert thread is not None
    await until(lambda: not thread.is_alive())
    assert channel.waiting_bytes < MOST_QUEUED + 2 * 65536

    async def all_told() -> bool:
        await reader.look()
        return len(reader.data) // len(line) + reader.dropped()[1] >= lines

    await until(all_told)
    assert len(reader.data) // len(line) + reader.dropped()[1] == lines
    assert reader.dropped()[1] > 2000
    await place.close()


async def test_a_file_and_a_terminal_are_read_like_a_pipe(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("from a file\n")
    with log.open("rb") as file:
        reader = read(file.fileno())
        await reader.place.open()
        await reader.reads(b"from a file\n")
        await reader.place.close()
    main, terminal = pty.openpty()
    reader = read(terminal)
    await reader.place.open()
    os.write(main, b"typed\n")
    await reader.reads(b"typed\n")
    await reader.place.close()
    await asyncio.sleep(0.3)
    os.close(main)
    os.close(terminal)


async def test_a_descriptor_that_is_closed_is_a_fault(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    reader = read(pipe[0])
    await reader.place.open()
    await reader.meets(Fault.IO_ERROR)
    await reader.place.close()
