"""``scan``: triage of logs offline, one result per file."""

import errno
import gzip
import io
import itertools
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from sidecar.advise.from_log import advise_log
from sidecar.export.budget_results import lever_result
from sidecar.log_triage import LogCause, LogTriage, triage
from sidecar.model.vocabulary import Cause, Verdict
from sidecar.parse.log_line import say_stamp
from sidecar.telling.actions import action_for
from sidecar.telling.sentences import lever_lines
from sidecar.telling.words import say_kind

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK_BYTES = 512 * 1024
"""Of one read: so much stays in the processor's cache while it is looked through several times."""
FIRST_BYTES = 64 * 1024
"""What tells whether a file is text."""
STDIN = "-"
GZIP_MAGIC = b"\x1f\x8b"
UNREADABLE = 2
MOST_NULS = 100
"""One byte in so many may be NUL: a truncated log has holes, a program's file has far more."""


def run_scan(files: Sequence[str], *, output: Literal["text", "json"]) -> int:
    """Print one result per file; 2 if a file could not be read (the others are done), else 0."""
    code = 0
    bytes(8 * CHUNK_BYTES)  # The C library holds on to freed memory up to the largest block freed.
    for name in files:
        try:
            found = scan_file(name)
        except (OSError, EOFError, zlib.error) as error:
            said = f"vllm-sidecar scan: cannot read {_shown(name)}: {_reason(error)}"
            with suppress(OSError, ValueError):  # the exit code says it too
                print(said, file=sys.stderr, flush=True)
            code = UNREADABLE
            continue
        print(_as_json(name, found) if output == "json" else _as_text(name, found), flush=True)
    return code


def scan_file(name: str) -> LogTriage:
    """The triage of a file, of a gzip file, or of standard input (``-``), packed or not."""
    if name == STDIN:
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        return scan_stream(sys.stdin.buffer)
    with Path(name).open("rb") as file:
        return scan_stream(file)


def scan_stream(file: BinaryIO) -> LogTriage:
    """The triage of a stream. Nothing to read, or no text, is ``unknown``: it shows no health."""
    # What comes through a pipe cannot be wound back: the first piece is put in front again.
    begin = file.read(CHUNK_BYTES)
    if begin.startswith(GZIP_MAGIC):
        with gzip.open(io.BufferedReader(Rewound(begin, file))) as unpacked:
            return scan_text(_chunks(unpacked))
    return scan_text(itertools.chain((begin,), _chunks(file)))


class Rewound(io.RawIOBase):
    """A stream with what was already read of it in front."""

    def __init__(self, begin: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self.begin = begin
        self.rest = rest

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill a buffer, first with what was read before."""
        view = memoryview(buffer).cast("B")
        data = self.begin[: len(view)] or self.rest.read(len(view))
        self.begin = self.begin[len(data) :]
        view[: len(data)] = data
        return len(data)


def scan_text(chunks: Iterator[bytes]) -> LogTriage:
    """The triage of what should be the text of a log."""
    begin = next(chunks, b"")
    first = begin[:FIRST_BYTES]
    found = triage(itertools.chain((begin,), chunks))
    is_text = bool(first) and first.count(b"\0") <= len(first) // MOST_NULS
    return found if is_text or found.causes else replace(found, verdict=Verdict.UNKNOWN)


def _chunks(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    return iter(partial(file.read, CHUNK_BYTES), b"")


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError | gzip.BadGzipFile | zlib.error):
        return "damaged gzip data"
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _shown(name: str) -> str:
    """A file's name in one line of text: ends of lines and bytes that are no text are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def _as_json(name: str, found: LogTriage) -> str:
    causes = [
        {
            "cause": one.cause,
            "kind": one.kind,
            "phase": one.phase,
            "confidence": one.confidence,
            "count": one.count,
            "first_line": one.first_line,
            "signals": list(one.signals),
        }
        for one in found.causes
    ]
    result = {
        "file": name,
        "lines": found.lines,
        "verdict": found.verdict,
        "causes": causes,
        "lever": lever_result(advise_log(found.causes)),
    }
    return json.dumps(result)


def _as_text(name: str, found: LogTriage) -> str:
    noun = "line" if found.lines == 1 else "lines"
    shown = "<stdin>" if name == STDIN else _shown(name)
    lines = [f"{shown}: {found.verdict} ({found.lines} {noun})"]
    if found.verdict is Verdict.UNKNOWN and not found.causes:
        lines.append("  empty, or no text: nothing can be said")
    elif not found.causes:
        lines.append("  nothing found that speaks of a failure, an OOM or a preemption")
    lines += [_sentence(one) for one in found.causes]
    if found.followed:
        lines.append(f"  what followed from it: {', '.join(found.followed)}")
    lines += _advice(found)
    if found.cut:
        lines.append(f"  {found.cut} overlong lines were read in part only")
    return "\n".join(lines)


def _sentence(one: LogCause) -> str:
    meaning = say_kind(one.cause, one.kind)
    times = "once" if one.count == 1 else f"{one.count} times"
    when = "" if one.phase == "unknown" else f", at {one.phase}"
    clock = "" if one.stamp is None else f" at {say_stamp(one.stamp)}"
    return (
        f"  {one.cause} / {one.kind}, {one.confidence}{when}: {meaning}"
        f" (first in line {one.first_line}{clock}, {times})"
    )


def _advice(found: LogTriage) -> list[str]:
    """The lever, or what else to do about the first cause; then the remedy of its look-alike."""
    if not found.causes:
        return []
    first = min(found.causes, key=lambda one: list(Cause).index(one.cause))
    action = action_for(first.cause, first.kind)
    lever = [f"  {line}" for line in lever_lines(advise_log(found.causes))]
    if action is None:
        return lever
    return [*(lever or [f"  do: {action.do}"]), f"  do not: {action.never}"]
