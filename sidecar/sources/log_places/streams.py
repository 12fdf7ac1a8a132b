"""A log that is no file: a stream that a thread reads, and opens anew with patience when it ends."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Final, Protocol

from sidecar.clock import ClockLike
from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.base import either
from sidecar.sources.log_places.channel import Channel
from sidecar.sources.log_places.pace import Pace
from sidecar.sources.log_places.portion import MOST_BYTES, Portion
from sidecar.sources.log_places.position import Position

IDLE_S: Final = 0.5
"""Seconds after which a stream that ended is thought of again."""
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
"""Seconds before a stream is opened anew: doubled from the first to the longest while nothing comes."""
OPEN_LIMIT_S: Final = 1.5


class Feed(Protocol):
    """One attempt to follow a stream."""

    def run(self, channel: Channel) -> Fault | None:
        """Put in all that comes behind ``channel.position`` until the stream ends, and say why it did.

        Blocking: for a thread. None is an end that is no fault.
        """
        ...

    def interrupt(self) -> None:
        """Make ``run`` return soon; called from the loop."""
        ...


class StreamPlace:
    """A stream of lines. Where ``feed`` is ``endless`` it is run again after each end."""

    def __init__(
        self,
        clock: ClockLike,
        name: str,
        feed: Feed,
        *,
        resume: Position | None = None,
        endless: bool = True,
    ) -> None:
        self.name = name
        self._clock = clock
        self._feed = feed
        self._endless = endless
        self._resume = resume
        self._position = resume
        self._channel: Channel | None = None
        self._thread: threading.Thread | None = None
        self._due = float("-inf")
        self._pause_s = FIRST_PAUSE_S
        self._behind = False
        self._overflow = 0
        self._pace = Pace()

    async def open(self) -> None:
        """Begin to follow; returns when that is known to work, or after a while."""
        self._overflow = 0
        channel = self._channel = Channel(asyncio.get_running_loop(), position=self._resume)
        self._revive()
        try:
            async with asyncio.timeout(OPEN_LIMIT_S):
                await channel.news()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Stop following; a thread that hangs is left to itself."""
        if self._channel is not None:
            self._channel.close()
            self._resume = self._position
        self._feed.interrupt()
        self._thread = self._channel = None

    async def read(self) -> Sequence[Portion] | Fault:
        """What has come since the last call."""
        channel = self._channel
        if channel is None:
            return Fault.ABSENT
        self._revive()
        self._pace.look(self._clock.now().monotonic)
        blocks = channel.take(MOST_BYTES)
        if blocks:
            self._pause_s = FIRST_PAUSE_S
        self._position = next((b.position for b in reversed(blocks) if b.position), self._position)
        overflow, self._overflow = channel.overflow - self._overflow, channel.overflow
        lag = channel.waiting_bytes
        self._behind = lag > 0
        if channel.error is not None:
            raise channel.error
        if not blocks and not overflow and not channel.is_open:
            return channel.fault or Fault.BUSY
        return [
            Portion(
                data=b"".join(block.data for block in blocks),
                lag_bytes=lag,
                overlong=sum(block.overlong for block in blocks),
                overflow=overflow,
                lost=sum(block.lost for block in blocks),
            )
        ]

    async def wait(self) -> None:
        """Return when lines have come, and at times to open the stream anew."""
        await self._clock.pause(self._pace.gap_s(is_behind=self._behind))
        if self._channel is None or not self._behind:
            waking = [] if self._channel is None else [self._channel.news()]
            await either(self._clock.pause(IDLE_S), *waking)

    def position(self) -> Position | None:
        """The place behind what ``read`` has returned."""
        return self._position

    def lookback(self) -> bytes | None:
        """What the stream told of the time before we came, once."""
        if self._channel is None:
            return None
        lookback, self._channel.lookback = self._channel.lookback, None
        return lookback

    def _revive(self) -> None:
        """Run the feed if it does not run and its time has come."""
        channel = self._channel
        if channel is None or (self._thread is not None and self._thread.is_alive()):
            return
        now = self._clock.now().monotonic
        if self._thread is not None:
            if not self._endless:
                return
            self._thread = None
            self._due = now + self._pause_s
            self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)
        if now < self._due:
            return
        self._thread = threading.Thread(
            target=_run, args=(self._feed, channel), name="sidecar-log-stream", daemon=True
        )
        self._thread.start()


def _run(feed: Feed, channel: Channel) -> None:
    try:
        channel.ended(feed.run(channel))
    except BaseException as error:  # noqa: BLE001 - handed over, not swallowed
        channel.ended(Fault.IO_ERROR, error)
