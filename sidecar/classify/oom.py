"""What the two out-of-memory causes share: roots grouped by kind, loudness by survival."""

from collections.abc import Callable, Iterable

from sidecar.model.evidence import Evidence, Weight
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase, Severity


def roots_of(cause: Cause, evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The evidence that names this cause by itself."""
    return tuple(e for e in evidence if e.cause is cause and e.weight is Weight.ROOT)


def surest(evidence: Iterable[Evidence]) -> Confidence:
    """Confirmed if any piece is."""
    sure = any(e.confidence is Confidence.CONFIRMED for e in evidence)
    return Confidence.CONFIRMED if sure else Confidence.SUSPECTED


def first_phase(evidence: Iterable[Evidence], otherwise: Phase) -> Phase:
    """The phase the evidence tells, else the server's."""
    return next((e.phase for e in evidence if e.phase is not Phase.UNKNOWN), otherwise)


def by_kind(
    cause: Cause,
    roots: tuple[Evidence, ...],
    *,
    phase: Phase,
    kind_of: Callable[[Evidence], Kind],
    severity_of: Callable[[Kind], Severity],
) -> tuple[CauseFound, ...]:
    """One cause for each kind, in order of first appearance."""
    groups: dict[Kind, list[Evidence]] = {}
    for evidence in roots:
        groups.setdefault(kind_of(evidence), []).append(evidence)
    return tuple(
        CauseFound(
            cause=cause,
            kind=kind,
            phase=first_phase(group, phase),
            confidence=surest(group),
            severity=severity_of(kind),
            evidence=tuple(group),
        )
        for kind, group in groups.items()
    )
