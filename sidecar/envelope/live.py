"""A measured envelope beside the live server: is it still the one that was measured, and within it?

What cannot be told now, or was not known then, is absent: neither valid nor broken.
"""

from collections.abc import Iterable, Mapping

from sidecar.catalog import vllm_metrics as roles
from sidecar.catalog.exported import ENVELOPE_LIMITS
from sidecar.envelope.settings import SAME_CAPACITY
from sidecar.model.budget import Lengths
from sidecar.model.envelope import Bounds, Drift, Envelope, EnvelopeStatus
from sidecar.model.limits import FOUND_AT_START
from sidecar.model.readings import NvmlReading
from sidecar.model.report import Report
from sidecar.model.verdict import Judgement
from sidecar.model.window import Spread

LOAD_SLACK = 1.1
"""Gauges are sampled: so much more than the measured peak may be the same load."""
LENGTHS_SLACK = 1.25
"""Means of few requests scatter; beyond so much more than measured the mix is another one."""
FEWEST_REQUESTS = 20.0
"""Requests in a window of which a mean says something about the mix."""


def compare_live(envelope: Envelope, report: Report) -> EnvelopeStatus:
    """What the last closed window and the last readings say."""
    judgement = report.last_window
    told: dict[Drift, bool | None] = {
        Drift.VERSION: same(envelope.identity.vllm_version, report.info.get("vllm_version")),
        Drift.MODEL: same(envelope.identity.model_name, report.info.get("model_name")),
        Drift.HARDWARE: same_gpus(envelope.identity.gpus, report.nvml),
    }
    if judgement is not None:
        told |= {
            Drift.CACHE: same_cache(envelope, judgement, report.info),
            Drift.LIMITS: same_limits(envelope.identity.limits, judgement),
            Drift.LOAD: within_load(envelope.bounds, judgement),
            Drift.LENGTHS: within_lengths(envelope.bounds, judgement),
        }
    return EnvelopeStatus(
        name=envelope.name,
        limits=known_limits(envelope.bounds),
        vllm_version=envelope.identity.vllm_version,
        model_name=envelope.identity.model_name,
        valid={drift: valid for drift, valid in told.items() if valid is not None},
    )


def known_limits(bounds: Bounds) -> Mapping[str, float]:
    """The measured bounds by their exported names."""
    limits = dict(
        zip(
            ENVELOPE_LIMITS,
            (
                *(bounds.running, bounds.per_running),
                *(bounds.ttft_p95, bounds.inter_token_p95, bounds.e2e_p95),
            ),
            strict=True,
        )
    )
    return {name: value for name, value in limits.items() if value is not None}


def same(then: str | None, now: str | None) -> bool | None:
    """Whether two names are the same, where both are known."""
    return None if then is None or now is None else then == now


def same_gpus(then: tuple[str, ...], now: NvmlReading | None) -> bool | None:
    """Whether the GPUs bear the names that they had, as many of each."""
    if now is None or not then:
        return None
    return sorted(then) == sorted(gpu.name for gpu in now.gpus)


def same_cache(envelope: Envelope, judgement: Judgement, info: Mapping[str, str]) -> bool | None:
    """Whether each engine's cache holds as many tokens, of the same type."""
    if same(envelope.identity.cache_dtype, info.get("cache_dtype")) is False:
        return False
    then = envelope.identity.capacity
    now = [one.capacity for one in judgement.budgets.values() if one.capacity is not None]
    if not then or not now:
        return None
    return all(abs(one / then - 1) <= SAME_CAPACITY for one in now)


def same_limits(then: Mapping[str, float], judgement: Judgement) -> bool | None:
    """Whether the limits that are known then and now are the same."""
    now = {limit.value: known.value for limit, known in judgement.window.limits.items()}
    shared = [name for name in then if name in now and name not in FOUND_AT_START]
    return all(then[name] == now[name] for name in shared) if shared else None


def within_load(bounds: Bounds, judgement: Judgement) -> bool | None:
    """Whether no more requests run and wait than in the stage that was well."""
    engines = judgement.window.engines.values()
    running = peak(engine.gauges.get(roles.RUNNING) for engine in engines)
    waiting = peak(engine.gauges.get(roles.WAITING) for engine in engines)
    then, now = total(bounds.running, bounds.waiting), total(running, waiting)
    return None if then is None or now is None else now <= then * LOAD_SLACK + 1


def total(running: float | None, waiting: float | None) -> float | None:
    """Requests that run or wait, where both are known."""
    return None if running is None or waiting is None else running + waiting


def peak(gauges: Iterable[Spread | None]) -> float | None:
    """The greatest sample of any engine."""
    return max((one.greatest for one in gauges if one is not None), default=None)


def within_lengths(bounds: Bounds, judgement: Judgement) -> bool | None:
    """Whether requests are no longer than those that were measured; shorter ones are lighter."""
    told = [
        verdict
        for budget in judgement.budgets.values()
        for then, now in ((bounds.prompt, budget.prompt), (bounds.output, budget.output))
        if (verdict := no_longer(then, now)) is not None
    ]
    finished = sum(
        engine.deltas.get(roles.FINISHED, 0.0) for engine in judgement.window.engines.values()
    )
    return all(told) if told and finished >= FEWEST_REQUESTS else None


def no_longer(then: Lengths, now: Lengths) -> bool | None:
    """Whether the mean is no longer than it was, within what few requests scatter."""
    if then.mean is None or now.mean is None:
        return None
    return now.mean <= then.mean * LENGTHS_SLACK
