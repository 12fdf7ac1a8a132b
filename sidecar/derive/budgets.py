"""The budgets of each engine over one window: what its cache holds, what is asked of it, who is let in.

All of it follows from vLLM's gauges, counters and histograms and from the limits that were told.
What nobody told stays None, and so does every figure that would follow from it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from sidecar.catalog import vllm_metrics as roles
from sidecar.derive.latency import is_usable, level, quantiles
from sidecar.model.budget import Binding, Budget, Lengths
from sidecar.model.limits import Limit
from sidecar.model.readings import Histogram
from sidecar.model.window import EngineWindow, Spread, Window

FULL = 0.9
"""From this share on the cache is what a waiting request waits for."""
LOW = 0.5
"""Preemptions while no sample was above this share, and nothing waited for room, may be a policy's or
a reset's; else the full moment lay between samples, or before the window (V1 counts 1 to 4 s late)."""
FEWEST_RUNNING = 0.5
"""Below so many requests on average most samples show an idle engine: no figure for one request."""
MOST = 1e15
"""No real engine has so many tokens, bytes or requests: such a figure is no measurement."""
FOLDED = "other"
"""Engines that the parser added up: their gauges are no single engine's."""
V1 = "v1"


@dataclass(frozen=True, slots=True)
class Capacity:
    """Tokens of one engine's cache as vLLM tells them, and those of them that requests can get."""

    told: float | None = None
    usable: float | None = None


@dataclass(frozen=True, slots=True)
class Demand:
    """Tokens held: the mean and the peak of the window, and by one running request."""

    mean: float | None
    peak: float | None
    per_running: float | None


def measure(window: Window) -> Mapping[str, Budget]:
    """The budgets of every engine of the window that is told apart, by its name."""
    capacity = find_capacity(window)
    return {
        name: measure_engine(window, engine, capacity)
        for name, engine in window.engines.items()
        if name != FOLDED
    }


def measure_engine(window: Window, engine: EngineWindow, capacity: Capacity) -> Budget:
    """The budgets of one engine."""
    usable = capacity.usable
    running = engine.gauges.get(roles.RUNNING)
    waiting = engine.gauges.get(roles.WAITING)
    demand = measure_demand(engine, usable)
    limit = admission_limit(window)
    longest = limit_of(window, Limit.MAX_MODEL_LEN)
    prompt = measure_lengths(engine.histograms.get(roles.REQUEST_PROMPT_TOKENS))
    output = measure_lengths(engine.histograms.get(roles.REQUEST_GENERATION_TOKENS))
    return Budget(
        capacity=capacity.told,
        capacity_bytes=capacity_bytes(window),
        demand=demand.mean,
        demand_peak=demand.peak,
        per_running=demand.per_running,
        headroom=minus(usable, demand.peak),
        safe_concurrency=ratio(usable, demand.per_running),
        worst_concurrency=ratio(usable, longest),
        largest_share=ratio(largest_request(prompt, output, longest), usable),
        recomputed=estimate_recomputed(engine, demand.per_running),
        prompt=prompt,
        output=output,
        prefill_share=share_of_prefill(engine),
        running=None if running is None else sane(running.mean),
        waiting=None if waiting is None else sane(waiting.mean),
        waiting_by_reason=waiting_by_reason(engine),
        admission_limit=limit,
        admission_used=None if running is None else ratio(sane(running.greatest), limit),
        admitted_ratio=ratio(times(limit, demand.per_running), usable),
        binding=find_binding(window, engine, limit),
    )


# Arithmetic in which unknown stays unknown


def sane(value: float | None) -> float | None:
    """The value where it can be a measurement: finite, not negative, below ``MOST``."""
    return value if value is not None and 0 <= value <= MOST else None


def times(one: float | None, other: float | None) -> float | None:
    """The product; None where a factor is not known."""
    return None if one is None or other is None else sane(one * other)


def ratio(part: float | None, whole: float | None) -> float | None:
    """The quotient; None where a term is not known or the whole is nothing."""
    return None if part is None or not whole else sane(part / whole)


def minus(whole: float | None, part: float | None) -> float | None:
    """What is left of the whole, at least nothing; None where a term is not known."""
    return None if whole is None or part is None else max(0.0, whole - part)


# Static


def limit_of(window: Window, limit: Limit) -> float | None:
    """A limit that was told, greater than nothing."""
    known = window.limits.get(limit)
    return None if known is None else sane(known.value) or None


def find_capacity(window: Window) -> Capacity:
    """Tokens of KV cache that one engine of this server holds.

    Told by the start-up log or the ``kv_cache_size_tokens`` of ``cache_config_info`` (0.24.0 on), else
    blocks times their size: right for models with one kind of attention, and only where there is one
    engine, since ``num_gpu_blocks`` is the sum over them. V1's block 0 stands for skipped positions
    and is never given to a request, though vLLM counts it in the size that it tells.
    """
    told = limit_of(window, Limit.KV_CAPACITY_TOKENS) or kv_capacity_tokens(
        window.info, count_engines(window)
    )
    if told is None:
        return Capacity()
    block = read_whole(window.info.get("block_size")) if window.naming_generation == V1 else None
    usable = told if block is None or block >= told else told - block
    return Capacity(sane(told), sane(usable))


def count_engines(window: Window) -> int:
    """Engines of the server, by what it shows and by what it was told."""
    return max(len(window.engines), int(limit_of(window, Limit.DATA_PARALLEL_SIZE) or 0))


def kv_capacity_tokens(info: Mapping[str, str], engines: int) -> float | None:
    """Tokens of KV cache one engine holds, from labels of ``cache_config_info``; None if untold.

    ``kv_cache_size_tokens`` is per engine; ``num_gpu_blocks`` is the sum over engines and so
    only speaks for a single one.
    """
    told = read_whole(info.get("kv_cache_size_tokens"))
    if told is not None:
        return told
    blocks = read_whole(info.get("num_gpu_blocks"))
    size = read_whole(info.get("block_size"))
    if engines != 1 or blocks is None or size is None:
        return None
    return blocks * size


def read_whole(text: str | None) -> float | None:
    """A plain positive decimal of at most 15 digits; anything else is None."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 15:  # noqa: PLR2004
        return None
    return float(text) or None


def capacity_bytes(window: Window) -> float | None:
    """Bytes of the cache on each GPU of an engine: the set size, else what start-up found for it."""
    return limit_of(window, Limit.KV_CACHE_MEMORY_BYTES) or limit_of(window, Limit.KV_MEMORY_BYTES)


# Live demand


def measure_demand(engine: EngineWindow, usable: float | None) -> Demand:
    """Tokens that active sequences held.

    vLLM's gauge is the share of blocks that a sequence refers to: cached blocks without one are free.
    Both means are over the same samples, so that their quotient weighs each by what ran in it.
    """
    usage = usage_of(engine)
    if usage is None:
        return Demand(None, None, None)
    mean, peak = times(usable, usage.mean), times(usable, usage.greatest)
    running = engine.gauges.get(roles.RUNNING)
    busy = running is not None and running.mean >= FEWEST_RUNNING and usage.mean > 0
    return Demand(mean, peak, ratio(mean, running.mean) if running and busy else None)


def usage_of(engine: EngineWindow) -> Spread | None:
    """The share of the cache in use; None where it is not shown, or is no share."""
    usage = engine.gauges.get(roles.KV_USAGE)
    if usage is None or not 0 <= usage.mean <= usage.greatest <= 1:
        return None
    return usage


def measure_lengths(histogram: Histogram | None) -> Lengths:
    """Lengths of finished requests; quantiles are as coarse as vLLM's buckets (1, 2, 5, 10 ...)."""
    if histogram is None or not histogram.count > 0:
        return Lengths()
    found = quantiles(narrow(histogram), (0.5, 0.95, 0.99))
    return Lengths(
        mean=ratio(sane(histogram.total), histogram.count),
        p50=sane(found.get(0.5)),
        p95=sane(found.get(0.95)),
        p99=sane(found.get(0.99)),
    )


def narrow(histogram: Histogram) -> Histogram:
    """The histogram with the one bucket that holds all observations cut evenly around their mean.

    Lengths of 1,200 fall into the bucket from 1,000 to 2,000, and spread evenly over it their p99 would
    be 1,990. The mean is exact, and contradicts that: even around it is what remains.
    """
    if not is_usable(histogram.buckets):
        return histogram
    buckets = ((0.0, 0.0), *level(histogram.buckets))
    filled = [(low, up) for (low, before), (up, upto) in pairwise(buckets) if upto > before]
    mean = histogram.total / histogram.count
    if len(filled) != 1 or not filled[0][0] < mean <= filled[0][1] < math.inf:
        return histogram
    reach = min(mean - filled[0][0], filled[0][1] - mean)
    upto = buckets[-1][1]
    return replace(histogram, buckets=((mean - reach, 0.0), (mean + reach, upto), (math.inf, upto)))


def largest_request(prompt: Lengths, output: Lengths, longest: float | None) -> float | None:
    """Tokens of the largest requests: p99 of both parts together, at most ``max_model_len``."""
    if prompt.p99 is None or output.p99 is None:
        return None
    both = prompt.p99 + output.p99
    return both if longest is None else min(both, longest)


def share_of_prefill(engine: EngineWindow) -> float | None:
    """Prompt tokens among all tokens; None where one of them is not counted, or there were none."""
    prompt = sane(engine.deltas.get(roles.PROMPT_TOKENS))
    output = sane(engine.deltas.get(roles.GENERATION_TOKENS))
    return None if prompt is None or output is None else ratio(prompt, prompt + output)


def estimate_recomputed(engine: EngineWindow, per_running: float | None) -> float | None:
    """Tokens made anew after preemptions, at what a running request held on average.

    An estimate: vLLM counts no recomputation, and what the prefix cache still held is not made anew.
    """
    preemptions = sane(engine.deltas.get(roles.PREEMPTIONS))
    return 0.0 if preemptions == 0 else times(preemptions, per_running)


# Admission


def admission_limit(window: Window) -> float | None:
    """Requests that may run at once on one engine: the lower of the limits that are known."""
    told = (
        limit_of(window, Limit.MAX_NUM_SEQS),
        limit_of(window, Limit.MAX_NUM_ACTIVE_SEQS),
    )
    return min((limit for limit in told if limit is not None), default=None)


def waiting_by_reason(engine: EngineWindow) -> Mapping[str, float]:
    """Mean of the waiting requests by vLLM's reason, those that it tells."""
    means = {
        reason: sane(engine.gauges[role].mean)
        for reason, role in roles.WAITING_REASONS.items()
        if role in engine.gauges
    }
    return {reason: mean for reason, mean in means.items() if mean is not None}


# Which budget binds


@dataclass(frozen=True, slots=True)
class Pressure:
    """What tells budgets apart: peaks of the window, and whether the limits were met; None unknown.

    ``held``: most requests that waited for room; those that vLLM defers wait for something else.
    """

    preempted: bool | None
    usage: float | None
    waited: float | None
    held: float | None
    at_limit: bool | None
    at_tokens: bool | None
    by_priority: bool
    """The scheduler was told to preempt by priority: then requests wait without any lack of cache."""


def find_binding(window: Window, engine: EngineWindow, limit: float | None) -> Binding:
    """Which budget held requests back; unknown where the signs do not decide it."""
    seen = read_pressure(window, engine, limit)
    if is_cache(seen):
        return Binding.CACHE
    if seen.preempted is not False or seen.waited is None:
        return Binding.UNKNOWN
    if seen.waited == 0:
        return Binding.NONE
    if not seen.held or seen.usage is None or seen.at_limit is None:
        return Binding.UNKNOWN
    if seen.at_limit:
        return Binding.ADMISSION
    return Binding.BATCH_TOKENS if seen.at_tokens else Binding.UNKNOWN


def is_cache(seen: Pressure) -> bool:
    """Whether the cache was short: it was taken back, or it was full and requests waited for room."""
    if seen.preempted:
        unseen = seen.usage is None or (bool(seen.held) and not seen.by_priority)
        return unseen or (seen.usage is not None and seen.usage > LOW)
    return bool(seen.held) and seen.usage is not None and seen.usage >= FULL


def read_pressure(window: Window, engine: EngineWindow, limit: float | None) -> Pressure:
    """The signs of one engine."""
    usage = usage_of(engine)
    running = peak_of(engine, roles.RUNNING)
    waited = peak_of(engine, roles.WAITING)
    by_reason = peak_of(engine, roles.WAITING_CAPACITY)
    preemptions = engine.deltas.get(roles.PREEMPTIONS)
    swapped = peak_of(engine, roles.SWAPPED) or 0.0
    counted = preemptions is not None and preemptions > 0
    return Pressure(
        preempted=True if counted or swapped > 0 else None if preemptions is None else False,
        usage=None if usage is None else usage.greatest,
        waited=waited,
        held=waited if by_reason is None else by_reason,
        at_limit=None if running is None or limit is None else running >= limit,
        at_tokens=is_at_tokens(
            engine.histograms.get(roles.ITERATIONS),
            limit_of(window, Limit.MAX_NUM_BATCHED_TOKENS),
        ),
        by_priority=limit_of(window, Limit.PRIORITY_SCHEDULING) is not None,
    )


def peak_of(engine: EngineWindow, role: str) -> float | None:
    """The greatest sample of a gauge."""
    gauge = engine.gauges.get(role)
    return None if gauge is None else sane(gauge.greatest)


def is_at_tokens(iterations: Histogram | None, limit: float | None) -> bool | None:
    """Whether an engine step may have held all the tokens it is allowed.

    Only the bucket is known: the largest that was filled must reach the limit.
    """
    if iterations is None or limit is None or not iterations.count > 0:
        return None
    top = -math.inf
    before = 0.0
    for edge, count in sorted(iterations.buckets):
        if count > before:
            top, before = edge, count
    return top >= limit
