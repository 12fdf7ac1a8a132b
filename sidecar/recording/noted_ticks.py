"""A recording that notes its ticks -> the very ticks that were taken live."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sidecar.model.readings import KernelReading, LogEvent, LogReading, Reading
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.vocabulary import Fault, Source
from sidecar.parse.kernel_inbox import KernelInbox
from sidecar.parse.recorded_log import read_log_row
from sidecar.recording.folder import FILES, TICKS, Recording, Row
from sidecar.recording.rows import Decoder, whole

BAD = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


def read_noted_ticks(recording: Recording) -> Iterator[Tick]:
    """The ticks as they were noted; one that cannot be read is counted and left out."""
    reader = _Reader(recording)
    for _, row in recording.rows_of(TICKS):
        try:
            tick = reader.read(row)
        except BAD:
            recording.unreadable[TICKS] += 1
        else:
            yield tick


@dataclass(slots=True)
class _Reader:
    recording: Recording
    rows: dict[Source, Iterator[Row]] = field(default_factory=dict)
    decoder: Decoder = field(init=False)
    kernel: KernelInbox = field(default_factory=KernelInbox)

    def __post_init__(self) -> None:
        self.decoder = Decoder(self.recording)

    def read(self, row: Row) -> Tick:
        """One tick. Raises what ``BAD`` lists."""
        samples = [self.sample(one) for one in row["samples"]]
        return Tick(
            at=instant(row),
            samples=tuple(one for one in samples if one is not None),
            on_grid=bool(row["on_grid"]),
            missed=whole(row["missed"]),
            lateness_s=float(row["lateness"]),
        )

    def sample(self, told: Row) -> Sample | None:
        """One sample with its rows; None if they cannot be read."""
        source = Source(told["source"])
        begun, duration_s = instant(told), float(told["duration"])
        rows = self.take(source, whole(told["rows"]))
        got: Reading | Fault | None
        if source is Source.VLLM_LOG:
            # Also what a log says before it cannot be read any more is said.
            got = self.log(told, rows)
        elif source is Source.KERNEL_LOG:
            got = self.kills(told, rows, begun, duration_s)
        else:
            got = self.polled(source, rows, begun)
        if "error" in told:
            got = Fault(told["error"])
        if isinstance(got, Fault):
            return Sample(source=source, at=begun, fault=got, duration_s=duration_s)
        if got is None:
            return None
        return Sample(source=source, at=begun, reading=got, duration_s=duration_s)

    def take(self, source: Source, count: int) -> list[Row]:
        """The next rows of a source."""
        if source not in FILES:
            return []
        if source not in self.rows:
            self.rows[source] = (row for _, _, _, row in self.recording.rows(source))
        return list(islice(self.rows[source], count))

    def polled(self, source: Source, rows: list[Row], at: Instant) -> Reading | Fault | None:
        """What the last row of a polled source says."""
        if not rows:
            return None
        sample = self.decoder.decode(source, rows[-1], at)
        if sample is None:
            return None
        return sample.fault or sample.reading

    def log(self, told: Row, rows: list[Row]) -> Reading | None:
        """What the lines of one sample say."""
        events: list[LogEvent] = []
        for row in rows:
            try:
                events.extend(read_log_row(row, instant(row)))
            except BAD:
                self.recording.unreadable[FILES[Source.VLLM_LOG]] += 1
        about: Mapping[str, Any] = told.get("log", {})
        hidden = about.get("hidden")
        return LogReading(
            events=tuple(events),
            lines=whole(about.get("lines", 0)),
            bytes=whole(about.get("bytes", 0)),
            lag_bytes=whole(about.get("lag_bytes", 0)),
            dropped={str(why): whole(count) for why, count in about.get("dropped", {}).items()},
            hidden=None if hidden is None else Fault(hidden),
        )

    def kills(self, told: Row, rows: list[Row], begun: Instant, duration_s: float) -> KernelReading:
        """What the kernel's lines up to one sample say, as the live source folds them."""
        for row in rows:
            at, line = instant(row), row.get("line")
            if isinstance(line, str):
                self.kernel.settle(at)
                self.kernel.feed(line, at)
                self.kernel.settle(at)
        now = Instant(begun.monotonic + duration_s, begun.unix + duration_s)
        self.kernel.flush(now)
        self.kernel.settle(now)
        if "error" in told:
            return KernelReading()
        return KernelReading(kills=self.kernel.take(), lost=whole(told.get("lost", 0)))


def instant(row: Row) -> Instant:
    """The moment of a row, on both clocks."""
    return Instant(float(row["monotonic"]), float(row["t"]))
