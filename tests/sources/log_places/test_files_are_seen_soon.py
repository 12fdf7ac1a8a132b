"""A new line is seen within milliseconds where the kernel tells of it, and soon where it does not."""

import asyncio
import os
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sidecar.clock import Clock
from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.chain import Chain
from sidecar.sources.log_places.container_files import Layout, finder
from sidecar.sources.log_places.files import POLL_S, WATCHED_POLL_S, FilesPlace
from sidecar.sources.log_places.pace import QUICK_S
from sidecar.sources.wakeup import inotify
from tests.fakes.clock import FakeClock, settle


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def seen(place: FilesPlace) -> bytes:
    """What is read after the next wakes that bring anything."""
    while True:
        await place.wait()
        got = await place.read()
        assert not isinstance(got, Fault)
        if any(portion.data for portion in got):
            return b"".join(portion.data for portion in got)


async def test_half_of_the_lines_are_seen_within_50_ms(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    place = FilesPlace(Clock(), "log", finder(str(log), Layout.PLAIN), limit_s=10)
    await place.open()
    await place.read()
    took = []
    for number in range(15):
        waiting = asyncio.ensure_future(seen(place))
        await asyncio.sleep(0.01 * (number % 4))
        begun = time.monotonic()
        append(log, f"{number}\n")
        async with asyncio.timeout(10):
            assert await waiting == f"{number}\n".encode()
        took.append(time.monotonic() - begun)
    assert statistics.median(took) < 0.05
    await place.close()


async def test_the_successor_of_a_rotated_file_is_watched_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    place = FilesPlace(Clock(), "log", finder(str(log), Layout.PLAIN), limit_s=10)
    await place.open()
    await place.read()
    log.rename(tmp_path / "log.1")
    append(log, "one\n")
    async with asyncio.timeout(10):
        assert await seen(place) == b"one\n"
    await place.read()
    assert place._wakeup.armed
    waiting = asyncio.ensure_future(place._wakeup.wait())
    append(log, "two\n")
    async with asyncio.timeout(10):
        await waiting
    await place.close()


async def test_without_inotify_it_is_looked_for_at_times(tmp_path: Path) -> None:
    def none(paths: Iterable[Path], events: int, folders: Iterable[Path]) -> int | None:
        return None

    clock, log = FakeClock(), tmp_path / "log"
    log.touch()
    place = FilesPlace(clock, "log", finder(str(log), Layout.PLAIN), watch=none, limit_s=10)
    await place.open()
    await place.read()
    waiting = asyncio.ensure_future(place.wait())
    append(log, "one\n")
    await clock.advance(0.1)
    assert not waiting.done()
    await clock.advance(0.15)
    await settle()
    assert waiting.done()
    got = await place.read()
    assert not isinstance(got, Fault)
    assert got[0].data == b"one\n"
    await place.close()


@pytest.mark.parametrize("how", ["renamed", "removed"])
async def test_that_a_file_was_rotated_is_told_by_the_kernel(tmp_path: Path, how: str) -> None:
    clock, log = FakeClock(), tmp_path / "log"
    append(log, "one\n")
    place = FilesPlace(clock, "log", finder(str(log), Layout.PLAIN), limit_s=10)
    await place.open()
    await place.read()
    waiting = asyncio.ensure_future(place.wait())
    await clock.advance(QUICK_S)
    assert not waiting.done()
    if how == "renamed":
        log.rename(tmp_path / "log.1")
    else:
        log.unlink()
    append(log, "two\n")
    async with asyncio.timeout(10):
        await waiting
    # The writer may still hold the old file, hence the second look.
    await place.read()
    waiting = asyncio.ensure_future(place.wait())
    await clock.advance(POLL_S)
    async with asyncio.timeout(10):
        await waiting
    got = await place.read()
    assert not isinstance(got, Fault)
    assert [portion.data for portion in got] == [b"two\n"]
    await place.close()


async def test_a_look_of_the_tick_puts_off_the_next_one(tmp_path: Path) -> None:
    clock, log = FakeClock(), tmp_path / "log"
    log.touch()
    place = FilesPlace(clock, "log", finder(str(log), Layout.PLAIN), limit_s=10)
    await place.open()
    await place.read()
    waiting = asyncio.ensure_future(place.wait())
    await clock.advance(0.6 * WATCHED_POLL_S)
    await place.read()
    await clock.advance(0.6 * WATCHED_POLL_S)
    assert not waiting.done()
    await clock.advance(0.6 * WATCHED_POLL_S)
    await settle()
    assert waiting.done()
    await place.close()


class Looks:
    """A place whose looks are counted, on a clock moved by hand."""

    def __init__(self, log: Path, path: str) -> None:
        self.clock = FakeClock()
        self.log = log
        self.count = 0
        self.place = FilesPlace(self.clock, "log", finder(path, Layout.PLAIN), limit_s=10)
        look = self.place._follower.look

        def counted(now: float) -> Any:
            self.count += 1
            return look(now)

        self.place._follower.look = counted  # type: ignore[method-assign]

    async def ticks(self, seconds: int) -> int:
        """How often was looked in so many seconds, with a tick in each."""
        before = self.count
        for _ in range(seconds):
            assert not await data(self.place)
            await self.clock.advance(1.0)
        return self.count - before

    async def write(self, text: str) -> None:
        """Append, and read it as soon as the kernel tells."""
        waiting = asyncio.ensure_future(self.place.wait())
        await self.clock.advance(QUICK_S)
        append(self.log, text)
        async with asyncio.timeout(10):
            await waiting
        assert await data(self.place) == text.encode()


async def looks_at(log: Path, path: Path | None = None) -> Looks:
    """A place that was opened and read once."""
    watched = Looks(log, str(path or log))
    await watched.place.open()
    await watched.place.read()
    return watched


async def trusted(log: Path) -> Looks:
    """A place of which the kernel has told: the new log has one line, which was read."""
    append(log, "")
    watched = await looks_at(log)
    await watched.write("one\n")
    return watched


async def data(place: FilesPlace) -> bytes:
    got = await place.read()
    assert not isinstance(got, Fault)
    return b"".join(portion.data for portion in got)


@pytest.mark.parametrize(("pattern", "looks"), [("log", 2), ("lo?", 10)])
async def test_a_log_of_which_the_kernel_told_is_looked_at_rarely_in_vain(
    tmp_path: Path, pattern: str, looks: int
) -> None:
    log = tmp_path / "log"
    log.touch()
    watched = await looks_at(log, tmp_path / pattern)
    assert await watched.ticks(5) == 5
    await watched.write("one\n")
    # Of a pattern there may be new files at any time.
    assert await watched.ticks(10) == looks
    await watched.write("two\n")
    await watched.place.close()


@pytest.mark.parametrize(("pattern", "searches"), [("log", 1), ("lo?", 5)])
async def test_what_is_written_to_the_only_log_is_no_reason_to_search(
    tmp_path: Path, pattern: str, searches: int
) -> None:
    log = tmp_path / "log"
    log.touch()
    watched = await looks_at(log, tmp_path / pattern)
    find, found = watched.place._follower._find, 0

    def counted() -> Sequence[Chain]:
        nonlocal found
        found += 1
        return find()

    watched.place._follower._find = counted
    for number in range(6):
        await watched.write(f"{number}\n")
        await watched.clock.advance(1.0)
    assert found == searches
    # Once the file is gone the path may name anything.
    log.unlink()
    for _ in range(4):
        await watched.clock.advance(1.0)
        await watched.place.read()
    assert found >= searches + 3
    await watched.place.close()


@pytest.mark.parametrize("fill", ["", "\0" * 70])
async def test_what_is_written_from_the_begin_again_is_not_taken_for_what_goes_on(
    tmp_path: Path, fill: str
) -> None:
    log = tmp_path / "log"
    watched = await trusted(log)
    waiting = asyncio.ensure_future(watched.place.wait())
    await watched.clock.advance(QUICK_S)
    # Of a writer that truncates, and of one that does not append either, the kernel tells the same.
    log.write_text(f"{fill}another, and longer than what was there\n")
    async with asyncio.timeout(10):
        await waiting
    assert await data(watched.place) == b"another, and longer than what was there\n"
    await watched.write("more\n")
    await watched.place.close()


async def test_what_came_without_a_word_of_the_kernel_is_looked_for_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    watched = await trusted(log)
    assert await watched.ticks(4) == 0
    # As by a writer on another host: this one's kernel never hears of it.
    watched.place._wakeup.close()
    watched.place._wakeup._descriptor = os.open("/dev/null", os.O_RDONLY)
    append(log, "two\n")
    await watched.clock.advance(5.0)
    assert await data(watched.place) == b"two\n"
    assert await watched.ticks(5) >= 4
    await watched.place.close()


@pytest.mark.parametrize("how", ["renamed", "removed", "truncated"])
async def test_a_trusted_log_that_is_rotated_is_followed_at_once(tmp_path: Path, how: str) -> None:
    log = tmp_path / "log"
    watched = await trusted(log)
    assert await watched.ticks(3) == 0
    waiting = asyncio.ensure_future(watched.place.wait())
    await watched.clock.advance(QUICK_S)
    if how == "renamed":
        log.rename(tmp_path / "log.1")
    elif how == "removed":
        log.unlink()
    else:
        os.truncate(log, 0)
    append(log, "another\n")
    async with asyncio.timeout(10):
        await waiting
    told = await data(watched.place)
    if not told:
        await watched.clock.advance(POLL_S)
        told = await data(watched.place)
    assert told == b"another\n"
    await watched.place.close()


@pytest.mark.parametrize("how", ["log", "folder", "folder above"])
async def test_a_trusted_log_is_followed_whatever_above_it_is_renamed(
    tmp_path: Path, how: str
) -> None:
    log = tmp_path / "above" / "logs" / "log"
    log.parent.mkdir(parents=True)
    watched = await trusted(log)
    assert await watched.ticks(3) == 0
    waiting = asyncio.ensure_future(watched.place.wait())
    await watched.clock.advance(QUICK_S)
    # In one go: the kernel tells of all of it once.
    append(log, "two\n")
    moved = {"log": log, "folder": log.parent, "folder above": log.parent.parent}[how]
    moved.rename(tmp_path / "moved")
    log.parent.mkdir(parents=True, exist_ok=True)
    append(log, "three\n")
    async with asyncio.timeout(10):
        await waiting
    assert await data(watched.place) == b"two\n"
    await watched.clock.advance(POLL_S)
    assert await data(watched.place) == b"three\n"
    await watched.place.close()


async def test_a_log_below_a_link_is_not_trusted(tmp_path: Path) -> None:
    for run in ("first", "second"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "log").touch()
    (tmp_path / "latest").symlink_to("first")
    log = tmp_path / "latest" / "log"
    watched = await looks_at(log)
    await watched.write("one\n")
    (tmp_path / "link").symlink_to("second")
    (tmp_path / "link").rename(tmp_path / "latest")
    append(log, "two\n")
    told = b""
    for _ in range(2):
        await watched.clock.advance(WATCHED_POLL_S)
        told += await data(watched.place)
    assert told == b"two\n"
    await watched.place.close()


async def test_a_log_that_is_gone_is_not_trusted_for_the_last_lines_of_its_writer(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    with log.open("a", buffering=1) as writer:
        watched = await looks_at(log)
        await watched.write("one\n")
        log.rename(tmp_path / "log.1")
        for _ in range(3):
            await watched.place.read()
        waiting = asyncio.ensure_future(watched.place.wait())
        writer.write("two\n")
        async with asyncio.timeout(10):
            await watched.clock.advance(POLL_S)
            await waiting
        assert await data(watched.place) == b"two\n"
    append(log, "three\n")
    told = b""
    for _ in range(2):
        await watched.clock.advance(POLL_S)
        told += await data(watched.place)
    assert told == b"three\n"
    await watched.place.close()


async def test_what_a_given_up_read_found_is_told_by_the_next_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    watched = await trusted(log)
    waiting = asyncio.ensure_future(watched.place.wait())
    await watched.clock.advance(QUICK_S)
    append(log, "two\n")
    # What is told besides lines is looked at on the thread.
    os.utime(log)
    async with asyncio.timeout(10):
        await waiting
    given_up = asyncio.ensure_future(watched.place.read())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    assert given_up.cancelled()
    # Until the call is over nobody gets in.
    got: Any = Fault.BUSY
    while got is Fault.BUSY:
        got = await watched.place.read()
        await asyncio.sleep(0)
    assert [portion.data for portion in got] == [b"two\n"]
    await watched.place.close()


async def test_what_was_told_to_one_who_was_called_away_is_told_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    watched = await trusted(log)
    await watched.clock.advance(QUICK_S)
    append(log, "two\n")
    async with asyncio.timeout(10):
        await watched.place._wakeup.wait()
        await watched.place.wait()
    assert await data(watched.place) == b"two\n"
    await watched.place.close()


async def test_what_came_before_a_file_was_watched_is_seen_soon(tmp_path: Path) -> None:
    clock, log = FakeClock(), tmp_path / "log"

    def late(paths: Iterable[Path], events: int, folders: Iterable[Path]) -> int | None:
        named = list(paths)
        if named:
            append(log, "meanwhile\n")
        return inotify(named, events, folders)

    place = FilesPlace(clock, "log", finder(str(log), Layout.PLAIN), watch=late, limit_s=10)
    await place.open()
    append(log, "one\n")
    assert await data(place) == b"one\n"
    assert place._wakeup.armed
    waiting = asyncio.ensure_future(place.wait())
    await clock.advance(POLL_S)
    async with asyncio.timeout(10):
        await waiting
    assert await data(place) == b"meanwhile\n"
    await place.close()
