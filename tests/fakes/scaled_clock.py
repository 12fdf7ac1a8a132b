"""The machine's clocks, run faster."""

import asyncio
import time
from contextlib import suppress

from sidecar.model.samples import Instant


class ScaledClock:
    """Both clocks pass ``factor`` seconds in a real one; they begin at the real time."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._begun = time.monotonic()
        self._unix = time.time()

    def now(self) -> Instant:
        passed = (time.monotonic() - self._begun) * self._factor
        return Instant(self._begun + passed, self._unix + passed)

    async def until(self, monotonic: float) -> None:
        while True:
            left = monotonic - self.now().monotonic
            await asyncio.sleep(max(0.0, left / self._factor))
            if self.now().monotonic >= monotonic:
                return

    async def pause(self, seconds: float) -> None:
        await self.until(self.now().monotonic + seconds)

    async def until_set(self, event: asyncio.Event, monotonic: float) -> bool:
        while not event.is_set():
            left = monotonic - self.now().monotonic
            if left <= 0:
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(left / self._factor):
                    await event.wait()
        return True
