"""What a person does about a cause, and the look-alike remedy that makes it worse.

Words only: which lever fits this server, with its evidence and cost, is decided elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sidecar.model.vocabulary import Cause, Kind


@dataclass(frozen=True, slots=True)
class Action:
    """``do`` first; ``never`` is the remedy of a look-alike."""

    do: str
    never: str


READ_ABOVE = "read the lines above the first one named here: the reason stands there"
MORE_HOST = "give the container or unit a higher memory limit, or the server less to keep in RAM"

ACTIONS: Mapping[tuple[Cause, Kind], Action] = {
    (Cause.CUDA_OOM, Kind.ALLOCATION_FAILURE): Action(
        "see who else holds memory on that GPU; then lower --gpu-memory-utilization by 0.05",
        "raise --gpu-memory-utilization: that is for a refused start",
    ),
    (Cause.CUDA_OOM, Kind.CAPACITY_REJECTION): Action(
        "free the GPU of other processes; then raise --gpu-memory-utilization or lower"
        " --max-model-len",
        "lower --gpu-memory-utilization while nobody else is on the GPU: the cache gets smaller",
    ),
    (Cause.HOST_OOM, Kind.CGROUP): Action(MORE_HOST, "change GPU settings: it was host memory"),
    (Cause.HOST_OOM, Kind.SYSTEM): Action(
        "find what filled the host: it may be a neighbour; move one of the two",
        "raise the container's limit: the host itself was out of memory",
    ),
    (Cause.HOST_OOM, Kind.USERSPACE): Action(
        "see which watcher killed (Ray, systemd-oomd, kubelet) and give the node more memory",
        "switch the watcher off: the kernel would kill next, and less choosy",
    ),
    (Cause.HOST_OOM, Kind.ALLOCATION_FAILURE): Action(
        MORE_HOST, "change GPU settings: it was host memory"
    ),
    (Cause.ENGINE_FAILURE, Kind.KILLED): Action(
        "ask the kernel log and the cgroup who killed it; the log cannot say",
        "take exit code 137 for out of memory: it only says SIGKILL",
    ),
    (Cause.ENGINE_FAILURE, Kind.CRASHED): Action(READ_ABOVE, "turn memory settings"),
    (Cause.ENGINE_FAILURE, Kind.START_FAILED): Action(READ_ABOVE, "turn memory settings"),
}
BY_CAUSE: Mapping[Cause, Action] = {
    Cause.PREEMPTION: Action(
        "if latency suffers, lower --max-num-seqs to what the cache holds, or give the cache more",
        "restart it: the server goes on, and every request still finishes",
    ),
    Cause.STALLED: Action(
        "take a stack of the engine (py-spy dump) before you restart it",
        "turn memory settings",
    ),
}


def action_for(cause: Cause, kind: Kind) -> Action | None:
    """What to do about a cause of this kind; None where nothing general is right."""
    return ACTIONS.get((cause, kind)) or BY_CAUSE.get(cause)
