"""Lines that a thread brings to the loop: bounded, counted, and with no lock that the loop could wait for."""

import asyncio
import queue
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.position import Position

MOST_QUEUED: Final = 4 * 1024 * 1024
"""Bytes that wait for the loop at most."""


@dataclass(frozen=True, slots=True)
class Block:
    """Complete lines, the position behind them, and counts of what is missing before them."""

    data: bytes
    position: Position | None = None
    overlong: int = 0
    lost: int = 0


class Channel:
    """From one thread, which calls the first half, to one loop, which calls the second.

    ``position`` is the thread's: what stands behind the last line that was put in. ``overflow`` counts
    lines that found no room. ``error`` is a bug of the thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        position: Position | None = None,
        most: int = MOST_QUEUED,
    ) -> None:
        self.position = position
        self.is_open = False
        self.fault: Fault | None = None
        self.error: BaseException | None = None
        self.closed = False
        self.overflow = 0
        self.lookback: bytes | None = None
        self._loop = loop
        self._blocks: deque[Block] = deque()
        self._credits: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._room = most
        self._queued = 0
        self._taken = 0
        self._is_news = False
        self._news = asyncio.Event()

    # --- for the thread ---------------------------------------------------------------------

    def opened(self, lookback: bytes | None = None) -> None:
        """Tell that there is something to follow."""
        self.lookback = lookback or self.lookback
        self.is_open, self.fault = True, None
        self._tell()

    def put(self, block: Block) -> bool:
        """Hand over lines, once there is room; False where nobody wants them any more."""
        while self._room <= 0 and not self.closed:
            self._room += self._credits.get()
        return self._put(block)

    def offer(self, block: Block) -> bool:
        """Hand over lines if there is room now; else count them, and let them go."""
        with suppress(queue.Empty):
            while True:
                self._room += self._credits.get_nowait()
        if self._room > 0:
            return self._put(block)
        self.overflow += block.data.count(b"\n") + block.overlong
        return not self.closed

    def ended(self, fault: Fault | None, error: BaseException | None = None) -> None:
        """Tell that nothing more comes, and why."""
        self.error = error
        self.is_open = self.is_open and fault is None
        self.fault = fault
        self._tell()

    def _put(self, block: Block) -> bool:
        if self.closed:
            return False
        self._room -= len(block.data)
        self._queued += len(block.data)
        self.position = block.position or self.position
        self._blocks.append(block)
        self._tell()
        return True

    def _tell(self) -> None:
        if self._is_news or self.closed:
            return
        self._is_news = True
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            self.closed = True

    # --- for the loop -----------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were put in and not taken out."""
        return self._queued - self._taken

    def take(self, most: int) -> Sequence[Block]:
        """What is there, at most ``most`` bytes and a block."""
        self._is_news = False
        self._news.clear()
        blocks: list[Block] = []
        size = 0
        while self._blocks and size < most:
            blocks.append(self._blocks.popleft())
            size += len(blocks[-1].data)
        self._taken += size
        if size:
            self._credits.put(size)
        return blocks

    async def news(self) -> None:
        """Return once the thread has told something since the last ``take``."""
        await self._news.wait()

    def close(self) -> None:
        """Let the thread go on into nothing."""
        self.closed = True
        self._credits.put(MOST_QUEUED)
