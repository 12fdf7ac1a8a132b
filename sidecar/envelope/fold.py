"""The ticks of one run of a stage -> its figures: pure, over what was recorded.

The run goes through the daemon's own pipeline twice. Once with its live windows: they give the
verdicts, as they were judged. Once with a window so long that all of the run lies in it: then what
budgets, latencies and gauges of a window mean, they mean of the run. Several engines are folded so:
counts and rates are summed, histograms merged, peaks are of the engine that had most, means of the
cache those of the engine that was fullest, ``per_running`` is all tokens through all requests, and
the binding budget the first of ``BINDS`` that bound any engine.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from sidecar.assemble.window import OpenWindow
from sidecar.catalog import vllm_metrics as roles
from sidecar.catalog.exported import Outcome
from sidecar.classify.policy import Policy
from sidecar.derive import budgets, latency
from sidecar.envelope.engines import (
    by_reason,
    first_bound,
    greatest,
    held_by_one,
    latencies,
    merged,
    summed,
    told_apart,
)
from sidecar.envelope.span import Placed, metrics_of, place, without_gauges
from sidecar.model.envelope import Identity, ServerView
from sidecar.model.limits import FOUND_AT_START
from sidecar.model.readings import MetricsReading, NvmlReading
from sidecar.model.samples import Instant, Tick
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Cause, ServerState, Source, Verdict
from sidecar.model.window import Window
from sidecar.pipeline import Pipeline, Step

WHOLE_S: Final = 1e12
"""Seconds of a window that began before any clock and has not ended yet."""
DEADLY: Final = frozenset({Verdict.HOST_OOM, Verdict.CUDA_OOM, Verdict.ENGINE_FAILURE})
THIRDS: Final = 3
GROWS: Final = 0.1
"""A mean that rises by no more than this share of itself, or by less than a request, grows by chance."""


@dataclass(frozen=True, slots=True)
class Load:
    """When the load's command ran (unix seconds), and when nothing was left of it; None: not seen."""

    begun: float
    finished: float
    drained: float | None = None


@dataclass(frozen=True, slots=True)
class LiveRules:
    """How the windows were judged while the run went on."""

    window_s: float
    policy: Policy
    asked: frozenset[Source]


@dataclass(frozen=True, slots=True)
class Folded:
    """One run: its figures, the cause of which the server died in it, and which server it was.

    ``identity`` holds what the ticks tell: nothing of the machine and of the launch.
    """

    server: ServerView
    killed: Verdict | None
    identity: Identity


def fold(ticks: Iterable[Tick], load: Load, rules: LiveRules) -> Folded:
    """The figures of one run."""
    run = Run(load, rules)
    for placed in place(run.watch(ticks), load.begun):
        run.take(placed)
    return run.end()


@dataclass(slots=True)
class Waits:
    """Requests that waited, by the wall clock."""

    seen: list[tuple[float, float]] = field(default_factory=list)

    def grew(self, end: float) -> bool | None:
        """Whether more waited in the last third up to ``end`` than in either before it.

        None where a third holds no sample. By less than a request, or a tenth, nothing grows.
        """
        within = [(at, count) for at, count in self.seen if at <= end]
        if not within:
            return None
        begin, end = within[0][0], min(end, within[-1][0])
        length = (end - begin) / THIRDS
        if not length > 0:
            return None
        parts: list[list[float]] = [[] for _ in range(THIRDS)]
        for at, count in within:
            parts[min(THIRDS - 1, int((at - begin) / length))].append(count)
        if not all(parts):
            return None
        *before, last = (sum(part) / len(part) for part in parts)
        return all(last > mean + max(1.0, GROWS * last) for mean in before)


class Run:
    """One run as it is folded."""

    def __init__(self, load: Load, rules: LiveRules) -> None:
        self.load = load
        self.live = self.pipeline(rules, rules.window_s)
        self.whole = self.pipeline(rules, WHOLE_S)
        self.judged: list[Judgement] = []
        self.begin: tuple[float, float] | None = None
        """The last look before the work and the first that saw it, monotonic seconds."""
        self.end_s: tuple[float, float] | None = None
        self.waits = Waits()
        self.gpu_free: dict[int, int] = {}
        self.gpu_names: dict[int, str] = {}
        self.host_free: list[float] = []
        self.before: float | None = None
        self.is_before = False

    @staticmethod
    def pipeline(rules: LiveRules, window_s: float) -> Pipeline:
        """A pipeline as the daemon's, with windows of another length."""
        return Pipeline(window_s=window_s, policy=rules.policy, configured=rules.asked)

    # Live

    def watch(self, ticks: Iterable[Tick]) -> Iterator[Tick]:
        """Judge the ticks as they were judged live, whether they belong to the load or not."""
        for tick in ticks:
            step = self.live.step(tick)
            self.judged.extend(step.closed)
            if tick.at.unix > self.load.begun:
                self.see_headroom(tick, step)
            yield tick
        self.judged.extend(self.live.finish())

    def see_headroom(self, tick: Tick, step: Step) -> None:
        """The least memory that was left so far."""
        outlook = step.report.outlook
        if outlook is not None and outlook.headroom:
            self.host_free.append(float(min(outlook.headroom.values())))
        for sample in tick.samples:
            if isinstance(sample.reading, NvmlReading):
                for gpu in sample.reading.gpus:
                    self.gpu_names[gpu.index] = gpu.name
                    if gpu.free is not None and not gpu.mig and not gpu.lost:
                        before = self.gpu_free.get(gpu.index, gpu.free)
                        self.gpu_free[gpu.index] = min(before, gpu.free)

    # The whole

    def take(self, placed: Placed) -> None:
        """Take in one tick of the run."""
        tick = without_gauges(placed.tick) if placed.ended else placed.tick
        sample = metrics_of(tick)
        at = (tick if sample is None else sample).at
        if self.is_before:
            # What was seen so far is the counters' state, and no part of the run.
            self.whole.open = None
        self.is_before = placed.before
        self.whole.step(tick)
        if not placed.before:
            before = at.monotonic if self.before is None else self.before
            self.begin = self.begin or (before, at.monotonic)
            self.end_s = (before if placed.ended else at.monotonic, at.monotonic)
            if sample is not None and not placed.ended:
                self.see_waiting(sample.reading, at.unix)
        self.before = at.monotonic

    def see_waiting(self, reading: object, unix: float) -> None:
        """How many wait now, on all engines."""
        if isinstance(reading, MetricsReading):
            told = [
                e.values[roles.WAITING]
                for e in reading.engines.values()
                if roles.WAITING in e.values
            ]
            if told:
                self.waits.seen.append((unix, sum(told)))

    @property
    def seconds(self) -> float:
        """How long the server worked.

        From the middle of the interval in which it began to that in which it ended; half an interval
        where all of it lies in one.
        """
        if self.begin is None or self.end_s is None:
            return 0.0
        begin, end = sum(self.begin) / 2, sum(self.end_s) / 2
        return max(end - begin, (self.begin[1] - self.begin[0]) / 2)

    def end(self) -> Folded:
        """All that is known at the end of the ticks."""
        span = self.whole.open or OpenWindow(start=0.0, end=WHOLE_S)
        now = self.whole.last_tick or Instant(0.0, 0.0)
        window = self.whole.server.freeze(span, now, whole=True)
        return Folded(self.view(window), self.killed(), self.identity(window))

    def judged_since(self) -> list[Judgement]:
        """The live windows that ended after the load had begun."""
        return [one for one in self.judged if one.window.end > self.load.begun]

    def judged_in_load(self) -> list[Judgement]:
        """Those of them that began before it was over: the last one may hold no more than a look."""
        over = self.load.drained or self.load.finished
        return [one for one in self.judged_since() if one.window.start < over]

    def killed(self) -> Verdict | None:
        """Of what the server died in the run; unknown where it went without a cause that was seen."""
        judged = self.judged_since()
        for one in judged:
            if one.verdict in DEADLY and not one.window.survived:
                return one.verdict
        is_gone = bool(judged) and (
            judged[-1].window.down or judged[-1].window.state is ServerState.DEAD
        )
        stopped = bool(judged) and judged[-1].window.state is ServerState.STOPPED
        restarted = any(one.window.restarted for one in judged)
        return Verdict.UNKNOWN if (is_gone and not stopped) or restarted else None

    def view(self, window: Window) -> ServerView:
        """The figures of the run."""
        engines = told_apart(window)
        budget = budgets.measure(window)
        outcomes = latency.count_outcomes(window)
        ended = by_reason(window.engines.values())
        judged = self.judged_in_load()
        finished = self.load.finished
        return ServerView(
            seconds=self.seconds,
            completed=outcomes.get(Outcome.SUCCESS, 0.0 if ended else None),
            aborted=outcomes.get(Outcome.ABORTED, 0.0 if ended else None),
            errors=outcomes.get(Outcome.ERROR),
            rejected=outcomes.get(Outcome.REJECTED),
            preemptions=summed(window.engines.values(), roles.PREEMPTIONS),
            cache_peak=greatest(usage.greatest for e in engines if (usage := budgets.usage_of(e))),
            cache_mean=greatest(usage.mean for e in engines if (usage := budgets.usage_of(e))),
            **latencies(window),
            prompt_tokens_per_second=self.rate(window, roles.PROMPT_TOKENS),
            output_tokens_per_second=self.rate(window, roles.GENERATION_TOKENS),
            running_peak=greatest(budgets.peak_of(engine, roles.RUNNING) for engine in engines),
            waiting_peak=greatest(budgets.peak_of(engine, roles.WAITING) for engine in engines),
            per_running=held_by_one(budget.values()),
            gpu_headroom=self.gpu_headroom(),
            host_headroom=min(self.host_free, default=None),
            prompt=budgets.measure_lengths(merged(engines, roles.REQUEST_PROMPT_TOKENS)),
            output=budgets.measure_lengths(merged(engines, roles.REQUEST_GENERATION_TOKENS)),
            drained_s=None if self.load.drained is None else max(0.0, self.load.drained - finished),
            queue_grew=self.waits.grew(finished),
            binding=first_bound(budget.values()),
            verdicts=dict(Counter(one.verdict for one in judged)),
            unobservable=dict(
                Counter(c for one in judged for c in Cause if not one.observable.get(c, False))
            ),
        )

    def rate(self, window: Window, role: str) -> float | None:
        """A counter's rise for each second of work, over all engines."""
        total = summed(window.engines.values(), role)
        return total / self.seconds if total is not None and self.seconds > 0 else None

    def is_home(self, index: int) -> bool:
        """Whether a GPU is the server's; where its GPUs are not told apart, all of them are."""
        homes = {gpu.index for one in self.judged for gpu in one.window.gpus if gpu.expected}
        return not homes or index in homes

    def gpu_headroom(self) -> float | None:
        """The least that was free, of the tightest GPU."""
        told = [free for index, free in self.gpu_free.items() if self.is_home(index)]
        return float(min(told)) if told else None

    def identity(self, window: Window) -> Identity:
        """Which server it was."""
        info = self.live.server.info()
        capacity = (one.capacity for one in budgets.measure(window).values())
        return Identity(
            vllm_version=info.get("vllm_version"),
            model_name=info.get("model_name"),
            cache_dtype=info.get("cache_dtype"),
            gpus=tuple(
                name for index, name in sorted(self.gpu_names.items()) if self.is_home(index)
            ),
            capacity=next((tokens for tokens in capacity if tokens is not None), None),
            limits={
                limit.value: known.value
                for limit, known in self.live.server.limits.known().items()
                if limit not in FOUND_AT_START
            },
        )
