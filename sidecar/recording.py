"""A recording on disk -> the ticks that the same program would have seen live.

Every row goes through the parsers of the live sources. A row that cannot be read is counted and
left out; a file cut short (a capture that was killed) ends where it was cut.
"""

import gzip
import heapq
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sidecar.assemble.process_roles import party_of
from sidecar.errors import RecordingError
from sidecar.model.readings import (
    Gpu,
    GpuProcess,
    HealthReading,
    KernelReading,
    LogEvent,
    LogReading,
    NvmlReading,
    Process,
    ProcessReading,
    Reading,
)
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.vocabulary import Fault, Party, Source
from sidecar.parse.kernel_line import KernelFold
from sidecar.parse.launch_arguments import limits_of_row
from sidecar.parse.log_match import read_line
from sidecar.parse.metric_roles import ExpositionReader
from sidecar.parse.recorded_cgroup import read_cgroup_row
from sidecar.parse.version import is_version

FORMAT = 1
FILES = {
    Source.VLLM_METRICS: "metrics.jsonl",
    Source.VLLM_HEALTH: "health.jsonl",
    Source.VLLM_LOG: "log.jsonl",
    Source.CGROUP: "cgroup.jsonl",
    Source.KERNEL_LOG: "kernel_log.jsonl",
    Source.NVML: "nvml.jsonl",
    Source.PROCESS: "process.jsonl",
}
FLOWING = frozenset({Source.VLLM_LOG, Source.KERNEL_LOG})
"""Sources whose rows are events of their own time, gathered until the next tick."""
MAX_ROW = 64 * 1024 * 1024
"""Characters of one row: an exposition of 16 MiB, escaped, fits."""
OK = 200
"""HTTP's own number."""
LAST_MOMENT = 1e11
"""Seconds since 1970 (the year 5138). What lies beyond is no such time, but milliseconds, say."""
MOST_EMPTY = 1000
"""Grid points without a row that are ticked one by one; the rest of a longer gap is left out, as a
daemon on a machine that was stopped does not see it either."""
LATE_S = 0.5
"""Seconds after its grid point that a recorder takes a sample at most."""
EDGE = 1e-6

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Header:
    """What ``recording.json`` says."""

    created: float
    about: str
    version: str | None = None


@dataclass(slots=True)
class Recording:
    """One recording directory. ``unreadable`` counts rows that were left out, by file."""

    folder: Path
    unreadable: Counter[str] = field(default_factory=Counter)

    def header(self) -> Header:
        """The description of the recording.

        Raises:
            RecordingError: the folder is no recording of a format we know.
        """
        path = self.folder / "recording.json"
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no JSON"
            raise RecordingError(f"no recording in {self.folder}: recording.json: {why}") from None
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise RecordingError(f"{path}: not a recording of format {FORMAT}")
        created = value.get("created", 0.0)
        if not isinstance(created, int | float) or not 0 <= created <= LAST_MOMENT:
            raise RecordingError(f"{path}: created: not a time in seconds since 1970")
        target = value.get("target")
        version = target.get("vllm_version") if isinstance(target, dict) else None
        return Header(
            created=float(created),
            about=str(value.get("about", "")),
            version=version if isinstance(version, str) and is_version(version) else None,
        )

    def path_of(self, source: Source) -> Path | None:
        """The file of a source, plain or packed; None if the source was not there."""
        name = FILES.get(source)
        if name is None:
            return None
        for path in (self.folder / name, self.folder / f"{name}.gz"):
            if path.is_file():
                return path
        return None

    def sources(self) -> frozenset[Source]:
        """The sources that were recorded."""
        return frozenset(source for source in FILES if self.path_of(source) is not None)

    def rows(self, source: Source) -> Iterator[tuple[float, int, Source, Row]]:
        """The rows of one source in order of the file, which is the order of time.

        Raises:
            RecordingError: the file is there but must not be read.
        """
        path = self.path_of(source)
        if path is None:
            return
        place = list(FILES).index(source)
        last = -math.inf
        for line in self.lines(path):
            try:
                row = json.loads(line)
                at = float(row["t"])
            except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
                at = math.nan
                row = {}
            if not 0 <= at <= LAST_MOMENT or not isinstance(row, dict):
                self.unreadable[path.name] += 1
                continue
            last = max(last, at)
            yield last, place, source, row

    def lines(self, path: Path) -> Iterator[str]:
        """The lines of a file, up to where it was cut."""
        opener = gzip.open if path.suffix == ".gz" else open
        try:
            with opener(path, "rt", encoding="utf-8", errors="replace", newline="\n") as file:
                while line := file.readline(MAX_ROW):
                    if line.strip():
                        yield line
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.unreadable[path.name] += 1
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}") from None


@dataclass(slots=True)
class Decoder:
    """Rows of a recording -> samples, with the parsers of the live sources."""

    recording: Recording
    version: str | None = None
    expositions: ExpositionReader = field(default_factory=ExpositionReader)
    kernel: KernelFold = field(default_factory=KernelFold)

    def decode(self, source: Source, row: Row, at: Instant) -> Sample | None:
        """The sample of one row of a polled source; None if the row cannot be read."""
        try:
            got = self.read(source, row)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self.recording.unreadable[FILES[source]] += 1
            return None
        if isinstance(got, Fault):
            return Sample(source=source, at=at, fault=got)
        return Sample(source=source, at=at, reading=got)

    def read(self, source: Source, row: Row) -> Reading | Fault:
        """What one row of a polled source says."""
        match source:
            case Source.VLLM_METRICS:
                return self.read_metrics(row)
            case Source.VLLM_HEALTH:
                status = 0 if row["status"] is None else whole(row["status"])
                if not status:
                    return fault_named(row.get("error"))
                return HealthReading(status, self.version if status == OK else None)
            case Source.CGROUP:
                return read_cgroup_row(row)
            case Source.NVML:
                return read_nvml(row)
            case Source.PROCESS:
                if row.get("error"):
                    return fault_named(row["error"])
                return read_processes(row)
            case Source.VLLM_LOG | Source.KERNEL_LOG | Source.KUBERNETES:
                raise ValueError("not a polled source")

    def read_metrics(self, row: Row) -> Reading | Fault:
        """What one scrape says."""
        status = row.get("status")
        if status is None:
            return fault_named(row.get("error"))
        if status != OK:
            return Fault.HTTP_STATUS
        body = str(row["body"]).encode("utf-8", "surrogatepass")
        try:
            return self.expositions.read(body, str(row.get("content_type", "")))
        except ValueError:
            return Fault.MALFORMED


def fault_named(name: object) -> Fault:
    """The fault a recording names; another program's word for one counts as an I/O error."""
    try:
        return Fault(str(name))
    except ValueError:
        return Fault.REFUSED if name is None else Fault.IO_ERROR


def optional_int(value: object) -> int | None:
    """A whole number, None where the recording has none."""
    return whole(value) if isinstance(value, int | float) else None


def whole(value: str | float) -> int:
    """A whole number.

    Raises:
        ValueError: it is none, or larger than any count, size or pid can be.
    """
    number = int(value)
    if abs(number) >= 1 << 64:
        raise ValueError("too large")
    return number


def size_of(value: object) -> int | None:
    """Bytes, None where the recording has none.

    Raises:
        ValueError: there are less than none.
    """
    size = optional_int(value)
    if size is not None and size < 0:
        raise ValueError("a negative size")
    return size


def share_of(percent: str | float | None) -> float | None:
    """A share of 0 to 1 from percent, None where the recording has none.

    Raises:
        ValueError: it is no share.
    """
    if percent is None:
        return None
    share = float(percent) / 100
    if not 0 <= share <= 1:
        raise ValueError("no share")
    return share


def read_processes(row: Row) -> ProcessReading:
    """One listing. Where the first process is not told, it is the eldest that bears its name."""
    processes = tuple(
        Process(
            pid=whole(one["pid"]),
            comm=str(one["comm"]),
            rss=optional_int(one.get("rss")),
            born=optional_int(one.get("born")),
            pinned=optional_int(one.get("pinned")),
        )
        for one in row["processes"]
    )
    named = (one.pid for one in processes if party_of(one.comm) is Party.API_SERVER)
    return ProcessReading(
        processes,
        root=optional_int(row["root"]) if "root" in row else next(named, None),
        host_pids=row.get("host_pids") is not False,
        limits=limits_of_row(row.get("limits", {})),
    )


def read_nvml(row: Row) -> Reading | Fault:
    """One reading of all GPUs."""
    if row.get("error"):
        return fault_named(row["error"])
    return NvmlReading(
        driver=str(row.get("driver", "")), gpus=tuple(read_gpu(gpu) for gpu in row["gpus"])
    )


def read_gpu(gpu: Mapping[str, Any]) -> Gpu:
    """One GPU; the recording gives utilisation in percent."""
    memory = gpu.get("memory") or {}
    processes = gpu.get("processes")
    return Gpu(
        index=whole(gpu["index"]),
        uuid=str(gpu.get("uuid", "")),
        name=str(gpu.get("name", "")),
        total=size_of(memory.get("total")),
        used=size_of(memory.get("used")),
        free=size_of(memory.get("free")),
        reserved=size_of(memory.get("reserved")),
        utilization=share_of(gpu.get("utilization")),
        processes=None
        if processes is None
        else tuple(GpuProcess(whole(p["pid"]), size_of(p.get("used"))) for p in processes),
        mig=bool(gpu.get("mig", False)),
        lost=bool(gpu.get("lost", False)),
    )


@dataclass(slots=True)
class Gathered:
    """What has come in for the next tick."""

    samples: list[Sample] = field(default_factory=list)
    lines: list[tuple[Instant, str]] = field(default_factory=list)
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
        line = row.get("line")
        if not isinstance(line, str):
            decoder.recording.unreadable[FILES[source]] += 1
        elif source is Source.VLLM_LOG:
            gathered.lines.append((at, line))
        else:
            gathered.kernel.append((at, line))
        return
    sample = decoder.decode(source, row, at)
    if sample is not None:
        gathered.samples.append(sample)


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


def read_log(lines: list[tuple[Instant, str]]) -> LogReading:
    """The matched lines of one tick."""
    events = tuple(
        LogEvent(
            signature=match.signature.id,
            at_monotonic=at.monotonic,
            at_unix=at.unix,
            origin=match.origin,
            amount=match.amount,
            numbers=match.numbers,
        )
        for at, line in lines
        for match in read_line(line)
    )
    return LogReading(
        events=events, lines=len(lines), bytes=sum(len(line) + 1 for _, line in lines)
    )
