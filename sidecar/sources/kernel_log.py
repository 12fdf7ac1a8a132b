"""The kernel's own account of what it killed: ``/dev/kmsg``, or a file it is copied to.

Each read of ``/dev/kmsg`` gives one record (kernel documentation ``ABI/testing/dev-kmsg``); a
reader that is overtaken gets EPIPE once and goes on at the oldest record left.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sidecar.clock import ClockLike
from sidecar.model.readings import KernelKill, KernelReading
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.parse.kernel_line import KernelFold, is_about_kills
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.wakeup import Wakeup, emptied, inotify

KMSG: Final = Path("/dev/kmsg")
_RECORD_BYTES: Final = 8192
_CHUNK_BYTES: Final = 65536
_DRAIN_RECORDS: Final = 4096
_INBOX_KILLS: Final = 1024
_SKIPS_MOST: Final = 64
_KMSG_NUMBERS: Final = (1, 11)
"""Major and minor of ``/dev/kmsg`` (kernel documentation ``admin-guide/devices.txt``)."""
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_FAULTS: Final = {
    errno.EPERM: Fault.DENIED,
    errno.EACCES: Fault.DENIED,
    errno.ENOENT: Fault.ABSENT,
    errno.ENODEV: Fault.ABSENT,
    errno.ENXIO: Fault.ABSENT,
}


class KernelLogSource:
    """Follows ``path`` from its present end; nothing that happened before is told."""

    name: Final = Source.KERNEL_LOG

    def __init__(self, clock: ClockLike, *, path: Path = KMSG, tap: Tap | None = None) -> None:
        self._clock = clock
        self._path = path
        self._tap = tap
        self._log: _Kmsg | _PlainFile | None = None
        self._wakeup = Wakeup()
        self._fold = KernelFold()
        self._inbox: deque[KernelKill] = deque()
        self._lost = 0

    async def open(self) -> None:
        """Go to the end of the log, and begin to watch it."""
        self._opened()

    async def close(self) -> None:
        """Stop watching."""
        self._wakeup.close()
        if self._log is not None:
            self._log.close()
        self._log = None

    async def sample(self) -> Sample:
        """The kills told since the last sample."""
        begun = self._clock.now()
        fault = self._opened() or self._drain()
        self._keep(self._fold.flush(self._clock.now()))
        # What was read before the log went is told first; that it is gone, with the next sample.
        if fault is not None and not self._inbox:
            return sample_of(self.name, begun, self._clock.now(), fault)
        reading = KernelReading(kills=tuple(self._inbox), lost=self._lost)
        self._inbox.clear()
        self._lost = 0
        return sample_of(self.name, begun, self._clock.now(), reading)

    async def wait(self) -> None:
        """Return when the log tells of a kill, or cannot be read any more."""
        while True:
            await self._wakeup.wait()
            if self._log is None or self._inbox or self._fold.undecided:
                return

    def _taken(self, descriptor: int) -> None:
        if self._log is not None:
            self._log.woken(descriptor)
        self._drain()

    def _opened(self) -> Fault | None:
        if self._log is not None:
            return None
        try:
            log = _open(self._path)
        except OSError as error:
            return _FAULTS.get(error.errno or 0, Fault.IO_ERROR)
        if isinstance(log, Fault):
            return log
        self._log = log
        try:
            self._wakeup.arm(log.watch(), self._taken)
        except OSError as error:
            return self._dropped(error)
        return None

    def _dropped(self, error: OSError) -> Fault:
        """Let go of a log that failed; it is looked for again with the next sample."""
        if self._log is not None:
            self._log.close()
        self._wakeup.close()
        self._log = None
        return _FAULTS.get(error.errno or 0, Fault.IO_ERROR)

    def _drain(self) -> Fault | None:
        """Take in what is there, up to a bound; the rest is taken at the next call."""
        log = self._log
        if log is None:
            return Fault.ABSENT
        try:
            lines = log.read(_DRAIN_RECORDS)
        except OSError as error:
            return self._dropped(error)
        self._lost += log.lost
        log.lost = 0
        if log.moved:
            self._wakeup.arm(log.watch(), self._taken)
        now = self._clock.now()
        for line in lines:
            if self._tap is not None and is_about_kills(line):
                self._tap(now, {"line": line})
            self._keep(self._fold.feed(line, now))
        return Fault.ABSENT if log.gone else None

    def _keep(self, kills: tuple[KernelKill, ...]) -> None:
        for kill in kills:
            if len(self._inbox) < _INBOX_KILLS:
                self._inbox.append(kill)
            else:
                self._lost += 1


class _Kmsg:
    """A character device that gives one record a read."""

    def __init__(self, descriptor: int, read: Callable[[int, int], bytes] = os.read) -> None:
        self._descriptor = descriptor
        self._read = read
        self._sequence: int | None = None
        self._overtaken = False
        self.lost = 0
        self.moved = False
        self.gone = False

    def watch(self) -> int | None:
        """A copy of our descriptor: readable while records are left."""
        return os.dup(self._descriptor)

    def woken(self, descriptor: int) -> None:
        """Nothing is to be taken: reading the records is what makes it unreadable."""

    def read(self, most: int) -> list[str]:
        """Up to ``most`` records, first lines only: the others are a dictionary of devices."""
        lines: list[str] = []
        skipped = 0
        while len(lines) < most:
            try:
                record = self._read(self._descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                # EPIPE: overwritten before we came. EINVAL: longer than a record can be; skipped.
                skipped += 1
                if error.errno not in {errno.EPIPE, errno.EINVAL} or skipped > _SKIPS_MOST:
                    raise
                self._overtaken = True
                continue
            if not record:
                break
            skipped = 0
            lines.append(record.partition(b"\n")[0].decode("utf-8", "replace"))
            self._count(record)
        return lines

    def close(self) -> None:
        os.close(self._descriptor)

    def _count(self, record: bytes) -> None:
        """Sequence numbers have no gaps but those of records we lost."""
        fields = record[:64].split(b",", 2)
        sequence = int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else None
        if self._overtaken:
            known = sequence is not None and self._sequence is not None
            self.lost += max(1, sequence - self._sequence - 1) if known else 1  # type: ignore[operator]
            self._overtaken = False
        self._sequence = sequence


class _PlainFile:
    """A text file that grows, and may be rotated or truncated.

    ``gone``: its name is taken by no file at present, so that what is logged now is not seen.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._rest = b""
        self.lost = 0
        self.moved = False
        self.gone = False

    def watch(self) -> int | None:
        """Readable after the file was written to."""
        self.moved = False
        return inotify((self._path,))

    def woken(self, descriptor: int) -> None:
        """Take the notice, or it would stay readable."""
        emptied(descriptor)

    def read(self, most: int) -> list[str]:
        """The lines that are complete now, at most about ``most`` kilobytes of them."""
        text = self._rest
        while len(text) < most * 1024 and (chunk := self._chunk()):
            text += chunk
        *lines, self._rest = text.split(b"\n")
        if len(self._rest) > _CHUNK_BYTES:
            self._rest = b""
        return [line.decode("utf-8", "replace") for line in lines]

    def close(self) -> None:
        os.close(self._descriptor)

    def _chunk(self) -> bytes:
        if os.fstat(self._descriptor).st_size < os.lseek(self._descriptor, 0, os.SEEK_CUR):
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            self._rest = b""
        return os.read(self._descriptor, _CHUNK_BYTES) or self._successor()

    def _successor(self) -> bytes:
        """From the file that took the place of ours, once ours is read to its end."""
        try:
            descriptor = _descriptor(self._path)
        except FileNotFoundError:
            # Our file is kept: its successor is to be read from its beginning.
            self.gone = True
            return b""
        self.gone = False
        if isinstance(descriptor, Fault):
            raise OSError(errno.EINVAL, "neither a file nor the kernel's log")
        if _file(descriptor) == _file(self._descriptor):
            os.close(descriptor)
            return b""
        os.close(self._descriptor)
        self._descriptor = descriptor
        self.moved = True
        return os.read(descriptor, _CHUNK_BYTES)


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


def _open(path: Path) -> _Kmsg | _PlainFile | Fault:
    descriptor = _descriptor(path)
    if isinstance(descriptor, Fault):
        return descriptor
    try:
        os.lseek(descriptor, 0, os.SEEK_END)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return _PlainFile(path, descriptor)
        # Without the right to read it, kernels refuse at open or at the first read.
        return _Kmsg(descriptor)
    except OSError:
        os.close(descriptor)
        raise
