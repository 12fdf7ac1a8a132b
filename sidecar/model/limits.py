"""What the server was told about its own limits: a closed set of numbers, each with where it was read.

No name, path or key of a command line is ever kept: only the numbers of these limits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Limit(StrEnum):
    """A setting of vLLM that bounds memory or admission, by its name in vLLM; bytes where it says so.

    ``kv_capacity_tokens``, ``kv_memory_bytes``: what start-up found for the cache, the bytes on each
    GPU. ``kv_memory_advice_bytes``: the greatest ``--kv-cache-memory`` that start-up says would fit.
    Flags are 1 or 0.
    """

    MAX_NUM_SEQS = "max_num_seqs"
    MAX_NUM_ACTIVE_SEQS = "max_num_active_seqs"
    MAX_NUM_BATCHED_TOKENS = "max_num_batched_tokens"
    MAX_MODEL_LEN = "max_model_len"
    WATERMARK = "watermark"
    MAX_NUM_QUEUED_REQS = "max_num_queued_reqs"
    GPU_MEMORY_UTILIZATION = "gpu_memory_utilization"
    KV_CACHE_MEMORY_BYTES = "kv_cache_memory_bytes"
    TENSOR_PARALLEL_SIZE = "tensor_parallel_size"
    PIPELINE_PARALLEL_SIZE = "pipeline_parallel_size"
    DATA_PARALLEL_SIZE = "data_parallel_size"
    KV_CAPACITY_TOKENS = "kv_capacity_tokens"
    KV_MEMORY_BYTES = "kv_memory_bytes"
    KV_MEMORY_ADVICE_BYTES = "kv_memory_advice_bytes"
    CPU_OFFLOAD_BYTES = "cpu_offload_bytes"
    KV_OFFLOADING_BYTES = "kv_offloading_bytes"
    KV_CACHE_LOW_PRECISION = "kv_cache_low_precision"
    SLEEP_MODE = "sleep_mode"
    PRIORITY_SCHEDULING = "priority_scheduling"


FOUND_AT_START = frozenset(
    {Limit.KV_CAPACITY_TOKENS, Limit.KV_MEMORY_BYTES, Limit.KV_MEMORY_ADVICE_BYTES}
)
"""What start-up measures: no setting of anybody, and a little different with each start."""


class Origin(StrEnum):
    """Where a limit was read, surest first: what is in effect before what was typed."""

    SERVER_INFO = "server_info"
    LOG = "log"
    MODELS = "models"
    METRICS = "metrics"
    LOG_ARGUMENTS = "log_arguments"
    COMMAND_LINE = "command_line"


@dataclass(frozen=True, slots=True)
class Known:
    """The value of a limit and where it was read."""

    value: float
    origin: Origin


Limits = Mapping[Limit, Known]
"""A limit that nobody told is absent: unknown, never its default."""
