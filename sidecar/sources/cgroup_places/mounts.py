"""Which memory hierarchies are mounted where, and in which of their cgroups a process is.

``/proc/PID/cgroup`` (cgroups(7)) and the root in ``mountinfo`` are written as seen from the cgroup
namespace of the reader: what lies outside of it begins with ``/..``.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

PROC: Final = Path("/proc")
CGROUP: Final = Path("/sys/fs/cgroup")
TEXT_BYTES: Final = 1 << 20
_UP: Final = ".."
_TOP_INODE: Final = 1
"""Of the directory at the top of a hierarchy, whoever looks at it (kernfs numbers from there)."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One mounted hierarchy: ``root`` of it appears at ``point``."""

    version: int
    root: str
    point: Path

    def holds(self, name: str) -> Path | None:
        """Where the cgroup ``name`` appears; None if it lies outside of what is mounted."""
        path = PurePosixPath(name)
        if not path.is_relative_to(self.root):
            return None
        below = path.relative_to(self.root)
        return None if _UP in below.parts else self.point / below

    def name_of(self, directory: Path) -> str:
        """The name of a cgroup below ``point`` as the kernel log writes it, as far as we can know."""
        root = PurePosixPath(self.root)
        # What is above our namespace has no name here. The top of the hierarchy needs none.
        if all(part == _UP for part in root.parts[1:]) or is_top(self.point):
            root = PurePosixPath("/")
        return str(root / directory.relative_to(self.point).as_posix())


@dataclass(frozen=True, slots=True)
class MountLine:
    """A line of mountinfo (``proc_pid_mountinfo(5)``)."""

    root: str
    point: str
    kind: str
    options: str


@dataclass(frozen=True, slots=True)
class Member:
    """The memory cgroup of a process: version of its hierarchy, and name."""

    version: int
    name: str


def read_text(path: Path) -> str:
    """A file of /proc, as far as anybody writes one.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(TEXT_BYTES).decode("utf-8", "replace")


def mount_lines(proc: Path, process: str = "self") -> tuple[MountLine, ...]:
    """What is mounted in the namespace of a process; nothing where that cannot be read."""
    try:
        text = read_text(proc / process / "mountinfo")
    except OSError:
        return ()
    return tuple(line for row in text.splitlines() if (line := _mount_line(row)) is not None)


def memory_mounts(lines: tuple[MountLine, ...], cgroup_root: Path) -> tuple[Mount, ...]:
    """The mounts that show memory cgroups; the usual places where none is told."""
    found = tuple(_memory_mounts(lines, cgroup_root))
    return found or (
        Mount(1, "/", cgroup_root / "memory"),
        Mount(2, "/", cgroup_root),
        Mount(2, "/", cgroup_root / "unified"),
    )


def mounts_of(proc: Path, pid: int) -> tuple[Mount, ...]:
    """The mounts of another process, as we reach them; none where its namespace cannot be read."""
    inside = proc / str(pid) / "root"
    return tuple(
        Mount(mount.version, mount.root, inside / str(mount.point).lstrip("/"))
        for mount in _memory_mounts(mount_lines(proc, str(pid)), CGROUP)
    )


def membership(text: str) -> Member | None:
    """The memory cgroup in ``/proc/PID/cgroup``: v1 wins where both stand, as on hybrid hosts."""
    unified: str | None = None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if "memory" in controllers.split(","):
            return Member(1, name)
        if number == "0" and not controllers and name:
            unified = name.removesuffix(" (deleted)")
    return None if unified is None else Member(2, unified)


def memory_version(directory: Path) -> int | None:
    """The version of the memory cgroup that a directory is; None for any other directory."""
    if is_there(f"{directory}/memory.usage_in_bytes"):
        return 1
    if any(is_there(f"{directory}/{name}") for name in ("memory.events", "memory.current")):
        return 2
    return None


def is_there(path: Path | str) -> bool:
    """Whether we can see a file. Never an error: the root of another's process may be closed to us."""
    try:
        os.stat(path)  # noqa: PTH116  (at every tick)
    except (OSError, ValueError):
        return False
    return True


def is_top(directory: Path) -> bool:
    """Whether a directory is the top of its hierarchy."""
    try:
        return directory.stat().st_ino == _TOP_INODE
    except OSError:
        return False


def is_anchored(directory: Path, name: str) -> bool:
    """Whether a cgroup's name begins at the top of its hierarchy, as the kernel log writes it."""
    parts = PurePosixPath(name).parts[1:]
    above = directory.parents
    return _UP not in parts and 0 < len(parts) <= len(above) and is_top(above[len(parts) - 1])


def counts_below(lines: tuple[MountLine, ...]) -> bool:
    """Whether ``memory.events`` counts what happened below, too: not with ``memory_localevents``."""
    return not any(
        line.kind == "cgroup2" and "memory_localevents" in line.options.split(",") for line in lines
    )


def _memory_mounts(lines: tuple[MountLine, ...], cgroup_root: Path) -> Iterator[Mount]:
    for line in lines:
        if line.kind == "cgroup2":
            version = 2
        elif line.kind == "cgroup" and "memory" in line.options.split(","):
            version = 1
        else:
            continue
        point = Path(line.point)
        if point.is_relative_to(CGROUP):
            point = cgroup_root / point.relative_to(CGROUP)
        yield Mount(version, line.root, point)


def _mount_line(row: str) -> MountLine | None:
    before, _, after = row.partition(" - ")
    fields, kind = before.split(" "), after.split(" ")
    if len(fields) < 5 or len(kind) < 3:  # noqa: PLR2004  (the fields used below)
        return None
    return MountLine(_unescaped(fields[3]), _unescaped(fields[4]), kind[0], kind[2])


def _unescaped(text: str) -> str:
    for code, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, plain)
    return text
