"""The page's facts at a telling moment of each shipped scenario."""

import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sidecar.classify.policy import Policy
from sidecar.commands.demo import SCENARIOS, list_scenarios
from sidecar.commands.replay import step_recording
from sidecar.export.results import encode, window_result
from sidecar.history.past import Past
from sidecar.model.report import Report
from sidecar.model.vocabulary import Verdict
from sidecar.page.shown import Place, Shown
from sidecar.recording.folder import Recording

EXPECTED = {
    "healthy": Verdict.NONE,
    "preemption": Verdict.PREEMPTION,
    "cuda_oom": Verdict.CUDA_OOM,
    "host_oom": Verdict.HOST_OOM,
    "engine_failure": Verdict.ENGINE_FAILURE,
    "stalled": Verdict.STALLED,
    "startup_rejection": Verdict.CUDA_OOM,
    "unknown": Verdict.UNKNOWN,
}
"""Each scenario and the verdict that it is about."""
PLACE = Place(interval_s=1.0, window_s=5.0, version="0")


def watch(folder: Path) -> Iterator[tuple[Report, Past]]:
    """Each report of a recording with the past so far, at the demo's interval and window."""
    past = Past()
    steps = step_recording(Recording(folder), interval_s=1.0, window_s=5.0, policy=Policy())
    for step in steps:
        for judgement in step.closed:
            result = window_result(judgement)
            past.add(result, encode(result))
        yield step.report, past


@functools.cache
def scene(scenario: str) -> Shown:
    """The moment at which a scenario's verdict has just been given for a whole window."""
    wanted = EXPECTED[scenario]
    for report, past in watch(SCENARIOS / scenario):
        last = report.last_window
        told = report.verdict is wanted and last is not None and last.verdict is wanted
        enough = wanted not in {Verdict.NONE, Verdict.UNKNOWN} or len(past.archive.last(9)) > 3
        if told and enough:
            return Shown(report, past.timeline, PLACE, report.at.unix)
    raise AssertionError(f"{scenario} never shows {wanted}")


def stopped(shown: Shown) -> Shown:
    """The same when the clock has not ticked for a while."""
    return replace(shown, alive=False, now=shown.now + 100)


def all_scenarios() -> list[str]:
    """Every scenario that is shipped."""
    return list(list_scenarios())
