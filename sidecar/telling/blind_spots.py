"""What cannot be seen from here, why not, and what would make it seen: the one home of these words."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sidecar.catalog.shown_by import SHOWN_BY
from sidecar.model.readings import CgroupReading
from sidecar.model.vocabulary import Cause, Fault, Source

REMEDIES: dict[Cause, str] = {
    Cause.PREEMPTION: "let --target and --metrics-path name a vLLM server that runs without"
    " --disable-log-stats",
    Cause.CUDA_OOM: "give vLLM's log with --log, and let it be there and readable",
    Cause.HOST_OOM: "give the server's memory cgroup with --cgroup PATH or its pid with --pid, or"
    " let the sidecar read the kernel log",
    Cause.ENGINE_FAILURE: "give vLLM's log with --log PATH, or let --target name a server that"
    " runs",
    Cause.STALLED: "let --target and --metrics-path name a vLLM server that runs",
}


ELSEWHERE = (
    "the target is no address of this host, whose processes, cgroups and kernel say nothing of it:"
    " run us beside the server, or name --cgroup, --pid or --kernel-log PATH if it is here"
)


FAULT_WORDS: dict[Fault, str] = {
    Fault.TIMEOUT: "it did not answer in time",
    Fault.REFUSED: "nobody listens there",
    Fault.DISCONNECTED: "the connection broke",
    Fault.HTTP_STATUS: "it answered with an error status",
    Fault.MALFORMED: "what it says cannot be read",
    Fault.TOO_LARGE: "its answer is too large",
    Fault.ABSENT: "it is not there",
    Fault.DENIED: "we have no right to read it",
    Fault.BUSY: "an earlier call still hangs",
    Fault.UNSUPPORTED: "it does not offer what is needed",
    Fault.NO_DRIVER: "the driver is not loaded",
    Fault.DEVICE_LOST: "the GPU is lost",
    Fault.IO_ERROR: "reading it failed",
}


ABSENT_WORDS: dict[Source, str] = {
    Source.VLLM_METRICS: "the host's name is not known",
    Source.VLLM_HEALTH: "the host's name is not known",
    Source.VLLM_LOG: "there is no such log",
    Source.CGROUP: "the server's memory cgroup was not found",
    Source.KERNEL_LOG: "there is no such file",
    Source.PROCESS: "no process of this host listens on the target's port",
    Source.NVML: "there is no NVIDIA driver library",
    Source.KUBERNETES: "there is no service account of a cluster",
}


@dataclass(frozen=True, slots=True)
class Standpoint:
    """Where we look from. ``sources``: those that are asked, and why one of them says nothing.

    ``outside``: the server's cgroup is in no mount that we see. ``in_cluster``: we run in Kubernetes.
    ``is_here``: the server may run on this host.
    """

    sources: Mapping[Source, Fault | None]
    cgroup: CgroupReading | None = None
    outside: bool = False
    in_cluster: bool = False
    is_here: bool = True


class Right(StrEnum):
    """What can be given to us, and would show more."""

    HOST_CGROUP = "host_cgroup"
    KERNEL_LOG = "kernel_log"
    PROCESSES = "processes"
    POD_STATUS = "pod_status"


def misses_cgroup_above(standpoint: Standpoint) -> bool:
    """Whether a cgroup above the server's exists, by its name, that we cannot see."""
    if Source.CGROUP not in standpoint.sources:
        return False
    reading = standpoint.cgroup
    if reading is None:
        return standpoint.outside
    # From a namespace our own part is "/" and what is beside it begins with "/..".
    parts = [part for part in reading.path.split("/") if part]
    has_one_above = len(parts) != 1
    return reading.version != 1 and reading.witness is None and has_one_above


def misses_processes(standpoint: Standpoint) -> bool:
    """Whether a server answers of which no process is seen."""
    answers = standpoint.sources.get(Source.VLLM_METRICS, Fault.ABSENT) is None
    return answers and standpoint.sources.get(Source.PROCESS) is Fault.ABSENT


def misses_pod(standpoint: Standpoint) -> bool:
    """Whether our pod's status is refused, or we are in a cluster without a service account."""
    fault = standpoint.sources.get(Source.KUBERNETES)
    return fault is Fault.DENIED or (fault is Fault.ABSENT and standpoint.in_cluster)


@dataclass(frozen=True, slots=True)
class RightRow:
    """A right, when it is missing, how it is given, and what it adds."""

    right: Right
    is_missing: Callable[[Standpoint], bool]
    adds: str


RIGHTS: tuple[RightRow, ...] = (
    RightRow(
        Right.HOST_CGROUP,
        misses_cgroup_above,
        "mount the host's /sys/fs/cgroup read-only: a kill is then known also after the container"
        " was removed",
    ),
    RightRow(
        Right.KERNEL_LOG,
        lambda standpoint: standpoint.sources.get(Source.KERNEL_LOG) is Fault.DENIED,
        "run as root or with CAP_SYSLOG: it is then known who was killed, and for whose limit",
    ),
    RightRow(
        Right.PROCESSES,
        misses_processes,
        "share the process namespace (shareProcessNamespace, hostPID, --pid host): the server's own"
        " cgroup and the deaths of its processes are then known",
    ),
    RightRow(
        Right.POD_STATUS,
        misses_pod,
        "give our service account get and watch on our own pod: exit codes and restarts of the"
        " server's container are then known",
    ),
)


def missing_rights(standpoint: Standpoint) -> Iterator[RightRow]:
    """The rights that would add something here."""
    return (row for row in RIGHTS if row.is_missing(standpoint))


def remedy(standpoint: Standpoint, cause: Cause) -> str:
    """What would make a cause observable."""
    return ELSEWHERE if cause is Cause.HOST_OOM and not standpoint.is_here else REMEDIES[cause]


def say_fault(source: Source, fault: Fault) -> str:
    """Why a source does not work, in plain words."""
    if fault is Fault.ABSENT and source in ABSENT_WORDS:
        return ABSENT_WORDS[source]
    return FAULT_WORDS[fault]


def say_darkness(standpoint: Standpoint, cause: Cause) -> str:
    """Why a cause cannot be observed: what each source that could show it says."""
    dark = []
    for source in SHOWN_BY[cause]:
        if source not in standpoint.sources:
            dark.append(f"{source.value} is not read")
        elif (fault := standpoint.sources[source]) is not None:
            dark.append(f"{source.value}: {say_fault(source, fault)}")
    return "; ".join(dark)
