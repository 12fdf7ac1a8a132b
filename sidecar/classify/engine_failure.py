"""An engine or worker died, or a start failed, and no memory cause is shown."""

from sidecar.classify.oom import first_phase, surest
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import Cause, Kind, Phase, Severity
from sidecar.model.window import Window

MEMORY = frozenset({Cause.HOST_OOM, Cause.CUDA_OOM})


def find_engine_failure(window: Window) -> tuple[CauseFound, ...]:
    """The cause, unless all that speaks for it is the consequence of a memory failure."""
    explained = any(e.cause in MEMORY and e.weight is Weight.ROOT for e in window.evidence)
    speaking = tuple(
        e
        for e in window.evidence
        if e.cause is Cause.ENGINE_FAILURE
        and (e.weight is Weight.ROOT or (e.weight is Weight.CONSEQUENCE and not explained))
    )
    if not speaking:
        return ()
    phase = first_phase(speaking, window.phase)
    return (
        CauseFound(
            cause=Cause.ENGINE_FAILURE,
            kind=choose_kind(speaking, phase),
            phase=phase,
            confidence=surest(speaking),
            severity=Severity.CRITICAL,
            evidence=speaking,
        ),
    )


def choose_kind(speaking: tuple[Evidence, ...], phase: Phase) -> Kind:
    """A failed start is one however it ended; else a root's kind, else the first one told."""
    kinds = [e.kind for e in sorted(speaking, key=lambda e: e.weight is not Weight.ROOT)]
    if phase is Phase.STARTUP or Kind.START_FAILED in kinds:
        return Kind.START_FAILED
    return kinds[0]
