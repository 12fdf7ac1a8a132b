"""When preemption beyond the tolerance calls for a lever."""

import math
from collections.abc import Sequence

from sidecar.advise.facts import Facts, figure, greatest, longest_of
from sidecar.advise.failures import (
    does_not_fit,
    floor_of_tokens,
    half_of_tokens,
    refused,
)
from sidecar.advise.figures import say_number, say_times
from sidecar.advise.headroom import say_room, why_no_headroom
from sidecar.model.advice import Step
from sidecar.model.limits import Limit, Origin
from sidecar.model.vocabulary import Cause, Kind

LARGE_SHARE = 0.5
"""A request that takes more of the cache than this leaves room for no second one of its kind."""
LENGTH_SLACK = 1.5
"""``max_model_len`` is well above what requests use from this on."""
LENGTH_ROOM = 1.25
LENGTH_GRAIN = 256
LENGTH_WINDOWS = 3
"""Windows with finished requests that must be seen before a shorter context is advised."""
AGAIN_AND_AGAIN = 1.0
"""Preemptions per finished request from which every request is thrown out about once."""
WATERMARK_SINCE = (0, 24)
ACTIVE_SINCE = (0, 31)
WATERMARKS = (0.02, 0.05)
"""On a GB200 near its cache's end these gave the best output rate; 0.10 gave a lower one, and the
median of TTFT went from 6.6 to 11.8 s (vllm-project/vllm#44594)."""
PREFILL_SHARE = 0.5
LONG_PROMPT = 0.5
"""A prompt of this share of the token budget fills most of a step alone."""
EDGE = 1e-9


def pressed(facts: Facts) -> tuple[str, ...]:
    """Preemptions beyond the tolerance, and how full the cache was."""
    return (say_preemptions(facts), *say_usage(facts)) if facts.is_pressed else ()


def say_preemptions(facts: Facts) -> str:
    """How often the scheduler took blocks back."""
    counted = figure(facts.preemptions)
    if counted is None:
        counted = facts.first.count if facts.first is not None else 0.0
    told = say_times(counted, "preemption")
    if facts.per_request is not None:
        told += f", {facts.per_request:.2g} for each request that finished"
    return told


def say_usage(facts: Facts) -> tuple[str, ...]:
    """How full the cache was."""
    peak = figure(facts.usage_peak)
    return () if peak is None else (f"the KV cache was up to {peak:.0%} full",)


# More cache


def wants_cache(facts: Facts) -> tuple[str, ...]:
    """The cache is too small, for the load or for a start."""
    told = pressed(facts) or refused(facts)
    if not told or why_no_headroom(facts) is not None:
        return told
    return (*told, say_room(facts))


def why_not_more_cache(facts: Facts) -> str | None:
    """What forbids more memory for the cache."""
    if facts.has_kind(Cause.CUDA_OOM, Kind.ALLOCATION_FAILURE):
        return "a GPU allocation failed: the card is full"
    if facts.recalled.cuda_oom:
        return "a GPU allocation failed not long ago"
    if facts.recalled.failed_start and not refused(facts):
        return "a start failed not long ago"
    if facts.recalled.cotenant:
        return "others were on a GPU of this server a short while ago"
    return why_no_headroom(facts)


# Shorter requests


def one_is_large(facts: Facts) -> tuple[str, ...]:
    """One request takes most of the cache, or more than all of it."""
    share = figure(facts.budget.largest_share)
    if facts.is_pressed and share is not None and share > LARGE_SHARE:
        return (*pressed(facts), f"one large request takes {share:.0%} of the cache")
    return does_not_fit(facts)


def longest_used(facts: Facts) -> float | None:
    """Tokens that the largest requests of this window and of those of the horizon held (p99)."""
    return greatest((longest_of(facts.budget), facts.longest, facts.recalled.longest))


def why_not_shorter(facts: Facts) -> str | None:
    """What forbids a shorter context: requests that use it."""
    if not facts.is_pressed:
        return None
    now, used = facts.limit(Limit.MAX_MODEL_LEN), longest_used(facts)
    if now is None or used is None:
        return "max_model_len, or what requests use of it, is not known"
    seen = facts.recalled.lengths + (longest_of(facts.budget) is not None)
    if seen < LENGTH_WINDOWS:
        return f"requests finished in {seen} windows only: how long they get is not known yet"
    shorter = shorter_length(facts)
    if now < LENGTH_SLACK * used or shorter is None:
        return f"requests use {used:.0f} of {now:.0f} tokens: a shorter context would refuse them"
    return None


def shorter_length(facts: Facts) -> float | None:
    """What requests use and a quarter more, in whole blocks of 256 tokens; None if that is no less."""
    now, used = facts.limit(Limit.MAX_MODEL_LEN), longest_used(facts)
    if now is None or used is None:
        return None
    value = math.ceil(max(used, 1.0) * LENGTH_ROOM / LENGTH_GRAIN) * LENGTH_GRAIN
    return float(value) if value < now else None


def lower_length(facts: Facts) -> Step:
    """Under pressure what requests use; at a refused start what the cache holds, where it was told."""
    now = facts.limit(Limit.MAX_MODEL_LEN)
    if facts.is_pressed:
        return Step(Limit.MAX_MODEL_LEN, value=shorter_length(facts), now=now)
    holds = facts.limit(Limit.KV_CAPACITY_TOKENS)
    fits = holds if holds and now is not None and holds < now else None
    return Step(Limit.MAX_MODEL_LEN, value=fits, now=now)


# Readmission


def again_and_again(facts: Facts) -> tuple[str, ...]:
    """Requests are evicted and readmitted over and over."""
    often = facts.per_request is not None and facts.per_request >= AGAIN_AND_AGAIN
    if not facts.is_pressed or not (often or facts.lasting):
        return ()
    return (*pressed(facts), "requests are evicted and readmitted again and again")


def watermark(facts: Facts) -> float | None:
    """The reserve in effect; None where it cannot be known.

    The line of the arguments that are not at their defaults tells all that was set: a release that has
    the flag, and a line without it, mean the default, 0.
    """
    told = facts.limit(Limit.WATERMARK)
    if told is not None:
        return told
    has_flag = facts.release is not None and facts.release >= WATERMARK_SINCE
    is_read = any(known.origin is Origin.LOG_ARGUMENTS for known in facts.limits.values())
    return 0.0 if has_flag and is_read else None


def why_not_watermark(facts: Facts) -> str | None:
    """What forbids a reserve: a release without it, one that is set, or one nobody can read."""
    if facts.release is not None and facts.release < WATERMARK_SINCE:
        return "this release has no --watermark (there since 0.24)"
    # Where it is told the release has it, whatever its version says: the flag is refused elsewhere.
    now = watermark(facts)
    if now is None:
        return "the watermark that is in effect cannot be read from here"
    if now >= WATERMARKS[-1] - EDGE:
        return f"the watermark is {now:.4g} already: above {WATERMARKS[-1]} it costs more than it saves"
    return None


def raise_watermark(facts: Facts) -> Step:
    """The next of 0.02 and 0.05."""
    now = watermark(facts)
    value = next((w for w in WATERMARKS if now is not None and w > now + EDGE), None)
    return Step(Limit.WATERMARK, value=value, now=now)


# Smaller steps


def prefills_dominate(facts: Facts) -> tuple[str, ...]:
    """Most tokens are of prompts."""
    share = figure(facts.budget.prefill_share)
    if not facts.is_pressed or share is None or share < PREFILL_SHARE:
        return ()
    length = prompt_length(facts)
    long = () if length is None else (f"prompts of {length:.0f} tokens",)
    return (*pressed(facts), f"{share:.0%} of all tokens are of prompts", *long)


def prompt_length(facts: Facts) -> float | None:
    """The length of a long prompt (p95), else the mean."""
    p95 = figure(facts.budget.prompt.p95)
    return figure(facts.budget.prompt.mean) if p95 is None else p95


def why_not_smaller_steps(facts: Facts) -> str | None:
    """What forbids a smaller token budget: prompts that are small against it, or its floor."""
    now, length = facts.limit(Limit.MAX_NUM_BATCHED_TOKENS), prompt_length(facts)
    if now is None or length is None:
        return "max_num_batched_tokens, or the length of prompts, is not known"
    if length < LONG_PROMPT * now:
        return f"prompts of {length:.0f} tokens are small against a budget of {now:.0f}"
    if half_of_tokens(facts).value is None:
        return (
            f"max_num_batched_tokens is {now:.0f}: below {floor_of_tokens(facts):.0f} it only slows"
        )
    return None


# Fewer requests at once


def too_many_at_once(facts: Facts) -> tuple[str, ...]:
    """More is admitted than the cache holds to its end."""
    if not facts.is_pressed:
        return ()
    told = list(pressed(facts))
    each, holds = figure(facts.budget.per_running), median_holds(facts)
    peak = most_that_ran(facts)
    if peak is not None and (holds is None or holds > peak):
        told.append(f"blocks were taken back while no more than {say_number(peak)} requests ran")
    elif each is not None and holds is not None:
        told.append(
            f"a running request holds {each:.0f} tokens: the cache holds {holds:.1f} of them"
        )
    limit = admitted(facts)
    if limit is not None:
        told.append(f"up to {say_number(limit)} are admitted")
    return tuple(told)


def admitted(facts: Facts) -> float | None:
    """The least known limit of how many may run; None where none is known."""
    limits = (
        facts.limit(Limit.MAX_NUM_SEQS),
        facts.limit(Limit.MAX_NUM_ACTIVE_SEQS),
        figure(facts.budget.admission_limit),
    )
    return min((limit for limit in limits if limit is not None), default=None)


def most_that_ran(facts: Facts) -> float | None:
    """The most requests that ran at once; None where fewer than two did when it was sampled."""
    peak = figure(facts.running_peak)
    return peak if peak is not None and peak > 1 else None


def median_holds(facts: Facts) -> float | None:
    """Requests that the cache holds at once: the median over the windows of this spell of pressure.

    The mix of one window swings: requests that just began hold little, those left of a load that
    drains much.
    """
    now = figure(facts.budget.safe_concurrency)
    known = facts.recalled.holds if now is None else (*facts.recalled.holds, now)
    return figure(middle(known)) if known else None


def middle(values: Sequence[float]) -> float:
    """The median of one value at least. Not ``statistics``, which holds half a megabyte all the time."""
    ranked, half = sorted(values), len(values) // 2
    return ranked[half] if len(values) % 2 else (ranked[half - 1] + ranked[half]) / 2


def what_cache_holds(facts: Facts) -> float | None:
    """Requests that the cache holds at once, and no more than ran when blocks were taken back."""
    holds, peak = median_holds(facts), most_that_ran(facts)
    if holds is None:
        return None
    return holds if peak is None else min(holds, peak)


def fewer(facts: Facts) -> float | None:
    """What the cache holds, at least 1, and less than now; None if it is not known.

    Where blocks were taken back while no more ran than that, or no more are admitted, the mean promises
    too much: one less than ran.
    """
    holds, now, peak = median_holds(facts), admitted(facts), most_that_ran(facts)
    if holds is None:
        return None
    value = float(math.floor(holds))
    waiting = figure(facts.budget.waiting)
    if peak is not None and waiting is not None and value >= peak + waiting:
        # A limit above all that was there would change nothing.
        value = peak - 1
    if now is not None and value >= now:
        value = min(now if peak is None else peak, now) - 1
    return max(1.0, value)


def why_not_fewer(facts: Facts) -> str | None:
    """What forbids a lower admission limit: one that is low already leaves the cache empty."""
    now, holds, value = admitted(facts), what_cache_holds(facts), fewer(facts)
    if now is not None and now <= 1:
        return "one request at a time is admitted already"
    if value is not None and holds is not None and value < math.ceil(holds / 2):
        return (
            f"{say_number(value + 1)} are admitted, and the cache holds {holds:.1f}: fewer would"
            " leave it half empty"
        )
    return None


def lower_seqs(facts: Facts) -> Step:
    """``max_num_active_seqs`` where it is what binds (0.31+), else ``max_num_seqs``."""
    active, most = facts.limit(Limit.MAX_NUM_ACTIVE_SEQS), facts.limit(Limit.MAX_NUM_SEQS)
    if active is not None and (most is None or active <= most):
        return Step(Limit.MAX_NUM_ACTIVE_SEQS, value=fewer(facts), now=active)
    return Step(Limit.MAX_NUM_SEQS, value=fewer(facts), now=admitted(facts))


def seqs_words(facts: Facts) -> str:
    """The step, with the flag that does the same in later releases."""
    words = "admit as many as the cache holds, not fewer"
    if facts.release is not None and facts.release < ACTIVE_SINCE:
        return words
    return f"{words} (--max-num-active-seqs, since 0.31, keeps the sizes of the CUDA graphs)"


# What is left


def nothing_else(facts: Facts) -> tuple[str, ...]:
    """The cache is too small, for the load or for a start."""
    return pressed(facts) or refused(facts)


def cheaper_tokens(facts: Facts) -> tuple[str, ...]:
    """The cache is too small for the load, or for one request."""
    return pressed(facts) or does_not_fit(facts)


def why_not_cheaper(facts: Facts) -> str | None:
    """What forbids a lower precision: it is low already."""
    if facts.limit(Limit.KV_CACHE_LOW_PRECISION):
        return "the cache is of low precision already"
    return None
