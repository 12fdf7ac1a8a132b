"""The window that is open: samples and evidence go in, a frozen ``Window`` comes out at its end."""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from sidecar.assemble.counters import COUNTERS, EngineRise, HistogramRise, Rise, total
from sidecar.assemble.gauges import Gauge
from sidecar.assemble.gpus import Split
from sidecar.model.budget import GpuBudget, Sight
from sidecar.model.evidence import Evidence
from sidecar.model.limits import Limits
from sidecar.model.readings import (
    CgroupReading,
    LogReading,
    MetricsReading,
    NvmlReading,
    Reading,
)
from sidecar.model.samples import Instant, Sample
from sidecar.model.saved_state import WindowMemory
from sidecar.model.vocabulary import Fault, Phase, ServerState, Source
from sidecar.model.window import EngineWindow, SourceWindow, Window

MAX_EVIDENCE = 1000
"""Pieces of evidence kept per window; incidents deduplicate, so a real window holds a few."""
SIGHTS = (Sight.SEEN, Sight.HIDDEN, Sight.NO_SERVER, Sight.OTHER_NAMESPACE)
"""Best first: the worst of a window's readings is what the window saw."""


@dataclass(slots=True)
class EngineSpan:
    """One engine's part of the open window."""

    deltas: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, Gauge] = field(default_factory=dict)
    histograms: dict[str, list[HistogramRise]] = field(default_factory=dict)
    outcomes: dict[str, float] = field(default_factory=dict)

    def add_rise(self, rise: EngineRise) -> None:
        """Add what rose between two readings."""
        for role, value in rise.deltas.items():
            self.deltas[role] = self.deltas.get(role, 0.0) + value
        for reason, value in rise.outcomes.items():
            self.outcomes[reason] = self.outcomes.get(reason, 0.0) + value
        for role, histogram in rise.histograms.items():
            rises = self.histograms.setdefault(role, [])
            # One from the window's begin to now, unless the counters began anew.
            both = rises[-1].followed_by(histogram) if rises else None
            if both is None:
                rises.append(histogram)
            else:
                rises[-1] = both

    def add_gauges(self, values: Mapping[str, float]) -> None:
        """Add the gauges of one reading."""
        for role, value in values.items():
            if role in COUNTERS:
                continue
            if role in self.gauges:
                self.gauges[role].add(value)
            else:
                self.gauges[role] = Gauge.of(value)

    def close(self) -> EngineWindow:
        """The engine over the whole window."""
        return EngineWindow(
            deltas=dict(self.deltas),
            gauges={role: gauge.spread() for role, gauge in self.gauges.items()},
            histograms={role: total(rises) for role, rises in self.histograms.items()},
            outcomes=dict(self.outcomes),
        )


@dataclass(slots=True)
class GpuSpan:
    """Whose one GPU's memory was over the open window: the worst sight, and the most of strangers.

    ``untold``: at a reading it could not be told how much others held.
    """

    sight: Sight = Sight.SEEN
    strangers: int = 0
    untold: bool = False

    def add(self, whose: Split) -> None:
        """Add one reading."""
        self.sight = max(self.sight, whose.sight, key=SIGHTS.index)
        self.strangers = max(self.strangers, whose.strangers)
        self.untold |= whose.cotenant is None

    def over(self, gpu: GpuBudget) -> GpuBudget:
        """The GPU as it is now, with what was seen before in the window."""
        others = max(gpu.cotenant or 0, self.strangers)
        is_told = gpu.cotenant is not None and not self.untold
        return replace(
            gpu,
            sight=max(self.sight, gpu.sight, key=SIGHTS.index),
            cotenant=others if is_told else others or None,
        )


@dataclass(slots=True)
class OpenWindow:
    """What has been seen so far of the window that ends at ``end`` (unix seconds)."""

    start: float
    end: float
    partial: bool = False
    engines: dict[str, EngineSpan] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list)
    readings: Counter[Source] = field(default_factory=Counter)
    faults: dict[Source, Counter[Fault]] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    last_usable: Instant | None = None
    counted_from: Instant | None = None
    last_answer: Instant | None = None
    last_refusal: Instant | None = None
    blind: bool = False
    idle_v0: bool = False
    restarted: bool = False
    restart_unexplained: bool = False
    kills_unseen: bool = False
    records_lost: bool = False
    kills_unattributed: bool = False
    generation: str | None = None
    gpus: dict[int, Gauge] = field(default_factory=dict)
    whose: dict[int, GpuSpan] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)
    phase: Phase = Phase.UNKNOWN

    def count(self, sample: Sample) -> None:
        """Count a sample, whatever it says. A reading that cannot show a kill is no reading."""
        fault = sample.fault or blindness(sample.reading)
        if fault is None:
            self.readings[sample.source] += 1
        else:
            self.faults.setdefault(sample.source, Counter())[fault] += 1

    def add_reading(
        self, reading: MetricsReading, rise: Rise, at: Instant, since: Instant | None = None
    ) -> None:
        """Add one exposition and what rose since the one before, which was read at ``since``."""
        self.last_answer = at
        if reading.naming is None:
            self.blind = True
            return
        self.last_usable = at
        if self.counted_from is None:
            # A new server's counters began with it, not with the last reading of the one before.
            self.counted_from = at if rise.restarted or since is None else since
        self.idle_v0 = reading.idle_v0
        self.info = reading.info
        self.found |= reading.found
        self.generation = reading.generation or self.generation
        self.restarted |= rise.restarted
        for engine, seen in reading.engines.items():
            self.engines.setdefault(engine, EngineSpan()).add_gauges(seen.values)
        for engine, risen in rise.engines.items():
            self.engines.setdefault(engine, EngineSpan()).add_rise(risen)

    def add_gpus(self, reading: NvmlReading) -> None:
        """Add one reading of the GPUs."""
        for gpu in reading.gpus:
            if gpu.utilization is None:
                continue
            if gpu.index in self.gpus:
                self.gpus[gpu.index].add(gpu.utilization)
            else:
                self.gpus[gpu.index] = Gauge.of(gpu.utilization)

    def add_whose(self, told: Mapping[int, Split]) -> None:
        """Add whose the GPUs' memory is by one reading."""
        for index, whose in told.items():
            self.whose.setdefault(index, GpuSpan()).add(whose)

    def over_window(self, gpu: GpuBudget) -> GpuBudget:
        """One GPU over the window: a co-tenant that left before its end was there."""
        busy = self.gpus.get(gpu.index)
        seen = self.whose.get(gpu.index, GpuSpan()).over(gpu)
        return replace(seen, utilization=None if busy is None else busy.spread().mean)

    def add_evidence(self, evidence: Evidence) -> None:
        """Add one piece of evidence."""
        if len(self.evidence) < MAX_EVIDENCE:
            self.evidence.append(evidence)

    def sights(self) -> Hashable:
        """All that decides which causes could be seen so far: it changes a few times in a window."""
        return (
            self.start,
            self.last_usable is not None,
            len(self.found),
            self.idle_v0,
            frozenset(self.readings),
            self.kills_unseen,
            self.records_useless,
        )

    @property
    def speaks_of_failures(self) -> bool:
        """Whether it holds anything that must be judged even if we are restarted before its end."""
        return bool(self.evidence) or self.kills_unseen or self.records_useless

    @property
    def records_useless(self) -> bool:
        """Whether the kernel log told of kills, or may have, and not of whose they were."""
        return self.records_lost or self.kills_unattributed

    def counted_s(self) -> float:
        """Seconds from the reading that the counters rose from to the last one."""
        if self.last_usable is None or self.counted_from is None:
            return 0.0
        return self.last_usable.monotonic - self.counted_from.monotonic

    def memory(self, most: int) -> WindowMemory:
        """What must be kept of it over our own restart: the latest pieces of evidence."""
        return WindowMemory(
            start=self.start,
            end=self.end,
            evidence=tuple(self.evidence[-most:]),
            kills_unseen=self.kills_unseen,
            records_lost=self.records_useless,
        )

    def remember(self, memory: WindowMemory, now: Instant) -> None:
        """Take in what was kept."""
        for evidence in memory.evidence:
            self.add_evidence(replace(evidence, at=now.when(evidence.at.unix)))
        self.kills_unseen |= memory.kills_unseen
        self.records_lost |= memory.records_lost

    def close(
        self,
        *,
        state: ServerState,
        phase: Phase,
        stalled_s: float,
        survived: bool,
        wanted: frozenset[Source] = frozenset(),
        extra: tuple[Evidence, ...] = (),
        limits: Limits | None = None,
        gpus: tuple[GpuBudget, ...] = (),
    ) -> Window:
        """The window as it is judged.

        ``extra``: the root of what could not be explained in it. ``limits``: what is known of them
        now. ``gpus``: as they are now; what was seen of them in the window is added to it.
        """
        sources = self.readings.keys() | self.faults.keys()
        busy = {index: gauge.spread().mean for index, gauge in sorted(self.gpus.items())}
        down = self.last_refusal is not None and (
            self.last_answer is None or self.last_refusal > self.last_answer
        )
        return Window(
            start=self.start,
            end=self.end,
            partial=self.partial,
            state=state,
            phase=phase,
            engines={engine: self.engines[engine].close() for engine in sorted(self.engines)},
            evidence=(*self.evidence, *extra),
            sources={
                source: SourceWindow(
                    readings=self.readings[source],
                    wanted=source in wanted,
                    faults=dict(self.faults.get(source, Counter())),
                )
                for source in sorted(sources)
            },
            found=frozenset(self.found),
            served=self.last_usable is not None,
            down=down,
            blind=self.blind and self.last_usable is None,
            idle_v0=self.idle_v0,
            survived=survived,
            stalled_s=stalled_s,
            restarted=self.restarted,
            restart_unexplained=self.restart_unexplained,
            kills_unseen=self.kills_unseen,
            records_lost=self.records_useless,
            naming_generation=self.generation,
            counted_s=self.counted_s(),
            limits={} if limits is None else limits,
            gpus=tuple(self.over_window(gpu) for gpu in gpus),
            gpu_utilization=busy,
            info=self.info,
        )


LAG_BYTES = 4 * 1024 * 1024
"""A log that is further behind may hold what would decide: it counts as not read."""


def blindness(reading: Reading | None) -> Fault | None:
    """Why a reading shows nothing of what it is read for; None if it does."""
    match reading:
        case CgroupReading(gone=True):
            return Fault.ABSENT
        case CgroupReading() if "oom_kill" not in reading.events:
            # No right to the file that counts kills, or Linux before 4.13.
            return Fault.UNSUPPORTED
        case LogReading() if reading.hidden is not None:
            return reading.hidden
        case LogReading() if reading.lag_bytes > LAG_BYTES:
            return Fault.BUSY
        case _:
            return None
