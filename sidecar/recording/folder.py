"""A recording on disk: its files, row by row.

A row that cannot be read is counted and left out; a file cut short (a capture that was killed) ends
where it was cut.
"""

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
MAX_ROW = 64 * 1024 * 1024
"""Characters of one row: an exposition of 16 MiB, escaped, fits."""
LAST_MOMENT = 1e11
"""Seconds since 1970 (the year 5138). What lies beyond is no such time, but milliseconds, say."""

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
