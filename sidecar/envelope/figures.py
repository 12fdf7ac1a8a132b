"""The figures of a stage by name: what each is called, its unit, and how repeats are put together.

Reports, plots and comparisons all read this table, so that a figure has one name and one look.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from sidecar.model.envelope import Envelope, Quantiles, ServerView, Stage, StageRun


class Unit(StrEnum):
    """What a figure is counted in, and so how it is written."""

    SECONDS = "s"
    SHARE = "share"
    PER_REQUEST = "per request"
    COUNT = "count"
    TOKENS = "tokens"
    TOKENS_PER_SECOND = "tokens/s"
    BYTES = "bytes"


class Wanted(StrEnum):
    """Which way of a figure is the better one."""

    LOW = "low"
    HIGH = "high"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of ``ServerView``. ``floor``: smaller changes, in its unit, are none."""

    name: str
    label: str
    unit: Unit
    wanted: Wanted
    floor: float
    read: Callable[[ServerView], float | None]


def unserved_share(view: ServerView) -> float | None:
    """Requests that ended in any other way than completed, as a share of all that ended."""
    ended = (view.completed, view.aborted, view.errors, view.rejected)
    told = [count for count in ended if count is not None]
    if view.completed is None or not sum(told):
        return None
    return (sum(told) - view.completed) / sum(told)


LATENCY_LABELS: Mapping[str, str] = {
    "ttft": "TTFT",
    "inter_token": "inter-token latency",
    "e2e": "E2E latency",
    "queue": "queue time",
}
"""Latencies by their names in ``ServerView``."""
QUANTILES = ("p50", "p95", "p99")
STATISTICS = ("mean", *QUANTILES)
"""The mean is exact; a quantile is as coarse as vLLM's buckets."""


def read_latency(latency: str, statistic: str) -> Callable[[ServerView], float | None]:
    """How one statistic of one latency is read."""

    def read(view: ServerView) -> float | None:
        told: Quantiles = getattr(view, latency)
        value: float | None = getattr(told, statistic)
        return value

    return read


def latency_figures() -> Iterator[Figure]:
    """Every statistic of every latency; a millisecond is no change, nor a tenth of one per token."""
    for latency, label in LATENCY_LABELS.items():
        floor = 0.0001 if latency == "inter_token" else 0.001
        for statistic in STATISTICS:
            yield Figure(
                f"{latency}_{statistic}",
                f"{label} {statistic}",
                Unit.SECONDS,
                Wanted.LOW,
                floor,
                read_latency(latency, statistic),
            )


FIGURES: tuple[Figure, ...] = (
    Figure(
        "completed",
        "requests completed",
        Unit.COUNT,
        Wanted.NEITHER,
        1.0,
        lambda view: view.completed,
    ),
    Figure(
        "preemptions_per_request",
        "preemptions per request",
        Unit.PER_REQUEST,
        Wanted.LOW,
        0.01,
        lambda view: view.preemptions_per_request,
    ),
    Figure("unserved", "requests not served", Unit.SHARE, Wanted.LOW, 0.001, unserved_share),
    Figure("cache_peak", "KV cache peak", Unit.SHARE, Wanted.NEITHER, 0.01, lambda v: v.cache_peak),
    Figure("cache_mean", "KV cache mean", Unit.SHARE, Wanted.NEITHER, 0.01, lambda v: v.cache_mean),
    *latency_figures(),
    Figure(
        "output_tokens_per_second",
        "output tokens/s",
        Unit.TOKENS_PER_SECOND,
        Wanted.HIGH,
        1.0,
        lambda view: view.output_tokens_per_second,
    ),
    Figure(
        "prompt_tokens_per_second",
        "prompt tokens/s",
        Unit.TOKENS_PER_SECOND,
        Wanted.HIGH,
        1.0,
        lambda view: view.prompt_tokens_per_second,
    ),
    Figure(
        "running_peak",
        "running requests, peak",
        Unit.COUNT,
        Wanted.NEITHER,
        1.0,
        lambda view: view.running_peak,
    ),
    Figure(
        "waiting_peak",
        "waiting requests, peak",
        Unit.COUNT,
        Wanted.LOW,
        1.0,
        lambda view: view.waiting_peak,
    ),
    Figure(
        "per_running",
        "tokens held by a running request",
        Unit.TOKENS,
        Wanted.NEITHER,
        1.0,
        lambda view: view.per_running,
    ),
    Figure(
        "gpu_headroom",
        "GPU memory left free",
        Unit.BYTES,
        Wanted.HIGH,
        1 << 20,
        lambda view: view.gpu_headroom,
    ),
    Figure(
        "host_headroom",
        "host memory left",
        Unit.BYTES,
        Wanted.HIGH,
        1 << 20,
        lambda view: view.host_headroom,
    ),
    Figure(
        "drained_s", "time to drain", Unit.SECONDS, Wanted.LOW, 1.0, lambda view: view.drained_s
    ),
)
BY_NAME: Mapping[str, Figure] = {figure.name: figure for figure in FIGURES}


@dataclass(frozen=True, slots=True)
class Repeats:
    """One figure over the repeats of a stage that told it, in their order; never empty."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one; of two, what lies between."""
        return median(self.values)

    @property
    def least(self) -> float:
        """The smallest."""
        return min(self.values)

    @property
    def greatest(self) -> float:
        """The largest."""
        return max(self.values)

    @property
    def width(self) -> float:
        """How far apart the repeats lie."""
        return self.greatest - self.least


def whole_runs(stage: Stage) -> list[StageRun]:
    """The repeats that went to their end: what the others tell is of another, shorter load."""
    return [run for run in stage.runs if run.whole and run.killed is None]


def repeats_of(stage: Stage, figure: Figure) -> Repeats | None:
    """A figure over the whole repeats of a stage; None if none of them told it."""
    read = (figure.read(run.server) for run in whole_runs(stage))
    told = tuple(value for value in read if value is not None and math.isfinite(value))
    return Repeats(told) if told else None


def find_stage(envelope: Envelope, name: str | None) -> Stage | None:
    """The stage of that name."""
    return next((stage for stage in envelope.stages if stage.name == name), None)
