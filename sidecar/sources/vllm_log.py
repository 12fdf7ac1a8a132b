"""vLLM's own log: followed, matched, and forgotten at once; only signatures and numbers are kept."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sidecar.catalog.signatures import SIGNATURES
from sidecar.clock import ClockLike
from sidecar.model.readings import LogEvent, LogReading
from sidecar.model.samples import Instant, Sample
from sidecar.model.vocabulary import Cause, Fault, Source
from sidecar.parse.log_candidates import candidates
from sidecar.parse.log_cuts import BEFORE, holds_users_text, is_continued
from sidecar.parse.log_line import text_of
from sidecar.parse.log_match import read_line
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.tail import Portion, Tail

POLL_S: Final = 0.2
"""Seconds between two looks while waiting: a fraction of the second within which evidence shows."""
INBOX_EVENTS: Final = 4096
"""Events kept between two samples; a storm of the same line needs no more."""
URGENT: Final = frozenset({Cause.HOST_OOM, Cause.CUDA_OOM, Cause.ENGINE_FAILURE})


@dataclass(slots=True)
class _Followed:
    """One file, and the lines before those to come."""

    tail: Tail
    context: list[bytes] = field(default_factory=list)
    fault: Fault | None = None
    lag_bytes: int = 0


class VllmLogSource:
    """Follows one or more files of one server. A fault of one file is a fault of the source."""

    name: Final = Source.VLLM_LOG

    def __init__(self, clock: ClockLike, paths: Sequence[Path], *, tap: Tap | None = None) -> None:
        self._clock = clock
        self._tap = tap
        self._files = [_Followed(Tail(path)) for path in paths]
        self._inbox: deque[LogEvent] = deque()
        self._dropped: Counter[str] = Counter()
        self._lines = 0
        self._bytes = 0
        self._urgent = False

    async def open(self) -> None:
        """Go to the end of what is there; what was written before is not told."""
        self._drain()

    async def close(self) -> None:
        """Give the files back."""
        for file in self._files:
            file.tail.close()

    async def sample(self) -> Sample:
        """What was written since the last sample."""
        begun = self._clock.now()
        self._drain()
        faults = [file.fault for file in self._files if file.fault is not None]
        if faults and not self._inbox and not self._lines:
            return sample_of(self.name, begun, self._clock.now(), faults[0])
        return sample_of(self.name, begun, self._clock.now(), self._reading())

    async def wait(self) -> None:
        """Return once the log speaks of a failure or an OOM; all else can wait for the tick."""
        while not self._urgent:
            await self._clock.pause(POLL_S)
            self._drain()
        self._urgent = False

    def _reading(self) -> LogReading:
        reading = LogReading(
            events=tuple(self._inbox),
            lines=self._lines,
            bytes=self._bytes,
            lag_bytes=sum(file.lag_bytes for file in self._files),
            dropped=dict(self._dropped),
        )
        self._inbox.clear()
        self._dropped.clear()
        self._lines = self._bytes = 0
        return reading

    def _drain(self) -> None:
        for file in self._files:
            got = file.tail.read()
            if isinstance(got, Portion):
                file.fault, file.lag_bytes = None, got.lag_bytes
                self._take(file, got)
            else:
                if file.fault is None and got is Fault.IO_ERROR:
                    self._dropped["read_error"] += 1
                file.fault, file.lag_bytes = got, 0

    def _take(self, file: _Followed, portion: Portion) -> None:
        if portion.overlong:
            self._dropped["too_long"] += portion.overlong
        if not portion.data:
            return
        known = len(file.context)
        text = b"\n".join((*file.context, portion.data.removesuffix(b"\n")))
        self._bytes += len(portion.data)
        self._lines += portion.data.count(b"\n")
        lines = text.split(b"\n")
        now = self._clock.now()
        for at in candidates(text):
            if at >= known and not is_continued(lines, at):
                self._match(lines[at], now)
        self._record(lines, known, now)
        file.context = lines[-BEFORE:]

    def _match(self, line: bytes, now: Instant) -> None:
        for said in read_line(line):
            if len(self._inbox) >= INBOX_EVENTS:
                self._dropped["overflow"] += 1
                continue
            event = LogEvent(
                signature=said.signature.id,
                at_monotonic=now.monotonic,
                at_unix=now.unix,
                origin=said.origin,
                amount=said.amount,
                numbers=said.numbers,
            )
            self._inbox.append(event)
            self._urgent = self._urgent or SIGNATURES[event.signature].cause in URGENT

    def _record(self, lines: Sequence[bytes], known: int, now: Instant) -> None:
        """Hand lines over to a recording; those that may carry users' text are left out."""
        if self._tap is None:
            return
        for at in range(known, len(lines)):
            if is_continued(lines, at) or holds_users_text(lines[at]):
                self._dropped["users_text"] += 1
            else:
                self._tap(now, {"line": text_of(lines[at])})
