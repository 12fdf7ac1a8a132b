"""The policy: one row for each lever, in the order in which they are tried.

Each row says what calls for the lever, what forbids it, what it costs, the smallest sensible step, how
to see whether it helped, and the way back. The first that is called for and not forbidden is advised.
"""

from collections.abc import Mapping

from sidecar.advise import failures, pressure
from sidecar.advise.facts import Facts
from sidecar.advise.headroom import find_step
from sidecar.advise.rule import Row
from sidecar.model.advice import Lever

BENCHMARK = "benchmark this model on this hardware before and after"
FALL = "preemptions per finished request fall, at the same load"
RESTORE = "restore the former value and restart"


def why_not_fewer_tokens(facts: Facts) -> str | None:
    """What forbids a smaller token budget, at a refused start and under pressure."""
    return failures.explicit_cache(facts) or (
        pressure.why_not_smaller_steps(facts) if facts.is_pressed else None
    )


def fewer_tokens(facts: Facts) -> tuple[str, ...]:
    """What calls for a smaller token budget: activations at a start, prefills under load."""
    return failures.activations_crowd(facts) or pressure.prefills_dominate(facts)


def larger_cache(facts: Facts) -> str:
    """How to see that more GPUs helped: a start that was refused has no preemptions to count."""
    if facts.is_pressed:
        return f"start-up tells a larger cache for each GPU, and {FALL}"
    return "the start succeeds, and tells a cache that holds at least one request of max_model_len"


ROWS: tuple[Row, ...] = (
    Row(
        lever=Lever.RAISE_HOST_MEMORY_LIMIT,
        calls=failures.host_oom,
        words=failures.host_words,
        cost="memory that others on the host cannot have",
        verify="the control group's oom_kill counter and the kernel log stay still under the same load",
        rollback="restore the former limit",
    ),
    Row(
        lever=Lever.INSPECT_ENGINE_FAILURE,
        calls=failures.engine_failed,
        words=failures.inspect_words,
        cost="a person's time; memory settings change nothing about it",
        verify="the failure does not come back under the same load",
        rollback="nothing was changed",
    ),
    Row(
        lever=Lever.FREE_COTENANT_MEMORY,
        calls=failures.others_hold,
        words=failures.free_words,
        cost="the others lose their place on the device",
        verify=failures.free_verify,
        rollback="let the others back, on another device",
    ),
    Row(
        lever=Lever.LOWER_GPU_MEMORY_UTILIZATION,
        calls=failures.allocation_failed,
        forbids=failures.refused_too,
        step=failures.lower_share,
        words="leave 0.05 of the GPU free for allocations beside the cache",
        cost="a smaller KV cache: fewer requests at once, perhaps preemptions",
        verify=(
            "no GPU allocation fails under the same load; if the start is refused for lack of cache"
            " now, the model needs a shorter context or more GPUs, not the former share"
        ),
        rollback=RESTORE,
    ),
    Row(
        lever=Lever.RAISE_KV_CACHE_MEMORY,
        calls=pressure.wants_cache,
        forbids=pressure.why_not_more_cache,
        step=find_step,
        words=(
            "give the cache at most half of what stays free, never more than 0.95 of the GPU; a byte"
            " budget is the stronger control, and holds for this GPU, model and quantisation only"
        ),
        cost="less GPU memory for peaks of activations and for anybody else: a CUDA out of memory",
        verify=f"start-up tells a larger cache, {FALL}, and no GPU allocation fails",
        rollback=RESTORE,
        must_go_at_once=True,
    ),
    Row(
        lever=Lever.LOWER_MAX_MODEL_LEN,
        calls=pressure.one_is_large,
        forbids=pressure.why_not_shorter,
        step=pressure.lower_length,
        words=(
            "a shorter context; a refused start names the longest that fits as its estimated maximum"
        ),
        cost="a change of contract: longer requests are refused, so tell the users first",
        verify=f"the server starts, and {FALL}; see how many requests are refused as too long",
        rollback=RESTORE,
    ),
    Row(
        lever=Lever.RAISE_WATERMARK,
        calls=pressure.again_and_again,
        forbids=pressure.why_not_watermark,
        step=pressure.raise_watermark,
        words="keep a small share of the blocks free when requests are admitted (0.02, then 0.05)",
        cost=(
            "new requests wait longer for their first token: with 0.10 the median rose from 6.6 to"
            " 11.8 s in one report, and 0.02 to 0.05 was the best range"
        ),
        verify=f"{FALL}, output tokens per second hold, and the p50 of TTFT is still good enough",
        rollback=RESTORE,
    ),
    Row(
        lever=Lever.LOWER_MAX_NUM_BATCHED_TOKENS,
        calls=fewer_tokens,
        forbids=why_not_fewer_tokens,
        step=failures.half_of_tokens,
        words="smaller steps: prefills take their blocks more slowly, and activations less memory",
        cost="slower prefill: a later first token for long prompts, less prompt throughput",
        verify=f"the server starts, {FALL}, and the p95 of TTFT is still good enough",
        rollback=RESTORE,
    ),
    Row(
        lever=Lever.LOWER_MAX_NUM_SEQS,
        calls=pressure.too_many_at_once,
        forbids=pressure.why_not_fewer,
        step=pressure.lower_seqs,
        words=pressure.seqs_words,
        cost=(
            "more requests wait before they begin: a later first token, and throughput falls if it is"
            " too low"
        ),
        verify=f"{FALL}, the cache stays more than half full, and output tokens per second hold",
        rollback=RESTORE,
    ),
    Row(
        lever=Lever.LOWER_KV_CACHE_PRECISION,
        calls=pressure.cheaper_tokens,
        forbids=pressure.why_not_cheaper,
        words="an FP8 cache (--kv-cache-dtype fp8), where it is not one already",
        cost=f"accuracy, and with some kernels speed: {BENCHMARK}",
        verify="start-up tells about twice the tokens, and your own quality tests pass",
        rollback=RESTORE,
    ),
    Row(
        lever=Lever.ADD_PARALLELISM,
        calls=pressure.nothing_else,
        words=failures.more_gpus,
        cost=f"more GPUs, and communication between them in every step: {BENCHMARK}",
        verify=larger_cache,
        rollback=RESTORE,
    ),
)

BY_LEVER: Mapping[Lever, Row] = {row.lever: row for row in ROWS}
