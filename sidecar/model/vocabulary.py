"""The closed sets. Every member is usable as a label value; nothing outside them ever is."""

from enum import StrEnum


class Verdict(StrEnum):
    """What a window suffered from."""

    NONE = "none"
    PREEMPTION = "preemption"
    CUDA_OOM = "cuda_oom"
    HOST_OOM = "host_oom"
    ENGINE_FAILURE = "engine_failure"
    STALLED = "stalled"
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """The verdicts that name a cause, in order of precedence when several stand side by side."""

    HOST_OOM = "host_oom"
    CUDA_OOM = "cuda_oom"
    ENGINE_FAILURE = "engine_failure"
    STALLED = "stalled"
    PREEMPTION = "preemption"

    @property
    def verdict(self) -> Verdict:
        """The verdict of a window in which this cause comes first."""
        return Verdict(self.value)


class Kind(StrEnum):
    """The kind under a cause. Look-alikes with opposite levers are never merged."""

    RECOMPUTE = "recompute"
    SWAP = "swap"
    UNSPECIFIED = "unspecified"
    ALLOCATION_FAILURE = "allocation_failure"
    CAPACITY_REJECTION = "capacity_rejection"
    CGROUP = "cgroup"
    SYSTEM = "system"
    USERSPACE = "userspace"
    KILLED = "killed"
    CRASHED = "crashed"
    START_FAILED = "start_failed"


class Phase(StrEnum):
    """Whether the server had begun to serve."""

    STARTUP = "startup"
    RUNTIME = "runtime"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """``confirmed``: direct evidence that belongs to this server. ``suspected``: consistent only."""

    CONFIRMED = "confirmed"
    SUSPECTED = "suspected"


class Severity(StrEnum):
    """How loudly to say it."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class ServerState(StrEnum):
    """What the server is doing."""

    STARTING = "starting"
    SERVING = "serving"
    SLEEPING = "sleeping"
    STOPPED = "stopped"
    DEAD = "dead"
    UNKNOWN = "unknown"


class Source(StrEnum):
    """Where readings come from."""

    VLLM_METRICS = "vllm_metrics"
    VLLM_HEALTH = "vllm_health"
    VLLM_LOG = "vllm_log"
    NVML = "nvml"
    CGROUP = "cgroup"
    KERNEL_LOG = "kernel_log"
    PROCESS = "process"
    KUBERNETES = "kubernetes"


class Way(StrEnum):
    """How the server's memory cgroup was found, surest first.

    ``path``: it was named. ``pid``: through ``/proc/PID/cgroup`` and the mounts of this host.
    ``container_id``: by the container's id, looked for below the mounts. ``process_root``: as the
    server's own mounts show it, ``/proc/PID/root``. ``pod``: only our own pod's is visible, which
    holds the server's container and others. ``own``: ours, which other processes share.
    """

    PATH = "path"
    PID = "pid"
    CONTAINER_ID = "container_id"
    PROCESS_ROOT = "process_root"
    POD = "pod"
    OWN = "own"


class Party(StrEnum):
    """Who a process is to the watched server."""

    API_SERVER = "api_server"
    ENGINE = "engine"
    WORKER = "worker"
    OTHER = "other"
    """A process that is none of these: in our cgroup, a neighbour."""


class LimitOwner(StrEnum):
    """Whose limit a kill enforced."""

    OWN = "own"
    """The server's own cgroup."""
    ABOVE = "above"
    """A cgroup above the server's: a pod, a slice."""
    BELOW = "below"
    """A cgroup below the server's."""
    HOST = "host"
    """None: the host itself was out of memory."""


class TerminationReason(StrEnum):
    """Why a container ended, in the kubelet's words."""

    OOM_KILLED = "oom_killed"
    ERROR = "error"
    COMPLETED = "completed"
    OTHER = "other"


class Fault(StrEnum):
    """Why a reading was not had. A fault is neither an old reading nor a zero."""

    TIMEOUT = "timeout"
    REFUSED = "refused"
    DISCONNECTED = "disconnected"
    HTTP_STATUS = "http_status"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    ABSENT = "absent"
    DENIED = "denied"
    BUSY = "busy"
    UNSUPPORTED = "unsupported"
    NO_DRIVER = "no_driver"
    DEVICE_LOST = "device_lost"
    IO_ERROR = "io_error"
