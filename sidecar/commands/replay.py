"""``vllm-sidecar replay DIR``: a recording through the same pipeline as ``run``."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from sidecar.classify.policy import Policy
from sidecar.export.results import encode, window_result
from sidecar.export.sentences import iso_time, window_line, window_text
from sidecar.model.verdict import Judgement
from sidecar.pipeline import Pipeline
from sidecar.recording.folder import Recording
from sidecar.recording.ticks import read_ticks


def judge_recording(
    recording: Recording, *, interval_s: float, window_s: float, policy: Policy
) -> Iterator[Judgement]:
    """The judgement of every window of a recording, in order."""
    pipeline = Pipeline(window_s=window_s, policy=policy, configured=recording.sources())
    for tick in read_ticks(recording, interval_s):
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
    interval_s: float,
    window_s: float,
    policy: Policy,
    output: Literal["text", "json"],
) -> int:
    """Print one result per window; returns the exit code.

    Raises:
        RecordingError: the folder is no recording.
    """
    recording = Recording(folder)
    recording.header()
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
