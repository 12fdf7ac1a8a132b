"""Where the kernel's log can be read, and how far it was: ``/dev/kmsg`` and plain files.

Each read of ``/dev/kmsg`` gives one record (kernel documentation ``ABI/testing/dev-kmsg``); a
reader that is overtaken gets EPIPE once and goes on at the oldest record left. Records are numbered
from 0 at each boot, without gaps.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sidecar.model.vocabulary import Fault
from sidecar.parse.kernel_line import Told
from sidecar.sources.wakeup import emptied, inotify

KMSG: Final = Path("/dev/kmsg")
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_RECORD_BYTES: Final = 8192
_CHUNK_BYTES: Final = 65536
_SKIPS_MOST: Final = 64
_RING_MOST: Final = 65_536
"""Records that are read to find the end of the ring: 85 ms; a ring of 1 MiB holds some 10,000."""
_ROTATED: Final = ".1"
"""What ``logrotate`` appends to the name of the file before (without ``dateext``)."""
_KMSG_NUMBERS: Final = (1, 11)
"""Major and minor of ``/dev/kmsg`` (kernel documentation ``admin-guide/devices.txt``)."""
_TOLD_MOST: Final = 64
_MOMENT_MOST: Final = 1e12
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_BOOT: Final = re.compile(r"[0-9a-f-]{36}", re.ASCII)

Mark = tuple[int, ...]
"""The place behind a line: the number of a record; device, inode and offset in a file; () unknown."""
Line = tuple[str, Mark]


def read_boot(path: Path = BOOT_ID) -> str | None:
    """The id of this boot of the kernel, None where it cannot be read."""
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    return text if _BOOT.fullmatch(text) else None


def position_of(mark: Mark, boot: str | None, told: tuple[Told, ...] = ()) -> dict[str, object]:
    """A place, and what was told from before it while a line of it may stand behind.

    As values that JSON knows; empty where the place could not be found again.
    """
    rest = {"told": [[one.pid, one.moment, one.killed] for one in told]} if told else {}
    match mark:
        case (sequence,) if boot is not None:
            return {"boot": boot, "sequence": sequence, **rest}
        case (device, inode, offset):
            return {"device": device, "inode": inode, "offset": offset, **rest}
        case _:
            return {}


def told_of(position: Mapping[str, object]) -> tuple[Told, ...]:
    """What a position says was told; nothing of what does not read so."""
    rows = position.get("told")
    read = (_told(row) for row in (rows[:_TOLD_MOST] if isinstance(rows, list) else ()))
    return tuple(one for one in read if one is not None)


def _told(row: object) -> Told | None:
    match row:
        case [int(pid), (int() | float() | None) as moment, bool(killed)]:
            is_pid = 0 < pid < 1 << 32 and not isinstance(pid, bool)
            if is_pid and (moment is None or 0 <= moment < _MOMENT_MOST):
                return Told(pid, None if moment is None else float(moment), killed)
        case _:
            pass
    return None


def mark_of(position: Mapping[str, object], boot: str | None) -> Mark:
    """The place that a position tells; () for what does not read as one, or is of another boot."""
    names: tuple[str, ...] = ("device", "inode", "offset")
    if "boot" in position:
        names = ("sequence",) if boot is not None and position["boot"] == boot else ()
    values = tuple(position.get(name) for name in names)
    if all(type(value) is int and 0 <= value < 1 << 64 for value in values):
        return tuple(int(str(value)) for value in values)
    return ()


class Kmsg:
    """A character device that gives one record a read.

    ``mark``: the record behind which it is read; () for one that begins with whatever comes first.
    """

    def __init__(
        self, descriptor: int, read: Callable[[int, int], bytes] = os.read, mark: Mark = ()
    ) -> None:
        self._descriptor = descriptor
        self._read = read
        self._overtaken = False
        self._newest: int | None = None
        self._ended = False
        self.mark = mark
        self.lost = 0
        self.moved = False
        self.gone = False

    def watch(self) -> int | None:
        """A copy of our descriptor: readable while records are left."""
        return os.dup(self._descriptor)

    def woken(self, descriptor: int) -> None:
        """Nothing is to be taken: reading the records is what makes it unreadable."""

    def read(self, most: int) -> list[Line]:
        """What is new among up to ``most`` records; first lines only, the others name devices."""
        lines: list[Line] = []
        for _ in range(most):
            record = self._record()
            if not record:
                self._end()
                break
            if self._is_new(record):
                text = record.partition(b"\n")[0].decode("utf-8", "replace")
                lines.append((text, self.mark))
        return lines

    def skip(self) -> None:
        """Go to the end of the ring, and learn the number of its last record."""
        for _ in range(_RING_MOST):
            record = self._record()
            if not record:
                self.lost = 0
                return
            self._is_new(record)
        os.lseek(self._descriptor, 0, os.SEEK_END)
        self.mark, self.lost = (), 0

    def close(self) -> None:
        """Let the descriptor go."""
        os.close(self._descriptor)

    def _end(self) -> None:
        """Where the ring ends for the first time, no mark can lie beyond: one that does is none."""
        if self._ended:
            return
        self._ended = True
        if self.mark and (self._newest is None or self._newest < self.mark[0]):
            self.mark = () if self._newest is None else (self._newest,)

    def _record(self) -> bytes:
        """The next record, b"" if there is none yet."""
        skipped = 0
        while True:
            try:
                return self._read(self._descriptor, _RECORD_BYTES)
            except BlockingIOError:
                return b""
            except OSError as error:
                # EPIPE: overwritten before we came. EINVAL: longer than a record can be; skipped.
                skipped += 1
                if error.errno not in {errno.EPIPE, errno.EINVAL} or skipped > _SKIPS_MOST:
                    raise
                self._overtaken = True

    def _is_new(self, record: bytes) -> bool:
        """Whether a record lies behind the mark, which moves with it; a gap is what we lost."""
        fields = record[:64].split(b",", 2)
        sequence = int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else None
        self._newest = sequence
        overtaken, self._overtaken = self._overtaken, False
        if sequence is None or not self.mark:
            self.lost += overtaken
        elif sequence <= self.mark[0]:
            return False
        else:
            self.lost += sequence - self.mark[0] - 1
        self.mark = () if sequence is None else (sequence,)
        return True


class PlainFile:
    """A text file that grows, and may be rotated or truncated.

    ``gone``: its name is taken by no file at present, so that what is logged now is not seen.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._file = _file(descriptor)
        self._begin = os.lseek(descriptor, 0, os.SEEK_CUR)
        self._rest = b""
        self.lost = 0
        self.moved = False
        self.gone = False

    @property
    def mark(self) -> Mark:
        """The place in front of the first line that is not complete."""
        return (*self._file, self._begin)

    def watch(self) -> int | None:
        """Readable after the file was written to."""
        self.moved = False
        return inotify((self._path,))

    def woken(self, descriptor: int) -> None:
        """Take the notice, or it would stay readable."""
        emptied(descriptor)

    def read(self, most: int) -> list[Line]:
        """The lines that are complete now, at most about ``most`` kilobytes of them."""
        lines: list[Line] = []
        left = most * 1024
        while left > 0:
            chunk = self._chunk()
            if chunk:
                left -= len(chunk)
                lines += self._split(chunk)
            elif self._succeed():
                continue
            else:
                break
        return lines

    def close(self) -> None:
        """Let the descriptor go."""
        os.close(self._descriptor)

    def _split(self, chunk: bytes) -> list[Line]:
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        lines: list[Line] = []
        for line in complete:
            self._begin += len(line) + 1
            lines.append((line.decode("utf-8", "replace"), self.mark))
        if len(self._rest) > _CHUNK_BYTES:
            self._begin += len(self._rest)
            self._rest = b""
        return lines

    def _chunk(self) -> bytes:
        if os.fstat(self._descriptor).st_size < os.lseek(self._descriptor, 0, os.SEEK_CUR):
            self._begin = os.lseek(self._descriptor, 0, os.SEEK_SET)
            self._rest = b""
        return os.read(self._descriptor, _CHUNK_BYTES)

    def _succeed(self) -> bool:
        """Go over to the file that took the name of ours, once ours is read to its end."""
        try:
            descriptor = _descriptor(self._path)
        except FileNotFoundError:
            # Our file is kept: its successor is to be read from its beginning.
            self.gone = True
            return False
        self.gone = False
        if isinstance(descriptor, Fault):
            raise OSError(errno.EINVAL, "neither a file nor the kernel's log")
        if _file(descriptor) == self._file:
            os.close(descriptor)
            return False
        os.close(self._descriptor)
        self._descriptor, self._file = descriptor, _file(descriptor)
        # A line that its file ended in the midst of has no end elsewhere.
        self._begin, self._rest = 0, b""
        self.moved = True
        return True


def open_log(path: Path, mark: Mark = ()) -> Kmsg | PlainFile | Fault:
    """The log, to be read from behind ``mark`` where it is of this log, else from its present end.

    Raises:
        OSError: it is not there, or not to be read.
    """
    descriptor = _descriptor(path)
    if isinstance(descriptor, Fault):
        return descriptor
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            descriptor = _sought(path, descriptor, mark)
            return PlainFile(path, descriptor)
        # Without the right to read it, kernels refuse at open or at the first read.
        device = Kmsg(descriptor, mark=mark if len(mark) == 1 else ())
        if not device.mark:
            device.skip()
    except OSError:
        os.close(descriptor)
        raise
    return device


def _sought(path: Path, descriptor: int, mark: Mark) -> int:
    """The file in which reading goes on, at its place: ours, or the one that was rotated away."""
    if len(mark) != 3:  # noqa: PLR2004  (device, inode, offset)
        os.lseek(descriptor, 0, os.SEEK_END)
        return descriptor
    *known, offset = mark
    if list(_file(descriptor)) != known:
        rotated = _rotated(path, (known[0], known[1]))
        if rotated is None:
            return descriptor
        os.close(descriptor)
        descriptor = rotated
    if offset <= os.fstat(descriptor).st_size:
        os.lseek(descriptor, offset, os.SEEK_SET)
    return descriptor


def _rotated(path: Path, known: tuple[int, int]) -> int | None:
    """The file that we knew, under the name that rotation gave it; None if it is not there."""
    try:
        descriptor = _descriptor(path.with_name(path.name + _ROTATED))
    except OSError:
        return None
    if isinstance(descriptor, Fault):
        return None
    if _file(descriptor) == known:
        return descriptor
    os.close(descriptor)
    return None


def _file(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _is_log(status: os.stat_result) -> bool:
    """Whether it is a plain file or the kernel's own device; any other may answer without end."""
    if stat.S_ISCHR(status.st_mode):
        return (os.major(status.st_rdev), os.minor(status.st_rdev)) == _KMSG_NUMBERS
    return stat.S_ISREG(status.st_mode)


def _descriptor(path: Path) -> int | Fault:
    """The file, opened. It is looked at before: opening alone sets some devices to work."""
    if not _is_log(path.stat()):
        return Fault.UNSUPPORTED
    descriptor = os.open(path, _FLAGS)
    if _is_log(os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)
    return Fault.UNSUPPORTED
