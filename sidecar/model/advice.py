"""One lever, why it, and why none of the others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sidecar.model.limits import Limit


class Lever(StrEnum):
    """What an operator can turn. Never two at a time."""

    NONE = "none"
    RAISE_KV_CACHE_MEMORY = "raise_kv_cache_memory"
    LOWER_GPU_MEMORY_UTILIZATION = "lower_gpu_memory_utilization"
    LOWER_MAX_NUM_SEQS = "lower_max_num_seqs"
    LOWER_MAX_NUM_BATCHED_TOKENS = "lower_max_num_batched_tokens"
    RAISE_WATERMARK = "raise_watermark"
    LOWER_MAX_MODEL_LEN = "lower_max_model_len"
    LOWER_KV_CACHE_PRECISION = "lower_kv_cache_precision"
    ADD_PARALLELISM = "add_parallelism"
    FREE_COTENANT_MEMORY = "free_cotenant_memory"
    RAISE_HOST_MEMORY_LIMIT = "raise_host_memory_limit"
    INSPECT_ENGINE_FAILURE = "inspect_engine_failure"


@dataclass(frozen=True, slots=True)
class Step:
    """The smallest sensible change of one setting; ``value`` None: no figure can be given."""

    setting: Limit | None
    value: float | None = None
    now: float | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """The lever of a window. All words come from our own tables, all figures from what was measured.

    ``because``: the evidence that calls for it. ``rejected``: each other lever that something called
    for, or that people would try, and why not. ``resting``: a change of the configuration was seen a
    short while ago, and both sides are measured before there is new advice.
    """

    lever: Lever
    because: tuple[str, ...] = ()
    cost: str = ""
    step: Step | None = None
    step_words: str = ""
    verify: str = ""
    rollback: str = ""
    rejected: Mapping[Lever, str] = field(default_factory=dict)
    resting: bool = False
