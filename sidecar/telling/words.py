"""What each verdict, cause, kind, state and lever means, in plain words: the one home of these words.

They are said of a window and of a log alike, so they claim no more than both can show.
"""

from collections.abc import Mapping

from sidecar.model.advice import Lever
from sidecar.model.vocabulary import Cause, Kind, ServerState, Verdict

CAUSES: Mapping[Cause, str] = {
    Cause.HOST_OOM: "host memory ran out",
    Cause.CUDA_OOM: "GPU memory ran out",
    Cause.ENGINE_FAILURE: "the engine or a worker died, with no memory cause shown",
    Cause.STALLED: "requests were there, but no token moved",
    Cause.PREEMPTION: "the KV cache was too small for the load; requests were set back and redone",
}
NO_CAUSE: Mapping[Verdict, str] = {
    Verdict.NONE: "no trouble was seen",
    Verdict.UNKNOWN: "too little is seen to judge",
}
STATES: Mapping[ServerState, str] = {
    ServerState.STARTING: "starting",
    ServerState.SERVING: "serving",
    ServerState.SLEEPING: "sleeping (put to sleep, it gave its GPU memory back)",
    ServerState.STOPPED: "stopped by somebody's wish",
    ServerState.DEAD: "dead",
    ServerState.UNKNOWN: "not known",
}
HEADLINES: Mapping[tuple[Cause, Kind | None], str] = {
    (Cause.HOST_OOM, None): "Host memory ran out",
    (Cause.HOST_OOM, Kind.CGROUP): "Killed at the memory limit of its container or unit",
    (Cause.HOST_OOM, Kind.SYSTEM): "Killed because the whole host ran out of memory",
    (Cause.HOST_OOM, Kind.USERSPACE): "Killed by a memory monitor of the host",
    (Cause.CUDA_OOM, None): "GPU memory ran out",
    (
        Cause.CUDA_OOM,
        Kind.CAPACITY_REJECTION,
    ): "vLLM did not start: too little GPU memory for what was asked",
    (
        Cause.ENGINE_FAILURE,
        None,
    ): "The engine died; nothing that is seen shows memory as the reason",
    (
        Cause.ENGINE_FAILURE,
        Kind.START_FAILED,
    ): "vLLM did not start; memory is not seen to be the reason",
    (Cause.STALLED, None): "Requests are there, but no token is generated",
    (Cause.PREEMPTION, None): "The KV cache is too small for the load: requests are preempted",
}
"""A cause in a line, its kind where that changes what to do; None: any other kind."""
KINDS: Mapping[tuple[Cause, Kind], str] = {
    (Cause.HOST_OOM, Kind.CGROUP): "the kernel killed at the memory limit of the control group",
    (Cause.HOST_OOM, Kind.SYSTEM): "the kernel killed because the host ran out of memory",
    (Cause.HOST_OOM, Kind.USERSPACE): (
        "a memory monitor (systemd-oomd, Ray, kubelet) killed for lack of host memory"
    ),
    (Cause.HOST_OOM, Kind.ALLOCATION_FAILURE): "an allocation of host memory failed",
    (Cause.CUDA_OOM, Kind.ALLOCATION_FAILURE): "an allocation of GPU memory failed",
    (Cause.CUDA_OOM, Kind.CAPACITY_REJECTION): (
        "vLLM refused to start for lack of GPU memory: what it may use does not hold what was asked"
    ),
    (Cause.ENGINE_FAILURE, Kind.KILLED): (
        "the engine was killed or vanished, with no memory cause shown"
    ),
    (Cause.ENGINE_FAILURE, Kind.CRASHED): "the engine died, with no memory cause shown",
    (Cause.ENGINE_FAILURE, Kind.START_FAILED): "the start failed, with no memory cause shown",
    (Cause.PREEMPTION, Kind.SWAP): "requests were swapped out for lack of KV cache",
}
LEVERS: Mapping[Lever, str] = {
    Lever.NONE: "change nothing",
    Lever.RAISE_KV_CACHE_MEMORY: "give the KV cache more GPU memory",
    Lever.LOWER_GPU_MEMORY_UTILIZATION: "let vLLM take less of the GPU",
    Lever.LOWER_MAX_NUM_SEQS: "let fewer requests run at once",
    Lever.LOWER_MAX_NUM_BATCHED_TOKENS: "take fewer tokens into one step",
    Lever.RAISE_WATERMARK: "keep more of the KV cache free when requests are let in",
    Lever.LOWER_MAX_MODEL_LEN: "serve a shorter context",
    Lever.LOWER_KV_CACHE_PRECISION: "keep the KV cache at a lower precision",
    Lever.ADD_PARALLELISM: "spread the model over more GPUs, or add a replica",
    Lever.FREE_COTENANT_MEMORY: "free the GPU of other processes",
    Lever.RAISE_HOST_MEMORY_LIMIT: "give the server more host memory",
    Lever.INSPECT_ENGINE_FAILURE: "look for the reason of the failure; turn no memory setting",
}


def say_headline(cause: Cause, kind: Kind) -> str:
    """A cause of this kind in a line."""
    return HEADLINES.get((cause, kind)) or HEADLINES[cause, None]


def say_kind(cause: Cause, kind: Kind) -> str:
    """What a cause of this kind means; the cause's own words where the kind adds nothing."""
    return KINDS.get((cause, kind), CAUSES[cause])


def say_verdict(verdict: Verdict) -> str:
    """What a verdict means, without its kind."""
    return NO_CAUSE.get(verdict) or CAUSES[Cause(verdict.value)]
