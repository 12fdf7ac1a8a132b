"""What vLLM calls its metrics: canonical role -> every name a release has given it.

Names are written bare; a server's prefix (``NAMINGS``) and a counter's ``_total`` are resolved apart.
Spans are of vLLM releases 0.2.0 to 0.33.0. Names are matched whole: suffixes look alike
(``kv_offload_cpu_cache_usage_perc``, ``request_num_preemptions``) and guessing is a trap.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

NAMINGS = ("vllm:", "vllm_", "ray_vllm:", "ray_vllm_", "")
"""Prefixes seen: prometheus_client, its OpenMetrics form, Ray Serve (two eras), and stripped."""


class Shape(StrEnum):
    """How the samples of a role are read."""

    GAUGE = "gauge"
    RATIO = "ratio"  # a gauge of which the greatest, not the sum, speaks for several series
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Role:
    """One meaning. ``names``: newest first; the first one present is used, they are never added."""

    role: str
    shape: Shape
    names: tuple[str, ...]


KV_USAGE = "kv_cache_usage"
RUNNING = "requests_running"
WAITING = "requests_waiting"
SWAPPED = "requests_swapped"
PREEMPTIONS = "preemptions"
PROMPT_TOKENS = "prompt_tokens"
GENERATION_TOKENS = "generation_tokens"
FINISHED = "requests_finished"
REJECTED = "admission_rejections"
TTFT = "ttft"
INTER_TOKEN = "inter_token"  # noqa: S105  (a token of text)
E2E = "e2e"
QUEUE = "queue"
ITERATIONS = "engine_iterations"
REQUEST_PROMPT_TOKENS = "request_prompt_tokens"
REQUEST_GENERATION_TOKENS = "request_generation_tokens"
WAITING_BY_REASON = "requests_waiting_by_reason"

ROLES: tuple[Role, ...] = (
    Role(KV_USAGE, Shape.RATIO, ("kv_cache_usage_perc", "gpu_cache_usage_perc")),
    Role(RUNNING, Shape.GAUGE, ("num_requests_running",)),
    Role(WAITING, Shape.GAUGE, ("num_requests_waiting",)),
    Role(SWAPPED, Shape.GAUGE, ("num_requests_swapped",)),
    Role(PREEMPTIONS, Shape.COUNTER, ("num_preemptions",)),
    Role(PROMPT_TOKENS, Shape.COUNTER, ("prompt_tokens",)),
    Role(GENERATION_TOKENS, Shape.COUNTER, ("generation_tokens",)),
    Role(FINISHED, Shape.COUNTER, ("request_success",)),
    Role(REJECTED, Shape.COUNTER, ("admission_rejections",)),
    Role(TTFT, Shape.HISTOGRAM, ("time_to_first_token_seconds",)),
    Role(
        INTER_TOKEN,
        Shape.HISTOGRAM,
        ("inter_token_latency_seconds", "time_per_output_token_seconds"),
    ),
    Role(E2E, Shape.HISTOGRAM, ("e2e_request_latency_seconds",)),
    Role(QUEUE, Shape.HISTOGRAM, ("request_queue_time_seconds", "time_in_queue_requests")),
    Role(ITERATIONS, Shape.HISTOGRAM, ("iteration_tokens_total",)),
    Role(REQUEST_PROMPT_TOKENS, Shape.HISTOGRAM, ("request_prompt_tokens",)),
    Role(REQUEST_GENERATION_TOKENS, Shape.HISTOGRAM, ("request_generation_tokens",)),
    Role(WAITING_BY_REASON, Shape.GAUGE, ("num_requests_waiting_by_reason",)),
)

WAITING_CAPACITY = "requests_waiting_capacity"
WAITING_DEFERRED = "requests_waiting_deferred"
WAITING_REASONS: Mapping[str, str] = {
    "capacity": WAITING_CAPACITY,
    "deferred": WAITING_DEFERRED,
}
"""``reason`` of ``WAITING_BY_REASON`` (vLLM 0.20.0 to 0.33.0) -> the gauge it is kept as.

Together they are what ``WAITING`` says already: the two are never added. Capacity: no room for it in
the cache or among the running. Deferred: it waits for something else (LoRA, a KV transfer, a grammar).
"""

FINISHED_REASONS = frozenset({"stop", "length", "abort", "error", "repetition"})
"""The ``finished_reason`` values of vLLM 0.4.2 to 0.33.0."""

CONFIG_INFO = "cache_config_info"
SLEEP_STATE = "engine_sleep_state"
PROCESS_START = "process_start_time_seconds"

CONFIG_KEYS = (
    "block_size",
    "cache_dtype",
    "enable_prefix_caching",
    "gpu_memory_utilization",
    "kv_cache_max_concurrency",
    "kv_cache_memory_bytes",
    "kv_cache_size_tokens",
    "num_gpu_blocks",
)
"""The labels of ``cache_config_info`` that are kept; the label set itself changes every release."""
