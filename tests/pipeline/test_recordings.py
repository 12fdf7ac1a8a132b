"""Every real recording, replayed, is judged as it is labelled.

The labels (``expected.json``) say of a span in seconds after ``t0`` which verdicts are allowed for
windows that lie in it, which verdict one window that touches it must have, and which causes must
never be claimed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.classify.policy import Policy
from sidecar.commands.replay import judge_recording
from sidecar.model.verdict import Judgement
from sidecar.recording.folder import Recording

RECORDINGS = sorted((Path(__file__).parents[1] / "data/recordings").iterdir())


def faults(expected: dict[str, Any], judgements: list[Judgement]) -> Iterator[str]:
    t0 = expected["t0"]
    windows = [(j.window.start - t0, j.window.end - t0, j) for j in judgements]
    assert windows
    for start, end, j in windows:
        for found in j.causes:
            if found.cause in expected["never"]:
                yield f"{start:.0f}-{end:.0f} claims {found.cause}"
        for segment in expected["segments"]:
            inside = start >= segment["from"] and end <= segment["to"]
            if inside and j.verdict not in segment["allow"]:
                yield f"{start:.0f}-{end:.0f} is {j.verdict}, allowed {segment['allow']}"
    for segment in expected["segments"]:
        if segment["must"] and not any(
            j.verdict == segment["must"] and end > segment["from"] and start < segment["to"]
            for start, end, j in windows
        ):
            yield f"{segment['from']}-{segment['to']} never is {segment['must']}"


@pytest.mark.parametrize(
    ("interval_s", "window_s"), [(1.0, 10.0), (0.5, 10.0), (2.0, 10.0), (5.0, 15.0)], ids=str
)
@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda path: path.name)
def test_a_real_recording_is_judged_as_labelled(
    folder: Path, interval_s: float, window_s: float
) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    judgements = list(
        judge_recording(
            Recording(folder), interval_s=interval_s, window_s=window_s, policy=Policy()
        )
    )
    assert list(faults(expected, judgements)) == []


def test_the_same_recording_gives_the_same_judgements() -> None:
    folder = RECORDINGS[0]

    def replay() -> list[Judgement]:
        return list(
            judge_recording(Recording(folder), interval_s=1.0, window_s=10.0, policy=Policy())
        )

    assert replay() == replay()
