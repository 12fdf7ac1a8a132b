"""The grid holds: late points are skipped and counted, and slow or restless sources change nothing."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest

from sidecar.clock import ClockLike
from sidecar.model.readings import HealthReading
from sidecar.model.samples import Sample, Tick
from sidecar.model.vocabulary import Source
from sidecar.sources.base import SourceLike
from sidecar.ticker import WAKE_GAP_S, Ticker
from tests.fakes.clock import FakeClock, settle

ON_GRID = 1_700_000_000.0


@dataclass
class Quick:
    """A source that answers at once, and counts how often it is asked."""

    clock: ClockLike
    name: Source = Source.VLLM_HEALTH
    asked: int = 0

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    async def sample(self) -> Sample:
        self.asked += 1
        return Sample(source=self.name, at=self.clock.now(), reading=HealthReading(200))


@dataclass
class Held(Quick):
    """A source that answers when the test lets it."""

    name: Source = Source.NVML
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def sample(self) -> Sample:
        begun = self.clock.now()
        self.asked += 1
        await self.answers.wait()
        self.answers.clear()
        return Sample(source=self.name, at=begun, reading=HealthReading(200))


@dataclass
class Restless(Quick):
    """A source that wakes as often as the test says, or without end."""

    name: Source = Source.CGROUP
    wakes: asyncio.Event = field(default_factory=asyncio.Event)
    storms: bool = False

    async def wait(self) -> None:
        if self.storms:
            await asyncio.sleep(0)
            return
        await self.wakes.wait()
        self.wakes.clear()


class Broken(Quick):
    async def sample(self) -> Sample:
        raise ZeroDivisionError


@dataclass
class Ticking:
    """A ticker at work, and every tick it handed on."""

    clock: FakeClock
    ticks: list[Tick] = field(default_factory=list)

    @property
    def grid(self) -> list[Tick]:
        return [tick for tick in self.ticks if tick.on_grid]

    @property
    def extra(self) -> list[Tick]:
        return [tick for tick in self.ticks if not tick.on_grid]

    async def consume(self, tick: Tick) -> None:
        """Take a tick in."""
        self.ticks.append(tick)

    def points(self) -> list[float]:
        """Of the grid, in seconds after its first second."""
        return [round(tick.at.unix - ON_GRID, 6) for tick in self.grid]


@contextlib.asynccontextmanager
async def ticking(
    clock: FakeClock, sources: Sequence[SourceLike], interval_s: float = 5.0
) -> AsyncIterator[Ticking]:
    stop = asyncio.Event()
    seen = Ticking(clock)
    ticker = Ticker(
        clock=clock, interval_s=interval_s, sources=sources, consume=seen.consume, stop=stop
    )
    task = asyncio.create_task(ticker.run())
    await settle()
    try:
        yield seen
    finally:
        stop.set()
        await task


async def test_points_are_multiples_of_the_interval_on_the_wall_clock() -> None:
    clock = FakeClock(unix=ON_GRID + 1.3)
    async with ticking(clock, [Quick(clock)]) as seen:
        await clock.advance(20)
        assert seen.points() == [5.0, 10.0, 15.0, 20.0]
        assert [tick.missed for tick in seen.grid] == [0, 0, 0, 0]
        assert [tick.lateness_s for tick in seen.grid] == [0, 0, 0, 0]


@pytest.mark.parametrize("interval_s", [0.05, 0.1, 0.25, 1.0, 5.0, 7.0, 60.0])
async def test_no_point_is_doubled_or_skipped_by_rounding(interval_s: float) -> None:
    clock = FakeClock(unix=ON_GRID + 0.987654321)
    async with ticking(clock, [Quick(clock)], interval_s) as seen:
        await clock.advance(200 * interval_s)
        gaps = {
            round((b.at.unix - a.at.unix) / interval_s, 3) for a, b in itertools.pairwise(seen.grid)
        }
        assert len(seen.grid) in {199, 200, 201}
        assert gaps == {1.0}
        assert not any(tick.missed for tick in seen.grid)


async def test_a_loop_that_stood_still_skips_points_and_counts_them() -> None:
    clock = FakeClock(unix=ON_GRID)
    async with ticking(clock, [Quick(clock)]) as seen:
        await clock.advance(5)
        clock._monotonic += 17
        clock._unix += 17
        await clock.advance(3)
        await clock.advance(5)
        assert seen.points() == [5.0, 20.0, 25.0, 30.0]
        assert [tick.missed for tick in seen.grid] == [0, 2, 0, 0]
        assert seen.grid[1].lateness_s == pytest.approx(12.0)


async def test_a_point_that_comes_a_little_late_keeps_its_place() -> None:
    clock = FakeClock(unix=ON_GRID)
    async with ticking(clock, [Quick(clock)]) as seen:
        clock._monotonic += 5.4
        clock._unix += 5.4
        await clock.advance(0)
        await clock.advance(5)
        assert seen.points() == [5.0, 10.0]
        assert [round(tick.lateness_s, 3) for tick in seen.grid] == [0.4, 0.0]


@pytest.mark.parametrize("step_s", [-86_400.0, -3.0, -0.5, 0.5, 3.0, 5.0, 86_400.0])
async def test_a_step_of_the_wall_clock_misses_nothing_and_the_grid_follows_it(
    step_s: float,
) -> None:
    clock = FakeClock(unix=ON_GRID)
    async with ticking(clock, [Quick(clock)]) as seen:
        await clock.advance(10)
        clock.step_unix(step_s)
        await clock.advance(60)
        moments = [tick.at.monotonic for tick in seen.grid]
        gaps = [b - a for a, b in itertools.pairwise(moments)]
        assert 11 <= len(seen.grid) <= 15
        assert all(gap > 0 for gap in gaps)
        assert all(tick.lateness_s == 0 for tick in seen.grid), "nothing was late"
        assert sum(tick.missed for tick in seen.grid) == 0
        assert all(tick.at.unix % 5 == pytest.approx(0, abs=1e-3) for tick in seen.grid[4:])


async def test_a_wall_clock_that_is_slewed_back_a_little_doubles_no_point() -> None:
    clock = FakeClock(unix=ON_GRID)
    async with ticking(clock, [Quick(clock)]) as seen:
        for _ in range(8):
            await clock.advance(5)
            clock.step_unix(-0.02)
        await clock.advance(1)
        assert seen.points() == [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0]


async def test_a_slow_source_delays_nobody_and_its_sample_comes_when_it_is_there() -> None:
    clock = FakeClock(unix=ON_GRID)
    quick, slow = Quick(clock), Held(clock)
    async with ticking(clock, [quick, slow], 1.0) as seen:
        await asyncio.sleep(0.45)  # the gathering of samples is bounded in real time
        for _ in range(3):
            await clock.advance(1)
            await asyncio.sleep(0.45)
        assert [len(tick.samples) for tick in seen.grid] == [1, 1, 1]
        assert (quick.asked, slow.asked) == (4, 1)
        slow.answers.set()
        await settle()
        first, late = seen.extra
        assert [sample.source for sample in first.samples] == [quick.name]
        (sample,) = late.samples
        assert sample.source is Source.NVML
        assert sample.at.unix == ON_GRID


async def test_what_there_is_shows_at_once_and_not_at_the_first_point_only() -> None:
    clock = FakeClock(unix=ON_GRID + 1)
    async with ticking(clock, [Quick(clock)]) as seen:
        (first,) = seen.extra
        assert first.at.unix == ON_GRID + 1
        assert len(first.samples) == 1
        await clock.advance(4)
        assert seen.points() == [5.0]
        assert not seen.grid[0].missed


async def test_a_start_right_before_a_point_waits_for_it() -> None:
    clock = FakeClock(unix=ON_GRID + 4.7)
    async with ticking(clock, [Quick(clock)]) as seen:
        await clock.advance(1)
        assert seen.extra == []
        assert seen.points() == [5.0]


async def test_a_source_that_wakes_gives_an_extra_step_between_two_points() -> None:
    clock = FakeClock(unix=ON_GRID)
    restless, quick = Restless(clock), Quick(clock)
    async with ticking(clock, [restless, quick]) as seen:
        await clock.advance(5.7)
        restless.wakes.set()
        await settle()
        _, extra = seen.extra
        assert [sample.source for sample in extra.samples] == [Source.CGROUP]
        assert extra.at.unix == pytest.approx(ON_GRID + 5.7)
        assert quick.asked == 2
        await clock.advance(5)
        assert seen.points() == [5.0, 10.0]


async def test_an_extra_step_is_of_the_moment_it_began_though_it_ends_after_a_point() -> None:
    clock = FakeClock(unix=ON_GRID)
    restless, slow = Restless(clock), Held(clock, Source.PROCESS)
    async with ticking(clock, [restless, slow]) as seen:
        await clock.advance(4.95)
        slow.answers.set()
        await settle()
        restless.wakes.set()
        await settle()
        await clock.advance(0.1)
        for _ in range(2):
            slow.answers.set()
            await settle()
        *_, extra, point = (tick.at.unix - ON_GRID for tick in seen.ticks)
        assert extra == pytest.approx(4.95)
        assert point == 5


@pytest.mark.parametrize(
    ("passed_s", "slewed_s"), [(4.9, 0.2), (4.9, 3.0), (4.9999999, 0.0), (5.0, -0.02)]
)
async def test_an_extra_step_stays_between_its_points_though_the_wall_clock_is_slewed(
    passed_s: float, slewed_s: float
) -> None:
    clock = FakeClock(unix=ON_GRID)
    restless = Restless(clock)
    async with ticking(clock, [restless]) as seen:
        await clock.advance(passed_s)
        clock.step_unix(slewed_s)
        restless.wakes.set()
        await settle()
        await clock.advance(6)
        moments = [tick.at.unix - ON_GRID for tick in seen.ticks]
        assert moments == sorted(moments)
        extra = seen.extra[-1].at.unix - ON_GRID
        assert 0 < abs(extra - 5) < 0.2
        assert (extra < 5) == (passed_s < 5)
        assert seen.points() == [5.0, 10.0]


async def test_processes_are_listed_with_whatever_wakes() -> None:
    clock = FakeClock(unix=ON_GRID)
    restless, processes = Restless(clock), Quick(clock, Source.PROCESS)
    async with ticking(clock, [restless, processes]) as seen:
        await clock.advance(1)
        restless.wakes.set()
        await settle()
        assert {sample.source for tick in seen.extra for sample in tick.samples} == {
            Source.CGROUP,
            Source.PROCESS,
        }


async def test_a_storm_of_wake_ups_is_bounded() -> None:
    clock = FakeClock(unix=ON_GRID)
    async with ticking(clock, [Restless(clock, storms=True)]) as seen:
        await clock.advance(10)
        assert seen.points() == [5.0, 10.0]
        assert 10 <= len(seen.extra) <= 10 / WAKE_GAP_S + 2


async def ignore(_tick: Tick) -> None:
    """A consumer that wants nothing."""


async def test_a_source_that_raises_ends_the_run_loudly() -> None:
    clock = FakeClock(unix=ON_GRID)
    ticker = Ticker(
        clock=clock,
        interval_s=5.0,
        sources=[Quick(clock), Broken(clock)],
        consume=ignore,
        stop=asyncio.Event(),
    )
    task = asyncio.create_task(ticker.run())
    await settle()
    await clock.advance(5)
    with pytest.raises(ExceptionGroup) as failed:
        await task
    assert failed.group_contains(ZeroDivisionError)


async def test_a_stop_ends_the_run_though_a_source_hangs() -> None:
    clock = FakeClock(unix=ON_GRID)
    async with ticking(clock, [Held(clock), Restless(clock)], 1.0) as seen:
        await clock.advance(1)
        assert seen.grid == []
