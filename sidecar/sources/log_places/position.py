"""How far a log was read: values that can be written as JSON and found again by a later run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

HEAD_BYTES: Final = 1024
"""Bytes of a file's begin that tell it from another one with the same inode."""


def fingerprint(head: bytes) -> str:
    """What is kept of a file's begin: enough to know it again, nothing of its text."""
    return blake2b(head, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A place in a file, in front of a line that was not told yet.

    ``head`` is the fingerprint of the first ``head_bytes`` bytes.
    """

    device: int
    inode: int
    offset: int
    head: str
    head_bytes: int


@dataclass(frozen=True, slots=True)
class FilesPosition:
    """A place in each of the files that are followed, by the name under which they are."""

    files: Mapping[str, FilePosition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """The journal's own cursor of the last entry that was told."""

    cursor: str


@dataclass(frozen=True, slots=True)
class PodPosition:
    """The greatest time of a line that was told, as the API wrote it, and how many lines had it."""

    time: str
    lines: int


Position = FilesPosition | JournalPosition | PodPosition


def to_json(position: Position) -> dict[str, object]:
    """The position as values that JSON knows."""
    match position:
        case FilesPosition(files):
            return {
                "files": {
                    name: [at.device, at.inode, at.offset, at.head, at.head_bytes]
                    for name, at in files.items()
                }
            }
        case JournalPosition(cursor):
            return {"cursor": cursor}
        case PodPosition(time, lines):
            return {"time": time, "lines": lines}


def from_json(value: object) -> Position | None:
    """The position that ``to_json`` wrote; None for anything else."""
    match value:
        case {"files": dict(files)}:
            places = {name: at for name, row in files.items() if (at := _file_position(row))}
            return FilesPosition(places)
        case {"cursor": str(cursor)} if cursor:
            return JournalPosition(cursor)
        case {"time": str(time), "lines": int(lines)}:
            return PodPosition(time, lines)
        case _:
            return None


def _file_position(row: object) -> FilePosition | None:
    match row:
        case [int(device), int(inode), int(offset), str(head), int(head_bytes)] if (
            offset >= 0 and 0 <= head_bytes <= HEAD_BYTES
        ):
            return FilePosition(device, inode, offset, head, head_bytes)
        case _:
            return None
