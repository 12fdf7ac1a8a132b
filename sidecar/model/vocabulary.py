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
