"""Several engines -> one figure.

Counts and rates are summed, histograms merged, peaks are of the engine that had most; the cache's mean
is of the engine that was fullest on average; ``per_running`` is all tokens through all requests; the
binding budget is the first of ``BINDS`` that bound any engine.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sidecar.derive import budgets, latency
from sidecar.model.budget import Binding, Budget
from sidecar.model.envelope import Quantiles, ServerView
from sidecar.model.readings import Histogram
from sidecar.model.window import EngineWindow, Window

BINDS: Final = (
    Binding.CACHE,
    Binding.ADMISSION,
    Binding.BATCH_TOKENS,
    Binding.UNKNOWN,
    Binding.NONE,
)


def told_apart(window: Window) -> tuple[EngineWindow, ...]:
    """The engines whose gauges are of a single one."""
    return tuple(e for name, e in window.engines.items() if name != budgets.FOLDED)


def summed(engines: Iterable[EngineWindow], role: str) -> float | None:
    """The rise of a counter over all engines; None where none has it."""
    told = [engine.deltas[role] for engine in engines if role in engine.deltas]
    return sum(told) if told else None


def greatest(values: Iterable[float | None]) -> float | None:
    """The greatest of those that are known."""
    return max((value for value in values if value is not None), default=None)


def merged(engines: Sequence[EngineWindow], role: str) -> Histogram | None:
    """A histogram over all engines."""
    return latency.merge([e.histograms[role] for e in engines if role in e.histograms])


def by_reason(engines: Iterable[EngineWindow]) -> bool:
    """Whether finished requests are counted by their reasons: what is not shown then is 0."""
    return any(engine.outcomes for engine in engines)


def latencies(window: Window) -> Mapping[str, Quantiles]:
    """Each latency over all engines, by its name in ``ServerView``."""
    found = latency.measure_latency(window)
    return {
        role: Quantiles(
            p50=one.quantiles.get(0.5),
            p95=one.quantiles.get(0.95),
            p99=one.quantiles.get(0.99),
            mean=one.mean,
        )
        for role, one in found.items()
    }


def held_by_one(told: Iterable[Budget]) -> float | None:
    """Tokens that one running request held, over all engines and samples."""
    known = [(b.demand, b.running) for b in told if b.per_running is not None]
    held = sum(demand for demand, _ in known if demand is not None)
    running = sum(count for _, count in known if count is not None)
    return held / running if running > 0 else None


def first_bound(told: Iterable[Budget | ServerView]) -> Binding:
    """Which budget held requests back on any engine, or in any repeat."""
    seen = {one.binding for one in told}
    return next((binding for binding in BINDS if binding in seen), Binding.UNKNOWN)
