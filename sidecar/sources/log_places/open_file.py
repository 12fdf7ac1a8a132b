"""One open file of a log, plain or packed. Blocking: for a thread."""

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.position import FilePosition, fingerprint

KNOWN_HEAD: Final = 64
"""Bytes of a begin that must be alike for a file to be taken for the copy of another."""
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_FAULTS: Final = {
    errno.ENOENT: Fault.ABSENT,
    errno.ENOTDIR: Fault.ABSENT,
    errno.EACCES: Fault.DENIED,
    errno.EPERM: Fault.DENIED,
    errno.ELOOP: Fault.ABSENT,
}

Pread = Callable[[int, int, int], bytes]
"""``os.pread``: descriptor, bytes, offset."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes of text in a file, and when it was last written to."""

    size: int = 0
    mtime_ns: int = 0


class OpenFile(Protocol):
    """An open file."""

    identity: tuple[int, int]
    descriptor: int
    is_packed: bool

    def extent(self) -> Extent:
        """How much is in it now."""
        ...

    def pread(self, most: int, offset: int) -> bytes:
        """At most ``most`` bytes of its text at ``offset``; raises OSError."""
        ...

    def data_from(self, offset: int) -> int:
        """Where data begins again behind a hole of the file."""
        ...

    def close(self) -> None:
        """Give the descriptor back."""
        ...


class _PlainFile:
    """A regular file."""

    is_packed = False

    def __init__(self, descriptor: int, status: os.stat_result, pread: Pread) -> None:
        self.descriptor = descriptor
        self.identity = (status.st_dev, status.st_ino)
        self._pread = pread

    def extent(self) -> Extent:
        status = os.fstat(self.descriptor)
        return Extent(status.st_size, status.st_mtime_ns)

    def pread(self, most: int, offset: int) -> bytes:
        return self._pread(self.descriptor, most, offset)

    def data_from(self, offset: int) -> int:
        """Where data begins again behind a hole of the file."""
        try:
            return os.lseek(self.descriptor, offset, os.SEEK_DATA)
        except OSError:
            return offset

    def close(self) -> None:
        os.close(self.descriptor)


class _PackedFile:
    """A file that was packed with gzip; its offsets are those of the text in it."""

    is_packed = True

    def __init__(self, descriptor: int, status: os.stat_result) -> None:
        self.descriptor = descriptor
        self.identity = (status.st_dev, status.st_ino)
        # RFC 1952: the last four bytes are the length of the text, modulo 2^32.
        self._size = int.from_bytes(os.pread(descriptor, 4, max(0, status.st_size - 4)), "little")
        self._text = gzip.GzipFile(fileobj=os.fdopen(descriptor, "rb", closefd=False))

    def extent(self) -> Extent:
        return Extent(self._size, os.fstat(self.descriptor).st_mtime_ns)

    def pread(self, most: int, offset: int) -> bytes:
        try:
            self._text.seek(offset)
            return self._text.read(most)
        except (EOFError, zlib.error) as error:
            raise OSError(errno.EIO, "damaged") from error

    def data_from(self, offset: int) -> int:
        return offset

    def close(self) -> None:
        self._text.close()
        os.close(self.descriptor)


def open_file(path: Path, pread: Pread) -> "OpenFile | None":
    """The file at ``path``; None if it is no regular one.

    Raises:
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, _FLAGS)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return None
    if path.suffix == ".gz":
        return _PackedFile(descriptor, status)
    return _PlainFile(descriptor, status, pread)


def opened(path: Path, pread: Pread) -> "OpenFile | None":
    """The same; None also where it cannot be opened."""
    try:
        return open_file(path, pread)
    except OSError:
        return None


def begins_with(file: "OpenFile", head: bytes) -> bool:
    """Whether the text of ``file`` begins so."""
    try:
        return file.pread(len(head), 0) == head
    except OSError:
        return False


def is_at(file: "OpenFile", place: FilePosition) -> bool:
    """Whether ``place`` is in ``file``. Packed or copied it is known by its begin alone."""
    here = file.identity == (place.device, place.inode)
    if not (here or place.head_bytes >= KNOWN_HEAD) or file.extent().size < place.offset:
        return False
    try:
        return fingerprint(file.pread(place.head_bytes, 0)) == place.head
    except OSError:
        return False


def fault_of_file(error: OSError) -> Fault:
    """The fault that names ``error``."""
    return _FAULTS.get(error.errno or 0, Fault.IO_ERROR)
