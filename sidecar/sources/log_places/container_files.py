"""Which logs a path names: a file, a folder or a pattern, plain or written by a container runtime."""

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from glob import glob, has_magic
from pathlib import Path
from typing import Final

from sidecar.sources.log_places.chain import (
    Chain,
    KubeletChain,
    RotatedChain,
    is_kubelet_file,
    is_kubelet_name,
    is_rotated,
)

MOST_PATHS: Final = 4096
"""Paths of one pattern that are looked at."""


class Layout(StrEnum):
    """How the files of a log are laid out."""

    PLAIN = "plain"
    CRI = "cri"
    DOCKER = "docker"


def finder(path: str, layout: Layout) -> Callable[[], Sequence[Chain]]:
    """What finds the logs that ``path`` names now; for a thread.

    A folder stands for the logs in it. Links to files of the kubelet (``/var/log/containers``) stand
    for the folder that they point into, which lives on when the container is started again.
    """

    def find() -> Sequence[Chain]:
        found: dict[str, Chain] = {}
        for each in _paths(path):
            for chain in _chains(each, layout, is_all=not has_magic(path)):
                found.setdefault(chain.name, chain)
        return list(found.values())

    return find


def _paths(path: str) -> Iterable[Path]:
    if not has_magic(path):
        return [Path(path)]
    found = [Path(name) for name in sorted(glob(path))[:MOST_PATHS]]  # noqa: PTH207 - any pattern, also an absolute one
    # Nothing matches because nothing is there, or because we may not look: listing tells.
    if not found:
        next(iter(_listable(path).iterdir()), None)
    return found


def _listable(pattern: str) -> Path:
    """The folder in front of the first wildcard."""
    parts = Path(pattern).parts
    plain = next(at for at, part in enumerate(parts) if has_magic(part))
    return Path(*parts[:plain])


def _chains(path: Path, layout: Layout, *, is_all: bool) -> list[Chain]:
    if layout is Layout.PLAIN and _is_simple(path):
        return [RotatedChain(path, is_all=is_all)]
    if path.is_dir():
        return _chains_in(path, layout)
    if is_rotated(path.name) and not _is_wanted(path):
        return []
    target = path.resolve()
    if layout is Layout.CRI or (layout is Layout.PLAIN and is_kubelet_file(target)):
        return [KubeletChain(target.parent)]
    return [RotatedChain(path)]


def _is_simple(path: Path) -> bool:
    """Whether one call says all: a regular file by its own name, which no runtime gives."""
    if is_rotated(path.name) or is_kubelet_name(path.name):
        return False
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_wanted(path: Path) -> bool:
    """Whether a path with a name as rotation gives it is a log of its own: nothing lies in front."""
    return not any(
        path.name.startswith(f"{other.name}.") or path.name.startswith(f"{other.name}-")
        for other in path.parent.iterdir()
        if other.name != path.name
    )


def _chains_in(folder: Path, layout: Layout) -> list[Chain]:
    names = sorted(other for other in folder.iterdir() if not is_rotated(other.name))
    match layout:
        case Layout.CRI:
            return [KubeletChain(folder)]
        case Layout.DOCKER:
            return [RotatedChain(path) for path in names if path.name.endswith("-json.log")]
        case Layout.PLAIN:
            if any(is_kubelet_file(path) for path in names):
                return [KubeletChain(folder)]
            return [RotatedChain(path) for path in names if path.is_file()]
