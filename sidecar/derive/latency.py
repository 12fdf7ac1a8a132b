"""What clients got in a window: latency quantiles, token throughput, how requests ended.

All of it comes from rises of vLLM's counters and histograms between the window's edges.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sidecar.catalog import vllm_metrics as roles
from sidecar.catalog.exported import LATENCY_ROLES, QUANTILES, THROUGHPUT_ROLES, Outcome
from sidecar.model.readings import Histogram
from sidecar.model.window import EngineWindow, Window

OUTCOME_OF_REASON: Mapping[str, Outcome] = {
    "stop": Outcome.SUCCESS,
    "length": Outcome.SUCCESS,
    "repetition": Outcome.SUCCESS,
    "abort": Outcome.ABORTED,
    "error": Outcome.ERROR,
}
"""vLLM's ``finished_reason`` (0.4.2 to 0.33.0) -> what it was to the client."""


@dataclass(frozen=True, slots=True)
class Latency:
    """One latency over a window, in seconds. ``quantiles`` is empty when nothing was observed."""

    count: float
    mean: float | None
    quantiles: Mapping[float, float]


def merge(parts: Sequence[Histogram]) -> Histogram | None:
    """The sum of cumulative histograms at the edges that all of them have; None of none."""
    if len(parts) <= 1:
        return parts[0] if parts else None
    tables = [dict(part.buckets) for part in parts]
    shared = set(tables[0]).intersection(*tables[1:])
    return Histogram(
        buckets=tuple((edge, sum(table[edge] for table in tables)) for edge in sorted(shared)),
        count=sum(part.count for part in parts),
        total=sum(part.total for part in parts),
    )


def level(buckets: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The buckets by rising edge with counts that never fall.

    A scrape is no snapshot: neighbouring buckets may be read an observation apart.
    """
    highest = 0.0
    result = []
    for edge, count in sorted(buckets):
        highest = max(highest, count)
        result.append((edge, highest))
    return tuple(result)


def is_usable(buckets: Sequence[tuple[float, float]]) -> bool:
    """Whether the buckets can tell a quantile: two at least, the last of them open."""
    return (
        len(buckets) >= 2  # noqa: PLR2004 - one finite edge and the open one
        and all(math.isfinite(count) and not math.isnan(edge) for edge, count in buckets)
        and max(edge for edge, _ in buckets) == math.inf
    )


def quantiles(histogram: Histogram, shares: Iterable[float]) -> Mapping[float, float]:
    """Prometheus' ``histogram_quantile`` of each share: linear within a bucket.

    Empty without observations. A rank in the open bucket gives the highest finite edge.
    """
    if not is_usable(histogram.buckets):
        return {}
    buckets = level(histogram.buckets)
    total = buckets[-1][1]
    if total <= 0:
        return {}
    found = {share: value_at(buckets, share * total) for share in shares}
    return {share: value for share, value in found.items() if value is not None}


def value_at(buckets: Sequence[tuple[float, float]], rank: float) -> float | None:
    """Where the observation of this rank lies in level buckets; None of a rank beyond all."""
    first_edge, first_count = buckets[0]
    # Rounding may lead beyond an edge, and so above a quantile that stands on it.
    if first_count >= rank:
        return first_edge if first_edge <= 0 else min(first_edge, first_edge * rank / first_count)
    for (lower, before), (upper, upto) in pairwise(buckets):
        if upto >= rank:
            if upper == math.inf:
                return lower
            return min(upper, lower + (upper - lower) * (rank - before) / (upto - before))
    return None


def measure_latency(window: Window) -> Mapping[str, Latency]:
    """Each latency role that vLLM showed in the window, over all engines together."""
    found: dict[str, Latency] = {}
    for role in LATENCY_ROLES:
        merged = merge(
            [e.histograms[role] for e in window.engines.values() if role in e.histograms]
        )
        if merged is None:
            continue
        found[role] = Latency(
            count=merged.count,
            mean=merged.total / merged.count if merged.count > 0 else None,
            # Nothing took less than no time, whatever a histogram's edges say.
            quantiles={
                share: max(0.0, value) for share, value in quantiles(merged, QUANTILES).items()
            },
        )
    return found


def measure_throughput(window: Window) -> Mapping[str, float]:
    """Tokens per second by kind, over the time that they rose in; a counter not found is absent."""
    length = window.rise_s
    if not length > 0:
        return {}
    rates: dict[str, float] = {}
    for kind, role in THROUGHPUT_ROLES.items():
        rises = [e.deltas[role] for e in window.engines.values() if role in e.deltas]
        if rises:
            rates[kind] = sum(rises) / length
    return rates


def count_finished(engine: EngineWindow) -> float | None:
    """Requests that finished on this engine in the window; None if vLLM does not count them."""
    if engine.outcomes:
        return sum(engine.outcomes.values())
    return engine.deltas.get(roles.FINISHED)


def count_outcomes(window: Window) -> Mapping[Outcome, float]:
    """Requests that ended in the window by outcome, over all engines; the unshown are absent.

    A finish reason that we do not know is a success, as vLLM's own counter
    (``request_success``) says.
    """
    ended: dict[Outcome, float] = {}
    for engine in window.engines.values():
        for reason, count in engine.outcomes.items():
            outcome = OUTCOME_OF_REASON.get(reason, Outcome.SUCCESS)
            ended[outcome] = ended.get(outcome, 0.0) + count
        if not engine.outcomes and roles.FINISHED in engine.deltas:
            rise = engine.deltas[roles.FINISHED]
            ended[Outcome.SUCCESS] = ended.get(Outcome.SUCCESS, 0.0) + rise
        if roles.REJECTED in engine.deltas:
            rise = engine.deltas[roles.REJECTED]
            ended[Outcome.REJECTED] = ended.get(Outcome.REJECTED, 0.0) + rise
    return ended


def preemptions_per_request(engine: EngineWindow) -> float | None:
    """Preemptions per finished request; None when either is not counted or nothing finished."""
    preemptions = engine.deltas.get(roles.PREEMPTIONS)
    finished = count_finished(engine)
    if preemptions is None or not finished:
        return None
    return preemptions / finished
