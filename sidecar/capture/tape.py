"""Which rows belong to which sample, and which samples to which tick.

Each row bears both clocks. Readers that do not know ``ticks.jsonl`` find the rows all the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sidecar.capture.writer import Recorder
from sidecar.export.results import window_result
from sidecar.model.readings import HealthReading, KernelReading, LogReading, Reading
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Source
from sidecar.recording.folder import FILES, TICKS, WINDOWS
from sidecar.sources.base import SourceLike, Tap, Waking

Row = Mapping[str, object]
R = TypeVar("R", bound=Reading)


@dataclass(slots=True)
class Tape:
    """Notes samples, ticks and results for a recorder. ``latest``: the last sample of each source."""

    recorder: Recorder
    latest: dict[Source, Sample] = field(default_factory=dict)
    version: str | None = None
    _rows: dict[Source, list[Row]] = field(default_factory=dict)
    _samples: dict[int, tuple[Sample, list[Row]]] = field(default_factory=dict)

    def reading(self, kind: type[R]) -> R | None:
        """The last reading of a kind, if its source's last sample holds one."""
        found = (one.reading for one in self.latest.values() if isinstance(one.reading, kind))
        return next(found, None)

    def tap(self, source: Source) -> Tap:
        """What a source hands its rows to."""

        def take(at: Instant, row: Row) -> None:
            rows = self._rows.setdefault(source, [])
            rows.append({"t": at.unix, "monotonic": at.monotonic, **row})

        return take

    def note_sample(self, sample: Sample) -> None:
        """The rows that a source handed over since its last sample belong to this one."""
        self._samples[id(sample)] = (sample, self._rows.pop(sample.source, []))

    def all(self, sources: Iterable[SourceLike]) -> tuple[SourceLike, ...]:
        """The sources, each of them noted."""
        return tuple(taped(source, self) for source in sources)

    async def note_windows(self, closed: Iterable[Judgement]) -> None:
        """Write down the results of windows, and hand over to the disk what waits for it."""
        for judgement in closed:
            self.recorder.add(WINDOWS, window_result(judgement))
        await self.recorder.flush()

    def note_tick(self, tick: Tick) -> None:
        """Write down a tick and the rows of its samples."""
        told = []
        for sample in tick.samples:
            self.latest[sample.source] = sample
            if isinstance(sample.reading, HealthReading):
                self.version = sample.reading.version or self.version
            _, rows = self._samples.pop(id(sample), (sample, []))
            for row in rows:
                self.recorder.add(FILES[sample.source], row)
            told.append({**sample_row(sample), "rows": len(rows)})
        self.recorder.add(
            TICKS,
            {
                "t": tick.at.unix,
                "monotonic": tick.at.monotonic,
                "on_grid": tick.on_grid,
                "missed": tick.missed,
                "lateness": tick.lateness_s,
                "samples": told,
            },
        )


def sample_row(sample: Sample) -> dict[str, object]:
    """What is known of a sample beside its rows."""
    row: dict[str, object] = {
        "source": sample.source.value,
        "t": sample.at.unix,
        "monotonic": sample.at.monotonic,
        "duration": sample.duration_s,
    }
    if sample.fault is not None:
        row["error"] = sample.fault.value
    match sample.reading:
        case LogReading() as log:
            row["log"] = {
                "lines": log.lines,
                "bytes": log.bytes,
                "lag_bytes": log.lag_bytes,
                "dropped": dict(log.dropped),
                "hidden": None if log.hidden is None else log.hidden.value,
            }
        case KernelReading() as kernel:
            row["lost"] = kernel.lost
        case _:
            pass
    return row


class Taped:
    """A source of which each sample is noted."""

    def __init__(self, source: SourceLike, tape: Tape) -> None:
        self.source = source
        self.tape = tape

    @property
    def name(self) -> Source:
        """Which source this is."""
        return self.source.name

    async def open(self) -> None:
        """Acquire what the source holds."""
        await self.source.open()

    async def close(self) -> None:
        """Give it back."""
        await self.source.close()

    async def sample(self) -> Sample:
        """A sample; nothing comes between it and the rows that it was made of."""
        sample = await self.source.sample()
        if isinstance(sample.reading, LogReading):
            # What the log said before the recording began is no part of it.
            sample = replace(sample, reading=replace(sample.reading, past=()))
        self.tape.note_sample(sample)
        return sample


class WakingTaped(Taped):
    """The same of a source that can tell early that something is there."""

    source: SourceLike

    async def wait(self) -> None:
        """Return when a sample may show something new."""
        if isinstance(self.source, Waking):
            await self.source.wait()


def taped(source: SourceLike, tape: Tape) -> SourceLike:
    """A source of which each sample is noted on a tape."""
    return WakingTaped(source, tape) if isinstance(source, Waking) else Taped(source, tape)
