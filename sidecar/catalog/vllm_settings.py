"""What vLLM calls the limits of the closed set: on its command line, in its log, its labels and answers.

Names and spans are of vLLM releases 0.2.0 to 0.33.0 (``vllm/engine/arg_utils.py``, ``vllm/config/``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from sidecar.model.limits import Limit


class Unit(StrEnum):
    """How a value is written, and what of it is believed."""

    COUNT = "count"  # a whole number of at least one; suffixes k (1000), K (1024) and so on
    BYTES = "bytes"  # the same, in bytes
    GIB = "gib"  # GiB, kept as bytes; 0 is a value
    SHARE = "share"  # above 0, at most 1
    RESERVE = "reserve"  # at least 0, below 1
    FLAG = "flag"
    PRECISION = "precision"  # the name of a data type: 1 if it takes less than 16 bits
    POLICY = "policy"  # 1 for ``priority``, 0 for ``fcfs``


@dataclass(frozen=True, slots=True)
class Setting:
    """One limit as it is given at start: ``--max-num-seqs``, and ``max_num_seqs`` in Python's text.

    ``short``: further options, which argparse does not abbreviate.
    """

    limit: Limit
    name: str
    unit: Unit
    short: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The option without its dashes in front."""
        return self.name.replace("_", "-")


SETTINGS: tuple[Setting, ...] = (
    Setting(Limit.MAX_NUM_SEQS, "max_num_seqs", Unit.COUNT),
    Setting(Limit.MAX_NUM_ACTIVE_SEQS, "max_num_active_seqs", Unit.COUNT),
    Setting(Limit.MAX_NUM_BATCHED_TOKENS, "max_num_batched_tokens", Unit.COUNT),
    Setting(Limit.MAX_MODEL_LEN, "max_model_len", Unit.COUNT),
    Setting(Limit.WATERMARK, "watermark", Unit.RESERVE),
    Setting(Limit.MAX_NUM_QUEUED_REQS, "max_num_queued_reqs", Unit.COUNT),
    Setting(Limit.GPU_MEMORY_UTILIZATION, "gpu_memory_utilization", Unit.SHARE),
    Setting(Limit.KV_CACHE_MEMORY_BYTES, "kv_cache_memory_bytes", Unit.BYTES),
    Setting(Limit.TENSOR_PARALLEL_SIZE, "tensor_parallel_size", Unit.COUNT, ("tp",)),
    Setting(Limit.PIPELINE_PARALLEL_SIZE, "pipeline_parallel_size", Unit.COUNT, ("pp",)),
    Setting(Limit.DATA_PARALLEL_SIZE, "data_parallel_size", Unit.COUNT, ("dp",)),
    Setting(Limit.CPU_OFFLOAD_BYTES, "cpu_offload_gb", Unit.GIB),
    Setting(Limit.KV_OFFLOADING_BYTES, "kv_offloading_size", Unit.GIB),
    Setting(Limit.KV_CACHE_LOW_PRECISION, "kv_cache_dtype", Unit.PRECISION),
    Setting(Limit.SLEEP_MODE, "enable_sleep_mode", Unit.FLAG),
    Setting(Limit.PRIORITY_SCHEDULING, "scheduling_policy", Unit.POLICY),
)

ARGUMENTS: Mapping[str, Setting] = MappingProxyType({one.name: one for one in SETTINGS})
"""By the name in ``non-default args`` and in ``args: Namespace(...)``."""

ENGINE_FIELDS: Mapping[str, Setting] = MappingProxyType(
    {
        "max_seq_len": ARGUMENTS["max_model_len"],
        "tensor_parallel_size": ARGUMENTS["tensor_parallel_size"],
        "pipeline_parallel_size": ARGUMENTS["pipeline_parallel_size"],
        "kv_cache_dtype": ARGUMENTS["kv_cache_dtype"],
    }
)
"""By the name in ``Initializing ... LLM engine with config:``. ``data_parallel_size`` is left out: an
engine whose model is not split over the others says 1 there, however many there are (seen in 0.32)."""

NEIGHBOURS = (
    "cpu-distributed-timeout-seconds",
    "cpu-offload-params",
    "data-parallel-address",
    "data-parallel-backend",
    "data-parallel-external-lb",
    "data-parallel-hybrid-lb",
    "data-parallel-multi-port-external-lb",
    "data-parallel-rank",
    "data-parallel-rpc-port",
    "data-parallel-size-local",
    "data-parallel-start-rank",
    "enable-scale-out",
    "enable-server-load-tracking",
    "enable-ssl-refresh",
    "kv-cache-dtype-skip-layers",
    "kv-cache-metrics",
    "kv-cache-metrics-sample",
    "kv-events-config",
    "kv-offloading-backend",
    "kv-sharing-fast-prefill",
    "kv-transfer-config",
    "max-context-len-to-capture",
    "max-cpu-loras",
    "max-cudagraph-capture-size",
    "max-log-len",
    "max-logprobs",
    "max-long-partial-prefills",
    "max-lora-rank",
    "max-loras",
    "max-num-partial-prefills",
    "max-num-queued-tokens",
    "max-num-scheduled-tokens",
    "max-paddings",
    "max-parallel-loading-workers",
    "max-seq-len-to-capture",
    "scheduler-cls",
    "scheduler-delay-factor",
    "scheduler-reserve-full-isl",
    "task",
    "tokenizer",
    "watermark-config",
)
"""Options that begin like one of ours: an abbreviation that fits both names neither."""

SERVER_INFO: tuple[tuple[tuple[str, ...], Setting], ...] = (
    (("scheduler_config", "max_num_seqs"), ARGUMENTS["max_num_seqs"]),
    (("scheduler_config", "max_num_active_seqs"), ARGUMENTS["max_num_active_seqs"]),
    (("scheduler_config", "max_num_batched_tokens"), ARGUMENTS["max_num_batched_tokens"]),
    (("scheduler_config", "max_num_queued_reqs"), ARGUMENTS["max_num_queued_reqs"]),
    (("scheduler_config", "watermark"), ARGUMENTS["watermark"]),
    (("scheduler_config", "policy"), ARGUMENTS["scheduling_policy"]),
    (("scheduler_config", "max_model_len"), ARGUMENTS["max_model_len"]),
    (("model_config", "max_model_len"), ARGUMENTS["max_model_len"]),
    (("model_config", "enable_sleep_mode"), ARGUMENTS["enable_sleep_mode"]),
    (("cache_config", "gpu_memory_utilization"), ARGUMENTS["gpu_memory_utilization"]),
    (("cache_config", "kv_cache_memory_bytes"), ARGUMENTS["kv_cache_memory_bytes"]),
    (("cache_config", "cache_dtype"), ARGUMENTS["kv_cache_dtype"]),
    (("cache_config", "kv_offloading_size"), ARGUMENTS["kv_offloading_size"]),
    (("cache_config", "cpu_offload_gb"), ARGUMENTS["cpu_offload_gb"]),
    (("offload_config", "uva", "cpu_offload_gb"), ARGUMENTS["cpu_offload_gb"]),
    (("parallel_config", "tensor_parallel_size"), ARGUMENTS["tensor_parallel_size"]),
    (("parallel_config", "pipeline_parallel_size"), ARGUMENTS["pipeline_parallel_size"]),
    (("parallel_config", "data_parallel_size"), ARGUMENTS["data_parallel_size"]),
)
"""Places in ``vllm_config`` of ``/server_info?config_format=json``; of two that are there the last one
counts. All else in that answer, of which some is secret, is not looked at."""

CONFIG_LABELS: Mapping[str, Setting] = MappingProxyType(
    {
        "gpu_memory_utilization": ARGUMENTS["gpu_memory_utilization"],
        "kv_cache_memory_bytes": ARGUMENTS["kv_cache_memory_bytes"],
        "cache_dtype": ARGUMENTS["kv_cache_dtype"],
        "kv_cache_size_tokens": Setting(
            Limit.KV_CAPACITY_TOKENS, "kv_cache_size_tokens", Unit.COUNT
        ),
    }
)
"""Labels of ``cache_config_info`` that are a limit as they stand."""
