"""Requests wait or run and no token moves, while nothing shows a failure."""

from sidecar.catalog import signals
from sidecar.model.evidence import Evidence
from sidecar.model.samples import Instant
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import (
    Cause,
    Confidence,
    Kind,
    Phase,
    ServerState,
    Severity,
    Source,
)
from sidecar.model.window import SourceWindow, Window

CRITICAL_AFTER_WINDOWS = 4
"""So many windows' worth of standing still is no slow step any more."""


def find_stalled(window: Window) -> tuple[CauseFound, ...]:
    """The cause, if the server stood still for the whole window.

    A dead engine's gauges freeze too (vLLM 0.32 with ``VLLM_KEEP_ALIVE_ON_ENGINE_DEATH``), so only a
    server that counts as serving can be stalled.
    """
    length = window.end - window.start
    if window.state is not ServerState.SERVING or not window.served or window.down:
        return ()
    scrapes = window.sources.get(Source.VLLM_METRICS, SourceWindow())
    if scrapes.readings <= sum(scrapes.faults.values()):
        # A host that is starved of CPU or memory mostly does not answer: too little was seen.
        return ()
    if window.stalled_s < length:
        return ()
    long = window.stalled_s >= CRITICAL_AFTER_WINDOWS * length
    return (
        CauseFound(
            cause=Cause.STALLED,
            kind=Kind.UNSPECIFIED,
            phase=Phase.RUNTIME,
            confidence=Confidence.CONFIRMED,
            severity=Severity.CRITICAL if long else Severity.WARNING,
            evidence=(
                Evidence(
                    cause=Cause.STALLED,
                    kind=Kind.UNSPECIFIED,
                    source=Source.VLLM_METRICS,
                    signal=signals.NO_PROGRESS,
                    at=Instant(window.end, window.end),
                    amount=round(window.stalled_s, 3),
                    phase=Phase.RUNTIME,
                ),
            ),
        ),
    )
