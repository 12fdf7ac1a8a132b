"""Everything that is published after one tick. Replaced whole, never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.model.advice import Advice
from sidecar.model.envelope import EnvelopeStatus
from sidecar.model.readings import CgroupReading, NvmlReading
from sidecar.model.samples import Instant
from sidecar.model.verdict import CauseFound, Judgement
from sidecar.model.vocabulary import (
    Cause,
    Fault,
    LimitOwner,
    Party,
    ServerState,
    Severity,
    Source,
    Verdict,
)

STANDS_STILL = 3
"""Intervals without a tick after which the clock stands still."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The health of one source: kept apart from what it read.

    ``configured`` false: nobody asked for it, or this machine has no such thing.
    """

    configured: bool = False
    up: bool = False
    last_fault: Fault | None = None
    last_at: Instant | None = None
    duration_s: float | None = None
    errors: Mapping[Fault, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClockStatus:
    """The clock about itself."""

    ticks: int = 0
    missed: int = 0
    lateness_s: float = 0.0
    skew_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LogStatus:
    """Volume of vLLM's log since start."""

    lines: int = 0
    bytes: int = 0
    lag_bytes: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvidenceKey:
    """One row of the closed set of evidence."""

    cause: Cause
    source: Source
    signal: str


@dataclass(frozen=True, slots=True)
class HostOutlook:
    """How near the server is to a kill for host memory, in bytes and seconds.

    ``headroom``: up to each limit that could kill it, those that are known. ``growth``: bytes per
    second of what cannot be reclaimed. ``time_to_limit_s``: until the nearest limit is met, if that
    goes on; None while nothing says that it will be.
    """

    headroom: Mapping[LimitOwner, int] = field(default_factory=dict)
    growth: float | None = None
    time_to_limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class ProcessCount:
    """The server's processes now.

    ``orphaned``: engine processes without an API server, which hold their memory until they are
    killed. ``pinned``: bytes that devices pinned or processes locked, of those that can be read.
    """

    parties: Mapping[Party, int]
    orphaned: int
    pinned: int | None = None


@dataclass(frozen=True, slots=True)
class ReloadStatus:
    """What came of the settings that were read last; a start is the first success.

    ``success_unix``: when they were last taken.
    """

    successful: bool
    success_unix: float


@dataclass(frozen=True, slots=True)
class Report:
    """The state of knowledge after one tick.

    ``urgent``: failures and OOMs of the window that is still open; they show at once.
    ``verdict``: the last closed window's, or that of ``urgent`` if there is any.
    ``alerts``: the severity of each cause's running episode; absent when it has none.
    ``last_evidence``: unix time of the last evidence for each cause.
    ``found``: the roles that vLLM's metrics offer. ``names``: what this server calls them.
    ``kernel_lost``: records of the kernel log that were gone before they were read; None: never read.
    ``envelope``: None where the server is held against none.
    ``reload``: None where no settings are read again, as in a replay.
    """

    at: Instant
    verdict: Verdict
    state: ServerState
    state_since: Instant
    last_window: Judgement | None
    urgent: tuple[CauseFound, ...]
    advice: Advice
    windows_total: Mapping[Verdict, int]
    evidence_total: Mapping[EvidenceKey, float]
    last_evidence: Mapping[Cause, float]
    alerts: Mapping[Cause, Severity]
    observable: Mapping[Cause, bool]
    sources: Mapping[Source, SourceStatus]
    clock: ClockStatus
    log: LogStatus
    found: frozenset[str]
    names: Mapping[str, str] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)
    nvml: NvmlReading | None = None
    cgroup: CgroupReading | None = None
    outlook: HostOutlook | None = None
    processes: ProcessCount | None = None
    kernel_lost: int | None = None
    reload: ReloadStatus | None = None
    envelope: EnvelopeStatus | None = None
