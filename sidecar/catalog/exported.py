"""Every family we export: its name, what it says, its labels and the values they can take.

This table is the families' only home: rendering, documentation and the series budget read it.
Help texts name the source and the rule, since values are taken on our clock, not at the scrape.
"""

from collections.abc import Mapping
from enum import StrEnum

from sidecar.catalog import vllm_metrics as roles
from sidecar.catalog.family import (
    ENGINE,
    GPU,
    PREFIX,
    Family,
    FamilyType,
    Label,
    counter,
    gauge,
)
from sidecar.catalog.source_faults import SOURCE_FAULTS
from sidecar.model.advice import Lever
from sidecar.model.envelope import Drift
from sidecar.model.limits import Limit
from sidecar.model.vocabulary import (
    Cause,
    Fault,
    LimitOwner,
    Party,
    ServerState,
    Severity,
    Source,
    Verdict,
)

GPU_LIMIT = 64
"""GPUs beyond the first so many (by index) are counted, not shown."""
OTHER = "other"
"""The engine into which engines beyond the limit, or with unprintable names, are folded."""


ADMISSION_LIMITS = (
    Limit.MAX_NUM_SEQS,
    Limit.MAX_NUM_ACTIVE_SEQS,
    Limit.MAX_NUM_BATCHED_TOKENS,
    Limit.MAX_MODEL_LEN,
    Limit.WATERMARK,
)
"""Limits that decide how much may compete for the cache."""


class Outcome(StrEnum):
    """How a request ended, seen from its client."""

    SUCCESS = "success"
    ABORTED = "aborted"
    ERROR = "error"
    REJECTED = "rejected"


LATENCY_ROLES = (roles.TTFT, roles.INTER_TOKEN, roles.E2E, roles.QUEUE)
QUANTILES = (0.5, 0.95, 0.99)
THROUGHPUT_ROLES: Mapping[str, str] = {
    "prompt": roles.PROMPT_TOKENS,
    "generation": roles.GENERATION_TOKENS,
}
HOST_LIMITS = (LimitOwner.OWN, LimitOwner.ABOVE, LimitOwner.HOST)
"""Whose limits could kill the server; those below it bind only some of its processes."""
HOST_EVENTS = ("low", "high", "max", "oom", "oom_kill", "oom_group_kill")
LOG_DROPS = ("too_long", "overflow", "lost", "read_error", OTHER)
"""Why parts of vLLM's log were not read; any further reason counts as ``other``."""
ENVELOPE_LIMITS = (
    "requests_running",
    "tokens_per_running_request",
    "ttft_p95_seconds",
    "inter_token_p95_seconds",
    "e2e_p95_seconds",
)
INFO_LABELS = (
    "model_name",
    "vllm_version",
    "block_size",
    "cache_dtype",
    "enable_prefix_caching",
    "gpu_memory_utilization",
)
"""Facts of the server that are passed on; the others of ``cache_config_info`` change per release."""

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
LEVER = gauge(
    "lever",
    "1 for the one thing to change that the last closed window calls for, 0 for every other; none "
    "where nothing is to be changed.",
    Label("lever", tuple(Lever)),
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
WINDOW_RECOMPUTED = gauge(
    "window_recomputed_tokens_estimate",
    "Estimate of the tokens made anew after preemptions in the last closed window: their number, the "
    "rise of vllm:num_preemptions_total, times tokens_per_running_request. vLLM counts none.",
    ENGINE,
)
KV_CAPACITY = gauge(
    "kv_capacity_tokens",
    "Tokens of KV cache per engine as vLLM tells them: at start-up, or by vllm:cache_config_info "
    "(kv_cache_size_tokens, or num_gpu_blocks times block_size with a single engine). Block 0 of V1 is "
    "among them, which no request gets.",
    ENGINE,
)
KV_CAPACITY_BYTES = gauge(
    "kv_capacity_bytes",
    "Bytes of KV cache on each GPU of the engine: kv_cache_memory_bytes where it is set, else what "
    "start-up found to be available.",
    ENGINE,
)
KV_DEMAND = gauge(
    "kv_demand_tokens",
    "Tokens of KV cache that active requests held, mean over the last closed window: "
    "vllm:kv_cache_usage_perc times the capacity without block 0. Cached blocks that no active "
    "request uses are not among them.",
    ENGINE,
)
KV_HEADROOM = gauge(
    "kv_headroom_tokens",
    "Capacity without block 0, less the greatest sample of the demand in the last closed window; "
    "moments between samples may have been fuller.",
    ENGINE,
)
TOKENS_PER_RUNNING = gauge(
    "tokens_per_running_request",
    "Tokens of KV cache that one running request held: kv_demand_tokens through the mean of "
    "vllm:num_requests_running over the same samples; absent with less than half a request on average.",
    ENGINE,
)
SAFE_CONCURRENCY = gauge(
    "safe_concurrency_requests",
    "Requests of the present mix that the KV cache holds: capacity without block 0 through "
    "tokens_per_running_request.",
    ENGINE,
)
ADMISSION_LIMIT = gauge(
    "admission_limit",
    "The server's own limits on admission, as its configuration, log, command line or endpoints tell "
    "them; absent where nobody told. Requests, tokens, and for watermark a share of the cache.",
    Label("limit", tuple(limit.value for limit in ADMISSION_LIMITS)),
)
ADMISSION_USED = gauge(
    "admission_used_ratio",
    "Greatest sample of vllm:num_requests_running in the last closed window through the lower of "
    "max_num_seqs and max_num_active_seqs; absent where both are unknown.",
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
    "vLLM's histograms; absent without observations. Queue ends when a request is first scheduled: "
    "what it waits after a preemption is in inter_token and e2e.",
    (Label("metric", LATENCY_ROLES), Label("quantile", tuple(str(share) for share in QUANTILES))),
)
THROUGHPUT = gauge(
    "throughput_tokens_per_second",
    "Tokens per second over the last closed window: the rise of vllm:prompt_tokens_total and "
    "vllm:generation_tokens_total through the time that they rose in.",
    Label("kind", tuple(THROUGHPUT_ROLES)),
)
GPU_MEMORY = gauge(
    "gpu_memory_bytes",
    "GPU memory by NVML at the last tick. Reserved is the driver's own part. Vllm is held by the "
    "server's processes at the end of the last closed window; cotenant is the most that any other held "
    "in it, orphans of a dead server at its end among them. Both are absent where the driver or our "
    "namespace does not tell whose.",
    GPU,
    Label("kind", ("total", "used", "free", "reserved", "vllm", "cotenant")),
)
GPU_FREE_DURABLE = gauge(
    "gpu_free_durable_bytes",
    "Least GPU memory by NVML that was free over the last ten minutes of serving; absent until all ten "
    "were watched, and again where more than half a minute of them was missed.",
    GPU,
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
    "Memory of vLLM's control group at the last tick. Without a limit that series is absent. "
    "Reclaimable: page cache and slab that the kernel takes back before it kills; shmem and "
    "unevictable it cannot (memory.stat). Pinned: by devices or locked, over the server's "
    "processes that can be read (VmPin, VmLck).",
    Label("kind", ("current", "limit", "peak", "reclaimable", "shmem", "unevictable", "pinned")),
)
HOST_HEADROOM = gauge(
    "host_memory_headroom_bytes",
    "Bytes up to each limit that could kill the server: of its own control group and of the one "
    "above, with what is reclaimable counted as free, and MemAvailable of the host. Absent where "
    "there is no limit, or it cannot be seen.",
    Label("limit", tuple(HOST_LIMITS)),
)
HOST_GROWTH = gauge(
    "host_memory_growth_bytes_per_second",
    "Growth of the control group's memory without what is reclaimable, over the last minute; "
    "absent until 20 seconds of it were seen.",
)
HOST_TIME_TO_LIMIT = gauge(
    "host_memory_time_to_limit_seconds",
    "Time until the nearest limit is met, if memory goes on growing as in the last minute; absent "
    "while it does not grow for certain, or by less than 1/1000 of the headroom in a minute.",
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
SERVER_PROCESSES = gauge(
    "server_processes",
    "Processes of the vLLM server by their role; absent while they cannot be seen.",
    Label("role", tuple(Party)),
)
ORPHANED_PROCESSES = gauge(
    "orphaned_processes",
    "Engine processes that live without an API server. They hold their GPU memory until they are "
    "killed.",
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
KERNEL_LOST = counter(
    "kernel_log_lost_records",
    "Records of the kernel log that were overwritten before they were read, or too many at once; "
    "kills among them were not seen there.",
)
RELOAD_SUCCESSFUL = gauge(
    "config_last_reload_successful",
    "1 if the settings that were read last, at start or on SIGHUP, were taken; 0 if something was wrong "
    "with them and those before are in effect.",
)
RELOAD_TIME = gauge(
    "config_last_reload_success_timestamp_seconds",
    "Unix time at which settings that were read, at start or on SIGHUP, were last taken.",
)
ENVELOPE_INFO = Family(
    f"{PREFIX}envelope_info",
    FamilyType.INFO,
    "The measured envelope that the server is held against, with the model and the version of vLLM that "
    "were measured.",
    (Label("envelope"), Label("model_name"), Label("vllm_version")),
)
ENVELOPE_LIMIT = gauge(
    "envelope_limit",
    "Bounds of the envelope, as measured in its last good stage: requests that ran on an engine, tokens "
    "that one of them held, and 95th percentiles of latencies in seconds.",
    Label("limit", ENVELOPE_LIMITS),
)
ENVELOPE_VALID = gauge(
    "envelope_valid",
    "1 where the server is as it was measured (version, model, hardware, cache, limits), or its load and "
    "the lengths of its requests in the last closed window are within what was measured; 0 where not; "
    "absent where it cannot be told.",
    Label("reason", tuple(Drift)),
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
    LEVER,
    WINDOW_PREEMPTIONS,
    WINDOW_PREEMPTIONS_PER_REQUEST,
    WINDOW_RECOMPUTED,
    WINDOW_REQUESTS,
    KV_CAPACITY,
    KV_CAPACITY_BYTES,
    KV_DEMAND,
    KV_HEADROOM,
    KV_USAGE,
    TOKENS_PER_RUNNING,
    SAFE_CONCURRENCY,
    REQUESTS,
    ADMISSION_LIMIT,
    ADMISSION_USED,
    LATENCY,
    THROUGHPUT,
    GPU_MEMORY,
    GPU_FREE_DURABLE,
    GPU_UTILIZATION,
    GPUS_HIDDEN,
    ENGINES_FOLDED,
    HOST_MEMORY,
    HOST_HEADROOM,
    HOST_GROWTH,
    HOST_TIME_TO_LIMIT,
    HOST_EVENT,
    HOST_PRESSURE,
    SERVER_PROCESSES,
    ORPHANED_PROCESSES,
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
    KERNEL_LOST,
    RELOAD_SUCCESSFUL,
    RELOAD_TIME,
    ENVELOPE_INFO,
    ENVELOPE_LIMIT,
    ENVELOPE_VALID,
    BUILD_INFO,
)

PROCESS_FAMILIES = (
    "process_start_time_seconds",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
)
"""What is told of our own process, under the names every exporter uses."""
