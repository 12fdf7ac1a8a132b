"""``vllm-sidecar replay DIR``: a recording through the same pipeline as ``run``."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from sidecar.classify.policy import Policy
from sidecar.errors import ConfigError
from sidecar.export.results import encode, window_result
from sidecar.model.verdict import Judgement
from sidecar.pipeline import Pipeline
from sidecar.recording.folder import INTERVAL_S, WINDOW_S, Recording
from sidecar.recording.replayed_ticks import replay_ticks
from sidecar.telling.figures import iso_time
from sidecar.telling.sentences import window_line, window_text

EDGE = 1e-6


def first_told(*values: float | None) -> float:
    """The first value that is there."""
    return next(value for value in values if value is not None)


def judge_recording(
    recording: Recording, *, interval_s: float, window_s: float, policy: Policy
) -> Iterator[Judgement]:
    """The judgement of every window of a recording, in order."""
    header = recording.header()
    asked = recording.sources() if header.asked is None else header.asked
    pipeline = Pipeline(window_s=window_s, policy=policy, configured=asked)
    for tick in replay_ticks(recording, interval_s):
        yield from pipeline.step(tick).closed
    yield from pipeline.finish()


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
) -> int:
    """Print one result per window; returns the exit code. What is not given is as it was live.

    Raises:
        RecordingError: the folder is no recording.
        ConfigError: the window is no multiple of the interval, or the tolerance is negative.
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
    pages = Pages()
    for judgement in judge_recording(
        recording, interval_s=interval_s, window_s=window_s, policy=policy
    ):
        if output == "json":
            text = f"{encode(window_result(judgement))}\n"
        else:
            text = pages.tell(judgement)
        sys.stdout.write(text)
    sys.stdout.write(pages.end())
    for name, count in sorted(recording.unreadable.items()):
        sys.stderr.write(f"{name}: {count} rows could not be read and were left out\n")
    return 0
