"""What is kept of a window's result for plots: when, its verdict, a few figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sidecar.model.vocabulary import Cause, Severity, Verdict
from sidecar.parse.quantity import finite


class Figure(StrEnum):
    """What is plotted over time."""

    PREEMPTIONS = "preemptions"
    KV_USAGE = "kv_usage"
    """The greatest share of the KV cache in use on any engine."""
    WAITING = "waiting"
    RUNNING = "running"
    """Peaks, of all engines together."""
    OUTPUT = "output"
    """Tokens per second."""
    TTFT_P50 = "ttft_p50"
    TTFT_P95 = "ttft_p95"
    """Seconds."""


SPEAKS_FOR = "speaks_for"
"""Key of a result that stands for its neighbours too: their span and how many windows they are."""
WORST_FIRST = (*(cause.verdict for cause in Cause), Verdict.UNKNOWN, Verdict.NONE)
BADNESS: Mapping[Verdict, int] = {
    verdict: len(WORST_FIRST) - at for at, verdict in enumerate(WORST_FIRST)
}
LOUDNESS = (None, *Severity)
LATEST = 253_402_300_800.0
"""Unix seconds of the year 10000, where the calendar ends: a window beyond it is none."""


@dataclass(frozen=True, slots=True)
class Row:
    """A window, or several that follow each other, of which the worst speaks.

    ``start``, ``end``: unix seconds. ``figures``: sums of what is counted, the greatest of the others;
    those that nobody measured are absent.
    """

    start: float
    end: float
    verdict: Verdict
    severity: Severity | None = None
    windows: int = 1
    figures: Mapping[Figure, float] = field(default_factory=dict)

    @property
    def badness(self) -> tuple[int, int]:
        """Worse windows compare as greater."""
        return BADNESS[self.verdict], LOUDNESS.index(self.severity)


def merge(one: Row, other: Row) -> Row:
    """Two rows as one over both spans: the worse verdict, every figure that either has."""
    worse = max(one, other, key=lambda row: row.badness)
    figures = {**one.figures}
    for name, value in other.figures.items():
        if name not in figures:
            figures[name] = value
        elif name is Figure.PREEMPTIONS:
            figures[name] += value
        else:
            figures[name] = max(figures[name], value)
    return Row(
        start=min(one.start, other.start),
        end=max(one.end, other.end),
        verdict=worse.verdict,
        severity=worse.severity,
        windows=one.windows + other.windows,
        figures=figures,
    )


def read_row(result: object) -> Row:
    """What is kept of a result as ``export.results.window_result`` makes it.

    Raises:
        ValueError: it is no result of a window.
    """
    told = as_object(result)
    span = as_object(told.get(SPEAKS_FOR, told.get("window")))
    start, end = as_number(span.get("start")), as_number(span.get("end"))
    if start is None or end is None or not 0 <= start < end <= LATEST:
        raise ValueError("a window without a span")
    severity = told.get("severity")
    return Row(
        start=start,
        end=end,
        verdict=Verdict(str(told.get("verdict"))),
        severity=None if severity is None else Severity(str(severity)),
        windows=max(1, int(as_number(span.get("windows")) or 1)),
        figures={name: value for name, value in read_figures(told).items() if value is not None},
    )


def read_figures(told: Mapping[str, object]) -> dict[Figure, float | None]:
    """The figures of a result; None for those that it does not have."""
    engines = [as_object(one) for one in as_object(told.get("budgets")).values()]
    ttft = as_object(as_object(told.get("latency")).get("ttft"))
    usage = [peak for peak in list_peaks(engines, "kv_usage") if 0 <= peak <= 1]
    counts = [as_number(one) for one in as_object(told.get("preemptions")).values()]
    preemptions = [count for count in counts if count is not None]
    waiting, running = list_peaks(engines, "waiting"), list_peaks(engines, "running")
    return {
        Figure.PREEMPTIONS: sum(preemptions) if preemptions else None,
        Figure.KV_USAGE: max(usage) if usage else None,
        Figure.WAITING: sum(waiting) if waiting else None,
        Figure.RUNNING: sum(running) if running else None,
        Figure.OUTPUT: as_number(as_object(told.get("throughput")).get("generation")),
        Figure.TTFT_P50: as_number(ttft.get("p50")),
        Figure.TTFT_P95: as_number(ttft.get("p95")),
    }


def list_peaks(engines: list[Mapping[str, object]], gauge: str) -> list[float]:
    """The peak of a gauge on each engine that shows it."""
    peaks = [as_number(as_object(one.get(gauge)).get("max")) for one in engines]
    return [peak for peak in peaks if peak is not None]


def as_object(value: object) -> Mapping[str, object]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_number(value: object) -> float | None:
    """The value as a finite float, None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return finite(value)
