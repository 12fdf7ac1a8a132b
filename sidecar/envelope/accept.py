"""All stages and the objectives -> whether the intended load is carried, and up to which load it is safe.

A good stage above a bad one raises no bound: it was luck.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from sidecar.envelope.criteria import is_good, judge_stage
from sidecar.envelope.engines import first_bound, greatest
from sidecar.model.budget import Lengths
from sidecar.model.envelope import Acceptance, Bounds, Criterion, Finding, Objectives, Stage


def accept(stages: Sequence[Stage], objectives: Objectives, intended: str) -> Acceptance:
    """Whether the intended stage meets every criterion."""
    stage = next((one for one in stages if one.name == intended), None)
    if stage is None:
        missing = Finding(
            Criterion.COMPLETES, None, objectives.errors, met=None, why="the stage was not run"
        )
        return Acceptance(intended, accepted=False, findings=(missing,))
    findings = judge_stage(stage, objectives)
    return Acceptance(intended, is_good(findings), findings)


def find_bounds(stages: Sequence[Stage], objectives: Objectives) -> Bounds:
    """Up to which load all was well, and what follows from it for operation."""
    rising = sorted(stages, key=lambda stage: stage.load)
    good: list[Stage] = []
    for stage in rising:
        if not is_good(judge_stage(stage, objectives)):
            break
        good.append(stage)
    above = rising[len(good)] if len(good) < len(rising) else None
    knee = next((stage for stage in rising if is_preempting(stage, objectives)), None)
    last = good[-1] if good else None
    holding = above or last
    views = () if holding is None else tuple(run.server for run in holding.runs)
    return replace(
        Bounds() if last is None else bounds_of(last),
        first_preempting=None if knee is None else knee.name,
        safe_load=None if last is None else last.load * (1 - objectives.margin),
        binding=first_bound(views),
    )


def is_preempting(stage: Stage, objectives: Objectives) -> bool:
    """Whether a repeat preempted more than was tolerated; any is too much where nothing completed."""
    tolerated = objectives.preemptions_per_request
    for run in stage.runs:
        share = run.server.preemptions_per_request
        if (share is not None and share > tolerated) or (share is None and run.server.preemptions):
            return True
    return False


def bounds_of(last: Stage) -> Bounds:
    """What the last good stage showed: of repeats the greatest, of what is no peak the middle one."""
    views = [run.server for run in last.runs]
    return Bounds(
        last_good=last.name,
        running=greatest(view.running_peak for view in views),
        waiting=greatest(view.waiting_peak for view in views),
        cache_peak=greatest(view.cache_peak for view in views),
        per_running=greatest(view.per_running for view in views),
        ttft_p95=greatest(view.ttft.p95 for view in views),
        inter_token_p95=greatest(view.inter_token.p95 for view in views),
        e2e_p95=greatest(view.e2e.p95 for view in views),
        output_tokens_per_second=middle(view.output_tokens_per_second for view in views),
        prompt=lengths_of(view.prompt for view in views),
        output=lengths_of(view.output for view in views),
    )


def lengths_of(told: Iterable[Lengths]) -> Lengths:
    """Lengths over repeats."""
    known = tuple(told)
    return Lengths(
        mean=middle(one.mean for one in known),
        p50=middle(one.p50 for one in known),
        p95=greatest(one.p95 for one in known),
        p99=greatest(one.p99 for one in known),
    )


def middle(values: Iterable[float | None]) -> float | None:
    """The median of those that are known."""
    known = [value for value in values if value is not None]
    return median(known) if known else None
