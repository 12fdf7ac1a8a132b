"""The ways that remain where no process of the server is seen: what we share with it."""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sidecar.model.vocabulary import Way
from sidecar.parse.container_id import container_id, is_pod, mounted_pod_uid, pod_uid
from sidecar.sources.cgroup_places.attempt import Attempt, shown
from sidecar.sources.cgroup_places.directory import Directory, optional_text
from sidecar.sources.cgroup_places.mounts import (
    Member,
    Mount,
    is_top,
    membership,
    memory_mounts,
    mount_lines,
)
from sidecar.sources.cgroup_places.search import Search

_PROCS_MOST: Final = 512
_ANCESTORS_MOST: Final = 32


@dataclass(slots=True)
class Shared:
    """Our own pod, and our own container; blocks."""

    proc: Path
    cgroup: Path
    own_pid: int = field(default_factory=os.getpid)
    search: Search = field(default_factory=Search)

    def ways(self) -> Iterator[tuple[Way, Directory | Attempt]]:
        """What each way gives, surest first."""
        member = membership(optional_text(self.proc / "self" / "cgroup") or "")
        if member is None:
            yield Way.POD, Attempt.NO_CONTROLLER
            return
        lines = mount_lines(self.proc)
        mounts = [one for one in memory_mounts(lines, self.cgroup) if one.version == member.version]
        points = [(line.root, line.point) for line in lines]
        yield Way.POD, self._pod(member, mounts, points)
        yield Way.OWN, self._own(member, mounts)

    def _pod(
        self, member: Member, mounts: Sequence[Mount], points: Sequence[tuple[str, str]]
    ) -> Directory | Attempt:
        """Our pod: above our own cgroup, or by the uid in what the kubelet mounted for us."""
        above, _, _ = member.name.rpartition("/")
        got: Directory | Attempt = Attempt.NO_POD
        if is_pod(above):
            got = shown(mounts, Member(member.version, above), Way.POD)
        uid = pod_uid(member.name) or mounted_pod_uid(points)
        if not isinstance(got, Directory) and uid is not None:
            got = self._by_uid(uid, mounts)
        # A pod of v1 does not count what its containers suffer: its zero would say nothing.
        return Attempt.UNCOUNTED if isinstance(got, Directory) and got.version == 1 else got

    def _by_uid(self, uid: str, mounts: Sequence[Mount]) -> Directory | Attempt:
        found = self.search.find(uid, mounts, lambda name: is_pod(name) and pod_uid(name) == uid)
        if found is None:
            return Attempt.ABSENT
        return Directory(found.mount.version, found.path, found.mount.name_of(found.path), Way.POD)

    def _own(self, member: Member, mounts: Sequence[Mount]) -> Directory | Attempt:
        """Our own container, if the server may be in it; a session or unit of the host is not its."""
        got = shown(mounts, member, Way.OWN)
        if not isinstance(got, Directory):
            return got
        is_container = container_id(member.name) is not None or member.name == "/"
        if not is_container or is_top(got.path):
            return Attempt.NO_ID
        return got if any(True for _ in self._others(got.path)) else Attempt.ALONE

    def _others(self, path: Path) -> Iterator[int]:
        """Processes of a cgroup that neither we started nor started us (a shell, an init).

        Nor those that were put into our container from outside, as a health check or a shell by
        ``exec`` is: they have no ancestor with us in it, and say nothing of whose container it is.
        """
        ancestors = set(self._ancestors())
        procs = (optional_text(path / "cgroup.procs") or "").split()[:_PROCS_MOST]
        # 0 stands for each that our pid namespace does not show.
        pids = {int(one) for one in procs if one.isdecimal()} - {0}
        first = self._first(self.own_pid, pids)
        for pid in sorted(pids - ancestors):
            if self._parent(pid) != self.own_pid and self._first(pid, pids) == first:
                yield pid

    def _first(self, pid: int, pids: Collection[int]) -> int:
        """The oldest ancestor of a process among ``pids``."""
        for _ in range(_ANCESTORS_MOST):
            parent = self._parent(pid)
            if parent is None or parent not in pids:
                break
            pid = parent
        return pid

    def _ancestors(self) -> Iterator[int]:
        pid: int | None = self.own_pid
        for _ in range(_ANCESTORS_MOST):
            if not pid:
                return
            yield pid
            pid = self._parent(pid)

    def _parent(self, pid: int) -> int | None:
        stat = optional_text(self.proc / str(pid) / "stat") or ""
        fields = stat.rpartition(")")[2].split()
        return int(fields[1]) if len(fields) > 1 and fields[1].isdecimal() else None
