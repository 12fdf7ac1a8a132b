"""Budgets, limits and the lever as JSON objects; what is not known has no key."""

from collections.abc import Mapping

from sidecar.catalog import vllm_metrics as roles
from sidecar.derive.placement import find_placement
from sidecar.export.values import Json, number, numbers
from sidecar.model.advice import Advice, Step
from sidecar.model.budget import Budget, GpuBudget, Lengths
from sidecar.model.limits import Limit, Limits
from sidecar.model.window import EngineWindow, Spread, Window
from sidecar.telling.plain import order_engine, plain_engine, plain_words


def spread_result(spread: Spread) -> dict[str, Json]:
    """A gauge over a window's samples."""
    return numbers(
        {"min": spread.least, "mean": spread.mean, "max": spread.greatest, "last": spread.last}
    )


def gauges_result(engine: EngineWindow) -> dict[str, Json]:
    """How full the cache was, and who ran and waited."""
    return {
        key: spread_result(engine.gauges[role])
        for key, role in (
            ("kv_usage", roles.KV_USAGE),
            ("running", roles.RUNNING),
            ("waiting", roles.WAITING),
        )
        if role in engine.gauges
    }


def lengths_result(lengths: Lengths) -> dict[str, Json]:
    """Lengths in tokens."""
    return numbers(
        {"mean": lengths.mean, "p50": lengths.p50, "p95": lengths.p95, "p99": lengths.p99}
    )


def figures_result(budget: Budget) -> dict[str, Json]:
    """The known figures of one engine, by the names of their metrics where there is one."""
    figures = numbers(
        {
            "kv_capacity_tokens": budget.capacity,
            "kv_capacity_bytes": budget.capacity_bytes,
            "kv_demand_tokens": budget.demand,
            "kv_demand_peak_tokens": budget.demand_peak,
            "kv_headroom_tokens": budget.headroom,
            "tokens_per_running_request": budget.per_running,
            "safe_concurrency_requests": budget.safe_concurrency,
            "worst_concurrency_requests": budget.worst_concurrency,
            "largest_request_ratio": budget.largest_share,
            "prefill_ratio": budget.prefill_share,
            "recomputed_tokens_estimate": budget.recomputed,
            "admission_limit_requests": budget.admission_limit,
            "admission_used_ratio": budget.admission_used,
            "admitted_ratio": budget.admitted_ratio,
        }
    )
    tables: dict[str, dict[str, Json]] = {
        "prompt_tokens": lengths_result(budget.prompt),
        "output_tokens": lengths_result(budget.output),
        "waiting_by_reason": numbers(
            {name: budget.waiting_by_reason.get(name) for name in roles.WAITING_REASONS}
        ),
    }
    return {**figures, **{name: table for name, table in tables.items() if table}}


def budgets_result(window: Window, budgets: Mapping[str, Budget]) -> dict[str, Json]:
    """What is known of the cache, the demand for it and admission, by engine."""
    told: dict[str, Json] = {}
    for name in sorted(window.engines, key=order_engine):
        known = gauges_result(window.engines[name])
        if name in budgets:
            known |= {**figures_result(budgets[name]), "binding": budgets[name].binding.value}
        if known:
            told[plain_engine(name)] = known
    return told


def limits_result(limits: Limits) -> dict[str, Json]:
    """The server's limits that are known, and where each was read."""
    return {
        limit.value: {"value": number(limits[limit].value), "origin": limits[limit].origin.value}
        for limit in Limit
        if limit in limits
    }


def gpu_budget_result(gpu: GpuBudget) -> dict[str, Json]:
    """One GPU and whose its memory is, in bytes; ``sight`` says whether that could be seen."""
    return {
        "index": gpu.index,
        **numbers(
            {
                "total": gpu.total,
                "used": gpu.used,
                "free": gpu.free,
                "reserved": gpu.reserved,
                "vllm": gpu.vllm,
                "cotenant": gpu.cotenant,
                "orphans": gpu.orphans,
                "free_durable": gpu.free_durable,
                "cotenant_durable": gpu.cotenant_durable,
                "utilization": gpu.utilization,
            }
        ),
        "sight": gpu.sight.value,
        "mig": gpu.mig,
        "lost": gpu.lost,
        "expected": gpu.expected,
    }


def placement_result(window: Window) -> list[Json]:
    """What is odd about where the server runs, in closed words; empty where nothing is seen."""
    return [found.value for found in find_placement(window)]


def step_result(step: Step | None, words: str) -> Json:
    """The change of one setting; None where none is advised."""
    if step is None and not words:
        return None
    setting = None if step is None else step.setting
    return {
        "setting": None if setting is None else setting.value,
        "value": number(None if step is None else step.value),
        "now": number(None if step is None else step.now),
        "words": plain_words(words),
    }


def lever_result(advice: Advice) -> dict[str, Json]:
    """The one lever, why, at what cost, and why none of the others; ``none`` has no reason."""
    return {
        "name": advice.lever.value,
        "because": [plain_words(reason) for reason in advice.because],
        "cost": plain_words(advice.cost),
        "verify": plain_words(advice.verify),
        "step": step_result(advice.step, advice.step_words),
        "rollback": plain_words(advice.rollback),
        "rejected": {
            lever.value: plain_words(reason) for lever, reason in sorted(advice.rejected.items())
        },
        "resting": advice.resting,
    }
