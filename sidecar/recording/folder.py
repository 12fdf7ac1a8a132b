"""A recording on disk: its files, row by row.

A row that cannot be read is counted and left out; a file cut short (a capture that was killed) ends
where it was cut.
"""

import errno
import gzip
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sidecar.errors import RecordingError
from sidecar.model.vocabulary import Source
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
INTERVAL_S, WINDOW_S = 5.0, 15.0
"""The daemon's own settings where nothing else is told, for recordings that do not tell theirs."""
HEADER = "recording.json"
TICKS = "ticks.jsonl"
"""Which rows belong to which sample and tick: what ``capture`` adds, so that a replay is exact."""
WINDOWS = "windows.jsonl"
"""The results of the windows as they were judged live; nothing reads them here."""
MOST_HEADER = 4 * 1024 * 1024
"""Characters of a description: a command line and some numbers."""
MAX_ROW = 64 * 1024 * 1024
"""Characters of one row: an exposition of 16 MiB, escaped, fits."""
MAX_SMALL_ROW = 2 * 1024 * 1024
"""Characters of a row of any other file."""
LARGE = FILES[Source.VLLM_METRICS]
LAST_MOMENT = 1e11
"""Seconds since 1970 (the year 5138). What lies beyond is no such time, but milliseconds, say."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Header:
    """What ``recording.json`` says; of how it was judged live only where it was.

    ``interval_s`` and ``window_s``: of the clock, in seconds. ``tolerance``: preemptions per finished
    request that were no warning. ``asked``: the sources that were asked for by name.
    """

    created: float
    about: str
    version: str | None = None
    interval_s: float | None = None
    window_s: float | None = None
    tolerance: float | None = None
    asked: frozenset[Source] | None = None


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
        path = self.folder / HEADER
        try:
            value = json.loads(read_small(path))
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
            **read_settings(value.get("settings")),
        )

    def path_of(self, source: Source) -> Path | None:
        """The file of a source, plain or packed; None if the source was not there."""
        name = FILES.get(source)
        return None if name is None else self.find(name)

    def find(self, name: str) -> Path | None:
        """A file of the recording, plain or packed."""
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
        place = list(FILES).index(source)
        last = -math.inf
        for at, row in self.rows_of(FILES[source]):
            last = max(last, at)
            yield last, place, source, row

    def rows_of(self, name: str) -> Iterator[tuple[float, Row]]:
        """The rows of one file, each with its time; none where there is no such file. Raises as ``rows``."""
        path = self.find(name)
        for line in () if path is None else self.lines(path):
            try:
                row = json.loads(line)
                at = float(row["t"])
            except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
                at = math.nan
                row = {}
            if not 0 <= at <= LAST_MOMENT or not isinstance(row, dict):
                self.unreadable[name] += 1
                continue
            yield at, row

    def lines(self, path: Path) -> Iterator[str]:
        """The lines of a file, up to where it was cut."""
        opener = gzip.open if path.suffix == ".gz" else open
        try:
            with opener(path, "rt", encoding="utf-8", errors="replace", newline="\n") as file:
                most = MAX_ROW if path.name.startswith(LARGE) else MAX_SMALL_ROW
                while line := file.readline(most):
                    if line.strip():
                        yield line
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.unreadable[path.name] += 1
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}") from None


def read_small(path: Path) -> str:
    """The text of a description.

    Raises:
        OSError: it cannot be read, or is no plain file.
        ValueError: it is larger than any description.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no plain file")
    with path.open(encoding="utf-8") as file:
        text = file.read(MOST_HEADER + 1)
    if len(text) > MOST_HEADER:
        raise ValueError("too large")
    return text


def read_settings(told: object) -> dict[str, Any]:
    """How a recording was judged live, as fields of the header; what is no such value is left out."""
    if not isinstance(told, dict):
        return {}
    names = {"interval": "interval_s", "window": "window_s", "tolerance": "tolerance"}
    read: dict[str, Any] = {
        field_name: float(told[name])
        for name, field_name in names.items()
        if isinstance(told.get(name), int | float) and 0 < told[name] <= LAST_MOMENT
    }
    asked = told.get("asked")
    if isinstance(asked, list):
        read["asked"] = frozenset(source for source in Source if source.value in asked)
    return read
