"""Being woken by the kernel instead of asking it again and again."""

import asyncio
import ctypes
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from sidecar.clock import ClockLike

IN_MODIFY: Final = 0x2
IN_ATTRIB: Final = 0x4
"""Also where a link to the file goes, as with ``unlink(2)``."""
IN_MOVE_SELF: Final = 0x800


def inotify(
    paths: Iterable[Path], events: int = IN_MODIFY, folders: Iterable[Path] = ()
) -> int | None:
    """A descriptor that is readable after one of ``events`` at ``paths``; None if none can be watched.

    It is so, too, after one of ``folders`` was given another name.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor < 0:
        return None
    watches = [libc.inotify_add_watch(descriptor, os.fsencode(path), events) for path in paths]
    if all(watch < 0 for watch in watches):
        os.close(descriptor)
        return None
    for folder in folders:
        libc.inotify_add_watch(descriptor, os.fsencode(folder), IN_MOVE_SELF)
    return descriptor


def emptied(descriptor: int) -> None:
    """Take what an inotify or eventfd descriptor holds: that it was readable is all it says."""
    try:
        os.read(descriptor, 65536)
    except BlockingIOError:
        return


class Wakeup:
    """Watches at most one descriptor at a time, and owns it; waiting outlives an exchange of it.

    ``count``: how often it was readable so far.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self.count = 0

    @property
    def armed(self) -> bool:
        """Whether anything is watched."""
        return self._descriptor is not None

    def arm(self, descriptor: int | None, take: Callable[[int], None] = emptied) -> None:
        """Watch ``descriptor`` in place of the one before, which is closed; None watches nothing.

        ``take`` must leave the descriptor unreadable, or the loop would call it without end.
        """
        self.close()
        if descriptor is None:
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, self._wake, descriptor, take)
        self._loop, self._descriptor = loop, descriptor

    async def wait(self) -> None:
        """Return once something was readable since the last return."""
        await self._woken.wait()
        self._woken.clear()

    async def wait_until(self, clock: ClockLike, monotonic: float) -> bool:
        """The same, at the latest when the clock has reached so many seconds; whether anything was."""
        told = await clock.until_set(self._woken, monotonic)
        if told:
            self._woken.clear()
        return told

    def close(self) -> None:
        """Stop watching, and close what was watched."""
        if self._descriptor is not None and self._loop is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
        self._descriptor = None

    def _wake(self, descriptor: int, take: Callable[[int], None]) -> None:
        self._woken.set()
        self.count += 1
        try:
            take(descriptor)
        except OSError:
            if self._descriptor == descriptor:
                self.close()
