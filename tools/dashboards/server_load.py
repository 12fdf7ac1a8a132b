"""One server's load: the three budgets, preemption, latency and traffic."""

from sidecar.catalog import exported
from sidecar.catalog import vllm_metrics as roles
from sidecar.model.limits import Limit
from tools.dashboards.server_now import of
from tools.dashboards.shape import Column, Panel, Query, Section, Unit, chart, table
from tools.dashboards.states import GREEN, ORANGE

CONCURRENCY_LIMITS = (Limit.MAX_NUM_SEQS.value, Limit.MAX_NUM_ACTIVE_SEQS.value)

BUDGETS = Section(
    "Three budgets: what the cache holds, what requests need of it, how many are let in",
    (
        chart(
            "KV cache: capacity, demand, headroom",
            Unit.TOKENS,
            12,
            "Tokens that the cache holds, that active requests held on average, and that were left at "
            "the fullest sample of the window.",
            Query(of(exported.KV_CAPACITY), "capacity, engine {{engine}}"),
            Query(of(exported.KV_DEMAND), "demand, engine {{engine}}"),
            Query(of(exported.KV_HEADROOM), "headroom, engine {{engine}}"),
            height=8,
        ),
        chart(
            "Requests: running, waiting, safe, let in",
            Unit.REQUESTS,
            12,
            "Where admission lets in more than the safe concurrency, the cache cannot hold what runs, "
            "and preemption follows under load.",
            Query(of(exported.REQUESTS), "{{state}}, engine {{engine}}"),
            Query(of(exported.SAFE_CONCURRENCY), "safe, engine {{engine}}"),
            Query(
                f"max by (limit) ({of(exported.ADMISSION_LIMIT, limit=CONCURRENCY_LIMITS)})",
                "{{limit}}",
            ),
            height=8,
        ),
        chart(
            "KV cache in use",
            Unit.SHARE,
            8,
            "Least, mean and greatest share of the cache in use over the samples of each window.",
            Query(of(exported.KV_USAGE), "{{stat}}, engine {{engine}}"),
            steps=((None, GREEN), (0.9, ORANGE)),
            most=1,
        ),
        chart(
            "Tokens per running request",
            Unit.TOKENS,
            6,
            "Tokens of the cache that one running request holds: the mix of prompts and answers as "
            "the cache sees it.",
            Query(of(exported.TOKENS_PER_RUNNING), "engine {{engine}}"),
        ),
        chart(
            "Admission in use",
            Unit.SHARE,
            5,
            "Running requests at their most, through the number that admission lets in.",
            Query(of(exported.ADMISSION_USED), "engine {{engine}}"),
            steps=((None, GREEN), (1, ORANGE)),
        ),
        table(
            "Limits of admission",
            5,
            7,
            "The server's own limits as it tells them, in requests and tokens, the watermark as a "
            "share of the cache; what nobody told is missing.",
            (Column("limit"),),
            Query(f"max by (limit) ({of(exported.ADMISSION_LIMIT)})", "now"),
        ),
    ),
)

PREEMPTION = Section(
    "Preemption",
    (
        chart(
            "Preemptions in a window",
            Unit.PREEMPTIONS,
            8,
            "How often the scheduler took blocks of the cache back in each window.",
            Query(of(exported.WINDOW_PREEMPTIONS), "engine {{engine}}"),
            bars=True,
        ),
        chart(
            "Preemptions per finished request",
            Unit.PER_REQUEST,
            8,
            "Above 0.01, unless --max-preemptions-per-request says otherwise, it is a warning; a gap "
            "where no request finished.",
            Query(of(exported.WINDOW_PREEMPTIONS_PER_REQUEST), "engine {{engine}}"),
            steps=((None, GREEN), (0.01, ORANGE)),
        ),
        chart(
            "Tokens made anew (estimate)",
            Unit.TOKENS,
            8,
            "Work done twice after preemptions: their number times the tokens of a running request.",
            Query(of(exported.WINDOW_RECOMPUTED), "engine {{engine}}"),
            bars=True,
        ),
    ),
)


def latency(title: str, role: str, about: str) -> Panel:
    """The quantiles of one latency."""
    expr = f"max by (quantile) ({of(exported.LATENCY, metric=role)})"
    return chart(title, Unit.SECONDS, 6, about, Query(expr, "quantile {{quantile}}"))


TRAFFIC = Section(
    "Latency and traffic of each window, over all engines",
    (
        latency("Time to first token", roles.TTFT, "From arrival to the first token of an answer."),
        latency(
            "Between tokens",
            roles.INTER_TOKEN,
            "From one token to the next; what a request waits after a preemption is in it.",
        ),
        latency("Whole request", roles.E2E, "From arrival to the last token of an answer."),
        latency(
            "Queue",
            roles.QUEUE,
            "From arrival until a request is first scheduled; no wait after a preemption is in it.",
        ),
        chart(
            "Throughput",
            Unit.TOKENS_PER_SECOND,
            12,
            "Tokens of prompts that were taken in and of answers that were made.",
            Query(f"max by (kind) ({of(exported.THROUGHPUT)})", "{{kind}}"),
        ),
        chart(
            "Requests that ended",
            Unit.REQUESTS,
            12,
            "How the requests of each window ended, as their clients saw it.",
            Query(f"max by (outcome) ({of(exported.WINDOW_REQUESTS)})", "{{outcome}}"),
            bars=True,
            stacked=True,
        ),
    ),
)

SECTIONS = (BUDGETS, PREEMPTION, TRAFFIC)
