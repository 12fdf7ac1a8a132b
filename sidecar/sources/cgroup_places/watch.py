"""Being woken around kills, and reading the count while the directory is still there.

The kernel tells of a change of ``memory.events`` (v2) through inotify. In v1 an eventfd fires before
the kill is counted, and again when the cgroup is removed, which a container runtime may do 10 ms after
the kill: by then the count must have been read.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from sidecar.parse.cgroup import NAMES, parse_cgroup, parse_kills
from sidecar.sources.cgroup_places.directory import Directory
from sidecar.sources.wakeup import inotify

_KILLS: Final = ("oom", "oom_kill", "oom_group_kill")
_FILE_BYTES: Final = 4096
PAUSES_S: Final[dict[int, tuple[float, ...]]] = {
    1: (0.0, *(0.001,) * 40, *(0.05,) * 19),
    2: (0.0, 0.01, 0.04),
}
"""Before each look that follows a wake-up. In v2 the kill is counted by then; most wake-ups say that
a limit was met and memory reclaimed, and the pause keeps their number down."""


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
        self.has_news()

    def has_news(self) -> bool:
        """Whether a kill was counted since the look before, or the directory is gone since then."""
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
        news = is_gone != self._gone or any(now[key] != self._seen.get(key) for key in now)
        # A file that was empty as it was read (it is being written anew) keeps what it said.
        self._seen |= now
        self._gone = is_gone
        return news

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
