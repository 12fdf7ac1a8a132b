"""Logs in files, each read on a thread: a file may be on a disk that answers late or never."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sidecar.clock import ClockLike
from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.base import LOOKBACK_BYTES
from sidecar.sources.log_places.chain import Chain
from sidecar.sources.log_places.open_file import Pread, fault_of_file
from sidecar.sources.log_places.pace import Pace
from sidecar.sources.log_places.portion import MOST_BYTES, Portion
from sidecar.sources.log_places.position import FilePosition, FilesPosition, Position
from sidecar.sources.tail import Tail
from sidecar.sources.wakeup import IN_ATTRIB, IN_MODIFY, IN_MOVE_SELF, Wakeup, inotify
from sidecar.thread import CallThread, Crew

POLL_S: Final = 0.2
"""Seconds between two looks where nothing tells of new lines: a fraction of the second within which
evidence is to show."""
WATCHED_POLL_S: Final = 1.0
"""The same where inotify tells of them and of rotation, so that only remote writers need the look. The
look of each tick counts, too: at a clock of 1 s no other one is needed."""
WATCHED: Final = IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF
TRUSTED_POLL_S: Final = 5.0
"""The same for one file of which inotify told when lines came: whoever writes it is on this host."""
READ_LIMIT_S: Final = 0.4
FIND_S: Final = 1.0
"""Seconds between two searches for new files."""
SURE_FIND_S: Final = 5.0
"""The same where only one file can be the log, and that one is followed: a search would find something
only if the path came to name something of another kind."""
MOST_FILES: Final = 64
"""Logs of one place that are followed at a time; each takes a descriptor."""

Find = Callable[[], Sequence[Chain]]
"""Every log of the place that is there now. May block, and raise OSError."""
Watch = Callable[[Iterable[Path], int, Iterable[Path]], int | None]
"""``inotify``: files, events, folders of which only it matters whether they stay."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look found. ``watch`` is a new inotify descriptor; None leaves the old one.

    ``is_going_on``: a file is about to be left for a newer one. ``is_all``: nothing else is to be found.
    """

    portions: tuple[Portion, ...]
    fault: Fault | None
    position: FilesPosition | None
    watch: int | None = None
    is_going_on: bool = False
    is_all: bool = False


class FilesPlace:
    """One or more logs in files, each a stream of its own.

    A log that is there at the first look is read from its end, or from ``resume``; one that appears
    later is read whole. A look that takes longer than ``limit_s`` is a fault; what it brings in the
    end is handed over then.
    """

    def __init__(
        self,
        clock: ClockLike,
        name: str,
        find: Find,
        *,
        resume: Position | None = None,
        limit_s: float = READ_LIMIT_S,
        pread: Pread = os.pread,
        watch: Watch = inotify,
        crew: Crew | None = None,
    ) -> None:
        self.name = name
        self._clock = clock
        self._limit_s = limit_s
        self._thread = CallThread("log-files", crew)
        self._follower = _Follower(find, resume, pread, watch)
        self._looks: deque[_Look] = deque()
        self._position: FilesPosition | None = None
        self._wakeup = Wakeup()
        self._behind = False
        self._is_going_on = False
        self._closed = False
        self._looked_at = float("-inf")
        self._pace = Pace()
        self._wakes = 0
        self._is_trusted = False

    async def open(self) -> None:
        """Go to where reading begins; what is there to be read waits for ``read``."""
        self._closed = False
        await self._look()

    async def close(self) -> None:
        """Give the files back; a look that hangs gives them back when it returns."""
        self._closed = True
        self._wakeup.close()
        await self._thread.call(self._follower.close, self._limit_s)
        self._thread.close()
        while self._looks:
            _give_back(self._looks.popleft())

    async def read(self) -> Sequence[Portion] | Fault:
        """What was written since the last call."""
        # What a look brought for which nobody waited any more is still to be told.
        is_settled = not (self._looks or self._thread.busy)
        is_quiet = self._wakes == self._wakeup.count and self._left() > 0
        if self._is_trusted and self._wakeup.armed and is_settled and is_quiet:
            return ()
        known = self._wakes
        late = await self._look()
        if not self._looks:
            self._is_trusted = False
            return late or Fault.TIMEOUT
        portions: list[Portion] = []
        fault = None
        may_be_trusted = True
        while self._looks:
            look = self._looks.popleft()
            portions += look.portions
            fault, self._position = look.fault, look.position or self._position
            # What was written before a new watch was set nobody tells of.
            self._is_going_on = look.is_going_on or look.watch is not None
            if look.watch is not None:
                self._wakeup.arm(look.watch if look.watch >= 0 else None)
            may_be_trusted &= look.watch is None and look.is_all and not look.is_going_on
        self._behind = any(portion.lag_bytes for portion in portions)
        said = [p for p in portions if p.data or p.above or p.overlong or p.lost]
        told = self._wakeup.count != known if said else self._is_trusted
        self._is_trusted = told and may_be_trusted and not (fault or self._behind)
        return said or fault or portions

    async def wait(self) -> None:
        """Return when a file was written to, and at times to look after rotation."""
        if not self._behind:
            if self._wakeup.armed and not self._is_going_on:
                await self._stirred()
            else:
                await self._clock.pause(POLL_S)
        # Afterwards, and only where the last look was just now: of a quiet log no timer runs for it.
        if (left := self._left_of(self._pace.gap_s(is_behind=self._behind))) > 0:
            await self._clock.pause(left)

    def position(self) -> FilesPosition | None:
        """The places behind what ``read`` has returned."""
        return self._position

    def lookback(self) -> bytes | None:
        """What the files held before they were opened."""
        return self._follower.take_lookback()

    async def _stirred(self) -> None:
        """Return when the kernel tells of a file, or nobody has looked for a while."""
        # What was told counts until somebody looks: whoever heard of it may have been called away.
        while self._wakes == self._wakeup.count and (left := self._left()) > 0:
            due = self._clock.now().monotonic + left
            if await self._wakeup.wait_until(self._clock, due):
                return

    def _left(self) -> float:
        """Seconds until somebody has to look though nothing tells of a file."""
        return self._left_of(TRUSTED_POLL_S if self._is_trusted else WATCHED_POLL_S)

    def _left_of(self, seconds: float) -> float:
        """What is left of so many seconds since the last look."""
        return self._looked_at + seconds - self._clock.now().monotonic

    async def _look(self) -> Fault | None:
        """Look once; why nothing came of it, if it has not returned in time."""
        now = self._looked_at = self._clock.now().monotonic
        self._pace.look(now)
        self._wakes = self._wakeup.count

        def look() -> None:
            # Kept here and not returned: nobody may wait for it any more, and its lines are read.
            self._looks.append(self._follower.look(now))
            if self._closed:
                self._follower.close()

        return await self._thread.call(look, self._limit_s)


class _Follower:
    """Finds and follows logs. Blocking: all of it is called on one thread, one call at a time."""

    def __init__(
        self,
        find: Find,
        resume: Position | None,
        pread: Pread,
        watch: Watch,
    ) -> None:
        self._find = find
        self._resume = dict(resume.files) if isinstance(resume, FilesPosition) else {}
        self._pread = pread
        self._watch = watch
        self._tails: dict[str, Tail] = {}
        self._begun: set[str] = set()
        self._found: frozenset[str] = frozenset()
        self._found_at = float("-inf")
        self._is_sure = False
        self._fault: Fault | None = None
        self._is_first = True
        self._is_all = False
        self._folders: tuple[Path, ...] = ()
        self._watched: tuple[object, ...] = ()
        self._lookback: list[bytes] = []

    def look(self, now: float) -> _Look:
        """What all logs have to say."""
        if now >= self._found_at + (SURE_FIND_S if self._is_sure else FIND_S):
            self._found_at = now
            self._search()
        portions: list[Portion] = []
        fault = self._fault or (None if self._tails else Fault.ABSENT)
        most = max(64 * 1024, MOST_BYTES // max(1, len(self._tails)))
        for name, tail in list(self._tails.items()):
            got = tail.read(most)
            if isinstance(got, Fault):
                fault = self._faulted(name, got) or fault
            else:
                portions.append(self._told(name, tail, got))
        tails = self._tails.values()
        is_known = self._is_all and self._fault is None
        self._is_sure = is_known and bool(tails) and all(tail.is_live for tail in tails)
        return _Look(
            tuple(portions),
            fault,
            self._position(),
            self._rewatched(),
            is_going_on=any(tail.is_going_on for tail in tails),
            is_all=self._is_sure,
        )

    def close(self) -> None:
        """Give the files back."""
        for name, tail in self._tails.items():
            tail.close()
            if tail.finished is not None:
                self._resume[name] = tail.finished
        self._tails.clear()
        self._begun.clear()
        self._watched = ()
        self._is_sure = False

    def take_lookback(self) -> bytes | None:
        """What stood in front of the logs, once."""
        lookback, self._lookback = self._lookback, []
        return b"".join(lookback) or None

    def _search(self) -> None:
        try:
            chains = self._find()
        except OSError as error:
            self._fault = fault_of_file(error)
            self._is_first = self._is_first and self._fault is not Fault.ABSENT
            return
        self._fault = None
        self._found = frozenset(chain.name for chain in chains)
        alone = chains[0].live() if len(chains) == 1 and chains[0].is_all else None
        self._folders = () if alone is None else _folders(alone)
        self._is_all = bool(self._folders)
        held = {tail.identity for tail in self._tails.values()}
        for chain in chains:
            if chain.name in self._tails or len(self._tails) >= MOST_FILES:
                continue
            identity = _identity(chain)
            if identity is not None and identity in held:
                # A file that is followed already was given another name that fits.
                continue
            self._tails[chain.name] = Tail(
                chain,
                from_start=not self._is_first,
                resume=self._resume.pop(chain.name, None) or self._finished(identity),
                above_bytes=LOOKBACK_BYTES,
                stream=chain.name,
                pread=self._pread,
            )
        self._is_first = False

    def _finished(self, identity: tuple[int, int] | None) -> FilePosition | None:
        """Where a file was left that has come under a new name since."""
        places = (tail.finished for tail in self._tails.values())
        return next((at for at in places if at and (at.device, at.inode) == identity), None)

    def _faulted(self, name: str, fault: Fault) -> Fault | None:
        if fault is Fault.ABSENT and name not in self._found:
            self._tails.pop(name).close()
            self._begun.discard(name)
            return None
        return fault

    def _told(self, name: str, tail: Tail, got: Portion) -> Portion:
        if name in self._begun or tail.identity is None:
            return got
        self._begun.add(name)
        above, tail.above = tail.above, b""
        if above and not tail.resumed:
            self._lookback.append(above)
        return replace(got, above=above)

    def _position(self) -> FilesPosition:
        places: dict[str, FilePosition] = {}
        for name, tail in self._tails.items():
            if (at := tail.position()) is not None:
                places[name] = at
        return FilesPosition(places)

    def _rewatched(self) -> int | None:
        """An inotify descriptor for the files that are read now, -1 for none, None for the same."""
        read = [(tail.descriptor, tail.identity) for tail in self._tails.values()]
        watched = (*read, *self._folders)
        if watched == self._watched:
            return None
        self._watched = watched
        # By descriptor, since the names may belong to other files by now.
        files = (Path(f"/proc/self/fd/{at}") for at, _ in read if at is not None)
        descriptor = self._watch(files, WATCHED, self._folders)
        return -1 if descriptor is None else descriptor


def _folders(path: Path) -> tuple[Path, ...]:
    """The folders above; none of them where a link is among them or one that may not be watched.

    Whoever renames a folder or points a link elsewhere exchanges a file without touching it.
    """
    folders = tuple(path.absolute().parents)
    is_plain = os.path.realpath(folders[0]) == str(folders[0])
    return folders if is_plain and all(os.access(one, os.R_OK) for one in folders) else ()


def _identity(chain: Chain) -> tuple[int, int] | None:
    try:
        status = chain.live().stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _give_back(look: _Look) -> None:
    if look.watch is not None and look.watch >= 0:
        os.close(look.watch)
