"""Memory cgroups made for a test: a container in a pod, as Kubernetes nests them, on v1 and v2."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LIMITS = {
    1: ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    2: ("memory.max", "memory.swap.max"),
}
REPORTS_S = 5.0
"""Seconds in which the kernel gives ten reports of kills in full (``mm/oom_kill.c``: a rate limit of its
default burst and interval). Of further ones it prints no more than who was killed."""


def await_full_reports() -> None:
    """Let the kernel be talkative again, whatever was killed shortly before."""
    time.sleep(REPORTS_S)


@dataclass(frozen=True, slots=True)
class PodCgroup:
    """The directory of a pod, in which containers come and go."""

    path: Path
    version: int

    def add(self, name: str, limit: int | None) -> Path:
        """A container's cgroup that may use ``limit`` bytes, and no swap."""
        place = self.path / name
        place.mkdir()
        if limit is not None:
            memory, swap = LIMITS[self.version]
            (place / memory).write_text(str(limit))
            with contextlib.suppress(OSError):  # no swap, or it is not accounted
                (place / swap).write_text(str(limit if self.version == 1 else 0))
        return place


def version_of(root: Path) -> int:
    return 1 if (root / "memory.limit_in_bytes").exists() else 2


@contextlib.contextmanager
def pod_cgroup(root: Path, name: str) -> Iterator[PodCgroup]:
    """A pod's cgroup below ``root``; it and all that is in it is removed in the end."""
    version = version_of(root)
    pod = PodCgroup(root / name, version)
    if version == 2:
        (root / "cgroup.subtree_control").write_text("+memory")
    pod.path.mkdir()
    try:
        if version == 2:
            (pod.path / "cgroup.subtree_control").write_text("+memory")
        yield pod
    finally:
        for place in (*pod.path.glob("*/"), pod.path):
            remove(place)


def remove(place: Path) -> None:
    """End what is in a cgroup and remove it, once the kernel is done with the last process."""
    for _ in range(500):
        with contextlib.suppress(OSError):
            for pid in (place / "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
        with contextlib.suppress(FileNotFoundError, OSError):
            place.rmdir()
        if not place.exists():
            return
        time.sleep(0.01)


def take_until_killed(place: Path, name: str | None = None) -> None:
    """A process's life: enter the cgroup, and want more than there is."""
    (place / "cgroup.procs").write_text("0")
    if name is not None:
        Path("/proc/self/comm").write_text(name)
    held = [b"\1" * (1 << 20) for _ in range(4096)]
    held.clear()
