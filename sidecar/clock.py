"""The only file that reads time or waits."""

import asyncio
import math
import time
from contextlib import suppress
from typing import Protocol

from sidecar.model.samples import Instant


class ClockLike(Protocol):
    """What reads time and waits; tests pass one that is moved by hand."""

    def now(self) -> Instant:
        """The present moment on both clocks."""
        ...

    async def until(self, monotonic: float) -> None:
        """Return once the monotonic clock has reached ``monotonic`` seconds."""
        ...

    async def pause(self, seconds: float) -> None:
        """Return once ``seconds`` have passed."""
        ...

    async def until_set(self, event: asyncio.Event, monotonic: float) -> bool:
        """Return once ``event`` is set, or the monotonic clock has reached so many seconds: which it was."""
        ...


def timer_of(monotonic: float) -> float:
    """When a timer has to fire so that the clock has reached so many seconds.

    Those of libuv count whole milliseconds: one that fires before would have everything woken twice. The
    time of the loop is CLOCK_MONOTONIC, as it was when the loop woke.
    """
    return math.ceil(monotonic * 1000) / 1000


class Clock:
    """The machine's clocks: CLOCK_MONOTONIC and CLOCK_REALTIME."""

    def now(self) -> Instant:
        """The present moment on both clocks."""
        return Instant(monotonic=time.monotonic(), unix=time.time())

    async def until(self, monotonic: float) -> None:
        """Return once the monotonic clock has reached ``monotonic`` seconds; yields at least once."""
        loop = asyncio.get_running_loop()
        while True:
            is_due = time.monotonic() >= monotonic
            await asyncio.sleep(0.0 if is_due else max(0.0, timer_of(monotonic) - loop.time()))
            if time.monotonic() >= monotonic:
                return

    async def pause(self, seconds: float) -> None:
        """Return once ``seconds`` have passed."""
        await self.until(time.monotonic() + seconds)

    async def until_set(self, event: asyncio.Event, monotonic: float) -> bool:
        """Return once ``event`` is set, or the monotonic clock has reached so many seconds: which it was."""
        # By no tasks of their own: it is what the daemon does most of the time.
        while not event.is_set():
            if time.monotonic() >= monotonic:
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout_at(timer_of(monotonic)):
                    await event.wait()
        return True
