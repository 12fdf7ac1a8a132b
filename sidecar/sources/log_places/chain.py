"""The files that one log has had, one after another: what rotation leaves behind, and what is live."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

_ROTATED: Final = (
    r"(?:[.-](?P<date>\d{8}(?:[-T_.]?\d{1,6})?)|\.(?P<number>\d{1,4})|\.(?P<old>old))(?P<gz>\.gz)?"
)
_is_rotated: Final = re.compile(r".*?" + _ROTATED + r"|.*\.(?:gz|zst|xz|bz2|tmp)").fullmatch
_KUBELET: Final = re.compile(r"(?P<number>\d{1,9})\.log(?:\.(?P<date>\d{8}-\d{6}))?(?P<gz>\.gz)?")
_LIVE: Final = "~"
"""Sorts behind every date."""


class Chain(Protocol):
    """One log as the files that hold it. Blocking: for a thread."""

    @property
    def name(self) -> str:
        """What tells this log from others; stays through rotation and restarts."""
        ...

    @property
    def is_all(self) -> bool:
        """Whether no other log can come to be meant, as long as the live file is at its path."""
        ...

    def live(self) -> Path:
        """The file that is written to now; it need not be there."""
        ...

    def generations(self) -> Sequence[Path]:
        """All files of the log that are there, the oldest first, the live one last.

        Raises:
            OSError: their folder cannot be read.
        """
        ...


class RotatedChain:
    """A file at a fixed path that is rotated beside itself.

    ``log.1`` ``log.2.gz`` (logrotate, docker), ``log-20260131`` (logrotate's dateext),
    ``log.20260131-101500.gz`` (kubelet), ``log.old``.
    """

    def __init__(self, path: Path, *, is_all: bool = False) -> None:
        self._path = path
        self.name = str(path)
        self.is_all = is_all

    def live(self) -> Path:
        """The path itself."""
        return self._path

    def generations(self) -> Sequence[Path]:
        """The rotated files beside the path, or beside what it is a link to, then the path."""
        # Rotation takes place where the file is, not where a link to it is.
        return [*_rotated(self._path.resolve()), self._path]


def _rotated(path: Path) -> list[Path]:
    matcher = re.compile(re.escape(path.name) + _ROTATED)
    found: dict[tuple[str, int], Path] = {}
    for other in sorted(path.parent.iterdir()):
        if match := matcher.fullmatch(other.name):
            number = 1 if match["old"] else int(match["number"] or 0)
            # While it is packed both are there: sorted, the plain file comes first.
            found.setdefault((match["date"] or _LIVE, -number), other)
    return [found[key] for key in sorted(found)]


class KubeletChain:
    """The folder of one container, ``/var/log/pods/NAMESPACE_POD_UID/CONTAINER``.

    ``N.log`` is written by the container's run number N; the kubelet rotates it to
    ``N.log.YYYYMMDD-HHMMSS``, and packs that to ``.gz`` when it rotates again
    (kubernetes ``pkg/kubelet/logs/container_log_manager.go``).
    """

    is_all = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)

    def live(self) -> Path:
        """The log of the last run."""
        try:
            numbers = [number for number, _, _ in self._files()]
        except OSError:
            numbers = []
        return self._folder / f"{max(numbers, default=0)}.log"

    def generations(self) -> Sequence[Path]:
        """The logs of all runs that the kubelet still keeps."""
        found: dict[tuple[int, str], Path] = {}
        for number, date, path in sorted(self._files()):
            found.setdefault((number, date), path)
        return list(found.values())

    def _files(self) -> list[tuple[int, str, Path]]:
        return [
            (int(match["number"]), match["date"] or _LIVE, path)
            for path in self._folder.iterdir()
            if (match := _KUBELET.fullmatch(path.name))
        ]


def is_rotated(name: str) -> bool:
    """Whether a name is one that rotation gives, so that nothing is written there."""
    return _is_rotated(name) is not None


def is_kubelet_name(name: str) -> bool:
    """Whether the kubelet gives such a name to a container's output."""
    return _KUBELET.fullmatch(name) is not None


def is_kubelet_file(path: Path) -> bool:
    """Whether a resolved path is one in which the kubelet lets a container's output be written."""
    return is_kubelet_name(path.name) and path.parent.parent.name.count("_") == 2  # noqa: PLR2004 - NAMESPACE_POD_UID
