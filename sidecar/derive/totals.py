"""What is counted since start, under closed-set names."""

from collections import Counter
from dataclasses import dataclass, field

from sidecar.catalog.signals import EVIDENCE
from sidecar.model.evidence import Evidence
from sidecar.model.readings import KernelReading
from sidecar.model.report import EvidenceKey
from sidecar.model.samples import Tick
from sidecar.model.vocabulary import Cause, Verdict


@dataclass(slots=True)
class Totals:
    """Closed windows by verdict, evidence by its key, and when each cause was last shown.

    ``kernel_lost``: records of the kernel log that were lost; None until it was read once.
    """

    windows: Counter[Verdict] = field(default_factory=Counter)
    evidence: dict[EvidenceKey, float] = field(default_factory=lambda: dict.fromkeys(EVIDENCE, 0.0))
    last_evidence: dict[Cause, float] = field(default_factory=dict)
    ticks: int = 0
    missed: int = 0
    kernel_lost: int | None = None

    def count(self, evidence: Evidence) -> None:
        """Count a piece of evidence; one without a place in the closed set is not counted."""
        key = EvidenceKey(evidence.cause, evidence.source, evidence.signal)
        if key in self.evidence:
            self.evidence[key] += evidence.amount
        last = self.last_evidence.get(evidence.cause, 0.0)
        self.last_evidence[evidence.cause] = max(last, evidence.at.unix)

    def see(self, tick: Tick) -> None:
        """Count what the sources say that they lost."""
        for sample in tick.samples:
            if isinstance(sample.reading, KernelReading):
                self.kernel_lost = (self.kernel_lost or 0) + sample.reading.lost
