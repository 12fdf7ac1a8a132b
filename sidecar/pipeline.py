"""All the thinking behind one call: samples of a tick in, the report and closed windows out.

``run`` and ``replay`` differ in where their ticks come from and in nothing else.
"""

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

from sidecar.advise.memory import Advisor
from sidecar.assemble.process_roles import count_parties, orphans
from sidecar.assemble.server import Server
from sidecar.assemble.window import OpenWindow
from sidecar.classify.decide import find_failures, find_observable, judge
from sidecar.classify.policy import Policy
from sidecar.classify.preemption import is_lasting
from sidecar.derive import budgets
from sidecar.derive.episodes import Episodes
from sidecar.derive.host_growth import HostGrowth, foresee
from sidecar.derive.totals import Totals
from sidecar.model.advice import Advice, Lever
from sidecar.model.evidence import Weight
from sidecar.model.report import ClockStatus, ProcessCount, Report
from sidecar.model.samples import Instant, Tick
from sidecar.model.saved_state import Checkpoint, WindowMemory
from sidecar.model.verdict import CauseFound, Judgement
from sidecar.model.vocabulary import Cause, Fault, Kind, Source, Verdict

GAP_WINDOWS = 240
"""Empty windows that are told one by one after a gap (a stopped machine); the rest are skipped."""
KEPT_EVIDENCE = 100
"""Pieces of evidence of an unjudged window that outlive our own restart."""
EDGE = 1e-6
SHOWS = (None, Fault.UNSUPPORTED)
"""A cgroup that does not count kills still shows its memory."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one tick gave."""

    report: Report
    closed: tuple[Judgement, ...]


class Pipeline:
    """Knows one server. ``step`` is its only verb; the same ticks give the same steps."""

    def __init__(self, *, window_s: float, policy: Policy, configured: frozenset[Source]) -> None:
        self.window_s = window_s
        self.policy = policy
        self.server = Server(wanted=configured)
        self.episodes = Episodes(window_s=window_s)
        self.totals = Totals()
        self.growth = HostGrowth()
        self.advisor = Advisor(tolerance=policy.max_preemptions_per_request)
        self.open: OpenWindow | None = None
        self.waiting: list[OpenWindow] = []
        self.beyond_in_a_row = 0
        self.last_judgement: Judgement | None = None
        self.last_tick: Instant | None = None
        self.sights: Hashable = None
        self.seen: Mapping[Cause, bool] = {}

    def step(self, tick: Tick) -> Step:
        """Take in one tick."""
        closed = list(self.cross_gap(tick.at))
        window = self.open or self.enter_window(tick.at)
        for sample in tick.samples:
            for evidence in self.server.see(sample, window):
                self.totals.count(evidence)
        window.add_whose(self.server.gpus.judge())
        if tick.on_grid:
            self.totals.ticks += 1
            self.totals.missed += tick.missed
        closed.extend(self.leave_windows(window, tick.at))
        self.last_tick = tick.at
        return Step(report=self.report(tick), closed=tuple(closed))

    def finish(self) -> tuple[Judgement, ...]:
        """Close what is open: there is no more to come."""
        rest = self.unjudged()
        self.waiting, self.open = [], None
        at = self.last_tick
        return tuple(self.close(window, at) for window in rest) if at is not None else ()

    def adopt(self, policy: Policy) -> None:
        """Judge by another policy from now on; what was judged stays as it was."""
        self.policy = policy
        self.advisor.tolerance = policy.max_preemptions_per_request

    def checkpoint(self, now: Instant) -> Checkpoint:
        """What must be kept so that a later run goes on from this step; to be called after each."""
        return Checkpoint(
            saved_unix=now.unix,
            positions=self.server.log_positions.keep(now),
            evidence=dict(self.totals.evidence),
            windows=dict(self.totals.windows),
            last_evidence=dict(self.totals.last_evidence),
            episodes=self.episodes.memory(),
            incident=self.server.incidents.memory(),
            preemption_total=self.server.log_events.preemption_total,
            cgroup=self.server.host.ledger.known,
            kernel_position=self.server.kernel_position,
            processes=dict(self.server.host.pids),
            pod=self.server.pod.memory(),
            rumours=tuple(self.server.rumours.heard),
            strays=tuple(self.server.host.strays),
            advice=self.advisor.checkpoint(),
            unjudged=tuple(
                window.memory(KEPT_EVIDENCE)
                for window in self.unjudged()
                if window.speaks_of_failures
            ),
        )

    def restore(self, checkpoint: Checkpoint, now: Instant) -> None:
        """Go on from a checkpoint; to be called before the first step."""
        self.server.log_positions.resume(checkpoint.positions)
        self.totals.evidence.update(checkpoint.evidence)
        self.totals.windows.update(checkpoint.windows)
        self.totals.last_evidence.update(checkpoint.last_evidence)
        self.episodes.remember(checkpoint.episodes, now)
        self.server.incidents.remember(checkpoint.incident, now)
        self.server.log_events.preemption_total = checkpoint.preemption_total
        self.server.host.remember(checkpoint.cgroup, checkpoint.processes, now)
        self.server.host.strays = [
            replace(one, at=now.when(one.at.unix)) for one in checkpoint.strays
        ]
        self.server.rumours.remember(checkpoint.rumours, now)
        self.server.kernel_position = checkpoint.kernel_position
        self.server.pod.remember(checkpoint.pod)
        self.advisor.restore(checkpoint.advice)
        for memory in checkpoint.unjudged:
            self.reopen(memory, now)

    def reopen(self, memory: WindowMemory, now: Instant) -> None:
        """Go on with a window that our restart cut: what was seen in it is still to be judged."""
        # Windows of another length were cut by a change of the settings.
        is_like_ours = abs(memory.end - memory.start - self.window_s) <= EDGE
        is_open = is_like_ours and memory.start <= now.unix < memory.end
        window = OpenWindow(start=memory.start, end=memory.end, partial=True)
        window.remember(memory, now)
        if is_open:
            self.open = window
        else:
            self.waiting.append(window)

    # Windows

    def unjudged(self) -> tuple[OpenWindow, ...]:
        """The windows that are not closed, oldest first."""
        return (*self.waiting, *(() if self.open is None else (self.open,)))

    def enter_window(self, now: Instant) -> OpenWindow:
        """Open the window of this moment: it ends at a multiple of its length on the wall clock."""
        end = math.ceil((now.unix - EDGE) / self.window_s) * self.window_s
        start = end - self.window_s
        before = self.last_tick
        # Not whole: begun late, or come back to after the wall clock stepped.
        partial = before is None or not start - EDGE <= before.unix <= now.unix
        self.open = OpenWindow(start=start, end=end, partial=partial)
        return self.open

    def leave_windows(self, window: OpenWindow, now: Instant) -> Iterator[Judgement]:
        """Close the windows whose end has come; one that may still turn out otherwise waits a little."""
        if now.unix >= window.end - EDGE:
            self.open = None
            self.waiting.append(window)
        yield from self.close_waiting(now, looked=now)

    def close_waiting(self, now: Instant, *, looked: Instant) -> Iterator[Judgement]:
        """Close what waits, in order: a later window waits behind an earlier one.

        ``looked``: the last tick. While nobody looked the server had no chance to show that it lives.
        """
        while self.waiting and self.server.can_close(self.waiting[0], looked):
            yield self.close(self.waiting.pop(0), now)

    def cross_gap(self, now: Instant) -> Iterator[Judgement]:
        """Leave windows whose end passed without a tick: the loop stood still, or a clock stepped."""
        window = self.open
        if window is None:
            return
        stepped_back = now.unix <= window.start
        if not stepped_back and now.unix <= window.end + EDGE:
            return
        window.partial = True
        self.open = None
        self.waiting.append(window)
        end = window.end
        for _ in range(0 if stepped_back else GAP_WINDOWS):
            if end + self.window_s >= now.unix - EDGE:
                break
            self.waiting.append(OpenWindow(start=end, end=end + self.window_s, partial=True))
            end += self.window_s
        yield from self.close_waiting(now, looked=self.last_tick or now)

    def close(self, window: OpenWindow, now: Instant) -> Judgement:
        """Judge a window, count it, and carry its causes into the episodes."""
        frozen = self.server.freeze(window, now, whole=True)
        judgement = judge(
            frozen,
            self.policy,
            beyond_before=self.beyond_in_a_row,
            standing=self.server.standing,
        )
        judgement = replace(judgement, budgets=budgets.measure(frozen))
        advice = self.advisor.advise(judgement, self.server.version, self.server.limits.changes())
        judgement = replace(judgement, advice=advice)
        self.server.standing = find_failures(frozen) or self.server.standing
        self.totals.windows[judgement.verdict] += 1
        for cause in judgement.causes:
            if cause.cause in {Cause.PREEMPTION, Cause.STALLED}:
                for evidence in cause.evidence:
                    if evidence.source is Source.VLLM_METRICS:
                        self.totals.count(evidence)
        lasting = is_lasting(frozen, self.policy)
        self.beyond_in_a_row = self.beyond_in_a_row + 1 if lasting else 0
        self.episodes.advance(judgement.causes, now, frozen.state)
        self.last_judgement = judgement
        return judgement

    # What is published

    def report(self, tick: Tick) -> Report:
        """Everything that is known after this tick."""
        server = self.server
        urgent = self.urgent(tick.at)
        metrics = server.metrics
        times = [sample.at.monotonic for sample in tick.samples]
        cgroup = server.cgroup if server.sources[Source.CGROUP].last_fault in SHOWS else None
        self.growth.see(tick)
        self.totals.see(tick)
        return Report(
            at=tick.at,
            verdict=self.shown_verdict(urgent),
            state=server.life.state,
            state_since=server.life.since or tick.at,
            last_window=self.last_judgement,
            urgent=urgent,
            advice=self.advice(urgent, tick.at),
            windows_total={verdict: self.totals.windows[verdict] for verdict in Verdict},
            evidence_total=dict(self.totals.evidence),
            last_evidence=dict(self.totals.last_evidence),
            alerts=self.episodes.alerts(urgent),
            observable=self.observable(tick.at),
            sources=dict(server.sources),
            clock=ClockStatus(
                ticks=self.totals.ticks,
                missed=self.totals.missed,
                lateness_s=tick.lateness_s,
                skew_s=max(times) - min(times) if times else 0.0,
            ),
            log=server.log,
            found=metrics.found if metrics is not None else frozenset(),
            names=metrics.names if metrics is not None else {},
            info=server.info(),
            nvml=server.nvml if server.sources[Source.NVML].up else None,
            cgroup=cgroup,
            outlook=foresee(cgroup, self.growth.measure()),
            processes=self.count_processes(),
            kernel_lost=self.totals.kernel_lost,
        )

    def count_processes(self) -> ProcessCount | None:
        """Who of the server lives; None while its processes cannot be seen."""
        reading = self.server.life.processes
        if reading is None or not self.server.sources[Source.PROCESS].up:
            return None
        pinned = [one.pinned for one in reading.processes if one.pinned is not None]
        return ProcessCount(
            parties=count_parties(reading.processes),
            orphaned=orphans(reading.processes, reading.root),
            pinned=sum(pinned) if pinned else None,
        )

    def urgent(self, now: Instant) -> tuple[CauseFound, ...]:
        """Failures of windows that are not closed yet: they show at once.

        A start that fails without a root so far is held back a little: its first lines tell only
        that it failed, the root stands below them.
        """
        return tuple(
            found
            for window in self.unjudged()
            if window.evidence
            for found in find_failures(self.server.freeze(window, now))
            if not (is_bare_start_failure(found) and not self.server.can_close(window, now))
        )

    def advice(self, urgent: tuple[CauseFound, ...], now: Instant) -> Advice:
        """A failure's lever shows at once, too; else that of the last closed window."""
        unjudged = self.unjudged()
        if urgent and unjudged:
            frozen = self.server.freeze(unjudged[-1], now, whole=True)
            return self.advisor.advise_now(frozen, urgent, self.server.version)
        last = self.last_judgement
        return Advice(Lever.NONE) if last is None else last.advice

    def shown_verdict(self, urgent: tuple[CauseFound, ...]) -> Verdict:
        """A failure shows at once; else the last closed window speaks."""
        if urgent:
            return urgent[0].cause.verdict
        return self.last_judgement.verdict if self.last_judgement else Verdict.UNKNOWN

    def observable(self, now: Instant) -> Mapping[Cause, bool]:
        """Which causes a working source could show now."""
        if self.open is not None:
            sights = self.open.sights()
            if sights != self.sights:
                self.seen = find_observable(self.server.freeze(self.open, now))
                self.sights = sights
            return self.seen
        if self.last_judgement is not None:
            return self.last_judgement.observable
        return dict.fromkeys(Cause, False)


def is_bare_start_failure(found: CauseFound) -> bool:
    """Whether only the failure of a start is known, and nothing of its reason."""
    return found.kind is Kind.START_FAILED and all(
        evidence.weight is Weight.CONSEQUENCE for evidence in found.evidence
    )
