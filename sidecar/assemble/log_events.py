"""Matched log lines -> evidence. Preemption totals of V0 become differences here."""

from dataclasses import dataclass, replace

from sidecar.catalog.signatures import SIGNATURES, Scope
from sidecar.model.evidence import Evidence
from sidecar.model.readings import LogEvent
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause, Phase, Source


@dataclass(slots=True)
class LogEvents:
    """What must be remembered from line to line."""

    preemption_total: float | None = None

    def read(self, event: LogEvent, phase: Phase) -> Evidence | None:
        """The evidence of one matched line, None for a mark or another program's line."""
        row = SIGNATURES.get(event.signature)
        if row is None or row.cause is None or row.kind is None or row.scope is Scope.SYSTEM:
            return None
        evidence = Evidence(
            cause=row.cause,
            kind=row.kind,
            source=Source.VLLM_LOG,
            signal=row.signal,
            at=Instant(event.at_monotonic, event.at_unix),
            weight=row.weight,
            confidence=row.confidence,
            phase=row.phase or phase,
            amount=event.amount,
            stamp=event.stamp,
        )
        total = event.numbers.get("total")
        if row.cause is Cause.PREEMPTION and total is not None:
            return self.count_total(evidence, total)
        return evidence

    def count_total(self, evidence: Evidence, total: float) -> Evidence:
        """V0 prints the running total with its 1st, 51st, 101st ... preemption."""
        before = self.preemption_total
        self.preemption_total = total
        rise = total - before if before is not None and total > before else 1.0
        return replace(evidence, amount=rise)
