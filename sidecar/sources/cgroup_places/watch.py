"""Being woken around kills, and reading the count while the directory is still there.

The kernel tells of a change of ``memory.events`` (v2) through inotify. In v1 an eventfd fires before
the kill is counted, and again when the cgroup is removed, which a container runtime may do 10 ms after
the kill: by then the count must have been read. To ask for the eventfd needs the right to write, and
inotify tells at most each 10 ms (``cgroup_file_notify``). That a process has ended the kernel tells
anybody at once (``pidfd_open(2)``), and it counts a kill before it sends the signal
(``__oom_kill_process``): so the end of each process of the server is a moment to look.
"""

import os
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sidecar.parse.cgroup import NAMES, parse_cgroup, parse_kills
from sidecar.sources.cgroup_places.directory import Directory
from sidecar.sources.wakeup import emptied, inotify

_KILLS: Final = ("oom", "oom_kill", "oom_group_kill")
_FILE_BYTES: Final = 4096
PAUSES_S: Final = (0.0, 0.01, 0.04)
"""Before each look that follows a wake-up. The kill is counted by then; in v2 most wake-ups say that
a limit was met and memory reclaimed, and the pause keeps their number down."""
V1_PAUSES_S: Final = (0.0, *(0.001,) * 40, *(0.05,) * 19)
"""The same after the eventfd of v1, which fires before the kill is counted."""
ENDS_MOST: Final = 64
"""Processes whose end is waited for, each with a descriptor. A server has two to four for each GPU."""


class KillCount:
    """The counts of kills of one directory, and in v2 of the one above, through open descriptors.

    A look costs 15 us: no name is looked up, and a count that was read is kept.
    """

    def __init__(self, directory: Directory, identity: int | None) -> None:
        """Open the counters; the first look is the baseline."""
        self.directory = directory
        self.identity = identity
        self.caught: str | None = None
        """The text with the highest count of the directory itself that was read."""
        self._version = directory.version
        name = NAMES[directory.version].kills
        self._own = _opened(directory.path / name)
        self._above = _opened(directory.path.parent / name) if directory.version != 1 else None
        self._seen: dict[str, int] = {}
        self._gone = False
        self._news = False
        self.has_news()

    def has_news(self) -> bool:
        """Whether a kill was counted since this was asked before, or the directory is gone since then."""
        self.look()
        news, self._news = self._news, False
        return news

    def look(self) -> None:
        """Read the counts while they are there."""
        now: dict[str, int] = {}
        is_gone = self._gone
        text = None
        if self._own is not None and not is_gone:
            try:
                text = _text(self._own)
            except OSError:
                is_gone = True
        if text is not None:
            now |= _counts("here", self._version, text)
            self._catch(text)
        if self._above is not None:
            with suppress(OSError):
                now |= _counts("above", self._version, _text(self._above))
        if is_gone != self._gone or any(now[key] != self._seen.get(key) for key in now):
            self._news = True
        # A file that was empty as it was read (it is being written anew) keeps what it said.
        self._seen |= now
        self._gone = is_gone

    def close(self) -> None:
        """Give the descriptors back."""
        for descriptor in (self._own, self._above):
            if descriptor is not None:
                os.close(descriptor)
        self._own = self._above = None

    def _catch(self, text: str) -> None:
        kills = parse_kills(text)
        if kills is not None and kills >= (parse_kills(self.caught) or 0):
            self.caught = text


class Alarm:
    """What the kernel tells around kills, behind one descriptor that is readable once there is anything.

    That is what it announces of the directory, and that one of the server's processes has ended.
    """

    def __init__(self) -> None:
        self._all: select.epoll | None = None
        self._announced: int | None = None
        self._ends: dict[int, int] = {}
        self.is_announced = False
        """Whether anything was announced since this was last set back: an end alone is none."""

    def begin(self) -> int | None:
        """A descriptor for the caller to own; None if the kernel gives none.

        After a close it begins anew.
        """
        self.close()
        try:
            self._all = select.epoll()
            return os.dup(self._all.fileno())
        except OSError:
            self.close()
            return None

    def watch(self, directory: Directory) -> None:
        """Hear what is announced of ``directory``, and no more of the one before."""
        self._drop_announced()
        descriptor = announce(directory) if self._all is not None else None
        if descriptor is not None and self._added(descriptor):
            self._announced = descriptor

    def follow(self, pids: Iterable[int]) -> None:
        """Hear of the end of these processes too, the first of them where they are too many.

        A pid may be another process's by now: its end is a look in vain, and no more. One that is
        followed stays so until it ends: by then its pid is free.
        """
        if self._all is None:
            return
        known = set(self._ends.values())
        for pid in dict.fromkeys(pids):
            if len(self._ends) >= ENDS_MOST:
                return
            if pid in known:
                continue
            try:
                descriptor = os.pidfd_open(pid)
            except (OSError, ValueError, OverflowError):
                # It ended just now, or the kernel (before 5.3), a filter or a limit refuses: then the
                # announcement is all there is.
                continue
            if self._added(descriptor):
                self._ends[descriptor] = pid

    def take(self) -> bool:
        """Take all that was told: whether a process has ended."""
        if self._all is None:
            return False
        has_ended = False
        for descriptor, _ in self._all.poll(0):
            if descriptor in self._ends:
                has_ended = True
                del self._ends[descriptor]
                self._drop(descriptor)
            elif descriptor == self._announced:
                self.is_announced = True
                try:
                    emptied(descriptor)
                except OSError:
                    self._drop_announced()
        return has_ended

    def close(self) -> None:
        """Give the descriptors back, but for the caller's own."""
        self._drop_announced()
        for descriptor in self._ends:
            self._drop(descriptor)
        self._ends.clear()
        if self._all is not None:
            self._all.close()
            self._all = None

    def _added(self, descriptor: int) -> bool:
        """Whether it is heard; else it is closed."""
        try:
            if self._all is not None:
                self._all.register(descriptor, select.EPOLLIN)
                return True
        except OSError:
            pass
        os.close(descriptor)
        return False

    def _drop_announced(self) -> None:
        if self._announced is not None:
            self._drop(self._announced)
        self._announced = None

    def _drop(self, descriptor: int) -> None:
        # It leaves the set by itself only if nobody else, as a child just forked, holds its file: then
        # it would be told again and again.
        if self._all is not None:
            with suppress(OSError):
                self._all.unregister(descriptor)
        os.close(descriptor)


def announce(directory: Directory) -> int | None:
    """A descriptor that the kernel makes readable around kills; None if it will not."""
    if directory.version == 1:
        return _announce_oom(directory.path)
    above = directory.path.parent / "memory.events"
    return inotify((directory.path / "memory.events", above))


def _announce_oom(path: Path) -> int | None:
    control = _opened(path / "memory.oom_control")
    if control is None:
        return None
    event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        registry = os.open(path / "cgroup.event_control", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(registry, f"{event} {control}".encode())
        finally:
            os.close(registry)
    except OSError:
        os.close(event)
        return None
    finally:
        # The registration lives as long as the eventfd, and needs this descriptor no more.
        os.close(control)
    return event


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


def _text(descriptor: int) -> str:
    return os.pread(descriptor, _FILE_BYTES, 0).decode("utf-8", "replace")


def _counts(place: str, version: int, text: str) -> dict[str, int]:
    events = parse_cgroup(version, "", {NAMES[version].kills: text}).events
    return {f"{place}.{key}": events[key] for key in _KILLS if key in events}
