"""The three budgets that decide how many requests an engine can really hold at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Binding(StrEnum):
    """Which budget held requests back in a window."""

    CACHE = "cache"
    ADMISSION = "admission"
    BATCH_TOKENS = "batch_tokens"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of the requests that finished in the window, in tokens; None without an observation."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """One engine over one window, in tokens unless the name says otherwise; None is not known.

    Static: ``capacity``, ``capacity_bytes``. Live demand: ``demand`` is the mean, ``demand_peak`` the
    greatest number of tokens that active sequences held (cached blocks without a sequence are not
    among them); ``per_running`` what one running request holds; ``headroom`` is capacity less the
    peak; ``safe_concurrency`` the requests of this mix that the cache holds; ``worst_concurrency``
    those of ``max_model_len``, a ceiling for a request and no reservation; ``largest_share`` what the
    largest requests (p99 of prompt and of output together) take of the cache. ``recomputed``: an
    estimate, preemptions times ``per_running``: vLLM counts none. Admission: ``admission_limit``
    requests, ``admission_used`` the greatest share of it that ran. Agreement: ``admitted_ratio`` is
    what admission lets in at the present mix (limit times ``per_running``) over capacity; above 1 the
    cache is promised twice.
    """

    capacity: float | None = None
    capacity_bytes: float | None = None
    demand: float | None = None
    demand_peak: float | None = None
    per_running: float | None = None
    headroom: float | None = None
    safe_concurrency: float | None = None
    worst_concurrency: float | None = None
    largest_share: float | None = None
    recomputed: float | None = None
    prompt: Lengths = field(default_factory=Lengths)
    output: Lengths = field(default_factory=Lengths)
    prefill_share: float | None = None
    """Share of prompt tokens among all tokens of the window."""
    running: float | None = None
    waiting: float | None = None
    waiting_by_reason: Mapping[str, float] = field(default_factory=dict)
    admission_limit: float | None = None
    admission_used: float | None = None
    admitted_ratio: float | None = None
    binding: Binding = Binding.UNKNOWN


class Sight(StrEnum):
    """Whether the driver tells which process holds a GPU's memory."""

    SEEN = "seen"
    OTHER_NAMESPACE = "other_namespace"
    """Pids of the driver are not those that we see: the server's cannot be told from others'."""
    HIDDEN = "hidden"
    """The driver lists no processes, or no sizes."""
    NO_SERVER = "no_server"
    """We know no process of the server."""


@dataclass(frozen=True, slots=True)
class GpuBudget:
    """One GPU, in bytes; None where the driver does not say.

    As last read, but for what may hide between two windows' ends: of a window, ``sight`` is the worst
    of its readings, ``cotenant`` the most that others held at any of them (so that it may be gone at
    the end) and ``utilization`` their mean. ``vllm``: held by the server's own processes;
    ``cotenant``: by anybody else's, orphans of a dead server among them as long as they are there
    (``orphans``); None where it could not be told at every reading and nobody was seen.
    ``free_durable``: the least that was free over the horizon, ten minutes of serving;
    ``cotenant_durable``: the most that others held over it. Both are None before the whole horizon
    was watched, the latter also if once in it nobody could tell whose the memory was.
    ``expected``: the server's processes are on it.
    """

    index: int
    total: int | None = None
    used: int | None = None
    free: int | None = None
    reserved: int | None = None
    vllm: int | None = None
    cotenant: int | None = None
    orphans: int | None = None
    free_durable: int | None = None
    cotenant_durable: int | None = None
    utilization: float | None = None
    sight: Sight = Sight.HIDDEN
    mig: bool = False
    lost: bool = False
    expected: bool = False
