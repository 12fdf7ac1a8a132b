"""Whether a cgroup of v1 can count the server's kills at all: it counts for itself, not for those below.

One that only holds other cgroups (a pod, a slice, the top) would say 0 for ever, which is no sign of
health.
"""

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.parse.cgroup import parse_bytes
from sidecar.parse.container_id import is_pod
from sidecar.sources.cgroup_places.directory import Directory, children_of, optional_text
from sidecar.sources.cgroup_places.mounts import is_top

_SLICE: Final = ".slice"
"""systemd puts no process into one of these (``systemd.slice(5)``)."""
_RESIDENT: Final = "rss "
"""Anonymous memory in ``memory.stat`` of the cgroup itself (kernel documentation ``memory.rst``)."""
_BELOW_MOST: Final = 256
"""Directories that are looked at; in as many something lives."""


@dataclass(slots=True)
class Uncounted:
    """Remembers where processes were: the cgroup of a server that died stays the one that counts."""

    lived: Path | None = None

    def is_so(self, directory: Directory) -> bool:
        """Whether what is killed below ``directory`` is counted elsewhere."""
        if directory.version != 1 or self.lived == directory.path:
            return False
        if is_top(directory.path):
            return True
        if _is_inhabited(directory.path):
            self.lived = directory.path
            return False
        name = directory.name
        return is_pod(name) or name.endswith(_SLICE) or _is_inhabited_below(directory.path)


def _is_inhabited(path: Path) -> bool:
    """Whether processes are in a cgroup itself, also where those of other pid namespaces are hidden."""
    if (optional_text(path / "cgroup.procs") or "").strip():
        return True
    lines = (optional_text(path / "memory.stat") or "").splitlines()
    resident = next((line[len(_RESIDENT) :] for line in lines if line.startswith(_RESIDENT)), None)
    return (parse_bytes(resident) or 0) > 0


def _is_inhabited_below(path: Path) -> bool:
    todo = deque([path])
    for _ in range(_BELOW_MOST):
        if not todo:
            return False
        place = todo.popleft()
        if place != path and _is_inhabited(place):
            return True
        with suppress(OSError):
            todo.extend(place / entry.name for entry in children_of(place))
    return True
