"""The cgroup above the server's, and what its children counted, read so that the numbers fit.

While nothing is counted a look costs one small read: the children are read again only when the count
above or ours moved. Where directories came or went, they are listed and the new ones are read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from sidecar.model.readings import Witness
from sidecar.model.vocabulary import Fault
from sidecar.parse.cgroup import NAMES, parse_bytes, parse_kills, parse_limit, parse_reclaimable
from sidecar.sources.cgroup_places.directory import (
    Directory,
    Look,
    children_of,
    look_at,
    optional_text,
    text_of,
)
from sidecar.sources.cgroup_places.mounts import is_there, memory_version

CHILDREN_MOST: Final = 512
_TRIES: Final = 3
_LIMIT_EVERY: Final = 12
"""Looks between two readings of the limit above, which hardly ever changes."""

_PLAIN_LINKS: Final = 2
"""Links of a directory besides those of the directories in it (``kernfs``)."""
_UNKNOWN_LINKS: Final = -1

Children = Mapping[str, int] | None
_Kept = Mapping[tuple[str, int], dict[str, int]]
"""The children that were read, by name and inode as a listing gives them."""


@dataclass(frozen=True, slots=True)
class _Above:
    """The directory above at one moment. ``links`` changes as directories come and go in it."""

    identity: int
    links: int
    kills: int | None


@dataclass(frozen=True, slots=True)
class _Known:
    """A look whose numbers belong together: nothing need be listed while it stands."""

    above: _Above
    identity: int | None
    kills: int | None
    kept: _Kept = field(default_factory=dict)
    children: Children = None

    def counts_as(self, now: "_Known") -> bool:
        """Whether no count moved and both directories are the same: each child counted what it did."""
        return (self.above.identity, self.above.kills, self.identity, self.kills) == (
            now.above.identity,
            now.above.kills,
            now.identity,
            now.kills,
        )


@dataclass(slots=True)
class Observer:
    """Reads the server's cgroup together with the one above it."""

    look: Callable[[Directory], Look | Fault] = look_at
    parent: Directory | None = None
    known: _Known | None = None
    limit: int | None = None
    looks: int = 0
    listings: int = 0
    reads: int = 0

    def observe(self, directory: Directory) -> tuple[Look | Fault, Witness | None]:
        """A look at ``directory``, and at what is above it, also when the directory is gone."""
        self._follow(directory)
        seen, known, settled = self._once(directory)
        for _ in range(_TRIES - 1):
            if settled:
                break
            seen, known, settled = self._once(directory)
        return seen, None if known is None else self._witness(known, settled=settled)

    def _follow(self, directory: Directory) -> None:
        """Choose the parent; where it cannot be seen now, the last one of the same place stays."""
        path = directory.path.parent
        if self.parent is not None and self.parent.path == path:
            return
        self.parent = self.known = self.limit = None
        self.looks = 0
        if memory_version(path) == directory.version and _same_device(path, directory.path):
            name = str(PurePosixPath(directory.name).parent)
            self.parent = Directory(directory.version, path, name, directory.way)

    def _once(self, directory: Directory) -> tuple[Look | Fault, _Known | None, bool]:
        """What is above, here and beside, and whether no kill was counted while it was read."""
        parent, known = self.parent, self.known
        above = None if parent is None else _above(parent)
        seen = self.look(directory)
        if parent is None or above is None:
            self.known = None
            return seen, None, True
        now = _Known(above, *_own(parent.version, seen))
        counted = known is not None and known.counts_as(now)
        if known is not None and counted and known.above == above:
            return seen, known, True
        self.listings += 1
        kept = self._kept(above, parent, known.kept if known is not None and counted else {})
        if kept is not None:
            children = {key: kills for one in kept.values() for key, kills in one.items()}
            now = replace(now, kept=kept, children=children)
        again = _above(parent)
        settled = again is not None and again.kills == above.kills
        self.known = None
        if again is not None and settled and again.identity == above.identity:
            # Directories that came or went while they were listed are listed again.
            links = above.links if again.links == above.links else _UNKNOWN_LINKS
            self.known = replace(now, above=replace(above, links=links))
        return seen, now, settled

    def _kept(self, above: _Above, parent: Directory, kept: _Kept) -> _Kept | None:
        """The counts of all that is there now; those that are ``kept`` are not read again."""
        if above.links - _PLAIN_LINKS > CHILDREN_MOST:
            return None
        counts: dict[tuple[str, int], dict[str, int]] = {}
        try:
            entries = list(islice(children_of(parent.path), CHILDREN_MOST + 1))
            if len(entries) > CHILDREN_MOST:
                return None
            for entry in entries:
                name = entry.name, entry.inode()
                counts[name] = kept.get(name) or self._read(
                    parent.path / entry.name, parent.version
                )
        except (OSError, ValueError):
            return None
        return counts

    def _read(self, child: Path, version: int) -> dict[str, int]:
        self.reads += 1
        return _kills_of_child(child, version)

    def _witness(self, known: _Known, *, settled: bool) -> Witness | None:
        parent = self.parent
        if parent is None:
            return None
        names = NAMES[parent.version]
        if self.looks % _LIMIT_EVERY == 0:
            self.limit = parse_limit(parent.version, optional_text(parent.path / names.limit))
        self.looks += 1
        limited = self.limit is not None
        current = optional_text(parent.path / names.current) if limited else None
        stat = optional_text(parent.path / "memory.stat") if limited else None
        return Witness(
            path=parent.name,
            identity=known.above.identity,
            kills=known.above.kills,
            children=known.children,
            settled=settled,
            current=parse_bytes(current),
            limit=self.limit,
            reclaimable=parse_reclaimable(parent.version, stat),
        )


def _above(parent: Directory) -> _Above | None:
    try:
        about = parent.path.stat()
    except OSError:
        return None
    # In v1, and before Linux 5.2, which has the local count apart, every cgroup counts for itself: what
    # is counted above says nothing of those below.
    is_whole = parent.version != 1 and is_there(parent.path / "memory.events.local")
    kills = parse_kills(optional_text(parent.path / "memory.events")) if is_whole else None
    return _Above(about.st_ino, about.st_nlink, kills)


def _own(version: int, seen: Look | Fault) -> tuple[int | None, int | None]:
    if isinstance(seen, Fault) or seen.files is None:
        return None, None
    return seen.identity, parse_kills(seen.files.get(NAMES[version].kills))


def _kills_of_child(path: Path, version: int) -> dict[str, int]:
    """The count of one child; nothing if it went meanwhile.

    Raises:
        OSError: it cannot be read.
        ValueError: it does not count kills.
    """
    try:
        identity = path.stat().st_ino
        kills = parse_kills(text_of(path / NAMES[version].kills))
    except OSError:
        if is_there(path):
            raise
        return {}
    if kills is None:
        raise ValueError("no count of kills")
    return {f"{path.name}#{identity}": kills}


def _same_device(above: Path, directory: Path) -> bool:
    """Whether both are of one hierarchy: above a mount point there is another file system."""
    try:
        device = directory.stat().st_dev
    except OSError:
        # It went just now, and so was no mount point.
        return True
    return above.stat().st_dev == device
