"""A recording -> the ticks that the same program would have seen live.

Every row goes through the parsers of the live sources.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sidecar.model.readings import KernelReading, LogEvent, LogReading
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.vocabulary import Source
from sidecar.parse.recorded_log import read_log_row
from sidecar.recording.folder import FILES, Recording, Row
from sidecar.recording.rows import Decoder

FLOWING = frozenset({Source.VLLM_LOG, Source.KERNEL_LOG})
"""Sources whose rows are events of their own time, gathered until the next tick."""
MOST_EMPTY = 1000
"""Grid points without a row that are ticked one by one; the rest of a longer gap is left out, as a
daemon on a machine that was stopped does not see it either."""
LATE_S = 0.5
"""Seconds after its grid point that a recorder takes a sample at most."""
EDGE = 1e-6


@dataclass(slots=True)
class Gathered:
    """What has come in for the next tick."""

    samples: list[Sample] = field(default_factory=list)
    lines: list[tuple[tuple[LogEvent, ...], int]] = field(default_factory=list)
    kernel: list[tuple[Instant, str]] = field(default_factory=list)


def read_ticks(recording: Recording, interval_s: float) -> Iterator[Tick]:
    """The ticks of a recording, on the grid of multiples of ``interval_s`` of the wall clock.

    A polled sample belongs to the grid point that it was taken at, a little late, as a live one is;
    one taken between grid points, and lines, belong to the first grid point after them.
    """
    decoder = Decoder(recording, recording.header().version)
    sources = recording.sources()
    rows = heapq.merge(
        *(with_grid(recording.rows(source), interval_s) for source in FILES if source in sources)
    )
    gathered: Gathered | None = None
    now = 0
    for placed in rows:
        if gathered is None:
            gathered, now = Gathered(), placed.point
        for point in range(now, min(placed.point, now + 1 + MOST_EMPTY)):
            yield make_tick(decoder, sources, gathered, point * interval_s)
            gathered = Gathered()
        now = placed.point
        take(decoder, gathered, placed)
    if gathered is not None:
        yield make_tick(decoder, sources, gathered, now * interval_s)


def with_grid(
    rows: Iterator[tuple[float, int, Source, Row]], interval_s: float
) -> Iterator["Placed"]:
    """Rows with the number of their grid point in front."""
    for at, place, source, row in rows:
        late = 0.0 if source in FLOWING else min(interval_s / 2, LATE_S) - 2 * EDGE
        yield Placed(math.ceil((at - late) / interval_s - EDGE), at, place, source, row)


@dataclass(frozen=True, slots=True)
class Placed:
    """A row at its grid point; ordered by point, time and source, never by its content."""

    point: int
    at: float
    place: int
    source: Source
    row: Row

    def __lt__(self, other: "Placed") -> bool:
        return (self.point, self.at, self.place) < (other.point, other.at, other.place)


def take(decoder: Decoder, gathered: Gathered, placed: Placed) -> None:
    """Gather one row."""
    source, row, at = placed.source, placed.row, Instant(placed.at, placed.at)
    if source in FLOWING:
        try:
            gather(gathered, source, row, at)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            decoder.recording.unreadable[FILES[source]] += 1
        return
    sample = decoder.decode(source, row, at)
    if sample is not None:
        gathered.samples.append(sample)


def gather(gathered: Gathered, source: Source, row: Row, at: Instant) -> None:
    """Gather one line. Raises what a row that cannot be read raises."""
    line = row.get("line")
    if source is Source.KERNEL_LOG:
        if not isinstance(line, str):
            raise TypeError("no line")
        gathered.kernel.append((at, line))
        return
    # A stamp belongs to a clock that a recording does not tell of; arrival orders the lines.
    events = tuple(replace(event, stamp=None) for event in read_log_row(row, at))
    gathered.lines.append((events, len(line) + 1 if isinstance(line, str) else 0))


def make_tick(
    decoder: Decoder, sources: frozenset[Source], gathered: Gathered, unix: float
) -> Tick:
    """The tick of one grid point. Lines come first: they are what led to the samples."""
    at = Instant(unix, unix)
    samples = []
    if Source.VLLM_LOG in sources:
        samples.append(Sample(source=Source.VLLM_LOG, at=at, reading=read_log(gathered.lines)))
    if Source.KERNEL_LOG in sources:
        kills = [kill for then, line in gathered.kernel for kill in decoder.kernel.feed(line, then)]
        kills.extend(decoder.kernel.flush(at))
        samples.append(
            Sample(source=Source.KERNEL_LOG, at=at, reading=KernelReading(kills=tuple(kills)))
        )
    return Tick(at=at, samples=(*samples, *gathered.samples))


def read_log(lines: list[tuple[tuple[LogEvent, ...], int]]) -> LogReading:
    """What the lines of one tick say, and how many characters they have."""
    return LogReading(
        events=tuple(event for events, _ in lines for event in events),
        lines=len(lines),
        bytes=sum(size for _, size in lines),
    )
