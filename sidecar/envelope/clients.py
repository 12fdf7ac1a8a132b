"""Results of load generators: JSON text in, a ``ClientView`` in base units out. A table for each client.

Written against results of ``vllm bench serve`` 0.32 and its predecessor ``benchmark_serving.py`` of
0.8, guidellm 0.3.1 and 0.8.1, inference-perf of 2025 and its source of 2026. What a version does not
tell is None, and so is what is no such figure; but a file that counts no completed requests is no result.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from sidecar.model.envelope import Client, ClientView, Quantiles

MOST_CHARACTERS: Final = 64 * 1024 * 1024
"""Of one result. A detailed one of 10,000 requests with 500 tokens each stays below it."""
MOST: Final = 1e15
MILLI: Final = 0.001
Json = Any
P50, P95, P99 = 0.5, 0.95, 0.99


def read_result(text: str, wanted: Client | None = None) -> ClientView:
    """What a result says. ``wanted``: whose it is; None: found out by its keys.

    Raises:
        ValueError: it is too large, no JSON, or not one result of such a client; in one line that
            holds nothing of the file.
    """
    told = parse_json(text)
    if not isinstance(told, dict):
        raise ValueError("not the result of a load generator")  # noqa: TRY004  (a fault of the file)
    client = wanted or find_client(told)
    try:
        view = PARSERS[client](told)
    except (KeyError, TypeError, IndexError, AttributeError):
        raise ValueError(f"not a result of {client.value}") from None
    if view.completed is None:
        raise ValueError(f"not a result of {client.value}: it counts no completed requests")
    return view


def parse_json(text: str) -> Json:
    """The value of a bounded text."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"larger than {MOST_CHARACTERS >> 20} MiB")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON, or was cut") from None


def find_client(told: Mapping[str, Json]) -> Client:
    """Whose result it is, by keys that no other has."""
    for client, marks in MARKS.items():
        if all(mark in told for mark in marks):
            return client
    raise ValueError("no load generator that is known writes such a result")


MARKS: Mapping[Client, tuple[str, ...]] = {
    Client.VLLM_BENCH: ("completed", "request_throughput"),
    Client.GUIDELLM: ("benchmarks",),
    Client.INFERENCE_PERF: ("successes", "failures"),
}


# vllm bench serve: one flat object; milliseconds in ``*_ms``, seconds elsewhere.


def read_vllm_bench(told: Mapping[str, Json]) -> ClientView:
    """A result of ``vllm bench serve --save-result``.

    e2e latencies are told only where ``--percentile-metrics`` names them; ``latencies`` holds each
    request's all the same, where there is one, a failed one's as 0. 0.8 does not count failed requests.
    """
    completed = figure(told.get("completed"))
    failed = figure(told.get("failed"))
    asked = figure(told.get("num_prompts"))
    if failed is None and completed is not None and asked is not None:
        failed = max(0.0, asked - completed)
    e2e = read_flat(told, "e2el")
    return ClientView(
        client=Client.VLLM_BENCH,
        seconds=figure(told.get("duration")),
        completed=completed,
        failed=failed,
        ttft=read_flat(told, "ttft"),
        inter_token=read_flat(told, "itl"),
        e2e=fill(e2e, measure(told.get("latencies"))),
        output_tokens_per_second=figure(told.get("output_throughput")),
    )


def read_flat(told: Mapping[str, Json], metric: str) -> Quantiles:
    """One latency of a flat result."""
    return Quantiles(
        p50=scaled(told.get(f"median_{metric}_ms", told.get(f"p50_{metric}_ms")), MILLI),
        p95=scaled(told.get(f"p95_{metric}_ms"), MILLI),
        p99=scaled(told.get(f"p99_{metric}_ms"), MILLI),
        mean=scaled(told.get(f"mean_{metric}_ms"), MILLI),
    )


def measure(latencies: Json) -> Quantiles:
    """Quantiles of single latencies in seconds, linear between neighbours."""
    if not isinstance(latencies, list):
        return Quantiles()
    known = sorted(value for one in latencies if (value := figure(one)))
    if not known:
        return Quantiles()

    def at(share: float) -> float:
        place = share * (len(known) - 1)
        low = int(place)
        high = min(low + 1, len(known) - 1)
        return known[low] + (known[high] - known[low]) * (place - low)

    return Quantiles(at(P50), at(P95), at(P99), sum(known) / len(known))


def fill(first: Quantiles, second: Quantiles) -> Quantiles:
    """The first, and what it lacks from the second."""
    lacking = {
        name: getattr(second, name)
        for name in ("p50", "p95", "p99", "mean")
        if getattr(first, name) is None
    }
    return replace(first, **lacking)


# guidellm: a list of benchmarks, each with distributions by how its requests ended.


def read_guidellm(told: Mapping[str, Json]) -> ClientView:
    """A report of guidellm that holds one benchmark.

    Until 0.3 ``request_totals`` stood beside ``metrics``, since 0.4 in it. ``incomplete`` requests were
    cut off at the run's end: the server counts them as aborted, and so they are failed here.
    """
    benchmarks = told["benchmarks"]
    if not isinstance(benchmarks, list) or len(benchmarks) != 1:
        raise ValueError("not one benchmark of guidellm: a stage is one load, not a sweep")
    (benchmark,) = benchmarks
    metrics = benchmark["metrics"]
    totals = metrics.get("request_totals") or benchmark.get("request_totals") or {}
    failed = [figure(totals.get(name)) for name in ("errored", "incomplete")]
    counted = [count for count in failed if count is not None]
    rate = metrics.get("output_tokens_per_second") or {}
    return ClientView(
        client=Client.GUIDELLM,
        seconds=figure(benchmark.get("duration")),
        completed=figure(totals.get("successful")),
        failed=sum(counted) if counted else None,
        ttft=read_distribution(metrics, "time_to_first_token_ms", MILLI),
        inter_token=read_distribution(metrics, "inter_token_latency_ms", MILLI),
        e2e=read_distribution(metrics, "request_latency", 1.0),
        output_tokens_per_second=figure((rate.get("total") or {}).get("mean")),
    )


def read_distribution(metrics: Mapping[str, Json], name: str, unit: float) -> Quantiles:
    """One distribution over the requests that completed; nothing where none did."""
    told = (metrics.get(name) or {}).get("successful") or {}
    if not figure(told.get("count")):
        return Quantiles()
    percentiles = told.get("percentiles") or {}
    return Quantiles(
        p50=scaled(percentiles.get("p50", told.get("median")), unit),
        p95=scaled(percentiles.get("p95"), unit),
        p99=scaled(percentiles.get("p99"), unit),
        mean=scaled(told.get("mean"), unit),
    )


# inference-perf: seconds throughout; percentiles that the configuration asked for.


def read_inference_perf(told: Mapping[str, Json]) -> ClientView:
    """A ``summary_lifecycle_metrics.json`` or ``stage_N_lifecycle_metrics.json``.

    ``benchmark_time_seconds`` came with later versions; before, the time follows from the rate. Latencies
    of tokens are null where the requests did not stream.
    """
    successes, failures = told["successes"], told["failures"]
    completed = figure(successes.get("count"))
    throughput = successes.get("throughput") or {}
    latency = successes.get("latency") or {}
    rate = figure(throughput.get("requests_per_sec"))
    seconds = figure(told.get("benchmark_time_seconds"))
    if not seconds and completed and rate:
        seconds = completed / rate
    return ClientView(
        client=Client.INFERENCE_PERF,
        seconds=seconds or None,
        completed=completed,
        failed=figure(failures.get("count")),
        ttft=read_summary(latency.get("time_to_first_token")),
        inter_token=read_summary(latency.get("inter_token_latency")),
        e2e=read_summary(latency.get("request_latency")),
        output_tokens_per_second=figure(throughput.get("output_tokens_per_sec")),
    )


def read_summary(told: Json) -> Quantiles:
    """One latency; in the median's place ``p50`` where that was asked for."""
    if not isinstance(told, dict):
        return Quantiles()
    return Quantiles(
        p50=figure(told.get("median", told.get("p50"))),
        p95=figure(told.get("p95")),
        p99=figure(told.get("p99")),
        mean=figure(told.get("mean")),
    )


PARSERS: Mapping[Client, Callable[[Mapping[str, Json]], ClientView]] = {
    Client.VLLM_BENCH: read_vllm_bench,
    Client.GUIDELLM: read_guidellm,
    Client.INFERENCE_PERF: read_inference_perf,
}


def figure(value: Json) -> float | None:
    """The value where it can be a measurement; None for words, flags, NaN and what is below 0."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= MOST and math.isfinite(value) else None


def scaled(value: Json, unit: float) -> float | None:
    """The value in base units."""
    known = figure(value)
    return None if known is None else known * unit
