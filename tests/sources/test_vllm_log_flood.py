"""A log that is flooded: what is read of it between two samples is bounded, the rest is lag, and all
else goes on meanwhile."""

import asyncio
from collections.abc import Sequence

import pytest

from sidecar.model.readings import LogReading
from sidecar.model.vocabulary import Fault
from sidecar.sources import vllm_log
from sidecar.sources.log_places.portion import MOST_BYTES, Portion
from sidecar.sources.log_places.position import FilePosition, FilesPosition, Position
from sidecar.sources.vllm_log import MOST_LINES, MOST_LOOKED_AT, VllmLogSource
from tests.fakes.clock import FakeClock

FLOOD = 100_000_000
QUIET = b'INFO:     10.0.0.1:52596 - "POST /v1/completions HTTP/1.1" 200 OK\n'
WORDY = b"the job failed with memory oom Killed exit hut and so it is now\n"
PREEMPTED = b"WARNING 05-01 10:00:00 [scheduler.py:1768] Sequence group c-0 is preempted by PreemptionMode.RECOMPUTE mode because. total_num_cumulative_preemption=51\n"


class FloodedPlace:
    """A log in which so much of the same line stands to be read; it is always ready."""

    name = "flooded"

    def __init__(
        self, clock: FakeClock, line: bytes, size: int = FLOOD, portion: int = MOST_BYTES
    ) -> None:
        self._clock = clock
        self._portion = line * (portion // len(line))
        self.left = size
        self.reads = 0

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    async def read(self) -> Sequence[Portion] | Fault:
        if self.left <= 0:
            return [Portion()]
        self.reads += 1
        self.left -= len(self._portion)
        return [Portion(self._portion, lag_bytes=max(0, self.left))]

    async def wait(self) -> None:
        await self._clock.pause(0.02)

    def position(self) -> Position | None:
        return FilesPosition({"log": FilePosition(1, 1, self.reads, "head", 4)})

    def lookback(self) -> bytes | None:
        return None


async def reading_of(source: VllmLogSource) -> LogReading:
    got = (await source.sample()).reading
    assert isinstance(got, LogReading)
    return got


async def given_up(task: "asyncio.Future[None]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(("line", "most"), [(WORDY, MOST_LOOKED_AT), (b"x\n", MOST_LINES)])
async def test_between_two_samples_no_more_is_read_than_is_soon_looked_at(
    line: bytes, most: int
) -> None:
    clock = FakeClock()
    place = FloodedPlace(clock, line)
    source = VllmLogSource(clock, [place])
    waiting = asyncio.ensure_future(source.wait())
    for _ in range(2):
        left = place.left
        await clock.advance(5)
        reading = await reading_of(source)
        assert most <= reading.lines < most + 2 * MOST_BYTES // len(line)
        assert reading.lag_bytes == place.left > FLOOD - 10 * MOST_BYTES
        assert reading.bytes == left - place.left
    await given_up(waiting)


class ReadyPlace(FloodedPlace):
    """The same, but its ``wait`` gives nobody else a turn."""

    waits = 0

    async def wait(self) -> None:
        self.waits += 1
        assert self.waits < 1000, "all else stands still"


async def test_a_log_of_which_no_more_is_read_does_not_keep_all_else_from_its_turn() -> None:
    clock = FakeClock()
    place = ReadyPlace(clock, WORDY)
    source = VllmLogSource(clock, [place])
    waiting = asyncio.ensure_future(source.wait())
    for _ in range(3):
        reads = place.reads
        await clock.advance(5)
        assert place.reads > reads
        assert (await reading_of(source)).lines >= MOST_LOOKED_AT
    assert place.waits < 10
    await given_up(waiting)


async def test_a_flood_of_what_means_nothing_is_read_as_it_comes() -> None:
    clock = FakeClock()
    place = FloodedPlace(clock, QUIET, 40_000_000)
    source = VllmLogSource(clock, [place])
    waiting = asyncio.ensure_future(source.wait())
    await clock.advance(5)
    assert place.left <= 0
    assert (await reading_of(source)).lines > 600_000
    await given_up(waiting)


async def test_all_else_has_its_turn_amid_a_portion_that_takes_long() -> None:
    clock = FakeClock()
    source = VllmLogSource(clock, [FloodedPlace(clock, WORDY)])
    turns = 0

    async def beat() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beating = asyncio.ensure_future(beat())
    reading = await reading_of(source)
    await given_up(beating)
    assert turns > reading.lines / 2000


async def test_who_is_called_away_amid_a_portion_loses_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vllm_log, "TURN_LOOKED_AT", 1)
    clock = FakeClock()
    place = FloodedPlace(clock, PREEMPTED, 1, 4 * MOST_BYTES)
    source = VllmLogSource(clock, [place])
    before = source.positions()
    waiting = asyncio.ensure_future(source.wait())
    await clock.advance(0.02)
    await given_up(waiting)
    assert place.reads == 1
    assert source.positions() == before
    reading = await reading_of(source)
    assert reading.lines == len(reading.events) == 4 * MOST_BYTES // len(PREEMPTED)
    assert source.positions() == {place.name: place.position()} != before
