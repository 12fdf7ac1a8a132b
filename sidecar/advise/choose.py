"""One lever from the facts, and a reason for each that was not chosen."""

from collections.abc import Mapping

from sidecar.advise.facts import Facts, figure
from sidecar.advise.figures import say_step
from sidecar.advise.pressure import say_preemptions, say_usage
from sidecar.advise.rule import Row
from sidecar.advise.rules import BY_LEVER, ROWS
from sidecar.model.advice import Advice, Lever
from sidecar.model.limits import Limit
from sidecar.model.vocabulary import Cause, Kind

FULL = 0.9
NOT_MEMORY = "nothing shows memory as the reason"
NOT_GPU = "it was host memory, not the GPU's"
TRIED: Mapping[tuple[Cause, Kind | None], Mapping[Lever, str]] = {
    (Cause.HOST_OOM, None): {
        Lever.LOWER_GPU_MEMORY_UTILIZATION: NOT_GPU,
        Lever.RAISE_KV_CACHE_MEMORY: NOT_GPU,
    },
    (Cause.CUDA_OOM, Kind.ALLOCATION_FAILURE): {
        Lever.RAISE_KV_CACHE_MEMORY: "it takes still more of a card that is full",
        Lever.LOWER_MAX_NUM_SEQS: "the second step, if the first does not help",
        Lever.RAISE_HOST_MEMORY_LIMIT: "it was the GPU's memory, not the host's",
    },
    (Cause.CUDA_OOM, Kind.CAPACITY_REJECTION): {
        Lever.LOWER_GPU_MEMORY_UTILIZATION: (
            "it makes the cache smaller still: that is for a failed allocation"
        ),
        Lever.LOWER_MAX_NUM_SEQS: "the refusal is about the size of the cache, not about admission",
    },
    (Cause.ENGINE_FAILURE, None): {
        Lever.LOWER_GPU_MEMORY_UTILIZATION: NOT_MEMORY,
        Lever.RAISE_KV_CACHE_MEMORY: NOT_MEMORY,
        Lever.RAISE_HOST_MEMORY_LIMIT: NOT_MEMORY,
    },
    (Cause.STALLED, None): {
        Lever.RAISE_KV_CACHE_MEMORY: NOT_MEMORY,
        Lever.LOWER_MAX_NUM_SEQS: "requests do not fight for the cache: none moves",
    },
    (Cause.PREEMPTION, None): {
        Lever.LOWER_GPU_MEMORY_UTILIZATION: "it makes the cache smaller",
        Lever.LOWER_MAX_MODEL_LEN: "no single request is known to take most of the cache",
        Lever.RAISE_WATERMARK: "requests are not evicted again and again",
        Lever.LOWER_MAX_NUM_BATCHED_TOKENS: "prompts are not known to dominate",
    },
}
"""What people would try about a cause, where no rule calls for it, and why not."""


def choose(facts: Facts) -> Advice:
    """The first lever that is called for and not forbidden; ``none`` where there is none."""
    forbidden: dict[Lever, str] = {}
    for row in ROWS:
        because = row.calls(facts)
        if not because:
            continue
        reason = row.forbids(facts)
        if reason is None:
            return advise_row(row, facts, because)
        forbidden[row.lever] = reason
    return Advice(Lever.NONE, because=why_none(facts))


def advise_again(lever: Lever, facts: Facts) -> Advice | None:
    """The advice of one lever by these facts; None where it is not called for, or forbidden."""
    row = BY_LEVER.get(lever)
    because = row.calls(facts) if row is not None else ()
    if row is None or not because or row.forbids(facts) is not None:
        return None
    return advise_row(row, facts, because)


def must_go(lever: Lever, facts: Facts) -> bool:
    """Whether a lever may not be shown any longer: what makes it safe is not there any more."""
    row = BY_LEVER.get(lever)
    return row is not None and row.must_go_at_once and row.forbids(facts) is not None


def advise_row(row: Row, facts: Facts, because: tuple[str, ...]) -> Advice:
    """A row as advice."""
    step = row.step(facts)
    words = row.words if isinstance(row.words, str) else row.words(facts)
    figures = say_step(step)
    return Advice(
        lever=row.lever,
        because=because,
        cost=row.cost,
        step=None if step.setting is None else step,
        step_words=f"{figures}: {words}" if figures else words,
        verify=row.verify if isinstance(row.verify, str) else row.verify(facts),
        rollback=row.rollback,
        rejected=reject_others(row.lever, facts),
    )


def reject_others(chosen: Lever, facts: Facts) -> Mapping[Lever, str]:
    """Every other lever that is called for, or that people would try, with the reason against it."""
    rejected: dict[Lever, str] = {}
    for row in ROWS:
        if row.lever is chosen:
            continue
        if row.calls(facts):
            rejected[row.lever] = (
                row.forbids(facts) or f"{chosen.value} comes first: one change at a time"
            )
    for lever, reason in tried(facts).items():
        if lever is not chosen:
            rejected.setdefault(lever, reason)
    return {lever: rejected[lever] for lever in Lever if lever in rejected}


def tried(facts: Facts) -> Mapping[Lever, str]:
    """What people would try about the cause that decides."""
    first = facts.first
    if first is None:
        return {}
    return {**TRIED.get((first.cause, None), {}), **TRIED.get((first.cause, first.kind), {})}


def why_none(facts: Facts) -> tuple[str, ...]:
    """Why there is nothing to turn, where something was seen that looks like a reason."""
    first = facts.first
    if first is None:
        usage = figure(facts.usage)
        if usage is None or usage < FULL:
            return ()
        return (f"the KV cache was up to {usage:.0%} full without a preemption: that is no fault",)
    if first.cause is not Cause.PREEMPTION:
        return ()
    return (say_preemptions(facts), why_no_lever_for_preemption(facts))


def why_no_lever_for_preemption(facts: Facts) -> str:
    """Tolerated, not for lack of cache, or too little is known."""
    if facts.from_log:
        return (
            "a log does not tell how many requests finished: whether that is too many is not known"
        )
    if facts.is_low_use and facts.first is not None and facts.first.beyond:
        (usage,) = say_usage(facts)
        if facts.limit(Limit.PRIORITY_SCHEDULING):
            return f"{usage} only: priority scheduling preempts without lack of cache"
        return (
            f"{usage} only: that is no lack of cache (priority scheduling and a reset of the prefix"
            " cache preempt too)"
        )
    if facts.is_rare and facts.first is not None and facts.first.beyond:
        return "so few in one window are no pressure yet"
    return "within the tolerance"
