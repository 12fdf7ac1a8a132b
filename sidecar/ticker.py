"""The fixed grid: sample everything at each point, hand the tick on, and wake early for failures.

Grid points are multiples of the interval on the wall clock, so that a fleet shares its edges. Waiting
is done on the monotonic clock. A late point is skipped and counted; the grid never shifts.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from sidecar.clock import ClockLike
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.sources.base import SourceLike, Waking

GATHER_SHARE = 0.4
"""Share of an interval, at most ``GATHER_MOST_S``, that a tick waits for its samples. A source that
takes longer keeps its call running, and its sample comes in an extra step when it is there."""
GATHER_MOST_S = 0.5
WAKE_GATHER_S = 0.2
WAKE_GAP_S = 0.1
"""Seconds between extra steps: a cgroup at its limit changes thousands of times a second."""
HAIR_S = 1e-3
"""Seconds by which an extra step is kept from a point of the grid; well under the least interval."""


@dataclass(slots=True)
class Sampler:
    """Keeps at most one call in flight for each source."""

    sources: Sequence[SourceLike]
    group: asyncio.TaskGroup
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    calls: dict[int, asyncio.Task[Sample]] = field(default_factory=dict)

    def start(self, sources: Sequence[SourceLike]) -> list[asyncio.Task[Sample]]:
        """Begin a sample of each source that has none in flight; returns what is in flight."""
        flying = []
        for source in sources:
            key = id(source)
            if key not in self.calls:
                task = self.group.create_task(source.sample(), name=f"sample {source.name}")
                self.calls[key] = task
            flying.append(self.calls[key])
        return flying

    async def gather(self, sources: Sequence[SourceLike], limit_s: float) -> tuple[Sample, ...]:
        """The samples of ``sources`` that are there within so many seconds, and those that came late."""
        _, late = await asyncio.wait(self.start(sources), timeout=limit_s)
        for task in late:
            # Once for each, however often it is waited for.
            task.remove_done_callback(self.arrive)
            task.add_done_callback(self.arrive)
        return self.take()

    def arrive(self, _: asyncio.Task[Sample]) -> None:
        """Wake the loop for a sample that comes late."""
        self.ready.set()

    def take(self) -> tuple[Sample, ...]:
        """The samples that are there, in order of their instants."""
        done = {key: task for key, task in self.calls.items() if task.done()}
        for key in done:
            del self.calls[key]
        self.ready.clear()
        samples = [task.result() for task in done.values() if not task.cancelled()]
        return tuple(sorted(samples, key=lambda sample: sample.at.monotonic))

    def cancel(self) -> None:
        """Give up what is in flight."""
        for task in self.calls.values():
            task.cancel()


@dataclass(slots=True)
class Grid:
    """The points of the grid and where on it we are."""

    interval_s: float
    last_point: Instant | None = None
    last_unix: float | None = None

    def next_point(self, now: Instant) -> Instant:
        """The next grid point, and when it will be on the monotonic clock."""
        passed = now.unix
        if self.last_unix is not None and 0 < self.last_unix - passed < self.interval_s / 2:
            # The wall clock went back a little: the point that was has been.
            passed = self.last_unix
        unix = (math.floor(passed / self.interval_s + 1e-6) + 1) * self.interval_s
        return Instant(now.monotonic + (unix - now.unix), unix)

    def place(self, due: Instant, now: Instant) -> Instant:
        """The point to which a tick at ``now`` belongs, which was ``due`` when the wait began.

        It is another one if the tick is late by whole intervals or the wall clock was stepped. Its
        monotonic time is never ahead of ``now``, whichever way the wall clock went.
        """
        unix = due.unix
        if not -self.interval_s / 2 < now.unix - unix < self.interval_s:
            unix = math.floor(now.unix / self.interval_s + 1e-6) * self.interval_s
        self.last_unix = unix
        behind = min(now.unix - unix, now.monotonic - due.monotonic)
        return Instant(now.monotonic - max(0.0, behind), unix)

    def between(self, now: Instant, due: Instant) -> Instant:
        """The moment of an extra step that begins at ``now``, while the next point is still ``due``.

        It lies between the two points also where the wall clock is slewed a little: a window that
        ends with a point would otherwise end before it, or once more after it.
        """
        unix = now.unix
        # As far as ``place`` takes a tick for that of its point.
        if -HAIR_S < unix - due.unix < self.interval_s:
            unix = due.unix - HAIR_S
        if self.last_unix is not None and -HAIR_S < self.last_unix - unix < self.interval_s / 2:
            unix = self.last_unix + HAIR_S
        return Instant(now.monotonic, unix)

    def reach(self, now: Instant) -> int:
        """Note that a point was reached; returns how many were missed since the last."""
        before, self.last_point = self.last_point, now
        if before is None:
            return 0
        # Counted on the monotonic clock: a stepped wall clock misses nothing.
        return max(0, round((now.monotonic - before.monotonic) / self.interval_s) - 1)


@dataclass(slots=True)
class Ticker:
    """Runs until ``stop`` is set."""

    clock: ClockLike
    interval_s: float
    sources: Sequence[SourceLike]
    consume: Callable[[Tick], Awaitable[None]]
    stop: asyncio.Event

    @property
    def gather_s(self) -> float:
        """Seconds that a tick waits for its samples."""
        return min(GATHER_MOST_S, GATHER_SHARE * self.interval_s)

    async def run(self) -> None:
        """Tick. Ends promptly once ``stop`` is set, whatever hangs."""
        async with asyncio.TaskGroup() as group:
            sampler = Sampler(self.sources, group)
            woken: dict[int, SourceLike] = {}
            watchers = [
                group.create_task(
                    self.watch(source, woken, sampler.ready), name=f"watch {source.name}"
                )
                for source in self.sources
                if isinstance(source, Waking)
            ]
            stopper = group.create_task(self.heed_stop(sampler.ready), name="stop")
            try:
                await self.loop(sampler, woken)
            finally:
                sampler.cancel()
                for task in (*watchers, stopper):
                    task.cancel()

    async def heed_stop(self, ready: asyncio.Event) -> None:
        """Wake the loop when it is to end."""
        await self.stop.wait()
        ready.set()

    async def loop(self, sampler: Sampler, woken: dict[int, SourceLike]) -> None:
        """Alternate between grid points and wake-ups."""
        grid = Grid(self.interval_s)
        now = self.clock.now()
        due = grid.next_point(now)
        if due.monotonic - now.monotonic > self.gather_s:
            # What there is shows at once, and not at the first point only.
            await self.look(sampler, self.sources, self.gather_s, grid.between(now, due))
        while not self.stop.is_set():
            if woken:
                # It woke while a tick gathered its samples, which took the notice with them.
                sampler.ready.set()
            told = await self.clock.until_set(sampler.ready, due.monotonic)
            if self.stop.is_set():
                return
            now = self.clock.now()
            # A point that was reached counts for more: what woke is sampled there with all else.
            if not told or now.monotonic >= due.monotonic:
                await self.tick(sampler, grid, due)
                due = grid.next_point(self.clock.now())
            else:
                await self.wake(sampler, woken, grid.between(now, due))

    async def tick(self, sampler: Sampler, grid: Grid, due: Instant) -> None:
        """One grid point."""
        now = self.clock.now()
        missed = grid.reach(now)
        at = grid.place(due, now)
        await self.consume(
            Tick(
                at=at,
                samples=await sampler.gather(self.sources, self.gather_s),
                missed=missed,
                lateness_s=max(0.0, now.monotonic - due.monotonic),
            )
        )

    async def wake(self, sampler: Sampler, woken: dict[int, SourceLike], at: Instant) -> None:
        """An extra step: a source was woken, or a slow sample has arrived."""
        sources = list(woken.values())
        woken.clear()
        quick = [s for s in self.sources if s in sources or s.name == "process"] if sources else []
        await self.look(sampler, quick, WAKE_GATHER_S, at)

    async def look(
        self, sampler: Sampler, sources: Sequence[SourceLike], limit_s: float, at: Instant
    ) -> None:
        """A step between grid points, with what some sources show, and with what came late.

        As a point's it is of the moment at which it began: it may end after the next point.
        """
        samples = await sampler.gather(sources, limit_s) if sources else sampler.take()
        if samples:
            await self.consume(Tick(at=at, samples=samples, on_grid=False))

    async def watch(
        self, source: Waking, woken: dict[int, SourceLike], ready: asyncio.Event
    ) -> None:
        """Wake the loop when the kernel says that a source may have something new."""
        while True:
            await source.wait()
            woken[id(source)] = source  # type: ignore[assignment]  # a Waking source is a source
            ready.set()
            await self.clock.pause(WAKE_GAP_S)
