"""The advice of every window: the policy, what is remembered beside it, and that it holds still."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from sidecar.advise.change import Changes, sum_work
from sidecar.advise.choose import choose
from sidecar.advise.facts import (
    Facts,
    Recalled,
    cotenants,
    gather,
    greatest,
    parse_release,
    peak_of,
)
from sidecar.advise.hold import Steady, is_about_pressure, with_words
from sidecar.catalog import vllm_metrics as roles
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


@dataclass(slots=True)
class Memory:
    """What the policy remembers of windows: moments (unix seconds), never the windows themselves."""

    cuda_oom: float | None = None
    restarted_since: bool = False
    failed_start: float | None = None
    cotenant: float | None = None
    placed: frozenset[int] = frozenset()
    peaks: deque[float | None] = field(default_factory=lambda: deque(maxlen=PEAK_WINDOWS))

    def recall(self, now: float) -> Recalled:
        """What is still remembered at the end of a window."""
        recent = is_recent(self.cuda_oom, now, REMEMBER_S)
        return Recalled(
            cuda_oom=recent or (self.cuda_oom is not None and not self.restarted_since),
            failed_start=is_recent(self.failed_start, now, REMEMBER_S),
            cotenant=is_recent(self.cotenant, now, COTENANT_S),
            placed=self.placed,
            usage_peak=greatest(self.peaks),
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
        # Another server's cache says nothing of this one's.
        if window.restarted:
            self.peaks.clear()
        self.peaks.append(peak_of(window, roles.KV_USAGE))


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
    """Gives every judgement its advice. The same judgements in the same order give the same advice."""

    memory: Memory = field(default_factory=Memory)
    changes: Changes = field(default_factory=Changes)
    steady: Steady = field(default_factory=Steady)

    def advise(self, judgement: Judgement, version: str | None = None) -> Advice:
        """The lever of a judged window; ``version``: of vLLM, where it is known.

        A failure's lever shows at once. Else advice rests after a change of the configuration, and
        does not change before the new one has held for several windows.
        """
        window = judgement.window
        facts = gather(judgement, self.memory.recall(window.end), release=parse_release(version))
        self.memory.learn(window, judgement.causes, facts)
        self.changes.see(window)
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
        return choose(gather(judgement, self.memory.recall(window.end), parse_release(version)))

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
