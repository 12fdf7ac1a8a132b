"""All the thinking behind one call: samples of a tick in, the report and closed windows out.

``run`` and ``replay`` differ in where their ticks come from and in nothing else.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sidecar.assemble.counters import Counters
from sidecar.assemble.host_memory import HostMemory, survivors
from sidecar.assemble.incident import Incidents
from sidecar.assemble.life import GONE, Life
from sidecar.assemble.log_events import LogEvents
from sidecar.assemble.progress import Progress
from sidecar.assemble.window import OpenWindow
from sidecar.catalog.evidence import EVIDENCE
from sidecar.catalog.log_signatures import SIGNATURES, Mark
from sidecar.classify.decide import find_failures, find_observable, judge
from sidecar.classify.policy import Policy
from sidecar.classify.preemption import is_beyond, is_waiting
from sidecar.derive.episodes import Episodes
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.readings import (
    CgroupReading,
    HealthReading,
    KernelReading,
    LogReading,
    MetricsReading,
    NvmlReading,
    ProcessReading,
)
from sidecar.model.report import (
    ClockStatus,
    EvidenceKey,
    LogStatus,
    Report,
    SourceStatus,
)
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.vocabulary import Cause, Fault, ServerState, Source, Verdict
from sidecar.model.window import CauseFound, Judgement, Window

EXPLAIN_S = 2.0
"""Seconds a window stays open past its end for the root of a failure nobody has explained: the
kernel's counter is read after the lines that the dying engine writes."""
GAP_WINDOWS = 240
"""Empty windows that are told one by one after a gap (a stopped machine); the rest are skipped."""
EDGE = 1e-6


@dataclass(frozen=True, slots=True)
class Step:
    """What one tick gave."""

    report: Report
    closed: tuple[Judgement, ...]


@dataclass(slots=True)
class Totals:
    """What is counted since start."""

    windows: Counter[Verdict] = field(default_factory=Counter)
    evidence: dict[EvidenceKey, float] = field(default_factory=lambda: dict.fromkeys(EVIDENCE, 0.0))
    last_evidence: dict[Cause, float] = field(default_factory=dict)
    ticks: int = 0
    missed: int = 0

    def count(self, evidence: Evidence) -> None:
        """Count a piece of evidence under its closed-set name."""
        key = EvidenceKey(evidence.cause, evidence.source, evidence.signal)
        if key in self.evidence:
            self.evidence[key] += evidence.amount
        last = self.last_evidence.get(evidence.cause, 0.0)
        self.last_evidence[evidence.cause] = max(last, evidence.at.unix)


class Pipeline:
    """Knows one server. ``step`` is its only verb; the same ticks give the same steps."""

    def __init__(
        self, *, window_s: float, policy: Policy, configured: frozenset[Source]
    ) -> None:
        self.window_s = window_s
        self.policy = policy
        self.counters = Counters()
        self.progress = Progress()
        self.host = HostMemory()
        self.life = Life()
        self.wanted = configured
        self.incidents = Incidents()
        self.log_events = LogEvents()
        self.episodes = Episodes(window_s=window_s)
        self.totals = Totals()
        self.open: OpenWindow | None = None
        self.unexplained: OpenWindow | None = None
        self.beyond_in_a_row = 0
        self.standing: tuple[CauseFound, ...] = ()
        self.last_judgement: Judgement | None = None
        self.last_tick: Instant | None = None
        self.sources: dict[Source, SourceStatus] = {
            source: SourceStatus(configured=source in configured) for source in Source
        }
        self.log = LogStatus()
        self.metrics: MetricsReading | None = None
        self.nvml: NvmlReading | None = None
        self.cgroup: CgroupReading | None = None

    # One tick

    def step(self, tick: Tick) -> Step:
        """Take in one tick."""
        closed = list(self.cross_gap(tick.at))
        self.enter_window(tick.at)
        for sample in tick.samples:
            self.see(sample)
        if self.unexplained is not None and self.can_close(self.unexplained, tick.at):
            closed.append(self.close(self.unexplained, tick.at))
            self.unexplained = None
        if tick.on_grid:
            self.totals.ticks += 1
            self.totals.missed += tick.missed
        window = self.open
        if window is not None and tick.at.unix >= window.end - EDGE:
            self.open = None
            if self.can_close(window, tick.at):
                closed.append(self.close(window, tick.at))
            else:
                self.unexplained = window
        self.last_tick = tick.at
        return Step(report=self.report(tick), closed=tuple(closed))

    def finish(self) -> tuple[Judgement, ...]:
        """Close what is open: there is no more to come."""
        rest = [window for window in (self.unexplained, self.open) if window is not None]
        self.unexplained = self.open = None
        at = self.last_tick
        return tuple(self.close(window, at) for window in rest) if at is not None else ()

    # Windows

    def end_of_window(self, unix: float) -> float:
        """The edge, a multiple of the window on the wall clock, that ends the window at a moment."""
        return math.ceil((unix - EDGE) / self.window_s) * self.window_s

    def cross_gap(self, now: Instant) -> tuple[Judgement, ...]:
        """Close windows whose end has passed without a tick: the loop stood still, or the wall
        clock stepped.
        """
        window = self.open
        if window is None:
            return ()
        stepped_back = now.unix <= window.start
        if not stepped_back and now.unix <= window.end + EDGE:
            return ()
        closed = []
        if self.unexplained is not None:
            closed.append(self.close(self.unexplained, now))
            self.unexplained = None
        window.partial = True
        closed.append(self.close(window, now))
        self.open = None
        end = window.end
        empty = 0
        while not stepped_back and empty < GAP_WINDOWS and end + self.window_s < now.unix - EDGE:
            gap = OpenWindow(start=end, end=end + self.window_s, partial=True)
            closed.append(self.close(gap, now))
            end += self.window_s
            empty += 1
        return tuple(closed)

    def enter_window(self, now: Instant) -> None:
        """Make sure that the window of this moment is open."""
        if self.open is None:
            end = self.end_of_window(now.unix)
            start = end - self.window_s
            before = self.last_tick
            partial = before is None or before.unix < start - EDGE
            self.open = OpenWindow(start=start, end=end, partial=partial)

    def can_close(self, window: OpenWindow, now: Instant) -> bool:
        """Whether nothing that may still come could explain what the window holds."""
        incident = self.incidents.running
        if incident is None or incident.root is not None:
            return True
        waits = any(
            e.weight is Weight.CONSEQUENCE
            and now.monotonic - e.at.monotonic < EXPLAIN_S
            for e in window.evidence
        )
        return not waits

    def close(self, window: OpenWindow, now: Instant) -> Judgement:
        """Judge a window and book it."""
        frozen = self.freeze(window, now)
        judgement = judge(
            frozen,
            self.policy,
            beyond_before=self.beyond_in_a_row,
            standing=self.standing,
        )
        self.standing = find_failures(frozen) or self.standing
        self.book(judgement, now)
        return judgement

    def freeze(self, window: OpenWindow, now: Instant) -> Window:
        """The window as it stands."""
        return window.close(
            state=self.life.state,
            phase=self.life.phase,
            stalled_s=self.progress.stalled_s(now),
            wanted=self.wanted,
            extra=self.late_root(window),
        )

    def late_root(self, window: OpenWindow) -> tuple[Evidence, ...]:
        """The root that came after the window's end and explains what the window holds."""
        incident = self.incidents.running
        if incident is None or incident.root is None or incident.root in window.evidence:
            return ()
        unexplained = any(
            e.weight is Weight.CONSEQUENCE and e.at >= incident.opened for e in window.evidence
        )
        return (incident.root,) if unexplained else ()

    def book(self, judgement: Judgement, now: Instant) -> None:
        """Count a closed window and carry its causes into the episodes."""
        self.totals.windows[judgement.verdict] += 1
        preemptions = 0.0
        for cause in judgement.causes:
            if cause.cause in (Cause.PREEMPTION, Cause.STALLED):
                for evidence in cause.evidence:
                    if evidence.source is Source.VLLM_METRICS:
                        self.totals.count(evidence)
                        preemptions += (
                            evidence.amount if cause.cause is Cause.PREEMPTION else 0.0
                        )
        window = judgement.window
        beyond = (
            preemptions > 0
            and is_beyond(window, self.policy, preemptions)
            and is_waiting(window)
        )
        self.beyond_in_a_row = self.beyond_in_a_row + 1 if beyond else 0
        self.episodes.advance(judgement.causes, now, self.life.state)
        self.last_judgement = judgement

    # Samples

    def see(self, sample: Sample) -> None:
        """Take in one sample."""
        self.note_status(sample)
        if self.open is not None:
            self.open.count(sample)
        match sample.reading:
            case MetricsReading():
                self.see_metrics(sample.reading, sample.at)
            case HealthReading():
                self.see_health(sample.reading, sample.at)
            case LogReading():
                self.see_log(sample.reading)
            case KernelReading():
                self.take_all(self.host.see_kills(sample.reading.kills))
            case CgroupReading():
                self.cgroup = sample.reading
                self.take_all(self.host.see_cgroup(sample.reading, sample.at))
            case ProcessReading():
                self.see_processes(sample.reading, sample.at)
            case NvmlReading():
                self.nvml = sample.reading
            case None:
                self.see_fault(sample)

    def note_status(self, sample: Sample) -> None:
        """Keep the health of a source, apart from what it read."""
        before = self.sources[sample.source]
        errors: Mapping[Fault, int] = before.errors
        if sample.fault is None:
            self.wanted |= {sample.source}
        else:
            errors = {**errors, sample.fault: errors.get(sample.fault, 0) + 1}
        self.sources[sample.source] = SourceStatus(
            configured=True,
            up=sample.fault is None,
            last_fault=sample.fault,
            last_at=sample.at,
            duration_s=sample.duration_s,
            errors=errors,
        )

    def see_metrics(self, reading: MetricsReading, at: Instant) -> None:
        """An exposition was read."""
        rise = self.counters.advance(reading)
        tokens_before = self.progress.last_token
        self.progress.advance(reading, rise.engines, at)
        if rise.restarted:
            self.progress.stuck_since.clear()
        if self.progress.last_token is not tokens_before:
            self.incidents.see_tokens(at)
            self.life.see_tokens(at)
            self.standing = ()
            if self.open is not None:
                self.open.last_token = at
        self.life.see_answer(at, sleeping=reading.sleeping)
        self.metrics = reading
        if self.open is not None:
            self.open.add_reading(reading, rise, at)

    def see_health(self, reading: HealthReading, at: Instant) -> None:
        """The health endpoint answered."""
        self.take_all(self.life.see_status(reading.status, at))

    def see_log(self, reading: LogReading) -> None:
        """Lines arrived in vLLM's log."""
        self.life.log_is_read = True
        dropped = dict(self.log.dropped)
        for reason, count in reading.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
        self.log = LogStatus(
            lines=self.log.lines + reading.lines,
            bytes=self.log.bytes + reading.bytes,
            lag_bytes=reading.lag_bytes,
            dropped=dropped,
        )
        for event in reading.events:
            at = Instant(event.at_monotonic, event.at_unix)
            row = SIGNATURES.get(event.signature)
            if row is not None and row.mark is not None:
                self.see_mark(row.mark, at)
            evidence = self.log_events.read(event, self.life.phase)
            if evidence is not None:
                self.take(evidence)

    def see_mark(self, mark: Mark, at: Instant) -> None:
        """A line told of the server's life. A new start ends the incident before it."""
        if mark is Mark.STARTING and self.life.state in {ServerState.DEAD, ServerState.STOPPED}:
            self.incidents.running = None
            self.standing = ()
        self.life.see_mark(mark, at)

    def see_processes(self, reading: ProcessReading, at: Instant) -> None:
        """The server's processes were listed."""
        before = self.life.processes
        self.host.see_processes(reading)
        if (
            before is not None
            and self.open is not None
            and not survivors(before.processes, reading.processes)
        ):
            self.open.lost_process = True
        self.take_all(self.life.see_processes(reading, at))

    def see_fault(self, sample: Sample) -> None:
        """A reading was not had."""
        if sample.source is Source.VLLM_LOG:
            self.life.log_is_read = False
        if sample.source is Source.VLLM_METRICS and sample.fault in GONE:
            if self.open is not None:
                self.open.last_refusal = sample.at
            self.take_all(self.life.see_refusal(sample.at))

    # Evidence

    def take_all(self, evidence: tuple[Evidence, ...]) -> None:
        """Take in several pieces of evidence."""
        for piece in evidence:
            self.take(piece)

    def take(self, evidence: Evidence) -> None:
        """Take in one piece of evidence."""
        if evidence.phase not in ("startup", "runtime"):
            evidence = replace(evidence, phase=self.life.phase)
        if evidence.cause is Cause.PREEMPTION:
            self.keep(evidence)
            return
        if evidence.cause is Cause.ENGINE_FAILURE and self.life.stop_explains(evidence.at):
            return
        admitted = self.incidents.admit(evidence)
        if admitted is not None:
            self.life.see_failure(evidence.at)
            self.keep(admitted)

    def keep(self, evidence: Evidence) -> None:
        """Put evidence into the open window and count it."""
        self.totals.count(evidence)
        if self.open is not None:
            self.open.add_evidence(evidence)

    # What is published

    def urgent(self, now: Instant) -> tuple[CauseFound, ...]:
        """Failures of windows that are not closed yet."""
        found: list[CauseFound] = []
        for window in (self.unexplained, self.open):
            if window is not None and window.evidence:
                found.extend(find_failures(self.freeze(window, now)))
        return tuple(found)

    def report(self, tick: Tick) -> Report:
        """Everything that is known after this tick."""
        urgent = self.urgent(tick.at)
        last = self.last_judgement
        times = [sample.at.monotonic for sample in tick.samples]
        return Report(
            at=tick.at,
            verdict=self.shown_verdict(urgent),
            state=self.life.state,
            state_since=self.life.since or tick.at,
            last_window=last,
            urgent=urgent,
            windows_total={v: self.totals.windows[v] for v in Verdict},
            evidence_total=dict(self.totals.evidence),
            last_evidence=dict(self.totals.last_evidence),
            alerts=self.episodes.alerts(urgent),
            observable=self.observable(tick.at),
            sources=dict(self.sources),
            clock=ClockStatus(
                ticks=self.totals.ticks,
                missed=self.totals.missed,
                lateness_s=tick.lateness_s,
                skew_s=max(times) - min(times) if times else 0.0,
            ),
            log=self.log,
            found=self.metrics.found if self.metrics is not None else frozenset(),
            info=self.metrics.info if self.metrics is not None else {},
            nvml=self.nvml if self.sources[Source.NVML].up else None,
            cgroup=self.cgroup if self.sources[Source.CGROUP].up else None,
        )

    def shown_verdict(self, urgent: tuple[CauseFound, ...]) -> Verdict:
        """A failure shows at once; else the last closed window speaks."""
        if urgent:
            return urgent[0].cause.verdict
        return self.last_judgement.verdict if self.last_judgement else Verdict.UNKNOWN

    def observable(self, now: Instant) -> Mapping[Cause, bool]:
        """Which causes a working source could show now."""
        if self.open is not None:
            return find_observable(self.freeze(self.open, now))
        if self.last_judgement is not None:
            return self.last_judgement.observable
        return dict.fromkeys(Cause, False)
