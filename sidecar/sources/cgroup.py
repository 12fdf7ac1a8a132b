"""The memory cgroup of the server: its counters, which survive the processes they count.

Two interfaces (kernel documentation ``cgroup-v2.rst`` and ``cgroup-v1/memory.rst``), and hosts
that mount both. Where it is and how it is read: ``cgroup_places``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from sidecar.clock import ClockLike
from sidecar.model.readings import CgroupReading, Witness
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Source, Way
from sidecar.parse.cgroup import NAMES, parse_available, parse_cgroup, parse_kills
from sidecar.parse.recorded_cgroup import cgroup_row
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.cgroup_places.attempt import Attempt
from sidecar.sources.cgroup_places.directory import Directory, Look, optional_text
from sidecar.sources.cgroup_places.find import Finder, Wanted
from sidecar.sources.cgroup_places.mounts import (
    CGROUP,
    PROC,
    counts_below,
    is_anchored,
    mount_lines,
)
from sidecar.sources.cgroup_places.parent import Observer
from sidecar.sources.cgroup_places.shared_cgroup import Shared
from sidecar.sources.cgroup_places.watch import PAUSES_S, V1_PAUSES_S, Alarm, KillCount
from sidecar.sources.wakeup import Wakeup
from sidecar.thread import CallThread, Crew

_BOOT_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True)
class _Visit:
    """What one visit brought."""

    directory: Directory
    look: Look
    witness: Witness | None
    boot: str | None
    host_available: int | None
    anchored: bool = False

    def is_of(self, other: "_Visit") -> bool:
        """Whether both are of the same directory, while it was there."""
        return (
            self.look.files is not None
            and self.directory.path == other.directory.path
            and self.look.identity == other.look.identity
        )


@dataclass(slots=True)
class _Reader:
    """Everything that blocks."""

    finder: Finder
    proc: Path
    observer: Observer = field(default_factory=Observer)
    boot: str | None = None
    counts_below: bool | None = None
    anchored: tuple[Directory, bool] | None = None

    def visit(self, pid: int | None) -> _Visit | Fault:
        """The directory that is meant now, and what is in it."""
        found = self.finder.locate(pid)
        if isinstance(found, Fault):
            return found
        look, witness = self.observer.observe(found)
        if isinstance(look, Fault):
            return look
        if self.boot is None:
            text = optional_text(self.proc / "sys/kernel/random/boot_id") or ""
            self.boot = text.strip()[:_BOOT_CHARACTERS] or None
        meminfo = optional_text(f"{self.proc}/meminfo") or ""
        if self.counts_below is None:
            self.counts_below = counts_below(mount_lines(self.proc))
        if witness is not None and not self.counts_below:
            witness = replace(witness, kills=None)
        available = parse_available(meminfo)
        return _Visit(found, look, witness, self.boot, available, self.is_anchored(found, look))

    def is_anchored(self, found: Directory, look: Look) -> bool:
        """Whether the name is whole; looked at once for each directory, while it is there."""
        if self.anchored is None or self.anchored[0] != found:
            if look.files is None:
                return False
            self.anchored = (found, is_anchored(found.path, found.name))
        return self.anchored[1]


class CgroupSource:
    """Reads the cgroup that ``path`` names, or the one of the process that ``pid`` names at that moment.

    ``path`` is a directory, a cgroup's name or a container's id. Where no process is seen, a server
    that is ``here`` may be in a cgroup that we share. The end of one of the processes ``pids``, or of
    ``pid``, makes it look at once: what was counted last may be gone some milliseconds later.
    """

    name: Final = Source.CGROUP

    def __init__(
        self,
        clock: ClockLike,
        *,
        limit_s: float,
        path: str | Path | None = None,
        pid: Callable[[], int | None] | None = None,
        pids: Callable[[], Sequence[int]] = tuple,
        here: bool = True,
        proc_root: Path = PROC,
        cgroup_root: Path = CGROUP,
        tap: Tap | None = None,
        crew: Crew | None = None,
    ) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._pid = pid
        self._pids = pids
        wanted = Wanted(given=None if path is None else str(path), here=here)
        shared = Shared(proc_root, cgroup_root)
        self._reader = _Reader(Finder(wanted, proc_root, cgroup_root, shared), proc_root)
        self._thread = CallThread("cgroup", crew)
        self._wakeup = Wakeup()
        self._alarm = Alarm()
        self._notices = 0
        self._count: KillCount | None = None
        self._last: _Visit | None = None
        self._tap = tap

    @property
    def attempts(self) -> Mapping[Way, Attempt]:
        """What each way to the cgroup gave that was tried."""
        return dict(self._reader.finder.attempts)

    async def open(self) -> None:
        """Find the cgroup and begin to watch it, if it is there."""
        await self.sample()

    async def close(self) -> None:
        """Stop watching."""
        self._wakeup.close()
        self._alarm.close()
        self._thread.close()
        if self._count is not None:
            self._count.close()
            self._count = None

    async def sample(self) -> Sample:
        """The counters now. A count that was read just before its cgroup went comes first."""
        begun = self._clock.now()
        pid = self._pid() if self._pid is not None else None
        got = await self._thread.call(lambda: self._reader.visit(pid), self._limit_s)
        if isinstance(got, Fault):
            return sample_of(self.name, begun, self._clock.now(), got)
        visit = self._caught_before(got) or got
        self._watch(visit)
        self._follow(pid)
        reading = _reading(visit)
        if self._tap is not None:
            self._tap(begun, cgroup_row(reading, visit.look.files))
        return sample_of(self.name, begun, self._clock.now(), reading)

    async def wait(self) -> None:
        """Return when a kill was counted, or the server's cgroup got into an OOM or went; else never."""
        while True:
            await self._wakeup.wait()
            if await self._has_news():
                return

    def _watch(self, visit: _Visit) -> None:
        if visit.look.files is None:
            return
        if self._last is None or not visit.is_of(self._last):
            if self._count is not None:
                self._count.close()
            self._count = KillCount(visit.directory, visit.look.identity)
            if not self._wakeup.armed:
                self._wakeup.arm(self._alarm.begin(), self._notice)
            self._alarm.watch(visit.directory)
        self._last = visit

    def _follow(self, pid: int | None) -> None:
        self._alarm.follow(self._pids() if pid is None else (pid, *self._pids()))

    def _notice(self, _: int) -> None:
        self._notices += 1
        if self._alarm.take() and self._count is not None:
            self._count.look()

    async def _has_news(self) -> bool:
        """Whether a kill was counted since the last look, or the cgroup was removed."""
        count, notices, step = self._count, self._notices, 0
        if count is None:
            return False
        is_v1_event = self._alarm.is_announced and count.directory.version == 1
        self._alarm.is_announced = False
        pauses = V1_PAUSES_S if is_v1_event else PAUSES_S
        while step < len(pauses):
            await self._clock.pause(pauses[step])
            if self._count is not count:
                # A sample was taken meanwhile, which told what there is.
                return False
            if count.has_news():
                return True
            step = step + 1 if notices == self._notices else 0
            notices = self._notices
        return is_v1_event

    def _caught_before(self, now: _Visit) -> _Visit | None:
        """The last visit with the count that was read after it, where the directory is there no more.

        In v2 the cgroup above tells what was counted at the end, and would tell it twice.
        """
        last, count = self._last, self._count
        if last is None or count is None or now.is_of(last):
            return None
        count.has_news()
        if count.caught is None:
            return None
        files, version = last.look.files or {}, last.directory.version
        if last.witness is not None and last.witness.kills is not None:
            return None
        name = NAMES[version].kills
        if (parse_kills(count.caught) or 0) <= (parse_kills(files.get(name)) or 0):
            return None
        # What was counted in the cgroup itself, without those below, was not read anew.
        kept = {key: text for key, text in files.items() if key != "memory.events.local"}
        return replace(last, look=replace(last.look, files={**kept, name: count.caught}))


def _reading(visit: _Visit) -> CgroupReading:
    where, look = visit.directory, visit.look
    return replace(
        parse_cgroup(where.version, where.name, look.files, look.identity),
        boot=visit.boot,
        way=where.way,
        inner=look.inner or where.way is Way.POD,
        anchored=visit.anchored,
        userspace_kills=look.userspace_kills,
        host_available=visit.host_available,
        witness=visit.witness,
    )
