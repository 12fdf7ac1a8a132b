"""The ways to the server's memory cgroup, surest first; the first that leads there is taken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sidecar.model.vocabulary import Fault, Way
from sidecar.parse.container_id import container_id, given_id
from sidecar.sources.cgroup_places.attempt import FAULTS, Attempt, shown
from sidecar.sources.cgroup_places.directory import Directory, text_of
from sidecar.sources.cgroup_places.mounts import (
    CGROUP,
    Member,
    Mount,
    is_top,
    membership,
    memory_mounts,
    memory_version,
    mount_lines,
    mounts_of,
)
from sidecar.sources.cgroup_places.search import Search
from sidecar.sources.cgroup_places.shared_cgroup import Shared
from sidecar.sources.cgroup_places.v1_above import Uncounted

_CRUN_CHILD: Final = "container"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is known of the server.

    ``given``: a directory, a cgroup's name or a container's id, as the user wrote it. ``here``: it
    runs on this host, or in our pod, so that what we share may be its own.
    """

    given: str | None = None
    here: bool = True


@dataclass(slots=True)
class Finder:
    """Finds the directory that is meant now, and remembers where it was; blocks.

    The cgroup of a process that died stays the one that is meant, for its counters tell why.
    """

    wanted: Wanted
    proc: Path
    cgroup: Path
    shared: Shared
    attempts: dict[Way, Attempt] = field(default_factory=dict)
    _found: Directory | None = None
    _key: tuple[int | None, str] | None = None
    _by_id: Search = field(default_factory=Search)
    _uncounted: Uncounted = field(default_factory=Uncounted)
    _refused: Directory | None = None

    def locate(self, pid: int | None) -> Directory | Fault:
        """The directory of the server, whose process is ``pid`` where one is seen."""
        if self.wanted.given is not None:
            return self._remember(self._explicit(self.wanted.given), (None, ""))
        if pid is None:
            return self._without_process()
        try:
            text = text_of(f"{self.proc}/{pid}/cgroup")
        except PermissionError:
            return self._failed({Way.PID: Attempt.DENIED})
        except OSError:
            return self._failed({Way.PID: Attempt.NO_PROCESS})
        return self._with_process(pid, text)

    def _with_process(self, pid: int, text: str) -> Directory | Fault:
        key = (pid, text)
        if key == self._key and self._stands():
            return self._found or Fault.ABSENT
        member = membership(text)
        if member is None:
            return self._failed({Way.PID: Attempt.NO_CONTROLLER})
        if self._is_leaving(pid, member):
            return self._found or Fault.ABSENT
        return self._remember(self._of(pid, member), key)

    def _without_process(self) -> Directory | Fault:
        if self._found is not None:
            return self._found
        self.attempts = {Way.PID: Attempt.NO_PROCESS}
        if not self.wanted.here:
            return Fault.ABSENT
        for way, got in self.shared.ways():
            self.attempts[way] = got if isinstance(got, Attempt) else Attempt.FOUND
            if isinstance(got, Directory):
                return self._remember(got, (None, ""))
        return Fault.ABSENT

    def _stands(self) -> bool:
        found = self._found
        return found is not None and memory_version(found.path) == found.version

    def _is_leaving(self, pid: int, member: Member) -> bool:
        """Whether a process that ends shows its last cgroup no more: in v1 it is shown at the top."""
        found = self._found
        if found is None:
            return False
        if member.name == found.name:
            return self._key is not None and self._key[0] == pid and not self._stands()
        return member == Member(1, "/")

    def _remember(
        self, found: Directory | Attempt, key: tuple[int | None, str]
    ) -> Directory | Fault:
        if isinstance(found, Directory):
            self._found, self._key = found, key
            return found
        return self._found or FAULTS.get(found, Fault.ABSENT)

    def _failed(self, attempts: dict[Way, Attempt]) -> Directory | Fault:
        self.attempts |= attempts
        return self._found or FAULTS.get(next(iter(attempts.values())), Fault.ABSENT)

    def _tell(self, way: Way, got: Directory | Attempt) -> Directory | Attempt:
        self.attempts[way] = got if isinstance(got, Attempt) else Attempt.FOUND
        return got

    # The ways.

    def _explicit(self, given: str) -> Directory | Attempt:
        """What the user named, unless it would count nobody's kills."""
        got = self._refused_before() or self._named(given)
        if isinstance(got, Attempt):
            return got
        if self._uncounted.is_so(got):
            self._found, self._refused = None, got
            return self._tell(got.way, Attempt.UNCOUNTED)
        self._refused = None
        return self._tell(got.way, got)

    def _refused_before(self) -> Directory | None:
        """A directory that was found and is refused, which is not looked for again while it stands."""
        one = self._refused
        return one if one is not None and memory_version(one.path) == one.version else None

    def _named(self, given: str) -> Directory | Attempt:
        identity = given_id(given)
        if identity is not None:
            if self._found is not None:
                return self._found
            return self._tell(Way.CONTAINER_ID, self._search(identity, self._mounts()))
        if self._stands() and self._found is not None:
            return self._found
        return self._tell(Way.PATH, self._by_path(given))

    def _by_path(self, given: str) -> Directory | Attempt:
        """A directory, or a cgroup's name below the usual places; links and ``..`` are followed.

        A name that is none (``""``, ``.``) would mean the top, which nobody means.
        """
        name, tops = given.lstrip("/"), (self.cgroup, self.cgroup / "memory")
        is_rooted = given.startswith("/")
        for written in (*([Path(given)] if is_rooted else []), *(top / name for top in tops)):
            path = _resolved(written)
            if path is None or (not is_rooted and path in {_resolved(top) for top in tops}):
                continue
            version = memory_version(path)
            if version is not None:
                return Directory(version, path, self._name(path) or str(path), Way.PATH)
        return Attempt.ABSENT

    def _of(self, pid: int, member: Member) -> Directory | Attempt:
        """By the name that ``/proc/PID/cgroup`` gives, in what is mounted here and there."""
        mounts = [mount for mount in self._mounts() if mount.version == member.version]
        self.attempts.clear()
        ways: tuple[tuple[Way, Callable[[], Directory | Attempt]], ...] = (
            (Way.PID, lambda: shown(mounts, member, Way.PID)),
            (Way.CONTAINER_ID, lambda: self._by_container(member, mounts)),
            (Way.PROCESS_ROOT, lambda: self._in_its_root(pid, member)),
        )
        for way, go in ways:
            got = self._tell(way, go())
            if isinstance(got, Directory):
                return _whole_container(got)
        return Attempt.OUTSIDE

    def _by_container(self, member: Member, mounts: Sequence[Mount]) -> Directory | Attempt:
        identity = container_id(member.name)
        return Attempt.NO_ID if identity is None else self._search(identity, mounts)

    def _search(self, identity: str, mounts: Sequence[Mount]) -> Directory | Attempt:
        found = self._by_id.find(identity, mounts, lambda name: container_id(name) == identity)
        if found is None:
            return Attempt.ABSENT
        name = found.mount.name_of(found.path)
        return Directory(found.mount.version, found.path, name, Way.CONTAINER_ID)

    def _in_its_root(self, pid: int, member: Member) -> Directory | Attempt:
        """The process's own view, which another container of our pod opens if we may trace it."""
        mounts = mounts_of(self.proc, pid)
        if mounts:
            return shown(
                [mount for mount in mounts if mount.version == member.version],
                member,
                Way.PROCESS_ROOT,
            )
        inside = self.proc / str(pid) / "root" / str(CGROUP).lstrip("/")
        path = inside / "memory" if member.version == 1 else inside
        if memory_version(path) != member.version or is_top(path):
            return Attempt.DENIED
        return Directory(member.version, path, member.name, Way.PROCESS_ROOT)

    def _mounts(self) -> tuple[Mount, ...]:
        return memory_mounts(mount_lines(self.proc), self.cgroup)

    def _name(self, directory: Path) -> str | None:
        mounts = [mount for mount in self._mounts() if directory.is_relative_to(mount.point)]
        if not mounts:
            return None
        return max(mounts, key=lambda one: len(one.point.parts)).name_of(directory)


def _whole_container(found: Directory) -> Directory:
    """The container, where crun put its processes into a child: the limit and the end are above.

    In v1 each cgroup counts for itself, so that the child is the one to read.
    """
    above, _, last = found.name.rpartition("/")
    whole = found.path.parent
    if last != _CRUN_CHILD or found.version == 1 or container_id(above.rpartition("/")[2]) is None:
        return found
    if memory_version(whole) != found.version:
        return found
    return Directory(found.version, whole, above, found.way)


def _resolved(path: Path) -> Path | None:
    """A path without links and ``..``; None for one that nothing can be."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        return None
