"""What every place of a log is: opened, read portion by portion, and taken up again where it was left."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Protocol

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.portion import Portion
from sidecar.sources.log_places.position import Position

LOOKBACK_BYTES = 256 * 1024
"""Bytes of a log that are looked at although they were written before we came."""


class LogPlace(Protocol):
    """A log, wherever it is. What the outside does is a fault or a portion, never an exception."""

    @property
    def name(self) -> str:
        """What tells the place from others of one configuration; never to be shown."""
        ...

    async def open(self) -> None:
        """Go to where reading begins: the position given at construction, else the log's end."""
        ...

    async def close(self) -> None:
        """Give everything back; safe to call twice, or without ``open``."""
        ...

    async def read(self) -> Sequence[Portion] | Fault:
        """What was written since the last call, a portion for each stream; bounded, never late.

        Not to be called again before it has returned.
        """
        ...

    async def wait(self) -> None:
        """Return when there may be more to read; at times also when there is not."""
        ...

    def position(self) -> Position | None:
        """The place behind what ``read`` has returned; None while there is none."""
        ...

    def lookback(self) -> bytes | None:
        """Complete lines written before the place was opened, at most ``LOOKBACK_BYTES``, once.

        None where reading began at a position, or where nothing was there.
        """
        ...


async def either(*doings: Coroutine[None, None, None]) -> None:
    """Return once one of ``doings`` is done; the others are given up."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(doing) for doing in doings]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
