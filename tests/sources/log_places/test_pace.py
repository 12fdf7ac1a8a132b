"""A log that never rests is looked at less often; any other one as soon as it says something."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.channel import Block, Channel
from sidecar.sources.log_places.container_files import Layout, finder
from sidecar.sources.log_places.files import FilesPlace
from sidecar.sources.log_places.pace import BURST_LOOKS, QUICK_S, STEADY_S, Pace
from sidecar.sources.log_places.portion import MOST_BYTES
from sidecar.sources.log_places.streams import StreamPlace
from tests.fakes.clock import FakeClock, settle


def looked(pace: Pace, now: float, looks: int) -> float:
    """The moment after so many looks, each as soon as it may be."""
    for _ in range(looks):
        pace.look(now)
        now += pace.gap_s()
    return now


def test_what_comes_now_and_then_is_looked_at_soon() -> None:
    pace = Pace()
    for number in range(1000):
        pace.look(number * 1.5 * STEADY_S)
        assert pace.gap_s() == QUICK_S


def test_a_failure_that_tells_itself_in_many_lines_is_followed_quickly() -> None:
    pace = Pace()
    assert looked(pace, 100.0, BURST_LOOKS) - 100.0 <= BURST_LOOKS * QUICK_S + STEADY_S


def test_a_log_that_never_rests_is_looked_at_steadily() -> None:
    pace = Pace()
    begun = looked(pace, 100.0, 10 * BURST_LOOKS)
    assert looked(pace, begun, 100) - begun == pytest.approx(100 * STEADY_S)


@pytest.mark.parametrize("rest_s", [BURST_LOOKS * STEADY_S, 1e9])
def test_after_a_rest_it_is_quick_again_and_no_quicker_than_at_first(rest_s: float) -> None:
    first, again = Pace(), Pace()
    now = looked(again, 100.0, 10 * BURST_LOOKS) + rest_s
    assert looked(first, now, 40) == looked(again, now, 40)


def test_a_clock_that_stands_still_earns_nothing() -> None:
    pace = Pace()
    for _ in range(1000):
        pace.look(100.0)
    assert pace.gap_s() == STEADY_S


class Lines:
    """A stream that the test writes to."""

    def __init__(self) -> None:
        self.channel: Channel | None = None

    def run(self, channel: Channel) -> None:
        self.channel = channel
        channel.opened()

    def interrupt(self) -> None:
        return


@dataclass
class Written:
    """A place, what writes to its log, and what returns once the kernel or the thread has told of it."""

    place: FilesPlace | StreamPlace
    write: Callable[[bytes], None]
    told: Callable[[], Awaitable[None]]


def a_file(clock: FakeClock, log: Path) -> Written:
    log.touch()
    place = FilesPlace(clock, "log", finder(str(log), Layout.PLAIN), limit_s=10)

    def write(data: bytes) -> None:
        # What the kernel told of earlier lines must not stand for these.
        place._wakeup._woken.clear()
        with log.open("ab") as file:
            file.write(data)

    async def told() -> None:
        async with asyncio.timeout(10):
            await place._wakeup._woken.wait()

    return Written(place, write, told)


def a_stream(clock: FakeClock, _log: Path) -> Written:
    feed = Lines()

    def write(data: bytes) -> None:
        assert feed.channel is not None
        feed.channel.put(Block(data))

    async def told() -> None:
        return

    return Written(StreamPlace(clock, "log", feed), write, told)


async def opened(log: Written) -> Written:
    """The same, read once: what was there is known."""
    await log.place.open()
    await log.place.read()
    return log


async def seconds_of(clock: FakeClock, log: Written, looks: int, line: bytes) -> float:
    """How long so many looks take, by the clock, if there is a line before each; none is missed."""
    read = b""
    begun = clock.now().monotonic
    for _ in range(looks):
        log.write(line)
        await log.told()
        waiting = asyncio.ensure_future(log.place.wait())
        while not waiting.done():
            await clock.advance(QUICK_S / 10)
            await settle()
        got = await log.place.read()
        assert not isinstance(got, Fault)
        read += b"".join(portion.data for portion in got)
    assert read == looks * line
    return clock.now().monotonic - begun


@pytest.mark.parametrize("kind", [a_file, a_stream])
async def test_a_log_that_never_rests_is_looked_at_at_this_pace(
    tmp_path: Path, kind: Callable[[FakeClock, Path], Written]
) -> None:
    clock = FakeClock()
    log = await opened(kind(clock, tmp_path / "log"))
    assert await seconds_of(clock, log, 10, b"line\n") == pytest.approx(10 * QUICK_S, rel=0.2)
    await seconds_of(clock, log, 2 * BURST_LOOKS, b"line\n")
    assert await seconds_of(clock, log, 20, b"line\n") == pytest.approx(20 * STEADY_S, rel=0.2)
    await log.place.close()


@pytest.mark.parametrize("kind", [a_file, a_stream])
async def test_a_place_that_is_behind_is_read_on_at_once(
    tmp_path: Path, kind: Callable[[FakeClock, Path], Written]
) -> None:
    clock = FakeClock()
    log = await opened(kind(clock, tmp_path / "log"))
    await seconds_of(clock, log, 3 * BURST_LOOKS, b"line\n")
    for _ in range(3):
        log.write((MOST_BYTES // 5 + 1) * b"line\n")
    await log.told()
    begun, lag, looks = clock.now().monotonic, 1, 0
    while lag:
        got = await log.place.read()
        looks += 1
        assert not isinstance(got, Fault)
        lag = sum(portion.lag_bytes for portion in got)
        waiting = asyncio.ensure_future(log.place.wait())
        while lag and not waiting.done():
            await clock.advance(QUICK_S / 10)
            await settle()
        waiting.cancel()
    assert looks > 2
    assert clock.now().monotonic - begun == pytest.approx((looks - 1) * QUICK_S, rel=0.2)
    await log.place.close()
