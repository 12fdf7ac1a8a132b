"""Everything a rule of the policy may look at: one judgement, and what is remembered beside it."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sidecar.catalog import vllm_metrics as roles
from sidecar.model.budget import Budget, GpuBudget
from sidecar.model.limits import Limit, Limits
from sidecar.model.verdict import CauseFound, Judgement
from sidecar.model.vocabulary import Cause, Kind, Phase, ServerState, Severity, Source
from sidecar.model.window import EngineWindow, Window

Release = tuple[int, ...]
RELEASE = re.compile(r"v?(\d{1,4}(?:\.\d{1,4}){1,2})")
UNTAGGED: Release = (0, 1)
"""What the version of a build from an untagged checkout begins with: it names no release."""
FEW = 3
"""Preemptions in one window that call for a lever; one or two are bad luck, unless windows of them
follow each other."""
LOW_USE = 0.7
"""A cache that was never fuller than this gave no reason to take blocks back."""
COTENANT_BYTES = 256 * 1024**2
"""Less than this another process's context holds anyway, and freeing it helps nobody."""


@dataclass(frozen=True, slots=True)
class Found:
    """One cause. ``count``: preemptions, or signs. ``beyond``: more than the user tolerates."""

    cause: Cause
    kind: Kind
    phase: Phase = Phase.UNKNOWN
    signals: frozenset[str] = frozenset()
    count: float = 1.0
    beyond: bool = True


@dataclass(frozen=True, slots=True)
class Peaks:
    """One engine in one window or several: the fullest its cache was, the most that ran at once."""

    usage: float | None = None
    running: float | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """What the windows before tell.

    ``cuda_oom``: a GPU allocation failed not long ago. ``failed_start``: a start failed not long ago.
    ``cotenant``: somebody else was on one of the server's GPUs a short while ago. ``placed``: the GPUs
    that last held the server. ``peaks``: of each engine in the two windows before. ``worst``: the
    engine that advice was about. ``holds``: how many requests its cache held at once, of each window
    of this spell of pressure. ``longest``: tokens of the longest requests (p99) over the horizon, in
    ``lengths`` windows in which requests finished. ``least_own``: bytes of each GPU that were the
    server's at the least over the horizon.
    """

    cuda_oom: bool = False
    failed_start: bool = False
    cotenant: bool = False
    placed: frozenset[int] = frozenset()
    peaks: Mapping[str, Peaks] = field(default_factory=dict)
    worst: str | None = None
    holds: tuple[float, ...] = ()
    longest: float | None = None
    lengths: int = 0
    least_own: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when a lever is chosen; None is not known, never 0.

    ``causes`` in order of precedence. ``engine``: the worst one; ``budget``, ``preemptions``,
    ``per_request``, ``usage``, ``waiting`` and the peaks are of it alone. ``per_request``: preemptions
    per request that finished in the window. ``lasting``: beyond the tolerance for several windows in a
    row while requests wait. ``usage``: the fullest the cache was, 0 to 1. ``usage_peak`` and
    ``running_peak`` (the most that ran at once) in this window and the two before: samples miss peaks,
    and V1 counts a preemption up to 4 s late. ``longest``: tokens of the longest requests (p99) of any
    engine: a limit of the length is for all of them. ``serving``: the server serves at the window's
    end. ``gpus_fresh``: the driver answered in this window. ``from_log``: a log is all there is.
    """

    causes: tuple[Found, ...] = ()
    signals: frozenset[str] = frozenset()
    engine: str | None = None
    budget: Budget = field(default_factory=Budget)
    longest: float | None = None
    preemptions: float | None = None
    per_request: float | None = None
    lasting: bool = False
    usage: float | None = None
    usage_peak: float | None = None
    waiting: bool | None = None
    running_peak: float | None = None
    serving: bool = False
    limits: Limits = field(default_factory=dict)
    gpus: tuple[GpuBudget, ...] = ()
    gpus_fresh: bool = False
    release: Release | None = None
    recalled: Recalled = field(default_factory=Recalled)
    from_log: bool = False

    @property
    def first(self) -> Found | None:
        """The cause that decides."""
        return self.causes[0] if self.causes else None

    def is_first(self, *causes: Cause) -> bool:
        """Whether one of these is the cause that decides."""
        return self.first is not None and self.first.cause in causes

    def has_kind(self, cause: Cause, kind: Kind) -> bool:
        """Whether this cause decides, and this kind of it is among what was found."""
        return self.is_first(cause) and any(
            f.cause is cause and f.kind is kind for f in self.causes
        )

    def limit(self, limit: Limit) -> float | None:
        """A limit of the server, None where nobody told it or it is no number."""
        known = self.limits.get(limit)
        return None if known is None else figure(known.value)

    @property
    def is_low_use(self) -> bool:
        """Whether the cache was seen, and never near to full."""
        peak = figure(self.usage_peak)
        return peak is not None and peak < LOW_USE

    @property
    def is_rare(self) -> bool:
        """Whether so few were preempted that one window of it says nothing yet."""
        few = self.preemptions is not None and self.preemptions < FEW
        return few and not self.lasting and not self.from_log

    @property
    def is_pressed(self) -> bool:
        """Whether preemptions beyond the tolerance decide, and the cache can be their reason."""
        first = self.first
        return (
            first is not None
            and first.cause is Cause.PREEMPTION
            and first.beyond
            and not self.is_low_use
            and not self.is_rare
        )


def figure(value: float | None) -> float | None:
    """The value as a float from zero; None where it is missing or none."""
    if value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def parse_release(version: str | None) -> Release | None:
    """``0.26.0`` or ``0.32.0+cpu`` as numbers; None for a build that belongs to no release."""
    matched = None if version is None else RELEASE.match(version)
    if matched is None:
        return None
    release = tuple(int(part) for part in matched[1].split("."))
    return None if release[:2] == UNTAGGED else release


def own_gpus(facts: Facts) -> tuple[GpuBudget, ...]:
    """The GPUs that hold the server; where it is dead those that last did, else all that are watched."""
    for chosen in (
        [gpu for gpu in facts.gpus if gpu.expected],
        [gpu for gpu in facts.gpus if gpu.index in facts.recalled.placed],
    ):
        if chosen:
            return tuple(chosen)
    return facts.gpus


def cotenants(facts: Facts) -> tuple[GpuBudget, ...]:
    """The server's GPUs on which others are seen to hold memory worth freeing."""
    if not facts.gpus_fresh:
        return ()
    return tuple(gpu for gpu in own_gpus(facts) if (figure(gpu.cotenant) or 0.0) >= COTENANT_BYTES)


def gather(
    judgement: Judgement, recalled: Recalled, release: Release | None, tolerance: float = 0.0
) -> Facts:
    """The facts of one judgement; ``tolerance``: preemptions per finished request that are no fault."""
    window = judgement.window
    name = worst_engine(judgement, recalled.worst, tolerance)
    engine = EngineWindow() if name is None else window.engines[name]
    before = Peaks() if name is None else recalled.peaks.get(name, Peaks())
    now = peaks_of(engine)
    seen = window.sources.get(Source.NVML)
    return Facts(
        causes=tuple(found_of(one) for one in judgement.causes),
        signals=frozenset(e.signal for e in window.evidence)
        | {e.signal for one in judgement.causes for e in one.evidence},
        engine=name,
        budget=Budget() if name is None else judgement.budgets.get(name, Budget()),
        longest=greatest(longest_of(budget) for budget in judgement.budgets.values()),
        preemptions=rise_of(engine, roles.PREEMPTIONS),
        per_request=ratio_of(engine),
        lasting=any(
            one.cause is Cause.PREEMPTION and one.severity is Severity.CRITICAL
            for one in judgement.causes
        ),
        usage=now.usage,
        usage_peak=greatest((now.usage, before.usage)),
        waiting=is_waiting(engine),
        running_peak=greatest((now.running, before.running)),
        serving=window.state is ServerState.SERVING,
        limits=window.limits,
        gpus=window.gpus,
        gpus_fresh=seen is not None and seen.readings > 0,
        release=release,
        recalled=recalled,
    )


def found_of(one: CauseFound) -> Found:
    """A cause as the rules look at it."""
    return Found(
        cause=one.cause,
        kind=one.kind,
        phase=one.phase,
        signals=frozenset(e.signal for e in one.evidence),
        count=sum(figure(e.amount) or 0.0 for e in one.evidence),
        beyond=one.severity is not Severity.INFO,
    )


def total_of(window: Window, role: str) -> float | None:
    """The rise of a counter over all engines; None where no engine shows it."""
    rises = [figure(e.deltas[role]) for e in window.engines.values() if role in e.deltas]
    known = [rise for rise in rises if rise is not None]
    return figure(sum(known)) if known else None


def rise_of(engine: EngineWindow, role: str) -> float | None:
    """The rise of a counter of one engine; None where it does not show it."""
    return figure(engine.deltas.get(role))


def ratio_of(engine: EngineWindow) -> float | None:
    """Preemptions for each request that finished; None where none did, or it cannot be seen."""
    preempted, finished = rise_of(engine, roles.PREEMPTIONS), rise_of(engine, roles.FINISHED)
    return preempted / finished if preempted is not None and finished else None


def peak_of(engine: EngineWindow, role: str) -> float | None:
    """The greatest value of a gauge of one engine; None where it does not show it."""
    gauge = engine.gauges.get(role)
    return None if gauge is None else figure(gauge.greatest)


def peaks_of(engine: EngineWindow) -> Peaks:
    """How full the cache of one engine was in a window, and how many ran."""
    return Peaks(usage=peak_of(engine, roles.KV_USAGE), running=peak_of(engine, roles.RUNNING))


def greatest(values: Iterable[float | None]) -> float | None:
    """The greatest of those that are known."""
    return max((v for v in map(figure, values) if v is not None), default=None)


def is_waiting(engine: EngineWindow) -> bool | None:
    """Whether requests of one engine waited; None where it does not show it."""
    peak = greatest(peak_of(engine, role) for role in (roles.WAITING, roles.SWAPPED))
    return None if peak is None else peak > 0


def longest_of(budget: Budget) -> float | None:
    """Tokens that the largest requests of a window held (p99); None where none finished."""
    prompt, output = figure(budget.prompt.p99), figure(budget.output.p99)
    if prompt is not None and output is not None:
        return prompt + output
    share, capacity = figure(budget.largest_share), figure(budget.capacity)
    return None if share is None or capacity is None else share * capacity


def worst_engine(judgement: Judgement, kept: str | None, tolerance: float) -> str | None:
    """The engine with the most preemptions for each request; of equals the one that was fullest.

    ``kept``, of the window before, stays the worst while it is beyond the tolerance: two that take
    turns must not swing the advice.
    """
    engines = judgement.window.engines
    if kept is not None and kept in engines and is_beyond(engines[kept], tolerance):
        return kept

    def badness(name: str) -> tuple[float, float, float]:
        engine, budget = engines[name], judgement.budgets.get(name, Budget())
        capacity, peak = figure(budget.capacity), figure(budget.demand_peak)
        preempted, finished = (
            rise_of(engine, role) or 0.0 for role in (roles.PREEMPTIONS, roles.FINISHED)
        )
        full = peak / capacity if peak and capacity else 0.0
        return preempted / max(1.0, finished), full, peak_of(engine, roles.KV_USAGE) or 0.0

    return max(sorted(engines), key=badness, default=None)


def is_beyond(engine: EngineWindow, tolerance: float) -> bool:
    """Whether the preemptions of one engine exceed what is tolerated for each finished request."""
    preempted = rise_of(engine, roles.PREEMPTIONS) or 0.0
    return preempted > tolerance * (rise_of(engine, roles.FINISHED) or 0.0)
