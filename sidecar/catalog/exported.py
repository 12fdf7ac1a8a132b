"""Every family we export: its name, what it says, its labels and the values they can take.

This table is the families' only home: rendering, documentation and the series budget read it.
Help texts name the source and the rule, since values are taken on our clock, not at the scrape.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from math import prod

from sidecar.catalog import vllm_metrics as roles
from sidecar.model.report import EvidenceKey
from sidecar.model.vocabulary import Cause, Fault, ServerState, Severity, Source, Verdict

PREFIX = "vllm_sidecar_"
SERIES_LIMIT = 2_500
"""No exposition of ours holds more series, whatever vLLM, its logs or its users send."""
GPU_LIMIT = 64
"""GPUs beyond the first so many (by index) are counted, not shown."""
OTHER = "other"
"""The engine into which engines beyond the limit, or with unprintable names, are folded."""
UNITS = ("seconds", "bytes", "ratio", "tokens")


class FamilyType(StrEnum):
    """Types of OpenMetrics that we use."""

    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"
    INFO = "info"


class Scope(StrEnum):
    """What a family's label sets are repeated for."""

    SERVER = "server"
    ENGINE = "engine"
    GPU = "gpu"


class Outcome(StrEnum):
    """How a request ended, seen from its client."""

    SUCCESS = "success"
    ABORTED = "aborted"
    ERROR = "error"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Label:
    """A label and its closed set of values. Empty: open, bounded in length and in number."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """One exported family.

    ``complete``: every combination of label values is present from the first scrape.
    ``listed``: only these combinations can occur, instead of the product of the labels' values.
    """

    name: str
    type: FamilyType
    help: str
    labels: tuple[Label, ...] = ()
    complete: bool = False
    listed: tuple[tuple[str, ...], ...] = field(default=())

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels' names, in the order of the rows' values."""
        return tuple(label.name for label in self.labels)

    @property
    def base_name(self) -> str:
        """The name without the suffix that OpenMetrics gives to the type."""
        suffix = {FamilyType.COUNTER: "_total", FamilyType.INFO: "_info"}.get(self.type, "")
        return self.name.removesuffix(suffix)

    @property
    def unit(self) -> str:
        """The unit that the name ends with, "" for none."""
        return next((unit for unit in UNITS if self.base_name.endswith(f"_{unit}")), "")

    @property
    def scope(self) -> Scope:
        """Whether the family is repeated per engine or per GPU."""
        if ENGINE in self.labels:
            return Scope.ENGINE
        return Scope.GPU if GPU in self.labels else Scope.SERVER

    @property
    def combinations(self) -> tuple[tuple[str, ...], ...]:
        """Every combination of values of the closed labels, in fixed order."""
        if self.listed:
            return self.listed
        return tuple(product(*(label.values for label in self.labels if label.values)))

    @property
    def series(self) -> int:
        """The greatest number of series, for one engine or one GPU where it is repeated."""
        if self.listed:
            return len(self.listed)
        return prod(len(label.values) for label in self.labels if label.values)


def gauge(name: str, text: str, *labels: Label, complete: bool = False) -> Family:
    """A row of type gauge."""
    return Family(f"{PREFIX}{name}", FamilyType.GAUGE, text, labels, complete=complete)


def counter(
    name: str,
    text: str,
    *labels: Label,
    complete: bool = False,
    listed: Iterable[tuple[str, ...]] = (),
) -> Family:
    """A row of type counter."""
    return Family(
        f"{PREFIX}{name}_total", FamilyType.COUNTER, text, labels, complete, tuple(listed)
    )


LATENCY_ROLES = (roles.TTFT, roles.INTER_TOKEN, roles.E2E, roles.QUEUE)
QUANTILES = (0.5, 0.95, 0.99)
THROUGHPUT_ROLES: Mapping[str, str] = {
    "prompt": roles.PROMPT_TOKENS,
    "generation": roles.GENERATION_TOKENS,
}
HOST_EVENTS = ("low", "high", "max", "oom", "oom_kill", "oom_group_kill")
LOG_DROPS = ("too_long", "overflow", "lost", "read_error", "users_text", OTHER)
"""Why parts of vLLM's log were not read; any further reason counts as ``other``."""
INFO_LABELS = (
    "model_name",
    "vllm_version",
    "block_size",
    "cache_dtype",
    "enable_prefix_caching",
    "gpu_memory_utilization",
)
"""Facts of the server that are passed on; the others of ``cache_config_info`` change per release."""

SOURCE_FAULTS: Mapping[Source, tuple[Fault, ...]] = {
    Source.VLLM_METRICS: (
        Fault.TIMEOUT,
        Fault.REFUSED,
        Fault.DISCONNECTED,
        Fault.HTTP_STATUS,
        Fault.MALFORMED,
        Fault.TOO_LARGE,
        Fault.ABSENT,
        Fault.DENIED,
        Fault.BUSY,
        Fault.IO_ERROR,
    ),
    Source.VLLM_HEALTH: (
        Fault.TIMEOUT,
        Fault.REFUSED,
        Fault.DISCONNECTED,
        Fault.MALFORMED,
        Fault.TOO_LARGE,
        Fault.ABSENT,
        Fault.DENIED,
        Fault.IO_ERROR,
    ),
    Source.VLLM_LOG: (
        Fault.ABSENT,
        Fault.DENIED,
        Fault.BUSY,
        Fault.TIMEOUT,
        Fault.UNSUPPORTED,
        Fault.IO_ERROR,
    ),
    Source.NVML: (
        Fault.ABSENT,
        Fault.NO_DRIVER,
        Fault.DENIED,
        Fault.BUSY,
        Fault.TIMEOUT,
        Fault.UNSUPPORTED,
        Fault.MALFORMED,
        Fault.DEVICE_LOST,
        Fault.IO_ERROR,
    ),
    Source.CGROUP: (
        Fault.ABSENT,
        Fault.DENIED,
        Fault.BUSY,
        Fault.TIMEOUT,
        Fault.UNSUPPORTED,
        Fault.IO_ERROR,
    ),
    Source.KERNEL_LOG: (Fault.ABSENT, Fault.DENIED, Fault.UNSUPPORTED, Fault.IO_ERROR),
    Source.PROCESS: (Fault.ABSENT, Fault.DENIED, Fault.BUSY, Fault.TIMEOUT, Fault.IO_ERROR),
}
"""The faults each source can have. ``io_error`` also counts any that is not in its list."""

ENGINE = Label("engine")
GPU = Label("gpu")
VERDICTS = Label("verdict", tuple(Verdict))
CAUSES = Label("cause", tuple(Cause))
SOURCES = Label("source", tuple(Source))

VERDICT = gauge(
    "verdict",
    "1 for what the last closed window suffered from, 0 for every other verdict. An out-of-memory "
    "or a failure in the window that is still open shows at once.",
    VERDICTS,
    complete=True,
)
WINDOWS = counter("windows", "Closed windows by verdict.", VERDICTS, complete=True)
WINDOW_END = gauge(
    "window_end_timestamp_seconds",
    "End of the last closed window, unix time. It stands still when nothing is judged any more.",
)
TARGET_STATE = gauge(
    "target_state",
    "1 for what the vLLM server is doing, judged from its endpoints, log and processes.",
    Label("state", tuple(ServerState)),
    complete=True,
)
ALERT = gauge(
    "alert",
    "1 for the severity of the running episode of each cause. An episode begins with the first "
    "window or failure and ends after a quiet time.",
    CAUSES,
    Label("severity", tuple(Severity)),
    complete=True,
)
OBSERVABLE = gauge(
    "observable",
    "1 if a source that works now could show the cause, 0 if its absence proves nothing.",
    CAUSES,
    complete=True,
)
EVIDENCE = counter(
    "evidence",
    "Evidence seen for each cause, by the source that showed it and the kind of sign.",
    CAUSES,
    SOURCES,
    Label("signal"),
    complete=True,
)
LAST_EVIDENCE = gauge(
    "last_evidence_timestamp_seconds",
    "Unix time of the last evidence for the cause; absent before the first.",
    CAUSES,
)
WINDOW_PREEMPTIONS = gauge(
    "window_preemptions",
    "Preemptions in the last closed window: the rise of vllm:num_preemptions_total.",
    ENGINE,
)
WINDOW_PREEMPTIONS_PER_REQUEST = gauge(
    "window_preemptions_per_request",
    "Preemptions per request finished in the last closed window; absent when none finished.",
    ENGINE,
)
WINDOW_REQUESTS = gauge(
    "window_requests",
    "Requests that ended in the last closed window: the rise of vllm:request_success_total by "
    "finished_reason, and of vllm:admission_rejections_total.",
    Label("outcome", tuple(Outcome)),
)
KV_CAPACITY = gauge(
    "kv_capacity_tokens",
    "Tokens of KV cache per engine, from vllm:cache_config_info: kv_cache_size_tokens, or "
    "num_gpu_blocks times block_size with a single engine.",
    ENGINE,
)
KV_USAGE = gauge(
    "kv_usage_ratio",
    "KV cache in use over the samples of the last closed window, from vllm:kv_cache_usage_perc or "
    "its older names. Of engines folded into one, the fullest.",
    ENGINE,
    Label("stat", ("min", "mean", "max")),
)
REQUESTS = gauge(
    "requests",
    "Requests on the engine at the last sample of the last closed window, from "
    "vllm:num_requests_running and vllm:num_requests_waiting.",
    ENGINE,
    Label("state", ("running", "waiting")),
)
LATENCY = Family(
    f"{PREFIX}latency_seconds",
    FamilyType.SUMMARY,
    "Latency quantiles of the last closed window over all engines, linear within the buckets of "
    "vLLM's histograms; absent without observations.",
    (Label("metric", LATENCY_ROLES), Label("quantile", tuple(str(share) for share in QUANTILES))),
)
THROUGHPUT = gauge(
    "throughput_tokens_per_second",
    "Tokens per second over the last closed window: the rise of vllm:prompt_tokens_total and "
    "vllm:generation_tokens_total through the window's length.",
    Label("kind", tuple(THROUGHPUT_ROLES)),
)
GPU_MEMORY = gauge(
    "gpu_memory_bytes",
    "GPU memory by NVML at the last tick. Reserved is the driver's own part.",
    GPU,
    Label("kind", ("total", "used", "free", "reserved")),
)
GPU_UTILIZATION = gauge(
    "gpu_utilization_ratio",
    "Share of time in which a kernel ran, by NVML, mean over the last window.",
    GPU,
)
GPUS_HIDDEN = gauge(
    "gpus_hidden",
    f"GPUs that are watched but not shown, because there are more than {GPU_LIMIT}.",
)
ENGINES_FOLDED = gauge(
    "engines_folded",
    'Engines of the last closed window that are shown as engine="other": too many, or a name '
    "that is no short plain word.",
)
HOST_MEMORY = gauge(
    "host_memory_bytes",
    "Memory of vLLM's control group at the last tick. Without a limit that series is absent.",
    Label("kind", ("current", "limit", "peak")),
)
HOST_EVENT = counter(
    "host_memory_events",
    "Events of vLLM's control group as the kernel counts them (memory.events; version 1: "
    "memory.oom_control and failcnt). They restart when the group is made anew.",
    Label("event", HOST_EVENTS),
)
HOST_PRESSURE = gauge(
    "host_memory_pressure_ratio",
    "Share of the last 10 seconds in which some or all tasks of vLLM's control group waited for "
    "memory (memory.pressure, avg10).",
    Label("scope", ("some", "full")),
)
TARGET_INFO = Family(
    f"{PREFIX}target_info",
    FamilyType.INFO,
    "The vLLM server, from its own labels, cut to 64 printable characters.",
    tuple(Label(name) for name in INFO_LABELS),
)
METRIC_FOUND = gauge(
    "metric_found",
    "1 if the server offers a metric that plays this role, under any name it has had.",
    Label("role", tuple(role.role for role in roles.ROLES)),
    complete=True,
)
SOURCE_CONFIGURED = gauge(
    "source_configured",
    "1 if the source is meant to be read, 0 if nobody asked for it or it does not exist here.",
    SOURCES,
    complete=True,
)
SOURCE_UP = gauge(
    "source_up",
    "1 if the last reading of the source succeeded.",
    SOURCES,
    complete=True,
)
SOURCE_DURATION = gauge(
    "source_duration_seconds",
    "How long the last reading of the source took; absent before the first.",
    SOURCES,
)
SOURCE_ERRORS = counter(
    "source_errors",
    "Readings of the source that failed, by reason.",
    SOURCES,
    Label("reason", tuple(Fault)),
    complete=True,
    listed=(
        (source.value, fault.value) for source, faults in SOURCE_FAULTS.items() for fault in faults
    ),
)
TICKS = counter("ticks", "Points of the sample clock's grid that were served.")
TICKS_MISSED = counter("ticks_missed", "Points of the sample clock's grid that were skipped.")
TICK_LATENESS = gauge(
    "tick_lateness_seconds", "How long after its point of the grid the last tick began."
)
SAMPLE_SKEW = gauge(
    "sample_skew_seconds", "Time between the first and the last sample of the last tick."
)
LOG_LINES = counter("log_lines", "Lines of vLLM's log that were read.")
LOG_BYTES = counter("log_bytes", "Bytes of vLLM's log that were read.")
LOG_LAG = gauge("log_lag_bytes", "Bytes of vLLM's log that are written but not yet read.")
LOG_DROPPED = counter(
    "log_dropped",
    "Lines of vLLM's log that were not looked at, by reason.",
    Label("reason", LOG_DROPS),
    complete=True,
)
BUILD_INFO = Family(
    f"{PREFIX}build_info",
    FamilyType.INFO,
    "This program.",
    (Label("version"), Label("python_version")),
)

FAMILIES: tuple[Family, ...] = (
    VERDICT,
    WINDOWS,
    WINDOW_END,
    TARGET_STATE,
    ALERT,
    OBSERVABLE,
    EVIDENCE,
    LAST_EVIDENCE,
    WINDOW_PREEMPTIONS,
    WINDOW_PREEMPTIONS_PER_REQUEST,
    WINDOW_REQUESTS,
    KV_CAPACITY,
    KV_USAGE,
    REQUESTS,
    LATENCY,
    THROUGHPUT,
    GPU_MEMORY,
    GPU_UTILIZATION,
    GPUS_HIDDEN,
    ENGINES_FOLDED,
    HOST_MEMORY,
    HOST_EVENT,
    HOST_PRESSURE,
    TARGET_INFO,
    METRIC_FOUND,
    SOURCE_CONFIGURED,
    SOURCE_UP,
    SOURCE_DURATION,
    SOURCE_ERRORS,
    TICKS,
    TICKS_MISSED,
    TICK_LATENESS,
    SAMPLE_SKEW,
    LOG_LINES,
    LOG_BYTES,
    LOG_LAG,
    LOG_DROPPED,
    BUILD_INFO,
)

PROCESS_FAMILIES = (
    "process_start_time_seconds",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
)
"""What is told of our own process, under the names every exporter uses."""


def count_series(scope: Scope) -> int:
    """The greatest number of series of all families with this scope, evidence left out."""
    return sum(
        family.series for family in FAMILIES if family.scope is scope and family is not EVIDENCE
    )


def bound_series(evidence_keys: Sequence[EvidenceKey], engines: int, gpus: int) -> int:
    """The greatest number of series of an exposition with so many engines and GPUs shown."""
    return (
        count_series(Scope.SERVER)
        + len(PROCESS_FAMILIES)
        + len(evidence_keys)
        + count_series(Scope.ENGINE) * engines
        + count_series(Scope.GPU) * min(gpus, GPU_LIMIT)
    )


def limit_engines(evidence_keys: Sequence[EvidenceKey], wanted: int) -> int:
    """How many engines may be shown apart, beside ``other``, within ``SERIES_LIMIT``."""
    room = SERIES_LIMIT - bound_series(evidence_keys, 0, GPU_LIMIT)
    return max(0, min(wanted, room // count_series(Scope.ENGINE) - 1))
