"""Whether more memory for the cache is proven to be free, on every GPU of the server, and how much."""

import math

from sidecar.advise.facts import Facts, figure
from sidecar.advise.figures import GIB, MIB, say_bytes
from sidecar.model.advice import Step
from sidecar.model.budget import GpuBudget, Sight
from sidecar.model.limits import Limit

LEAST_FREE_BYTES = GIB
LEAST_FREE_SHARE = 0.02
"""Both must stay free over the horizon: less is what allocators, graphs and drivers move by."""
MOST_OF_GPU = 0.95
MOST_OF_FREE = 0.5
BYTES_SINCE = (0, 10, 2)
"""The first release with ``--kv-cache-memory-bytes``."""
GROWTH_SHARE = 0.01
"""Share of a GPU by which the server's own memory may grow over the horizon and still stand still."""
SIGHT_WORDS = {
    Sight.OTHER_NAMESPACE: "the driver's process ids are of another namespace",
    Sight.HIDDEN: "the driver does not list who holds it",
    Sight.NO_SERVER: "no process of the server is known",
}


def why_no_headroom(facts: Facts) -> str | None:
    """What forbids more memory for the cache; None if it is proven to be free.

    It must be free over a horizon, not now; nobody else may be on the card; and where co-tenants
    cannot be seen they cannot be excluded.
    """
    if not facts.gpus or not facts.gpus_fresh:
        return "no device memory was read in this window: free memory is not proven"
    own = [gpu for gpu in facts.gpus if gpu.expected]
    if not own:
        return "no GPU is known to hold this server"
    wanted = spanned(facts)
    if wanted is None:
        return "how many GPUs the server spans is not known"
    if wanted > len(own):
        return f"the server spans {wanted:.6g} GPUs, and memory is seen on {len(own)} only"
    return (
        next((why for gpu in own if (why := why_not_on(gpu)) is not None), None)
        or next((why for gpu in own if (why := why_growing(gpu, facts)) is not None), None)
        or why_not_at_all(facts)
    )


def spanned(facts: Facts) -> float | None:
    """GPUs that the server spans; None where a size is not known: a default cannot be told from that."""
    tensor = facts.limit(Limit.TENSOR_PARALLEL_SIZE)
    pipeline = facts.limit(Limit.PIPELINE_PARALLEL_SIZE)
    if not tensor or not pipeline:
        return None
    return tensor * pipeline * (facts.limit(Limit.DATA_PARALLEL_SIZE) or 1.0)


def why_growing(gpu: GpuBudget, facts: Facts) -> str | None:
    """Whether the server itself takes more and more of the GPU: what is free now it takes soon."""
    total, size = figure(gpu.total) or 0.0, figure(gpu.vllm)
    least = facts.recalled.least_own.get(gpu.index)
    if size is None or least is None or size - least <= GROWTH_SHARE * total:
        return None
    return f"GPU {gpu.index}: the server's own memory grew by {say_bytes(size - least)}"


def why_not_on(gpu: GpuBudget) -> str | None:
    """What forbids more memory on one GPU."""
    return why_unseen(gpu) or why_too_little(gpu)


def why_unseen(gpu: GpuBudget) -> str | None:
    """Who else is on the GPU, or why that cannot be seen."""
    name = f"GPU {gpu.index}"
    if gpu.lost:
        return f"{name} is lost"
    if gpu.mig:
        return f"{name} is divided by MIG: the card's free memory is not this instance's"
    if gpu.sight is not Sight.SEEN:
        return f"{name}: whose memory it is cannot be seen: {SIGHT_WORDS[gpu.sight]}"
    if gpu.cotenant is None:
        return f"{name}: others' memory is not known"
    if gpu.cotenant != 0:
        return f"{name}: others held {say_bytes(figure(gpu.cotenant) or 0.0)} in this window"
    return None


def why_too_little(gpu: GpuBudget) -> str | None:
    """Why what stays free on the GPU is not enough."""
    name = f"GPU {gpu.index}"
    total, free = figure(gpu.total), figure(gpu.free_durable)
    if not total or figure(gpu.used) is None:
        return f"{name}: its memory is not known"
    if free is None:
        return f"{name} was not watched for long enough to know what stays free"
    if gpu.cotenant_durable is None:
        return f"{name}: whose it was could not be seen all through the last ten minutes"
    if gpu.cotenant_durable != 0:
        held = say_bytes(figure(gpu.cotenant_durable) or 0.0)
        return f"{name}: others held {held} within the last ten minutes"
    if free <= max(LEAST_FREE_BYTES, LEAST_FREE_SHARE * total):
        return f"{name}: no more than {say_bytes(free)} stayed free"
    if room_on(gpu) < MIB:
        return f"{name}: {MOST_OF_GPU:.0%} of it is in use"
    return None


def why_not_at_all(facts: Facts) -> str | None:
    """Why the server itself says that no more fits, or takes."""
    now, told = facts.limit(Limit.KV_MEMORY_BYTES), facts.limit(Limit.KV_MEMORY_ADVICE_BYTES)
    if now is not None and told is not None and told <= now:
        return f"start-up says that no more than {say_bytes(told)} fits"
    step = find_step(facts)
    if step.value is not None and step.now is not None and step.value <= step.now:
        return f"--gpu-memory-utilization is {step.now:.4g}: up to {MOST_OF_GPU} is no step left"
    return None


def room_on(gpu: GpuBudget) -> float:
    """Bytes the cache may grow by on one GPU: half of what stays free, and up to 0.95 of it at most."""
    total, used = figure(gpu.total) or 0.0, figure(gpu.used)
    free = figure(gpu.free_durable) or 0.0
    below = MOST_OF_GPU * total - (total if used is None else used)
    return max(0.0, min(MOST_OF_FREE * free, below))


def find_step(facts: Facts) -> Step:
    """How much more. The byte budget is the stronger control; it is for each GPU (vLLM 0.10.2)."""
    own = [gpu for gpu in facts.gpus if gpu.expected]
    room = math.floor(min((room_on(gpu) for gpu in own), default=0.0) / MIB) * MIB
    told = facts.limit(Limit.KV_MEMORY_ADVICE_BYTES)
    now = facts.limit(Limit.KV_CACHE_MEMORY_BYTES)
    if now is None and facts.release is not None and facts.release >= BYTES_SINCE:
        now = facts.limit(Limit.KV_MEMORY_BYTES)
    if now is not None:
        most = now + room
        value = most if told is None or told <= now else min(most, told)
        return Step(Limit.KV_CACHE_MEMORY_BYTES, value=value, now=now)
    share = facts.limit(Limit.GPU_MEMORY_UTILIZATION)
    if share is None:
        return Step(Limit.GPU_MEMORY_UTILIZATION)
    totals = [total for gpu in own if (total := figure(gpu.total))]
    more = share + (room / max(totals) if totals else 0.0)
    # Down to thousandths: what is rounded up might not be free.
    return Step(
        Limit.GPU_MEMORY_UTILIZATION,
        value=math.floor(min(MOST_OF_GPU, more) * 1000 + 1e-6) / 1000,
        now=share,
    )


def say_room(facts: Facts) -> str:
    """What stayed free on the fullest GPU of the server."""
    own = [gpu for gpu in facts.gpus if gpu.expected]
    free = min((figure(gpu.free_durable) or 0.0 for gpu in own), default=0.0)
    return f"at least {say_bytes(free)} stayed free on each of {len(own)} GPUs, and nobody else is there"
