"""``vllm-sidecar replay DIR``: a recording through the same pipeline as ``run``."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from sidecar.classify.policy import Policy
from sidecar.export.results import encode, window_result
from sidecar.export.sentences import window_text
from sidecar.model.verdict import Judgement
from sidecar.pipeline import Pipeline
from sidecar.recording import Recording, read_ticks


def judge_recording(
    recording: Recording, *, interval_s: float, window_s: float, policy: Policy
) -> Iterator[Judgement]:
    """The judgement of every window of a recording, in order."""
    pipeline = Pipeline(window_s=window_s, policy=policy, configured=recording.sources())
    for tick in read_ticks(recording, interval_s):
        yield from pipeline.step(tick).closed
    yield from pipeline.finish()


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
    before: Judgement | None = None
    for judgement in judge_recording(
        recording, interval_s=interval_s, window_s=window_s, policy=policy
    ):
        is_json = output == "json"
        text = encode(window_result(judgement)) if is_json else window_text(judgement, before)
        sys.stdout.write(f"{text}\n")
        before = judgement
    for name, count in sorted(recording.unreadable.items()):
        sys.stderr.write(f"{name}: {count} rows could not be read and were left out\n")
    return 0
