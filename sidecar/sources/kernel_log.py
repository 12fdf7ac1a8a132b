"""The kernel's own account of what it killed: ``/dev/kmsg``, or a file it is copied to."""

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar.clock import ClockLike
from sidecar.model.readings import KernelReading
from sidecar.model.samples import Instant, Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.parse.kernel_inbox import KernelInbox
from sidecar.parse.kernel_line import is_about_kills
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.kernel_places import (
    KMSG,
    Kmsg,
    Mark,
    PlainFile,
    mark_of,
    open_log,
    position_of,
    read_boot,
    told_of,
)
from sidecar.sources.wakeup import Wakeup

_DRAIN_RECORDS: Final = 4096
_FAULTS: Final = {
    errno.EPERM: Fault.DENIED,
    errno.EACCES: Fault.DENIED,
    errno.ENOENT: Fault.ABSENT,
    errno.ENODEV: Fault.ABSENT,
    errno.ENXIO: Fault.ABSENT,
}


class KernelLogSource:
    """Follows ``path`` from ``resume``, the position of an earlier reading, else from its end.

    A kill is given together with a position that lies behind all of its lines, and a position with
    all kills before it: who goes on at a position that was kept together with its kills neither
    loses one nor tells one twice. Of kills whose verdict is not read yet, the position names the pids.
    A position of another boot, or of another kind, is not followed.
    """

    name: Final = Source.KERNEL_LOG

    def __init__(
        self,
        clock: ClockLike,
        *,
        path: Path = KMSG,
        tap: Tap | None = None,
        resume: Mapping[str, object] = {},
    ) -> None:
        self._clock = clock
        self._path = path
        self._tap = tap
        self._boot = read_boot()
        self._log: Kmsg | PlainFile | None = None
        self._wakeup = Wakeup()
        self._lost = 0
        self._read_to: Mark = mark_of(resume, self._boot)
        told = told_of(resume) if self._read_to else ()
        self._inbox = KernelInbox(told, clock.now().monotonic)
        self._told_to: Mark = self._read_to
        self._told = told

    async def open(self) -> None:
        """Go to where the log is read from, and begin to watch it."""
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
        now = self._clock.now()
        self._inbox.flush(now)
        self._settle(now)
        # What was read before the log went is told first; that it is gone, with the next sample.
        if fault is not None and not self._inbox.has_news:
            return sample_of(self.name, begun, self._clock.now(), fault)
        reading = KernelReading(
            kills=self._inbox.take(),
            lost=self._lost + self._inbox.lost,
            position=position_of(self._told_to, self._boot, self._told),
        )
        self._lost = self._inbox.lost = 0
        return sample_of(self.name, begun, self._clock.now(), reading)

    async def wait(self) -> None:
        """Return when the log tells of a kill, or cannot be read any more."""
        while True:
            await self._wakeup.wait()
            if self._log is None or self._inbox.has_news:
                return

    def _taken(self, descriptor: int) -> None:
        if self._log is not None:
            self._log.woken(descriptor)
        self._drain()

    def _opened(self) -> Fault | None:
        if self._log is not None:
            return None
        try:
            log = open_log(self._path, self._read_to)
        except OSError as error:
            return _FAULTS.get(error.errno or 0, Fault.IO_ERROR)
        if isinstance(log, Fault):
            return log
        self._log = log
        self._read_to = log.mark
        self._settle(self._clock.now())
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
        for line, mark in lines:
            if self._tap is not None and is_about_kills(line):
                self._tap(now, {"line": line})
            # What is decided by now stays so, whatever this line leaves open.
            self._settle(now)
            self._inbox.feed(line, now)
            self._read_to = mark
            self._settle(now)
        self._read_to = log.mark
        return Fault.ABSENT if log.gone else None

    def _settle(self, now: Instant) -> None:
        """Note where another reading may go on, if nothing up to here is undecided."""
        if self._inbox.settle(now):
            self._told_to, self._told = self._read_to, self._inbox.told
