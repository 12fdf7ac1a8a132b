"""The scheduler took KV blocks back from running requests; the server goes on."""

from sidecar.catalog import signals
from sidecar.catalog import vllm_metrics as roles
from sidecar.classify.policy import Policy
from sidecar.model.evidence import Evidence
from sidecar.model.samples import Instant
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase, Severity, Source
from sidecar.model.window import Window

CRITICAL_AFTER_WINDOWS = 3


def find_preemption(window: Window, policy: Policy, beyond_before: int) -> tuple[CauseFound, ...]:
    """The cause, if blocks were taken back.

    The counter decides wherever the server shows it; log lines speak only for a server without it
    (V0 prints every 50th preemption, stats lines speak of the ten seconds before).
    ``beyond_before``: how many windows in a row before this one were beyond the tolerance with
    requests waiting.
    """
    told = tuple(e for e in window.evidence if e.cause is Cause.PREEMPTION)
    counted = roles.PREEMPTIONS in window.found
    evidence = count_evidence(window) if counted else told
    if not evidence:
        return ()
    return (
        CauseFound(
            cause=Cause.PREEMPTION,
            kind=choose_kind(window, told),
            phase=Phase.RUNTIME,
            confidence=Confidence.CONFIRMED,
            severity=weigh(window, policy, beyond_before, sum(e.amount for e in evidence)),
            evidence=(*evidence, *told) if counted else told,
        ),
    )


def count_evidence(window: Window) -> tuple[Evidence, ...]:
    """The rise of each engine's counter."""
    return tuple(
        Evidence(
            cause=Cause.PREEMPTION,
            kind=Kind.UNSPECIFIED,
            source=Source.VLLM_METRICS,
            signal=signals.PREEMPTIONS_COUNTER,
            at=Instant(window.end, window.end),
            amount=rise,
            engine=engine,
            phase=Phase.RUNTIME,
        )
        for engine, seen in window.engines.items()
        if (rise := seen.deltas.get(roles.PREEMPTIONS, 0.0)) > 0
    )


def choose_kind(window: Window, told: tuple[Evidence, ...]) -> Kind:
    """V1 can only recompute (vLLM 0.8+); V0 says in its log which of the two it does."""
    said = next((e.kind for e in told if e.kind is not Kind.UNSPECIFIED), None)
    if said is not None:
        return said
    return Kind.RECOMPUTE if window.naming_generation == "v1" else Kind.UNSPECIFIED


def finished_requests(window: Window) -> float:
    """Requests that ended in the window, over all engines."""
    return sum(e.deltas.get(roles.FINISHED, 0.0) for e in window.engines.values())


def is_waiting(window: Window) -> bool:
    """Whether requests were seen to wait (V0 in swap mode counts them as swapped)."""
    return any(
        gauge.greatest > 0
        for engine in window.engines.values()
        for role in (roles.WAITING, roles.SWAPPED)
        if (gauge := engine.gauges.get(role)) is not None
    )


def is_beyond(window: Window, policy: Policy, preemptions: float) -> bool:
    """Whether preemptions exceed what the user tolerates per finished request."""
    return preemptions > policy.max_preemptions_per_request * finished_requests(window)


def weigh(window: Window, policy: Policy, beyond_before: int, preemptions: float) -> Severity:
    """``info`` within the tolerance, ``critical`` when it lasts while requests wait."""
    if not is_beyond(window, policy, preemptions):
        return Severity.INFO
    lasting = beyond_before + 1 >= CRITICAL_AFTER_WINDOWS and is_waiting(window)
    return Severity.CRITICAL if lasting else Severity.WARNING


def is_lasting(window: Window, policy: Policy) -> bool:
    """Whether the window was beyond the tolerance while requests waited."""
    counted = sum(evidence.amount for evidence in count_evidence(window))
    return counted > 0 and is_beyond(window, policy, counted) and is_waiting(window)
