"""What a stepped benchmark showed of one server: which load is safe, from which on it preempts, and why.

Seconds, bytes and tokens throughout; None is not known, and never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sidecar.model.budget import Binding, Lengths
from sidecar.model.vocabulary import Cause, Verdict


@dataclass(frozen=True, slots=True)
class Quantiles:
    """One latency over a whole run of a stage, in seconds.

    The server's quantiles are as coarse as vLLM's buckets; ``mean`` is exact on both sides.
    """

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None


@dataclass(frozen=True, slots=True)
class ServerView:
    """One run of a stage as the server's own metrics and this host tell it.

    ``seconds``: from the first request to the last one's end. Requests that ended: ``completed``,
    ``aborted``, ``errors``, ``rejected``. ``cache_peak``, ``cache_mean``: shares of the KV cache.
    ``running_peak``, ``waiting_peak``: of the engine that had most. ``per_running``: tokens held by
    one running request. ``gpu_headroom``, ``host_headroom``: least free bytes, of the tightest GPU
    and up to the nearest limit of host memory. ``drained_s``: how long after the load's end the last
    request was done; None if it was not seen. ``queue_grew``: more requests waited in the last third
    of the load than in the second and in the first, by a request and a tenth at least. ``verdicts``:
    windows by verdict. ``unobservable``: windows in which a cause could not have been seen, by cause; 0
    is left out.
    """

    seconds: float
    completed: float | None = None
    aborted: float | None = None
    errors: float | None = None
    rejected: float | None = None
    preemptions: float | None = None
    cache_peak: float | None = None
    cache_mean: float | None = None
    queue: Quantiles = field(default_factory=Quantiles)
    ttft: Quantiles = field(default_factory=Quantiles)
    inter_token: Quantiles = field(default_factory=Quantiles)
    e2e: Quantiles = field(default_factory=Quantiles)
    prompt_tokens_per_second: float | None = None
    output_tokens_per_second: float | None = None
    running_peak: float | None = None
    waiting_peak: float | None = None
    per_running: float | None = None
    gpu_headroom: float | None = None
    host_headroom: float | None = None
    prompt: Lengths = field(default_factory=Lengths)
    output: Lengths = field(default_factory=Lengths)
    drained_s: float | None = None
    queue_grew: bool | None = None
    binding: Binding = Binding.UNKNOWN
    verdicts: Mapping[Verdict, int] = field(default_factory=dict)
    unobservable: Mapping[Cause, int] = field(default_factory=dict)

    @property
    def preemptions_per_request(self) -> float | None:
        """Preemptions for each request that completed."""
        if self.preemptions is None or not self.completed:
            return None
        return self.preemptions / self.completed


class Client(StrEnum):
    """Load generators whose result files are read."""

    VLLM_BENCH = "vllm_bench"
    GUIDELLM = "guidellm"
    INFERENCE_PERF = "inference_perf"


@dataclass(frozen=True, slots=True)
class ClientView:
    """The same run as its load generator tells it."""

    client: Client
    seconds: float | None = None
    completed: float | None = None
    failed: float | None = None
    ttft: Quantiles = field(default_factory=Quantiles)
    inter_token: Quantiles = field(default_factory=Quantiles)
    e2e: Quantiles = field(default_factory=Quantiles)
    output_tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A figure (its name in ``ServerView``) of which server and client say different things."""

    figure: str
    server: float
    client: float


@dataclass(frozen=True, slots=True)
class StageRun:
    """One repeat of a stage.

    ``exit_code``: of the load's command, None if it was stopped. ``killed``: the cause of which the
    server died in it, if it did. ``whole``: it went to its end. ``client_fault``: why the client's
    result, which was asked for, could not be read.
    """

    repeat: int
    server: ServerView
    client: ClientView | None = None
    disagreements: tuple[Disagreement, ...] = ()
    exit_code: int | None = None
    killed: Verdict | None = None
    whole: bool = True
    client_fault: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the load. ``load``: where it stands on the axis (concurrency, or requests/s)."""

    name: str
    load: float
    runs: tuple[StageRun, ...]


class Criterion(StrEnum):
    """What a configuration must meet to be accepted."""

    COMPLETES = "completes"
    NO_OOM = "no_oom"
    PREEMPTION = "preemption"
    TTFT_P95 = "ttft_p95"
    INTER_TOKEN_P95 = "inter_token_p95"  # noqa: S105 - the name of a latency
    E2E_P95 = "e2e_p95"
    QUEUE_P95 = "queue_p95"
    QUEUE_STOPS_GROWING = "queue_stops_growing"
    DRAINS = "drains"
    REPEATS_AGREE = "repeats_agree"


@dataclass(frozen=True, slots=True)
class Finding:
    """One criterion with its figure and its bound; ``met`` None: it could not be told, so not met."""

    criterion: Criterion
    figure: float | None
    bound: float | None
    met: bool | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Whether the configuration carries the load that was intended, criterion by criterion."""

    stage: str
    accepted: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Objectives:
    """What was asked of the configuration. Latencies in seconds, None: not asked.

    ``preemptions_per_request``: tolerated. ``errors``: share of requests that may fail. ``agree``:
    how far apart repeats may lie, as a share. ``margin``: how far the safe load stays below the last
    load that met everything, as a share.
    """

    ttft_p95: float | None = None
    inter_token_p95: float | None = None
    e2e_p95: float | None = None
    queue_p95: float | None = None
    preemptions_per_request: float = 0.01
    errors: float = 0.0
    agree: float = 0.15
    margin: float = 0.1


@dataclass(frozen=True, slots=True)
class Identity:
    """The server that was measured: what must be the same for its figures to hold.

    ``limits``: by their names in vLLM. ``capacity``: tokens of one engine's KV cache. ``gpus``: names.
    ``launch``: its command line and variables, without secrets.
    """

    vllm_version: str | None = None
    model_name: str | None = None
    cache_dtype: str | None = None
    gpus: tuple[str, ...] = ()
    cpus: int | None = None
    machine: str | None = None
    capacity: float | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    launch: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What follows for operation: up to here it was measured, and was well.

    ``safe_load``: with the margin taken off; ``last_good``, ``first_preempting``: names of stages.
    ``binding``: which budget held requests back in the stage above the last good one, else in it. The
    rest is of the last good stage: requests that ran, tokens that were held, lengths of requests.
    """

    last_good: str | None = None
    first_preempting: str | None = None
    safe_load: float | None = None
    running: float | None = None
    waiting: float | None = None
    cache_peak: float | None = None
    per_running: float | None = None
    ttft_p95: float | None = None
    inter_token_p95: float | None = None
    e2e_p95: float | None = None
    output_tokens_per_second: float | None = None
    prompt: Lengths = field(default_factory=Lengths)
    output: Lengths = field(default_factory=Lengths)
    binding: Binding = Binding.UNKNOWN


@dataclass(frozen=True, slots=True)
class Envelope:
    """The artifact: which load is safe for this model, version and hardware, and the proof.

    ``unit``: what loads are counted in (``concurrency`` or ``requests_per_second``). ``rollback``: the
    command line before this configuration, without secrets.
    """

    name: str
    created: float
    identity: Identity
    objectives: Objectives
    unit: str
    stages: tuple[Stage, ...]
    acceptance: Acceptance
    bounds: Bounds
    rollback: str | None = None


class Drift(StrEnum):
    """In what a live server may differ from the one that was measured."""

    VERSION = "version"
    MODEL = "model"
    HARDWARE = "hardware"
    CACHE = "cache"
    LIMITS = "limits"
    LOAD = "load"
    LENGTHS = "lengths"


@dataclass(frozen=True, slots=True)
class EnvelopeStatus:
    """A measured envelope beside the live server.

    ``limits``: the measured bounds. ``valid``: whether the live server is as it was measured, or within
    what was measured, for each way in which that can be told now.
    """

    name: str
    limits: Mapping[str, float]
    vllm_version: str | None = None
    model_name: str | None = None
    valid: Mapping[Drift, bool] = field(default_factory=dict)
