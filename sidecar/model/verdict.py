"""What a window is judged to be, and for which causes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.model.advice import Advice, Lever
from sidecar.model.budget import Budget
from sidecar.model.evidence import Evidence
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase, Severity, Verdict
from sidecar.model.window import Window


@dataclass(frozen=True, slots=True)
class CauseFound:
    """One cause of a window, with the evidence for it."""

    cause: Cause
    kind: Kind
    phase: Phase
    confidence: Confidence
    severity: Severity
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of a closed window; budgets by engine; the lever."""

    window: Window
    verdict: Verdict
    severity: Severity | None
    causes: tuple[CauseFound, ...]
    observable: Mapping[Cause, bool]
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    advice: Advice = field(default_factory=lambda: Advice(Lever.NONE))
