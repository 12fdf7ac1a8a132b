"""What each source can know, after parsing. No reading holds request text, paths of users or keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.model.limits import Limits
from sidecar.model.vocabulary import Fault, Kind, TerminationReason, Way


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative bucket counts by upper bound (seconds or tokens; ``inf`` is the last)."""

    buckets: tuple[tuple[float, float], ...]
    count: float
    total: float


@dataclass(frozen=True, slots=True)
class EngineReading:
    """The values one engine shows, by canonical role (see ``catalog.vllm_metrics``)."""

    values: Mapping[str, float]
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    outcomes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricsReading:
    """One exposition of vLLM, resolved to roles.

    ``naming`` is the prefix this server uses, None if no vLLM series was recognised.
    ``found`` holds the roles that this exposition offers; a role not in it is *not found*, never 0.
    ``names``: what this server calls them, a counter's ``_total`` and a histogram's parts left out.
    ``idle_v0`` marks a V0 server before its first request, which shows its configuration only.
    ``layout`` changes when other series are there than before.
    ``epoch`` are marks that change when the server restarts: process start and ``_created`` times.
    """

    naming: str | None
    found: frozenset[str]
    engines: Mapping[str, EngineReading]
    names: Mapping[str, str] = field(default_factory=dict)
    idle_v0: bool = False
    generation: str | None = None
    epoch: Mapping[str, float] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)
    sleeping: bool = False
    samples: int = 0
    series_seen: int = 0
    layout: int = 0


@dataclass(frozen=True, slots=True)
class HealthReading:
    """The status code of the health endpoint; version and limits, where they were asked for just now."""

    status: int
    version: str | None = None
    limits: Limits = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line of vLLM's log that matched a signature: its id and numbers, never its text.

    ``at_monotonic``/``at_unix`` are the arrival of the line; ``origin`` is the process that wrote
    it, as a closed word (``api_server``, ``engine``, ``worker``, ``unknown``). ``stamp`` is the time
    that the line itself bears, by the server's clock, in seconds since the year began: lines that are
    read late come all at once, and only their stamps tell how far apart they were written.
    """

    signature: str
    at_monotonic: float
    at_unix: float
    origin: str = "unknown"
    amount: float = 1.0
    stamp: float | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogReading:
    """What arrived in the log since the last sample.

    ``past``: what the log said before we came, told once; it counts only if the server turns out to be
    dead by then. ``hidden``: why one of several places could not be read. ``positions``: how far each place was read for it, by name, as values that JSON knows.
    """

    events: tuple[LogEvent, ...] = ()
    past: tuple[LogEvent, ...] = ()
    lines: int = 0
    bytes: int = 0
    lag_bytes: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    hidden: Fault | None = None
    positions: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelKill:
    """One kill by the kernel's OOM killer.

    ``kind`` is ``cgroup`` (a memory limit was hit) or ``system`` (the host ran out).
    ``limit_cgroup`` owns the limit, ``victim_cgroup`` holds the victim; ``comm`` is the victim's and
    ``trigger`` the name of the process whose allocation met the limit, both cut to 15 characters by
    the kernel; ``pid`` is of the host's pid namespace.
    """

    at_monotonic: float
    at_unix: float
    kind: Kind
    pid: int | None = None
    comm: str | None = None
    limit_cgroup: str | None = None
    victim_cgroup: str | None = None
    trigger: str | None = None


@dataclass(frozen=True, slots=True)
class KernelReading:
    """Kills read from the kernel log since the last sample; ``lost`` records were overwritten.

    ``position``: how far it was read, as values that JSON knows; only the source understands it.
    """

    kills: tuple[KernelKill, ...] = ()
    lost: int = 0
    position: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Witness:
    """The cgroup above the server's: it remains when the server's is removed.

    ``kills``: its count of OOM kills, which in v2 includes those of children that are gone; None in
    v1, where every cgroup counts for itself. ``children``: the kills that each cgroup right below
    counted, by ``name#inode``, the server's among them; None where they could not all be read.
    ``settled``: no kill was counted while the children were read, so that the numbers belong together.
    Bytes as in ``CgroupReading``.
    """

    path: str
    identity: int | None
    kills: int | None
    children: Mapping[str, int] | None = None
    settled: bool = True
    current: int | None = None
    limit: int | None = None
    reclaimable: int | None = None


@dataclass(frozen=True, slots=True)
class CgroupReading:
    """Memory control group of the server (Linux ``cgroup-v2.rst``; v1 ``memory.rst``).

    ``events`` are hierarchical counters; v1 offers ``oom_kill`` and, as ``max``, its failcnt.
    ``identity`` changes when the directory was removed and made anew (counters restart at 0).
    Bytes throughout; ``limit`` None means unlimited. ``gone`` means the directory is not there.

    ``boot`` is this boot of the kernel: counters of another one say nothing. ``container``: the id in
    the cgroup's name (64 hex digits). ``anchored``: the path begins at the hierarchy's top, as the
    kernel log writes it; from a namespace only its end is seen. ``inner``: it holds no process itself, so that what its
    children count is the server's. ``userspace_kills``: processes that systemd-oomd killed here.
    ``reclaimable``: page cache and slab that the kernel takes back before it kills; ``shmem`` and
    ``unevictable`` it cannot. ``host_available``: MemAvailable of the host.
    """

    version: int
    path: str
    gone: bool = False
    identity: int | None = None
    events: Mapping[str, int] = field(default_factory=dict)
    local_events: Mapping[str, int] | None = None
    current: int | None = None
    limit: int | None = None
    peak: int | None = None
    pressure: Mapping[str, float] = field(default_factory=dict)
    boot: str | None = None
    way: Way | None = None
    container: str | None = None
    inner: bool = False
    anchored: bool = False
    userspace_kills: int | None = None
    reclaimable: int | None = None
    shmem: int | None = None
    unevictable: int | None = None
    host_available: int | None = None
    witness: Witness | None = None


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process with memory on a GPU; ``used`` None when the driver does not say."""

    pid: int
    used: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU by NVML. Bytes; ``utilization`` 0 to 1. None where the driver does not say."""

    index: int
    uuid: str
    name: str
    total: int | None
    used: int | None
    free: int | None
    reserved: int | None
    utilization: float | None
    processes: tuple[GpuProcess, ...] | None
    mig: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True)
class NvmlReading:
    """All GPUs that are watched."""

    driver: str
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the server's tree; ``rss`` in bytes, None if not readable.

    ``born``: clock ticks since boot at which it began (``proc(5)``): pids are used again, with
    another ``born``. ``pinned``: bytes that a device driver pinned or the process locked.
    """

    pid: int
    comm: str
    rss: int | None = None
    born: int | None = None
    pinned: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """The server's process tree; empty when none of its processes lives.

    ``root``: pid of the server's first process, None where it is dead. ``host_pids``: whether pids are
    those of the host, as the kernel log gives them; in a container they are others. ``limits``: those
    on the command line of the first process.
    """

    processes: tuple[Process, ...]
    root: int | None = None
    host_pids: bool = True
    limits: Limits = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Termination:
    """How a container ended, by the kubelet (``ContainerStateTerminated`` of the core v1 API).

    ``reason`` is a closed word; ``at_unix`` is the kubelet's clock.
    """

    container_id: str
    reason: TerminationReason
    exit_code: int | None = None
    at_unix: float | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """One container of our own pod. ``restarts`` counts up while the pod lives."""

    name: str
    container_id: str | None
    restarts: int
    running: bool


@dataclass(frozen=True, slots=True)
class PodReading:
    """Our own pod by the Kubernetes API, and what ended in it since the last sample.

    ``given``: name of the server's container, where the settings give it. ``ours``: name of the
    container that we run in, where it is known. ``deleting``: somebody asked for the pod's end.
    """

    uid: str
    containers: tuple[Container, ...]
    ended: tuple[tuple[str, Termination], ...] = ()
    given: str | None = None
    ours: str | None = None
    deleting: bool = False


Reading = (
    MetricsReading
    | HealthReading
    | LogReading
    | KernelReading
    | CgroupReading
    | NvmlReading
    | ProcessReading
    | PodReading
)
