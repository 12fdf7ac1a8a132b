"""One stage and the objectives -> its findings, criterion by criterion.

Every repeat must meet a criterion: the worst of them is the figure. What nobody could measure is not
met, and says so.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sidecar.model.envelope import (
    ClientView,
    Criterion,
    Finding,
    Objectives,
    ServerView,
    Stage,
    StageRun,
)
from sidecar.model.vocabulary import Cause, Verdict

Read = Callable[[ServerView], float | None]

OOM_CAUSES: Final = (Cause.HOST_OOM, Cause.CUDA_OOM)
OOM_VERDICTS: Final = (Verdict.HOST_OOM, Verdict.CUDA_OOM)


@dataclass(frozen=True, slots=True)
class Objective:
    """A latency that may be asked for: its p95 by the server, else by the client."""

    criterion: Criterion
    asked: Callable[[Objectives], float | None]
    server: Read
    client: Callable[[ClientView], float | None]


LATENCIES: Final = (
    Objective(Criterion.TTFT_P95, lambda o: o.ttft_p95, lambda v: v.ttft.p95, lambda v: v.ttft.p95),
    Objective(
        Criterion.INTER_TOKEN_P95,
        lambda o: o.inter_token_p95,
        lambda v: v.inter_token.p95,
        lambda v: v.inter_token.p95,
    ),
    Objective(Criterion.E2E_P95, lambda o: o.e2e_p95, lambda v: v.e2e.p95, lambda v: v.e2e.p95),
    # No client knows how long its request waited inside the server.
    Objective(Criterion.QUEUE_P95, lambda o: o.queue_p95, lambda v: v.queue.p95, lambda _: None),
)


@dataclass(frozen=True, slots=True)
class Repeated:
    """A figure in which repeats must agree. ``floor``: what lies less apart is chance, in its unit."""

    name: str
    read: Read
    floor: float


REPEATED: Final = (
    Repeated("output_tokens_per_second", lambda v: v.output_tokens_per_second, 1.0),
    Repeated("ttft_p95", lambda v: v.ttft.p95, 0.05),
    Repeated("inter_token_p95", lambda v: v.inter_token.p95, 0.005),
    Repeated("e2e_p95", lambda v: v.e2e.p95, 0.1),
    Repeated("preemptions_per_request", lambda v: v.preemptions_per_request, 0.01),
)
"""The floors are needed: 2 ms against 3 ms is half as much again, and nobody waits longer for it.

Peaks of gauges are not among them: whether a sample met the peak is chance.
"""


def judge_stage(stage: Stage, objectives: Objectives) -> tuple[Finding, ...]:
    """Every criterion that was asked for, for one stage."""
    return (
        judge_completes(stage.runs, objectives),
        judge_oom(stage.runs),
        judge_preemption(stage.runs, objectives),
        *judge_latencies(stage.runs, objectives),
        judge_queue(stage.runs),
        judge_drains(stage.runs),
        judge_agreement(stage.runs, objectives),
    )


def is_good(findings: Iterable[Finding]) -> bool:
    """Whether every criterion is met."""
    return all(finding.met is True for finding in findings)


def failed_share(run: StageRun) -> float | None:
    """Requests that did not complete, as a share of all: the worse of what either side counts.

    A request that found nobody is only known to the client; one that the client gave up, to both.
    """
    server, client = run.server, run.client
    told: list[tuple[float, float]] = []
    if server.completed is not None and server.aborted is not None:
        lost = (server.aborted, server.errors, server.rejected)
        told.append((sum(count for count in lost if count is not None), server.completed))
    if client is not None and client.completed is not None and client.failed is not None:
        told.append((client.failed, client.completed))
    shares = [lost / (lost + done) for lost, done in told if lost + done > 0]
    return max(shares, default=None)


def judge_completes(runs: Sequence[StageRun], objectives: Objectives) -> Finding:
    """The load went to its end, and no more requests failed than were tolerated."""
    shares = [failed_share(run) for run in runs]
    figure = worst(shares)
    for run in runs:
        fault = fault_of(run)
        if fault is not None:
            why = f"repeat {run.repeat}: {fault}"
            return Finding(Criterion.COMPLETES, figure, objectives.errors, met=False, why=why)
    if figure is None:
        why = "no repeat was run" if not runs else "nobody counted the requests that failed"
        return Finding(Criterion.COMPLETES, None, objectives.errors, met=None, why=why)
    return Finding(Criterion.COMPLETES, figure, objectives.errors, met=figure <= objectives.errors)


def fault_of(run: StageRun) -> str | None:
    """Why a repeat did not go to its end."""
    if run.killed is not None:
        return f"the server died ({run.killed.value})"
    if not run.whole:
        return "it ended early"
    if run.exit_code:
        return f"the load's command ended with {run.exit_code}"
    if run.server.completed == 0:
        return "no request completed"
    return None


def judge_oom(runs: Sequence[StageRun]) -> Finding:
    """No window showed an OOM, and each could have shown it."""
    found = sum(run.server.verdicts.get(verdict, 0) for run in runs for verdict in OOM_VERDICTS)
    if found or any(run.killed in OOM_VERDICTS for run in runs):
        return Finding(Criterion.NO_OOM, float(found), 0.0, met=False)
    windows = sum(sum(run.server.verdicts.values()) for run in runs)
    unseen = {
        cause: sum(run.server.unobservable.get(cause, 0) for run in runs) for cause in OOM_CAUSES
    }
    blind = [f"{cause.value} in {count} of {windows}" for cause, count in unseen.items() if count]
    unknown = sum(run.server.verdicts.get(Verdict.UNKNOWN, 0) for run in runs)
    if not windows or unknown or blind:
        parts = [f"unknown were {unknown} of {windows}"] if unknown else []
        why = f"windows that could not show it: {', '.join(blind + parts)}"
        return Finding(
            Criterion.NO_OOM, None, 0.0, met=None, why=why if windows else "no window was judged"
        )
    return Finding(Criterion.NO_OOM, 0.0, 0.0, met=True)


def judge_preemption(runs: Sequence[StageRun], objectives: Objectives) -> Finding:
    """No more preemptions for a request than were tolerated."""
    figure = worst([run.server.preemptions_per_request for run in runs])
    bound = objectives.preemptions_per_request
    return bounded(Criterion.PREEMPTION, figure, bound, "preemptions of a repeat were not counted")


def judge_latencies(runs: Sequence[StageRun], objectives: Objectives) -> Iterator[Finding]:
    """Each latency that was asked for."""
    for objective in LATENCIES:
        bound = objective.asked(objectives)
        if bound is None:
            continue
        ours = [objective.server(run.server) for run in runs]
        theirs = [None if run.client is None else objective.client(run.client) for run in runs]
        pairs = zip(ours, theirs, strict=True)
        figure = worst([one if one is not None else other for one, other in pairs])
        finding = bounded(objective.criterion, figure, bound, "it was not measured in a repeat")
        if figure is not None and None in ours:
            finding = Finding(finding.criterion, figure, bound, finding.met, "by the client")
        yield finding


def judge_queue(runs: Sequence[StageRun]) -> Finding:
    """No queue went on growing to the load's end."""
    grew = [run.server.queue_grew for run in runs]
    criterion = Criterion.QUEUE_STOPS_GROWING
    if any(grew):
        return Finding(criterion, None, None, met=False, why="more and more requests waited")
    if not grew or None in grew:
        return Finding(criterion, None, None, met=None, why="too few samples of a repeat tell it")
    return Finding(criterion, None, None, met=True)


def judge_drains(runs: Sequence[StageRun]) -> Finding:
    """After the load nothing was left in the server."""
    times = [run.server.drained_s for run in runs]
    figure = worst(times)
    if figure is not None:
        return Finding(Criterion.DRAINS, figure, None, met=True)
    if any(run.server.drained_s is None and run.server.running_peak is not None for run in runs):
        why = "requests were left in the server"
        return Finding(Criterion.DRAINS, None, None, met=False, why=why)
    return Finding(Criterion.DRAINS, None, None, met=None, why="it was not seen")


def judge_agreement(runs: Sequence[StageRun], objectives: Objectives) -> Finding:
    """Repeats lie no further apart than was tolerated."""
    criterion, bound = Criterion.REPEATS_AGREE, objectives.agree
    if len(runs) < 2:  # noqa: PLR2004 - one agrees with itself
        return Finding(criterion, None, bound, met=None, why="there is one repeat only")
    apart = [(name, share) for name, share in spreads(runs) if share is not None]
    if not apart:
        return Finding(criterion, None, bound, met=None, why="no figure was told by all repeats")
    name, share = max(apart, key=lambda one: one[1])
    return Finding(criterion, share, bound, met=share <= bound, why=f"farthest: {name}")


def spreads(runs: Sequence[StageRun]) -> Iterator[tuple[str, float | None]]:
    """How far apart repeats lie in each figure, as a share of the greatest; None where one lacks it."""
    for one in REPEATED:
        values = [one.read(run.server) for run in runs]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            yield one.name, None
            continue
        apart = max(known) - min(known)
        yield one.name, apart / max(known) if apart > one.floor else 0.0


def bounded(criterion: Criterion, figure: float | None, bound: float, lacking: str) -> Finding:
    """A figure that must not be above its bound."""
    if figure is None:
        return Finding(criterion, None, bound, met=None, why=lacking)
    return Finding(criterion, figure, bound, met=figure <= bound)


def worst(values: Sequence[float | None]) -> float | None:
    """The greatest; None where there is none, or one is not known."""
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None
