"""A clock that moves only when a test says so."""

import asyncio
import heapq
import itertools

from sidecar.model.samples import Instant


class FakeClock:
    """Both clocks stand still until ``advance`` or ``step_unix``; sleepers wake in order."""

    def __init__(self, monotonic: float = 1000.0, unix: float = 1_700_000_000.0) -> None:
        self._monotonic = monotonic
        self._unix = unix
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> Instant:
        return Instant(monotonic=self._monotonic, unix=self._unix)

    async def until(self, monotonic: float) -> None:
        if monotonic <= self._monotonic:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (monotonic, next(self._order), woken))
        await woken

    async def pause(self, seconds: float) -> None:
        await self.until(self._monotonic + seconds)

    async def until_set(self, event: asyncio.Event, monotonic: float) -> bool:
        if event.is_set():
            return True
        both = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self.until(monotonic))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()
        return event.is_set()

    @property
    def sleeping(self) -> int:
        """How many callers wait."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move both clocks; every sleeper wakes at its own moment and runs before the next one."""
        end, offset = self._monotonic + seconds, self._unix - self._monotonic
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, woken = heapq.heappop(self._sleepers)
            if woken.done():
                continue
            self._monotonic = max(self._monotonic, due)
            self._unix = self._monotonic + offset
            woken.set_result(None)
            await settle()
        self._monotonic, self._unix = end, end + offset

    def step_unix(self, seconds: float) -> None:
        """Step the wall clock alone, as NTP does."""
        self._unix += seconds


async def settle(turns: int = 20) -> None:
    """Let every task that can run without time passing do so."""
    for _ in range(turns):
        await asyncio.sleep(0)
