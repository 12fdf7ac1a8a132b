"""What outlives us: enough to go on after our own restart without losing or doubling anything."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.model.evidence import Evidence
from sidecar.model.limits import Limits
from sidecar.model.report import EvidenceKey
from sidecar.model.vocabulary import Cause, Severity, Verdict, Way

Position = Mapping[str, object]
"""How far one log was read, as values that JSON knows; only its place understands it."""


@dataclass(frozen=True, slots=True)
class IncidentMemory:
    """The running incident. Times are unix seconds; ``stamp`` is the log's own clock."""

    opened: float
    last: float
    stamp: float | None
    root: Evidence | None
    seen: frozenset[tuple[Cause, str]]


@dataclass(frozen=True, slots=True)
class CgroupMemory:
    """The kill counters as they were last read, and whose they were.

    ``way``, ``inner``, ``anchored`` as in ``CgroupReading``; ``counts`` by counter; ``witness_kills`` and ``children`` as in ``Witness``, of the last reading
    whose numbers belonged together; ``counted``: own kills told since that reading. ``gone``: the
    cgroup was removed, and what it counted is accounted for as far as anything tells.
    """

    boot: str | None
    path: str
    identity: int | None
    container: str | None
    counts: Mapping[str, int]
    gone: bool = False
    way: Way | None = None
    inner: bool = False
    anchored: bool = False
    witness_path: str | None = None
    witness_identity: int | None = None
    witness_kills: int | None = None
    children: Mapping[str, int] | None = None
    counted: int = 0


@dataclass(frozen=True, slots=True)
class WindowMemory:
    """What a window that was not judged yet holds of failures. Times are unix seconds.

    ``kills_unseen`` and ``records_lost`` as in ``Window``.
    """

    start: float
    end: float
    evidence: tuple[Evidence, ...]
    kills_unseen: bool = False
    records_lost: bool = False


@dataclass(frozen=True, slots=True)
class PodMemory:
    """How often each container of one pod has ended, by name, as it was last seen."""

    uid: str
    restarts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Work:
    """What a server did in ``seconds``: ``tokens`` of output, requests that finished."""

    preemptions: float
    finished: float
    tokens: float
    seconds: float


@dataclass(frozen=True, slots=True)
class AdviceMemory:
    """What advice remembers. Moments are unix seconds.

    ``cuda_oom``, ``failed_start``: when a GPU allocation and a start last failed. ``cotenant``: when
    others were last seen on the server's GPUs. ``limits``: what the server was told, and ``work``
    what it did under them.
    """

    cuda_oom: float | None = None
    failed_start: float | None = None
    cotenant: float | None = None
    limits: Limits = field(default_factory=dict)
    work: Work | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after one step: what was counted, and how far it was read for that.

    Two are equal whenever they were saved.
    """

    saved_unix: float = field(compare=False)
    positions: Mapping[str, Position] = field(default_factory=dict)
    evidence: Mapping[EvidenceKey, float] = field(default_factory=dict)
    windows: Mapping[Verdict, int] = field(default_factory=dict)
    last_evidence: Mapping[Cause, float] = field(default_factory=dict)
    episodes: Mapping[Cause, Mapping[Severity, float]] = field(default_factory=dict)
    incident: IncidentMemory | None = None
    preemption_total: float | None = None
    cgroup: CgroupMemory | None = None
    kernel_position: Position = field(default_factory=dict)
    processes: Mapping[int, str] = field(default_factory=dict)
    pod: PodMemory | None = None
    unjudged: tuple[WindowMemory, ...] = ()
    rumours: tuple[Evidence, ...] = ()
    strays: tuple[Evidence, ...] = ()
    advice: AdviceMemory | None = None
