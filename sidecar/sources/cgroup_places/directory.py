"""One directory of a memory cgroup: its files, and what is told beside them."""

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.model.vocabulary import Fault, Way
from sidecar.parse.cgroup import V1_FILES, V2_FILES, parse_bytes
from sidecar.sources.cgroup_places.mounts import is_there

_FILE_BYTES: Final = 65536
_LEAF_LINKS: Final = 2
"""Links of a directory without directories in it; other file systems than kernfs may say 1."""
_OOMD_XATTRS: Final = ("user.oomd_kill", "trusted.oomd_kill")
"""systemd-oomd writes the first (the second before Linux 5.7, without user xattrs in cgroups), oomd
the second. Decimal, counts processes."""
_XATTR_NOT_SET: Final = errno.ENODATA


@dataclass(frozen=True, slots=True)
class Directory:
    """A memory cgroup: where it is, and its ``name`` as the kernel log writes it."""

    version: int
    path: Path
    name: str
    way: Way


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a directory brought; ``files`` None if it is not there any more."""

    identity: int | None
    files: Mapping[str, str] | None
    inner: bool = False
    userspace_kills: int | None = None


def look_at(directory: Directory) -> Look | Fault:
    """Read a directory as it is now."""
    try:
        about = directory.path.stat()
    except FileNotFoundError:
        return Look(None, None)
    except PermissionError:
        return Fault.DENIED
    except OSError:
        return Fault.IO_ERROR
    files: dict[str, str] = {}
    denied = False
    place = str(directory.path)
    for name in V1_FILES if directory.version == 1 else V2_FILES:
        try:
            files[name] = text_of(f"{place}/{name}")
        except PermissionError:
            denied = True
        except OSError:
            # Not in this kernel, switched off (PSI: EOPNOTSUPP), or removed meanwhile (ENODEV).
            continue
    if not files:
        if denied:
            return Fault.DENIED
        return Fault.UNSUPPORTED if is_there(directory.path) else Look(None, None)
    unified = directory.version != 1
    return Look(
        identity=about.st_ino,
        files=files,
        inner=unified and _is_inner(directory.path, about.st_nlink),
        userspace_kills=_userspace_kills(directory.path) if unified else None,
    )


def text_of(path: Path | str) -> str:
    """A small file of the kernel.

    Raises:
        OSError: it is not there, or not to be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _FILE_BYTES).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def optional_text(path: Path | str) -> str | None:
    """A small file of the kernel; None if it cannot be read."""
    try:
        return text_of(path)
    except OSError:
        return None


def children_of(directory: Path) -> Iterator[os.DirEntry[str]]:
    """The cgroups right below.

    Raises:
        OSError: the directory cannot be listed.
    """
    with os.scandir(directory) as entries:
        yield from (entry for entry in entries if entry.is_dir(follow_symlinks=False))


def _is_inner(path: Path, links: int) -> bool:
    """Whether only cgroups below hold processes, as v2 wants it of all that share out memory."""
    if links == _LEAF_LINKS or optional_text(path / "cgroup.procs") != "":
        return False
    try:
        return next(children_of(path), None) is not None
    except OSError:
        return False


def _userspace_kills(path: Path) -> int | None:
    """Kills by an OOM daemon; 0 where none was written down, None where none could be."""
    counts: list[int] = []
    for name in _OOMD_XATTRS:
        try:
            value = os.getxattr(path, name)
        except OSError as error:
            # A trusted one is hidden from those who may not see it, as if it were not set.
            if error.errno == _XATTR_NOT_SET and name.startswith("user."):
                counts.append(0)
            continue
        number = parse_bytes(value.decode("ascii", "replace"))
        if number is not None:
            counts.append(number)
    return max(counts, default=None)
