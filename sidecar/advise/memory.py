"""The advice of every window: the policy, what is remembered beside it, and that it holds still."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from sidecar.advise.change import NOT_SERVING, Changes, Told, sum_work
from sidecar.advise.choose import choose
from sidecar.advise.facts import (
    Facts,
    Peaks,
    Recalled,
    cotenants,
    figure,
    gather,
    greatest,
    parse_release,
    peaks_of,
)
from sidecar.advise.hold import QUIET_WINDOWS, Steady, is_about_pressure, with_words
from sidecar.model.advice import Advice, Lever
from sidecar.model.saved_state import AdviceMemory
from sidecar.model.verdict import CauseFound, Judgement
from sidecar.model.vocabulary import Cause, Kind, Phase, Verdict
from sidecar.model.window import Window

REMEMBER_S = 3600.0
"""Seconds for which a failed allocation or start speaks against more cache. A failed allocation is
remembered until a restart besides: the settings that led to it are still in effect."""
COTENANT_S = 600.0
"""The horizon over which free memory must have been free."""
PEAK_WINDOWS = 2
LENGTH_WINDOWS = 29
"""Windows before the present one whose longest requests count: a short rush tells nothing of them."""
HOLDS_WINDOWS = 60
"""At most so many windows of one spell of pressure tell what the cache holds."""
TOLERANCE = 0.01
"""Preemptions for each finished request that are no fault, where nobody says another number."""


@dataclass(slots=True)
class Span:
    """The least bytes of a GPU that were the server's, in this span of time and in the one before."""

    since: float
    least: float
    before: float | None = None

    def add(self, now: float, size: float) -> None:
        """One reading more; a span is as long as the horizon over which memory must stay free."""
        if not 0 <= now - self.since <= COTENANT_S:
            self.since, self.before, self.least = now, self.least, size
        self.least = min(self.least, size)

    @property
    def least_of_both(self) -> float:
        """The least of both spans."""
        return self.least if self.before is None else min(self.least, self.before)


@dataclass(slots=True)
class Memory:
    """What the policy remembers of windows: moments (unix seconds), never the windows themselves."""

    cuda_oom: float | None = None
    restarted_since: bool = False
    failed_start: float | None = None
    cotenant: float | None = None
    placed: frozenset[int] = frozenset()
    peaks: deque[dict[str, Peaks]] = field(default_factory=lambda: deque(maxlen=PEAK_WINDOWS))
    worst: str | None = None
    holds: deque[float] = field(default_factory=lambda: deque(maxlen=HOLDS_WINDOWS))
    unpressed: int = 0
    lengths: deque[float | None] = field(default_factory=lambda: deque(maxlen=LENGTH_WINDOWS))
    own: dict[int, Span] = field(default_factory=dict)

    def recall(self, now: float) -> Recalled:
        """What is still remembered at the end of a window."""
        recent = is_recent(self.cuda_oom, now, REMEMBER_S)
        return Recalled(
            cuda_oom=recent or (self.cuda_oom is not None and not self.restarted_since),
            failed_start=is_recent(self.failed_start, now, REMEMBER_S),
            cotenant=is_recent(self.cotenant, now, COTENANT_S),
            placed=self.placed,
            peaks=merge_peaks(self.peaks),
            worst=self.worst,
            holds=tuple(self.holds),
            longest=greatest(self.lengths),
            lengths=sum(length is not None for length in self.lengths),
            least_own={index: span.least_of_both for index, span in self.own.items()},
        )

    def learn(self, window: Window, causes: Iterable[CauseFound], facts: Facts) -> None:
        """Take in a window that has been judged."""
        failed = False
        for found in causes:
            failed = failed or is_failed_start(found)
            if found.cause is Cause.CUDA_OOM and found.kind is Kind.ALLOCATION_FAILURE:
                self.cuda_oom, self.restarted_since = window.end, False
        if self.cuda_oom is not None and self.cuda_oom != window.end and window.restarted:
            self.restarted_since = True
        if failed:
            self.failed_start = window.end
        if facts.gpus_fresh:
            self.placed = frozenset(g.index for g in window.gpus if g.expected) or self.placed
        if cotenants(facts):
            self.cotenant = window.end
        if window.restarted or window.state in NOT_SERVING:
            self.forget_server()
        self.peaks.append({name: peaks_of(engine) for name, engine in window.engines.items()})
        self.lengths.append(facts.longest)
        self.learn_pressure(facts)
        self.learn_own(window.end, facts)

    def forget_server(self) -> None:
        """Another server's cache and memory say nothing of this one's."""
        self.peaks.clear()
        self.holds.clear()
        self.own.clear()

    def learn_pressure(self, facts: Facts) -> None:
        """What the cache of the worst engine holds, in the windows of pressure alone.

        A load that begins or drains shows another mix.
        """
        self.unpressed = 0 if facts.is_pressed else self.unpressed + 1
        if not facts.is_pressed:
            if self.unpressed >= QUIET_WINDOWS:
                self.worst = None
                self.holds.clear()
            return
        if facts.engine != self.worst:
            self.worst = facts.engine
            self.holds.clear()
        holds = figure(facts.budget.safe_concurrency)
        if holds is not None:
            self.holds.append(holds)

    def learn_own(self, now: float, facts: Facts) -> None:
        """How much of each GPU is the server's, once it serves: a start takes all of it anew."""
        if not facts.gpus_fresh or not facts.serving:
            return
        for gpu in facts.gpus:
            size = figure(gpu.vllm)
            if size is None:
                continue
            if gpu.index not in self.own:
                self.own[gpu.index] = Span(now, size)
            self.own[gpu.index].add(now, size)


def merge_peaks(windows: Iterable[dict[str, Peaks]]) -> dict[str, Peaks]:
    """The peaks of each engine over several windows."""
    merged: dict[str, Peaks] = {}
    for window in windows:
        for name, peaks in window.items():
            before = merged.get(name, Peaks())
            merged[name] = Peaks(
                usage=greatest((before.usage, peaks.usage)),
                running=greatest((before.running, peaks.running)),
            )
    return merged


def is_recent(moment: float | None, now: float, horizon_s: float) -> bool:
    """Whether a moment lies within the horizon; one in the future (a clock that stepped) does."""
    return moment is not None and now - moment <= horizon_s


def is_failed_start(found: CauseFound) -> bool:
    """Whether a start failed, for whatever reason."""
    return found.kind in {Kind.START_FAILED, Kind.CAPACITY_REJECTION} or (
        found.phase is Phase.STARTUP and found.cause is not Cause.PREEMPTION
    )


@dataclass(slots=True)
class Advisor:
    """Gives every judgement its advice. The same judgements in the same order give the same advice.

    ``tolerance``: preemptions for each finished request that are no fault.
    """

    tolerance: float = TOLERANCE
    memory: Memory = field(default_factory=Memory)
    changes: Changes = field(default_factory=Changes)
    steady: Steady = field(default_factory=Steady)

    def advise(
        self, judgement: Judgement, version: str | None = None, changed: Told | None = None
    ) -> Advice:
        """The lever of a judged window; ``version``: of vLLM, where it is known.

        ``changed``: limits of which one place told in this life of the server and in the one before.
        A failure's lever shows at once. Else advice rests after a change of the configuration, and
        does not change before the new one has held for several windows.
        """
        window = judgement.window
        if window.restarted:
            self.memory.own.clear()
        facts = self.look_at(judgement, version)
        self.memory.learn(window, judgement.causes, facts)
        self.changes.see(window, changed)
        fresh = choose(facts)
        if not is_about_pressure(facts):
            self.steady.reset()
            return fresh
        if self.changes.is_resting:
            self.steady.reset()
            return Advice(Lever.NONE, because=self.changes.say_resting(), resting=True)
        return with_words(self.steady.settle(fresh, facts), self.changes.say_compared())

    def advise_now(
        self, window: Window, urgent: tuple[CauseFound, ...], version: str | None = None
    ) -> Advice:
        """The lever of failures in a window that is still open; nothing is remembered of it."""
        judgement = Judgement(
            window=window,
            verdict=urgent[0].cause.verdict if urgent else Verdict.UNKNOWN,
            severity=None,
            causes=urgent,
            observable={},
        )
        return choose(self.look_at(judgement, version))

    def look_at(self, judgement: Judgement, version: str | None) -> Facts:
        """The facts of one judgement, with what is remembered."""
        recalled = self.memory.recall(judgement.window.end)
        return gather(judgement, recalled, parse_release(version), self.tolerance)

    def checkpoint(self) -> AdviceMemory:
        """What outlives our own restart."""
        changes = self.changes
        return AdviceMemory(
            cuda_oom=self.memory.cuda_oom,
            failed_start=self.memory.failed_start,
            cotenant=self.memory.cotenant,
            limits=dict(changes.latest or changes.former),
            work=sum_work(changes.done) if changes.done else None,
        )

    def restore(self, kept: AdviceMemory | None) -> None:
        """Go on from a checkpoint. The server may be another one by now: its limits are compared."""
        if kept is None:
            return
        self.memory.cuda_oom = kept.cuda_oom
        self.memory.failed_start = kept.failed_start
        self.memory.cotenant = kept.cotenant
        self.changes.latest = dict(kept.limits)
        self.changes.end_life()
        if kept.work is not None:
            self.changes.done.append(kept.work)
