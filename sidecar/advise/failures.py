"""When a failure calls for a lever. Look-alikes need opposite ones, so each rule names its kind."""

from collections.abc import Mapping

from sidecar.advise.facts import Facts, cotenants, figure, own_gpus
from sidecar.advise.figures import MIB, say_bytes
from sidecar.catalog import signals
from sidecar.model.advice import Step
from sidecar.model.budget import Sight
from sidecar.model.limits import Limit
from sidecar.model.vocabulary import Cause, Kind, Phase

ALLOCATION = Kind.ALLOCATION_FAILURE
REJECTION = Kind.CAPACITY_REJECTION
SHARE_STEP = 0.05
FREE_BELOW_WANTED = "free_memory_below_wanted"
DOES_NOT_FIT = frozenset({"max_len_exceeds_cache", "request_exceeds_cache"})
"""Refusals that say: one request of ``max_model_len`` tokens is larger than the cache."""
TOKENS_FLOOR = 2048.0
"""vLLM's own least default of ``max_num_batched_tokens``: below it prefills only get slower."""
SMALL_BUDGET_RELEASE = (0, 9)
"""Before it V0 may run, which prefills whole prompts: its token budget holds ``max_model_len``."""

KIND_WORDS: Mapping[tuple[Cause, Kind], str] = {
    (Cause.HOST_OOM, Kind.CGROUP): "the kernel killed at a memory limit of a control group",
    (Cause.HOST_OOM, Kind.SYSTEM): "the kernel killed because the host itself was out of memory",
    (Cause.HOST_OOM, Kind.USERSPACE): "a memory monitor killed for lack of host memory",
    (Cause.HOST_OOM, ALLOCATION): "an allocation of host memory failed",
    (
        Cause.ENGINE_FAILURE,
        Kind.KILLED,
    ): "a process was killed, and nothing shows memory as the reason",
    (Cause.ENGINE_FAILURE, Kind.CRASHED): "a process died, and nothing shows memory as the reason",
    (Cause.ENGINE_FAILURE, Kind.START_FAILED): "a start failed, and not for lack of memory",
}
INSPECT_SIGNALS: Mapping[str, str] = {
    "memory_profiling_disturbed": "other GPU memory was freed while vLLM measured: start one at a time",
    "shared_memory_exhausted": "shared memory was full: it bounds the workers, not the cache",
    "swap_space_exhausted": "V0 had no swap space to preempt into",
    "kernel_does_not_fit": "a kernel wants more on-chip memory than there is: no cache setting helps",
    signals.ORPHANS_LEFT: "processes without an API server are left: end them before a restart",
}
"""Signs beside a failure whose meaning is worth a word."""


# Host memory


def host_oom(facts: Facts) -> tuple[str, ...]:
    """The kill, and which settings of this server keep things in host memory."""
    first = facts.first
    if first is None or first.cause is not Cause.HOST_OOM:
        return ()
    words = KIND_WORDS.get((first.cause, first.kind), "host memory ran out")
    return (words, *suspects(facts))


def suspects(facts: Facts) -> tuple[str, ...]:
    """Settings that are known to put much into host memory."""
    told = []
    if facts.limit(Limit.SLEEP_MODE):
        told.append("sleep mode is enabled: level 1 keeps the weights in host memory")
    if offload := facts.limit(Limit.CPU_OFFLOAD_BYTES):
        told.append(
            f"{say_bytes(offload)} of weights on each GPU's behalf are offloaded to the host"
        )
    if cached := facts.limit(Limit.KV_OFFLOADING_BYTES):
        told.append(f"{say_bytes(cached)} of host memory are set aside for offloaded KV blocks")
    return tuple(told)


def host_words(facts: Facts) -> str:
    """What ran out: the limit, the host, or the node that a monitor (kubelet, Ray, oomd) watches."""
    if facts.first is not None and facts.first.kind is Kind.USERSPACE:
        return "give the node more memory, or move one of the two away: a monitor of the whole node killed"
    if facts.first is not None and facts.first.kind is Kind.SYSTEM:
        return (
            "give the host more memory, or move a neighbour: a higher limit of the container does not"
            " help"
        )
    return (
        "raise the memory limit of the container or unit, or keep less in host memory"
        " (pinned buffers and /dev/shm count too)"
    )


# An engine that failed for another reason


def engine_failed(facts: Facts) -> tuple[str, ...]:
    """A failure, or a stall, that no memory setting mends."""
    first = facts.first
    if first is None or first.cause not in {Cause.ENGINE_FAILURE, Cause.STALLED}:
        return ()
    if first.cause is Cause.STALLED:
        return ("requests were there and no token moved",)
    words = KIND_WORDS.get((first.cause, first.kind), "the engine failed")
    told = (words for signal, words in INSPECT_SIGNALS.items() if signal in facts.signals)
    return (words, *told)


def inspect_words(facts: Facts) -> str:
    """Where to look."""
    if facts.is_first(Cause.STALLED):
        return "take a stack of the engine (py-spy dump) before it is restarted"
    if facts.has_kind(Cause.ENGINE_FAILURE, Kind.KILLED):
        return (
            "ask the kernel log and the supervisor who sent the signal; the server's log cannot say"
        )
    return "read the server's log above the first line of the failure: the reason stands there"


# GPU memory


def others_hold(facts: Facts) -> tuple[str, ...]:
    """Somebody else's memory on the server's GPUs, where a GPU allocation or a start failed."""
    if not facts.is_first(Cause.CUDA_OOM):
        return ()
    told = [
        f"others hold {say_bytes(figure(gpu.cotenant) or 0.0)} of GPU {gpu.index}"
        + (
            f", {say_bytes(orphans)} of it left by a dead server"
            if (orphans := figure(gpu.orphans))
            else ""
        )
        for gpu in cotenants(facts)
    ]
    if FREE_BELOW_WANTED in facts.signals:
        told.append("start-up found less free memory than it is to take")
    if signals.ORPHANS_LEFT in facts.signals:
        told.append("processes of a dead server are left, and hold their GPU memory")
    if not told and facts.recalled.cotenant:
        told.append("others were on a GPU of this server a short while ago")
    return tuple(told)


def free_words(facts: Facts) -> str:
    """Whom to move: a log alone cannot tell a GPU from the host memory of a CPU backend."""
    if not facts.gpus:
        return "end or move other processes that hold the device's memory, orphans of a dead server first"
    return "end or move the other processes on this server's GPUs, orphans of a dead server first"


def free_verify(facts: Facts) -> str:
    """How to see that the memory is free."""
    if not facts.gpus:
        return "the start finds the memory that it wants, and succeeds"
    return "nvidia-smi lists this server alone on its GPUs, and the start or the load succeeds"


def allocation_failed(facts: Facts) -> tuple[str, ...]:
    """A GPU allocation failed."""
    if not facts.has_kind(Cause.CUDA_OOM, ALLOCATION):
        return ()
    phase = next((f.phase for f in facts.causes if f.kind is ALLOCATION), Phase.UNKNOWN)
    when = "" if phase is Phase.UNKNOWN else f" at {phase.value}"
    return (f"a GPU allocation failed{when}", say_others(facts))


def say_others(facts: Facts) -> str:
    """That nobody else is on the server's GPUs, or that it cannot be seen."""
    gpus = own_gpus(facts) if facts.gpus_fresh else ()
    if gpus and all(gpu.sight is Sight.SEEN and gpu.cotenant is not None for gpu in gpus):
        return "nobody else is seen to hold much of its GPUs"
    return "whether others are on its GPUs cannot be seen: look there first"


def refused_too(facts: Facts) -> str | None:
    """Whether a start was refused for lack of cache as well: a smaller share would refuse again."""
    if facts.has_kind(Cause.CUDA_OOM, REJECTION):
        return "a start was refused for lack of cache memory too: a smaller share refuses again"
    return None


def lower_share(facts: Facts) -> Step:
    """0.05 of the GPU less; where the cache has an explicit size, so much less of that."""
    explicit = facts.limit(Limit.KV_CACHE_MEMORY_BYTES)
    if explicit is not None:
        totals = [total for gpu in own_gpus(facts) if (total := figure(gpu.total))]
        less = explicit - SHARE_STEP * min(totals) if totals else 0.0
        value = less // MIB * MIB if less >= MIB else None
        return Step(Limit.KV_CACHE_MEMORY_BYTES, value=value, now=explicit)
    share = facts.limit(Limit.GPU_MEMORY_UTILIZATION)
    value = None if share is None or share <= 2 * SHARE_STEP else round(share - SHARE_STEP, 4)
    return Step(Limit.GPU_MEMORY_UTILIZATION, value=value, now=share)


def refused(facts: Facts) -> tuple[str, ...]:
    """A start was refused because what vLLM may use does not hold the cache that was asked for."""
    if not facts.has_kind(Cause.CUDA_OOM, REJECTION):
        return ()
    if facts.signals & DOES_NOT_FIT:
        return ("a start was refused: one request of max_model_len is larger than the cache",)
    explicit = facts.limit(Limit.KV_CACHE_MEMORY_BYTES)
    told = () if explicit is None else (f"the cache was given {explicit:.0f} bytes on each GPU",)
    return ("a start was refused: no memory is left for the cache", *told)


def more_gpus(facts: Facts) -> str:
    """How to make room where nothing smaller is left; a size that was typed is looked at first."""
    split = "split the model over more GPUs (--tensor-parallel-size), or add replicas"
    if not refused(facts):
        return split
    if facts.limit(Limit.KV_CACHE_MEMORY_BYTES) is not None:
        return f"see first whether --kv-cache-memory-bytes is meant to be so small; else {split}"
    return (
        f"{split}; a larger --gpu-memory-utilization helps only where memory of the GPU stays free,"
        " which is not proven here"
    )


def does_not_fit(facts: Facts) -> tuple[str, ...]:
    """A start was refused because one request does not fit into the cache."""
    return refused(facts) if facts.signals & DOES_NOT_FIT else ()


def activations_crowd(facts: Facts) -> tuple[str, ...]:
    """A start was refused for want of any cache, and the steps may be made smaller.

    The memory of activations grows with ``max_num_batched_tokens``, which start-up measures with a
    step of that size; what they do not take is the cache's. Only a known budget above vLLM's least
    default is worth it, else the model is too large for its share.
    """
    tokens = facts.limit(Limit.MAX_NUM_BATCHED_TOKENS)
    if not refused(facts) or facts.signals & DOES_NOT_FIT or tokens is None:
        return ()
    if tokens <= TOKENS_FLOOR:
        return ()
    return (*refused(facts), f"activations are sized for steps of {tokens:.0f} tokens")


def explicit_cache(facts: Facts) -> str | None:
    """Whether the cache was given a size, so that activations do not decide it (vLLM 0.10.2)."""
    if facts.is_first(Cause.CUDA_OOM) and facts.limit(Limit.KV_CACHE_MEMORY_BYTES) is not None:
        return "the cache has an explicit size: activations do not decide it"
    return None


def half_of_tokens(facts: Facts) -> Step:
    """Half the token budget, but not below what vLLM needs (one step holds a token of each sequence)."""
    now = facts.limit(Limit.MAX_NUM_BATCHED_TOKENS)
    if now is None:
        return Step(Limit.MAX_NUM_BATCHED_TOKENS)
    value = max(now // 2, floor_of_tokens(facts))
    return Step(Limit.MAX_NUM_BATCHED_TOKENS, value=value if value < now else None, now=now)


def floor_of_tokens(facts: Facts) -> float:
    """The least that ``max_num_batched_tokens`` should be."""
    floor = max(TOKENS_FLOOR, facts.limit(Limit.MAX_NUM_SEQS) or 0.0)
    if facts.release is not None and facts.release < SMALL_BUDGET_RELEASE:
        floor = max(floor, facts.limit(Limit.MAX_MODEL_LEN) or 0.0)
    return floor
