"""Following a file that grows, rotates, is truncated, vanishes and comes back.

Only ``stat`` and reads of bounded size, so a call is short and never blocks on a regular file.
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.model.vocabulary import Fault

MOST_BYTES: Final = 1024 * 1024
"""Bytes that one call reads at most; what is left is told as lag."""
LONGEST_LINE: Final = 256 * 1024
"""Bytes of a line that is still kept together; longer ones are dropped and counted."""
_HEAD_BYTES: Final = 64
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_FAULTS: Final = {
    errno.ENOENT: Fault.ABSENT,
    errno.ENOTDIR: Fault.ABSENT,
    errno.EACCES: Fault.DENIED,
    errno.EPERM: Fault.DENIED,
    errno.ELOOP: Fault.ABSENT,
}


@dataclass(frozen=True, slots=True)
class Portion:
    """Complete lines, each with its end, in the order in which they were written.

    ``lag_bytes`` are written but not read; ``overlong`` lines were dropped.
    """

    data: bytes = b""
    lag_bytes: int = 0
    overlong: int = 0


class Tail:
    """Follows ``path``, from the end of what is there; a file that appears later is read whole.

    A renamed or deleted file is read to its end before its successor is begun.
    """

    def __init__(self, path: Path, *, from_start: bool = False, most: int = MOST_BYTES) -> None:
        self._path = path
        self._from_start = from_start
        self._most = most
        self._file: int | None = None
        self._offset = 0
        self._head = b""
        self._partial = b""
        self._skipping = False
        self._overlong = 0
        self._looked_for = 0

    def read(self) -> Portion | Fault:
        """What was written since the last call, or why nothing can be known."""
        data = b""
        for _ in range(3):
            fault = self._opened()
            if fault is not None:
                return self._portion(data) if data else fault
            try:
                new = self._new_bytes(self._most)
                data = self._lines(new)
                if new or data or not self._is_left():
                    break
            except OSError as error:
                self.close()
                return self._portion(data) if data else _fault(error)
        else:
            return self._portion(data)
        if not data and self._looked_for > 1 and self._is_absent():
            return Fault.ABSENT
        return self._portion(data)

    def close(self) -> None:
        """Give the file back; the next call would begin it anew at its end."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> Fault | None:
        if self._file is not None:
            return None
        try:
            file = os.open(self._path, _FLAGS)
        except OSError as error:
            fault = _fault(error)
            # What comes to be while we look for it is read from its begin.
            self._from_start = self._from_start or fault is Fault.ABSENT
            return fault
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            os.close(file)
            return Fault.UNSUPPORTED
        self._file = file
        self._offset = 0 if self._from_start else status.st_size
        self._from_start = True
        self._head = os.pread(file, _HEAD_BYTES, 0)
        # Begun amid a line, its rest would be taken for a line.
        self._skipping = self._offset > 0 and os.pread(file, 1, self._offset - 1) != b"\n"
        self._partial = b""
        self._looked_for = 0
        return None

    def _new_bytes(self, most: int) -> bytes:
        file = self._file
        if file is None or most <= 0:
            return b""
        size = os.fstat(file).st_size
        if size != self._offset and self._is_rewritten(file, size):
            self._offset, self._partial, self._skipping = 0, b"", False
        data = os.pread(file, most, self._offset)
        self._offset += len(data)
        return data

    def _is_rewritten(self, file: int, size: int) -> bool:
        """Whether the file was truncated, even if it has grown past our place since."""
        head = os.pread(file, _HEAD_BYTES, 0)
        known = self._head
        self._head = head
        return size < self._offset or not head.startswith(known)

    def _lines(self, data: bytes) -> bytes:
        """The complete lines; the last one waits for its end."""
        if b"\0" in data:
            # A writer that does not append leaves a hole when its file is truncated.
            data = data.replace(b"\0", b"")
        if self._skipping:
            begin = data.find(b"\n") + 1
            if not begin:
                return b""
            self._skipping, data = False, data[begin:]
        data = self._partial + data
        end = data.rfind(b"\n") + 1
        self._partial = data[end:]
        if len(self._partial) > LONGEST_LINE:
            self._partial, self._skipping = b"", True
            self._overlong += 1
        return data[:end]

    def _is_left(self) -> bool:
        """Whether the file at its end was given up for another one at the path.

        The writer may still hold the old one for a moment: so it is looked at once more first.
        """
        if self._file is None:
            return False
        try:
            there = self._path.stat()
        except OSError as error:
            self._looked_for += 1
            if _fault(error) is Fault.DENIED:
                raise
            return False
        here = os.fstat(self._file)
        if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
            self._looked_for = 0
            return False
        self._looked_for += 1
        if self._looked_for <= 1:
            return False
        last = self._partial + b"\n" if self._partial else b""
        self.close()
        if self._opened() is None:
            self._partial = last
        return True

    def _is_absent(self) -> bool:
        return not os.path.lexists(self._path) or not self._path.exists()

    def _portion(self, data: bytes) -> Portion:
        overlong, self._overlong = self._overlong, 0
        lag = 0
        if self._file is not None:
            lag = max(0, os.fstat(self._file).st_size - self._offset)
        return Portion(data=data, lag_bytes=lag, overlong=overlong)


def _fault(error: OSError) -> Fault:
    return _FAULTS.get(error.errno or 0, Fault.IO_ERROR)
