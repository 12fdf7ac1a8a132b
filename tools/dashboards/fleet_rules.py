"""Many servers over time, by cluster and by model: what the recording rules keep.

Their series know the cluster and the model, so of the choices at the head only the cluster counts.
"""

from sidecar.catalog import vllm_metrics as roles
from sidecar.model.vocabulary import Severity
from tools.dashboards.shape import Chosen, Column, Query, Section, Unit, chart, table
from tools.dashboards.states import GREEN, ORANGE, RED, STATES, VERDICTS

of = Chosen(('cluster=~"$cluster"',)).named

VERDICTS_RULE = "cluster_verdict:vllm_sidecar_verdict:sum"
STATES_RULE = "cluster_state:vllm_sidecar_target_state:sum"
ALERTS = "cluster_cause_severity:vllm_sidecar_alert:sum"
SEEN = "cluster_cause:vllm_sidecar_observable:sum"
SERVERS = "cluster:vllm_sidecar_build_info:count"
PREEMPTIONS = "cluster_cause:vllm_sidecar_evidence:rate5m"
KV_USAGE = "cluster:vllm_sidecar_kv_usage_ratio:max"
HOST_HEADROOM = "cluster:vllm_sidecar_host_memory_headroom_bytes:min"
LATENCY = "cluster_metric_quantile:vllm_sidecar_latency_seconds:max"
THROUGHPUT = "cluster_kind:vllm_sidecar_throughput_tokens_per_second:sum"
REQUESTS = "cluster_state:vllm_sidecar_requests:sum"
MODEL_SERVERS = "cluster_model_name:vllm_sidecar_target_info:count"
MODEL_ALERTS = "cluster_model_name_cause:vllm_sidecar_alert:sum"
MODEL_KV_USAGE = "cluster_model_name:vllm_sidecar_kv_usage_ratio:max"
MODEL_LATENCY = "cluster_model_name_metric_quantile:vllm_sidecar_latency_seconds:max"

LOUD = (Severity.WARNING.value, Severity.CRITICAL.value)
BY_MODEL = "cluster, model_name"
FULL = ((None, GREEN), (0.9, ORANGE))
ANY = ((None, GREEN), (1, ORANGE))
ANY_BAD = ((None, GREEN), (1, RED))

OVER_TIME = (
    chart(
        "Servers by verdict over time",
        Unit.SERVERS,
        8,
        "How many servers suffered from what; a fall of the whole height is sidecars that are gone.",
        Query(f"sum by (verdict) ({of(VERDICTS_RULE)})", "{{verdict}}"),
        painted=VERDICTS,
        stacked=True,
        height=8,
    ),
    chart(
        "Servers by state over time",
        Unit.SERVERS,
        8,
        "What the servers did: starts, stops and deaths.",
        Query(f"sum by (state) ({of(STATES_RULE)})", "{{state}}"),
        painted=STATES,
        stacked=True,
        height=8,
    ),
    chart(
        "Open episodes",
        Unit.SERVERS,
        8,
        "Servers with an episode that is a warning or critical, by cause.",
        Query(f"sum by (cause, severity) ({of(ALERTS, severity=LOUD)})", "{{cause}} {{severity}}"),
        stacked=True,
        height=8,
    ),
    chart(
        "Servers blind to a cause",
        Unit.SERVERS,
        8,
        "Servers on which the cause could not have been seen.",
        Query(
            f"sum by (cause) ({of(SERVERS)} - on (cluster) group_right () {of(SEEN)})",
            "{{cause}}",
        ),
    ),
    chart(
        "Preemptions",
        Unit.PER_SECOND,
        8,
        "Preemptions over five minutes, summed up over the servers of each cluster.",
        Query(f"sum by (cluster) ({of(PREEMPTIONS)})", "cluster {{cluster}}"),
    ),
    chart(
        "Requests",
        Unit.REQUESTS,
        8,
        "Requests that run and wait, over all servers.",
        Query(f"sum by (state) ({of(REQUESTS)})", "{{state}}"),
        stacked=True,
    ),
    chart(
        "Slowest server's 95th percentile",
        Unit.SECONDS,
        8,
        "The greatest of the servers' percentiles, for each kind of latency: quantiles of several "
        "servers have no mean.",
        Query(f"max by (metric) ({of(LATENCY)})", "{{metric}}"),
    ),
    chart(
        "Throughput",
        Unit.TOKENS_PER_SECOND,
        8,
        "Tokens of prompts taken in and of answers made, over all servers.",
        Query(f"sum by (kind) ({of(THROUGHPUT)})", "{{kind}}"),
    ),
    chart(
        "Fullest KV cache",
        Unit.SHARE,
        8,
        "The fullest cache of any engine in each cluster.",
        Query(f"max by (cluster) ({of(KV_USAGE)})", "cluster {{cluster}}"),
        steps=FULL,
        most=1,
    ),
)

CLUSTERS = table(
    "Clusters",
    24,
    7,
    "A line for each cluster; a Prometheus that does not name its cluster shows one line.",
    (Column("cluster", empty="-"),),
    Query(f"sum by (cluster) ({of(SERVERS)})", "servers"),
    Query(
        f"sum by (cluster) ({of(ALERTS, severity=Severity.CRITICAL)})", "critical", steps=ANY_BAD
    ),
    Query(f"sum by (cluster) ({of(ALERTS, severity=LOUD)})", "episodes", steps=ANY),
    Query(f"sum by (cluster) ({of(VERDICTS_RULE, verdict='unknown')})", "unknown", steps=ANY),
    Query(f"max by (cluster) ({of(KV_USAGE)})", "fullest cache", unit=Unit.SHARE, steps=FULL),
    Query(f"min by (cluster) ({of(HOST_HEADROOM)})", "least host memory left", unit=Unit.BYTES),
    Query(f"sum by (cluster) ({of(PREEMPTIONS)})", "preemptions", unit=Unit.PER_SECOND),
    Query(f"sum by (cluster) ({of(REQUESTS, state='waiting')})", "waiting"),
    Query(
        f"max by (cluster) ({of(LATENCY, metric=roles.TTFT)})",
        "slowest TTFT p95",
        unit=Unit.SECONDS,
    ),
    sort_by="critical",
)

MODELS = table(
    "Models",
    24,
    9,
    "A line for each model of a cluster; without a name the servers that did not tell theirs, such as "
    "a start that failed.",
    (Column("cluster", empty="-"), Column("model_name", empty="not told")),
    Query(f"sum by ({BY_MODEL}) ({of(MODEL_ALERTS)})", "episodes", steps=ANY),
    Query(f"sum by ({BY_MODEL}) ({of(MODEL_SERVERS)})", "servers"),
    Query(f"max by ({BY_MODEL}) ({of(MODEL_KV_USAGE)})", "fullest cache", unit=Unit.SHARE,
          steps=FULL),
    Query(f"max by ({BY_MODEL}) ({of(MODEL_LATENCY, metric=roles.TTFT)})", "slowest TTFT p95",
          unit=Unit.SECONDS),
    Query(f"max by ({BY_MODEL}) ({of(MODEL_LATENCY, metric=roles.E2E)})", "slowest request p95",
          unit=Unit.SECONDS),
    sort_by="episodes",
)  # fmt: skip

SECTIONS = (
    Section("By cluster and by model (recording rules; of the choices above the cluster counts)",
            (*OVER_TIME, CLUSTERS, MODELS)),
)  # fmt: skip
