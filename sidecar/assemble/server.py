"""What is known of the one server that is watched: samples go in, evidence comes out."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from sidecar.assemble.counters import Counters
from sidecar.assemble.gpus import Gpus
from sidecar.assemble.host_memory import HostMemory, evidence_of, survivors
from sidecar.assemble.incident import Incidents
from sidecar.assemble.known_limits import KnownLimits
from sidecar.assemble.life import GONE, SETTLE_S, Life
from sidecar.assemble.log_events import LogEvents
from sidecar.assemble.log_positions import LogPositions, next_volume
from sidecar.assemble.pod import Pod
from sidecar.assemble.progress import Progress, has_work
from sidecar.assemble.source_status import next_status
from sidecar.assemble.survival import Survival, patience_of
from sidecar.assemble.unconfirmed import Unconfirmed, is_near
from sidecar.assemble.window import OpenWindow
from sidecar.catalog.signatures import SIGNATURES, Mark
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.readings import (
    CgroupReading,
    HealthReading,
    KernelReading,
    LogEvent,
    LogReading,
    MetricsReading,
    NvmlReading,
    PodReading,
    ProcessReading,
)
from sidecar.model.report import LogStatus, SourceStatus
from sidecar.model.samples import Instant, Sample
from sidecar.model.saved_state import Position
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import Cause, Phase, ServerState, Source, Way
from sidecar.model.window import Window

EXPLAIN_S = 2.5
"""Seconds for which a window waits for the root of a failure in it: the kernel's counter is read after the
lines that the dying engine writes."""
OUTLIVED_S = 20.0
"""Seconds of answers after a failure that show it outlived, without a token: V0 answers on for up to
10 s after its engine died, and a starved host stretches that."""
UNSEEN_S = 60.0
"""Seconds around a removal that nobody witnessed in which another's word for a kill is believed."""


class Server:
    """The memory of one server, over windows and over its restarts.

    ``wanted``: the sources that were asked for by name; one that has worked joins them.
    ``standing``: the failures of the last window that had any, until the server is seen to live again.
    """

    def __init__(self, wanted: frozenset[Source]) -> None:
        self.wanted = wanted
        self.counters = Counters()
        self.progress = Progress()
        self.host = HostMemory()
        self.gpus = Gpus()
        self.life = Life()
        self.limits = KnownLimits()
        self.pod = Pod()
        self.incidents = Incidents()
        self.survival = Survival()
        self.log_events = LogEvents()
        self.sources: dict[Source, SourceStatus] = {
            source: SourceStatus(configured=source in wanted) for source in Source
        }
        self.log = LogStatus()
        self.past: tuple[LogEvent, ...] = ()
        self.log_positions = LogPositions()
        self.kernel_position: Position = {}
        self.version: str | None = None
        self.metrics: MetricsReading | None = None
        self.nvml: NvmlReading | None = None
        self.cgroup: CgroupReading | None = None
        self.standing: tuple[CauseFound, ...] = ()
        self.rumours = Unconfirmed()
        self.unseen_at: Instant | None = None
        self.counted_at: Instant | None = None

    # Windows

    def info(self) -> dict[str, str]:
        """What the server tells of itself: a closed set of keys."""
        told = dict(self.metrics.info) if self.metrics is not None else {}
        if self.version is not None:
            told["vllm_version"] = self.version
        return told

    def freeze(self, window: OpenWindow, now: Instant, *, whole: bool = False) -> Window:
        """A window as it stands, with what is known beside it; ``whole``: limits and GPUs, too."""
        return window.close(
            state=self.life.state,
            phase=self.life.phase,
            stalled_s=self.progress.stalled_s(now),
            survived=self.survival.of(window.evidence, is_doubted=self.life.is_doubted),
            wanted=self.wanted,
            extra=self.late_root(window),
            limits=self.limits.known() if whole else {},
            gpus=self.gpus.budgets(now) if whole else (),
        )

    def can_close(self, window: OpenWindow, now: Instant) -> bool:
        """Whether nothing that may still come could change what the window is judged to be."""
        patience_s = patience_of(self.progress.step_s)
        doubted = self.life.is_doubted
        if self.survival.is_open(window.evidence, now, patience_s, is_doubted=doubted):
            return False
        incident = self.incidents.running
        if incident is None or incident.root is not None:
            return True
        return not any(
            e.weight is Weight.CONSEQUENCE and now.monotonic - e.at.monotonic < EXPLAIN_S
            for e in window.evidence
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

    # Samples

    def see(self, sample: Sample, window: OpenWindow) -> tuple[Evidence, ...]:
        """Take in one sample; what it adds to the window goes there, its new evidence comes back."""
        self.note_status(sample)
        window.count(sample)
        admitted = []
        # One by one: what a line tells of the server's life decides how the next one counts.
        for evidence in self.read(sample, window):
            for counted in self.admit(evidence):
                window.add_evidence(counted)
                admitted.append(counted)
        self.limits.follow(self.life.lives)
        return tuple(admitted)

    def read(self, sample: Sample, window: OpenWindow) -> Iterable[Evidence]:
        """What speaks for a cause in one sample."""
        match sample.reading:
            case MetricsReading():
                return self.read_metrics(sample.reading, sample.at, window)
            case HealthReading():
                return self.read_health(sample.reading, sample.at)
            case LogReading():
                return self.read_log(sample.reading)
            case KernelReading():
                return self.read_kernel_log(sample.reading, sample.at, window)
            case CgroupReading():
                return self.read_cgroup(sample.reading, sample.at, window)
            case ProcessReading():
                return self.read_processes(sample.reading, sample.at)
            case PodReading():
                return self.read_pod(sample.reading, sample.at)
            case NvmlReading():
                self.nvml = sample.reading
                window.add_gpus(sample.reading)
                # A server that was replaced unseen may still stand as serving.
                serves = self.life.state is ServerState.SERVING and not window.restarted
                self.gpus.feed(sample.reading, sample.at, serves=serves)
                return ()
            case None:
                return self.read_fault(sample, window)

    def note_status(self, sample: Sample) -> None:
        """Keep the health of a source, apart from what it read. One that has worked is missed after."""
        after = next_status(self.sources[sample.source], sample)
        self.sources[sample.source] = after
        if after.up:
            self.wanted |= {sample.source}

    def read_health(self, reading: HealthReading, at: Instant) -> tuple[Evidence, ...]:
        """The health endpoint answered, or one beside it."""
        self.version = reading.version or self.version
        self.limits.see_answers(reading.limits, at)
        return self.life.see_status(reading.status, at)

    def read_metrics(
        self, reading: MetricsReading, at: Instant, window: OpenWindow
    ) -> tuple[Evidence, ...]:
        """An exposition was read; what it counts is judged when the window closes."""
        rise = self.counters.advance(reading)
        token = self.progress.advance(reading, rise.engines, at)
        if rise.restarted:
            self.progress.stuck_since.clear()
            window.restart_unexplained |= not self.life.explains_restart()
        if token is not None:
            self.see_tokens(token)
        self.survival.last_answer = at
        self.outlive(at)
        self.survival.has_work = any(has_work(seen) for seen in reading.engines.values())
        self.life.see_answer(at, sleeping=reading.sleeping)
        self.metrics = reading
        self.see_config(reading, at, restarted=rise.restarted)
        window.add_reading(reading, rise, at, since=self.counted_at)
        self.counted_at = at if reading.naming is not None else self.counted_at
        return ()

    def see_tokens(self, since: Instant) -> None:
        """Tokens were made after that moment. Of what happened later they say nothing."""
        self.incidents.see_tokens(since)
        self.life.see_tokens(since)
        self.survival.last_token = since
        incident = self.incidents.running
        if incident is None or since >= incident.last:
            self.standing = ()

    def see_config(self, reading: MetricsReading, at: Instant, *, restarted: bool) -> None:
        """What the exposition tells of limits; of another server where counters began anew."""
        self.limits.follow(self.life.lives)
        if restarted:
            self.limits.begin_anew()
        self.limits.see_metrics(reading, at)

    def outlive(self, at: Instant) -> None:
        """Forget a failure that an idle server answered on after: its next death is its own."""
        incident = self.incidents.running
        since = None if incident is None else incident.last
        if since is not None and at.monotonic - since.monotonic < OUTLIVED_S:
            return
        if self.life.state in {ServerState.SERVING, ServerState.SLEEPING}:
            self.incidents.end()
            self.life.told = None
            self.standing = ()

    def read_log(self, reading: LogReading) -> Iterator[Evidence]:
        """Lines arrived in vLLM's log."""
        self.life.log_is_read = True
        self.log = next_volume(self.log, reading)
        self.log_positions.see(reading)
        self.past = reading.past or self.past
        self.limits.see_past(reading.past)
        for event in reading.events:
            self.limits.see_event(event)
            row = SIGNATURES.get(event.signature)
            if row is not None and row.mark is not None:
                self.see_mark(row.mark, Instant(event.at_monotonic, event.at_unix))
            evidence = self.log_events.read(event, self.life.phase)
            if evidence is not None:
                yield evidence

    def see_mark(self, mark: Mark, at: Instant) -> None:
        """A line told of the server's life. A new start ends the incident before it."""
        if mark is Mark.STARTING and self.life.state in {ServerState.DEAD, ServerState.STOPPED}:
            self.incidents.end()
            self.standing = ()
        self.life.see_mark(mark, at)

    def read_cgroup(
        self, reading: CgroupReading, at: Instant, window: OpenWindow
    ) -> tuple[Evidence, ...]:
        """The server's memory cgroup was looked at."""
        self.cgroup = reading
        self.host.see_place(reading, at)
        toll = self.host.see_cgroup(reading, at)
        # A stop that was asked for takes the cgroup with it: nobody was killed for memory then.
        is_stopped = self.life.stop_explains(at)
        if toll.unseen and not is_stopped:
            window.kills_unseen = True
            self.unseen_at = at
        strays = self.host.take_strays(at)
        return (*evidence_of(toll, reading, at), *(() if is_stopped else strays))

    def read_kernel_log(
        self, reading: KernelReading, at: Instant, window: OpenWindow
    ) -> tuple[Evidence, ...]:
        """The kernel's log was read."""
        window.records_lost |= reading.lost > 0
        self.kernel_position = reading.position or self.kernel_position
        found, is_unsure = self.host.see_kills(reading.kills)
        window.kills_unattributed |= is_unsure
        strays = self.host.take_strays(at)
        return (*found, *(() if self.life.stop_explains(at) else strays))

    def read_processes(self, reading: ProcessReading, at: Instant) -> tuple[Evidence, ...]:
        """The server's processes were listed."""
        before = self.life.processes
        self.host.see_processes(reading, at)
        self.gpus.see_processes(reading)
        if before is not None and not survivors(before.processes, reading.processes):
            self.survival.last_loss = at
        found = self.life.see_processes(reading, at)
        if reading.root is not None:
            self.counters.see_root(replaced=self.life.watch.replaced)
            if self.life.watch.replaced:
                self.limits.begin_anew()
            self.limits.see_command_line(reading.limits, at)
        return found

    def read_pod(self, reading: PodReading, at: Instant) -> tuple[Evidence, ...]:
        """The kubelet told of our pod."""
        if reading.deleting:
            self.see_mark(Mark.STOP_WANTED, at)
        cgroup = self.cgroup
        is_the_servers = cgroup is not None and cgroup.way not in {Way.OWN, Way.POD}
        container_id = cgroup.container if cgroup is not None and is_the_servers else None
        return self.pod.see(reading, at, container_id=container_id)

    def read_fault(self, sample: Sample, window: OpenWindow) -> tuple[Evidence, ...]:
        """A reading was not had."""
        if sample.source is Source.NVML:
            self.gpus.miss()
        if sample.source is Source.PROCESS:
            self.gpus.see_processes(None)
        if sample.source is Source.VLLM_LOG:
            self.life.log_is_read = False
        if sample.source is Source.VLLM_METRICS and sample.fault in GONE:
            window.last_refusal = sample.at
            self.survival.last_refusal = sample.at
            return (
                *self.life.see_refusal(sample.at),
                *self.take_past(),
                *self.take_rumours(sample),
            )
        return ()

    def take_rumours(self, sample: Sample) -> tuple[Evidence, ...]:
        """What a server that fell silent makes believable, where no log could tell of its death."""
        refused = self.life.first_refusal
        if refused is None or not self.life.has_served or self.life.stop_explains(sample.at):
            return ()
        is_settled = sample.at.monotonic - refused.monotonic >= SETTLE_S
        return self.rumours.take(refused) if is_settled else ()

    def take_past(self) -> tuple[Evidence, ...]:
        """What the log said of the end of a server that was dead before we came."""
        past, self.past = self.past, ()
        if self.life.has_served:
            return ()
        starts = [n for n, event in enumerate(past) if is_start(event)]
        last_life = past[starts[-1] :] if starts else past
        told = (self.log_events.read(event, self.life.phase) for event in last_life)
        return tuple(e for e in told if e is not None and e.cause is not Cause.PREEMPTION)

    def admit(self, evidence: Evidence) -> tuple[Evidence, ...]:
        """The evidence that counts now, with its phase: neither explained nor told before."""
        if evidence.phase is Phase.UNKNOWN:
            evidence = replace(evidence, phase=self.life.phase)
        if evidence.cause is Cause.PREEMPTION:
            return (evidence,)
        if evidence.cause is Cause.ENGINE_FAILURE and self.life.stop_explains(evidence.at):
            return ()
        if evidence.source is Source.KUBERNETES and self.incidents.was_told(evidence.at):
            # The kubelet tells late of an end that others told: shown, and no more.
            return (replace(evidence, weight=Weight.SUPPORT),)
        if evidence.weight is Weight.SUPPORT:
            return self.weigh_rumour(evidence)
        admitted = self.incidents.admit(evidence)
        if admitted is None:
            return ()
        self.life.see_failure(evidence.at)
        if evidence.cause is not Cause.ENGINE_FAILURE:
            return (admitted,)
        believed = (self.admit(rumour) for rumour in self.rumours.take(evidence.at))
        return (admitted, *chain.from_iterable(believed))

    def weigh_rumour(self, evidence: Evidence) -> tuple[Evidence, ...]:
        """A kill that may be another's counts only if our server died with it."""
        if evidence.source is Source.KUBERNETES and self.would_have_counted(evidence.at):
            # An old kill of a child still gives a container this reason: shown, and no more.
            return (evidence,)
        incident = self.incidents.running
        if incident is not None and incident.root is not None and incident.root.is_refused_start:
            return ()
        died = incident is not None and any(
            cause is Cause.ENGINE_FAILURE for cause, _ in incident.seen
        )
        if died and incident is not None and is_near(incident.last, evidence.at):
            return self.admit(replace(evidence, weight=Weight.ROOT))
        self.rumours.hear(evidence)
        return ()

    def would_have_counted(self, at: Instant) -> bool:
        """Whether the cgroup was watched, and so would have shown a kill of that moment."""
        unseen = self.unseen_at
        is_unseen = unseen is not None and abs(unseen.monotonic - at.monotonic) <= UNSEEN_S
        return self.sources[Source.CGROUP].up and not is_unseen


def is_start(event: LogEvent) -> bool:
    """Whether a line told that a server begins."""
    row = SIGNATURES.get(event.signature)
    return row is not None and row.mark is Mark.STARTING
