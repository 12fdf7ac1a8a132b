"""``vllm-sidecar replay DIR``: a recording through the same pipeline as ``run``."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from sidecar import __version__
from sidecar.classify.policy import Policy
from sidecar.errors import ConfigError
from sidecar.export.results import encode, window_result
from sidecar.history.past import Past
from sidecar.model.report import Report
from sidecar.model.samples import Tick
from sidecar.model.verdict import Judgement
from sidecar.page.document import write_page
from sidecar.page.shown import Place, Shown, Span
from sidecar.pipeline import Pipeline, Step
from sidecar.recording.folder import INTERVAL_S, WINDOW_S, Recording
from sidecar.recording.replayed_ticks import replay_ticks
from sidecar.telling.figures import iso_time
from sidecar.telling.sentences import window_line, window_text

EDGE = 1e-6


def first_told(*values: float | None) -> float:
    """The first value that is there."""
    return next(value for value in values if value is not None)


def step_recording(
    recording: Recording, *, interval_s: float, window_s: float, policy: Policy
) -> Iterator[Step]:
    """Every step of a recording, in order; the last one closes what was still open."""
    header = recording.header()
    asked = recording.sources() if header.asked is None else header.asked
    pipeline = Pipeline(window_s=window_s, policy=policy, configured=asked)
    tick: Tick | None = None
    for tick in replay_ticks(recording, interval_s):
        yield pipeline.step(tick)
    closed = pipeline.finish()
    if tick is not None:
        yield Step(pipeline.report(replace(tick, samples=())), closed)


def judge_recording(
    recording: Recording, *, interval_s: float, window_s: float, policy: Policy
) -> Iterator[Judgement]:
    """The judgement of every window of a recording, in order."""
    for step in step_recording(recording, interval_s=interval_s, window_s=window_s, policy=policy):
        yield from step.closed


class Pages:
    """Windows as text: those that say what the one before said are counted, not told again."""

    def __init__(self) -> None:
        self.before: Judgement | None = None
        self.said = ""
        self.same = 0

    def tell(self, judgement: Judgement) -> str:
        """The lines of a window, after a line for those left out before it."""
        _, _, said = window_line(judgement).partition(" ")
        text = window_text(judgement, self.before)
        if said == self.said and "\n" not in text:
            self.before, self.same = judgement, self.same + 1
            return ""
        left_out = self.end()
        self.before, self.said = judgement, said
        return f"{left_out}{text}\n"

    def end(self) -> str:
        """A line for the windows left out so far, if there are any."""
        if self.before is None or not self.same:
            return ""
        noun = "window" if self.same == 1 else "windows"
        line = f"  the same until {iso_time(self.before.window.end)}, {self.same} more {noun}\n"
        self.same = 0
        return line


def run_replay(
    folder: Path,
    *,
    interval_s: float | None,
    window_s: float | None,
    tolerance: float | None,
    output: Literal["text", "json"],
    page: Path | None = None,
) -> int:
    """Print one result per window; returns the exit code. What is not given is as it was live.

    ``page``: a file for the page that people would have looked at, at the recording's end.

    Raises:
        RecordingError: the folder is no recording.
        ConfigError: the window is no multiple of the interval, the tolerance is negative, or the page
            cannot be written.
    """
    if tolerance is not None and not tolerance >= 0:
        raise ConfigError("max-preemptions-per-request: must not be negative")
    recording = Recording(folder)
    header = recording.header()
    interval_s = interval_s or header.interval_s or INTERVAL_S
    window_s = window_s or header.window_s or max(WINDOW_S, interval_s)
    ratio = window_s / interval_s
    if ratio < 1 or abs(ratio - round(ratio)) > EDGE:
        raise ConfigError("window: must be a multiple of interval")
    tolerance = first_told(tolerance, header.tolerance, Policy().max_preemptions_per_request)
    policy = Policy(max_preemptions_per_request=tolerance)
    texts, past = Pages(), Past()
    report: Report | None = None
    for step in step_recording(recording, interval_s=interval_s, window_s=window_s, policy=policy):
        report = step.report
        for judgement in step.closed:
            result = window_result(judgement)
            line = encode(result)
            past.add(result, line)
            sys.stdout.write(f"{line}\n" if output == "json" else texts.tell(judgement))
    sys.stdout.write(texts.end())
    if page is not None:
        write_file(page, report, past, Place(interval_s, window_s, version=__version__))
    for name, count in sorted(recording.unreadable.items()):
        sys.stderr.write(f"{name}: {count} rows could not be read and were left out\n")
    return 0


def write_file(path: Path, report: Report | None, past: Past, place: Place) -> None:
    """The page as a file of its own.

    Raises:
        ConfigError: it cannot be written, or the recording is empty.
    """
    if report is None:
        raise ConfigError("html: the recording holds nothing to show")
    now = report.at.unix
    oldest = past.timeline.oldest(now)
    span = Span("", max(place.window_s, 0.0 if oldest is None else now - oldest))
    shown = Shown(report, past.timeline, place, now, live=False)
    try:
        path.write_text(write_page(shown, span), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"html: {path}: {error.strerror}") from None
