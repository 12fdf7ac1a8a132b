"""Something that happened, and speaks for a cause."""

from dataclasses import dataclass
from enum import StrEnum

from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause, Confidence, Kind, LimitOwner, Party, Phase, Source


class Weight(StrEnum):
    """What a piece of evidence may decide.

    ``root`` names its cause by itself; ``consequence`` names it only while no root of the same
    incident is known (a dead engine after a kernel kill is no second failure); ``support``
    decides nothing and is shown beside the others.
    """

    ROOT = "root"
    CONSEQUENCE = "consequence"
    SUPPORT = "support"


@dataclass(frozen=True, slots=True)
class Parties:
    """Whom a kill hit, whose allocation led to it, and whose limit it enforced; None: not told."""

    victim: Party | None = None
    trigger: Party | None = None
    limit_owner: LimitOwner | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation that speaks for ``cause``. ``signal`` is a closed-set name.

    ``stamp``: the time a log line bears, see ``LogEvent``. ``parties``: for a kernel's record.
    """

    cause: Cause
    kind: Kind
    source: Source
    signal: str
    at: Instant
    weight: Weight = Weight.ROOT
    confidence: Confidence = Confidence.CONFIRMED
    phase: Phase = Phase.UNKNOWN
    amount: float = 1.0
    engine: str | None = None
    stamp: float | None = None
    parties: Parties | None = None

    @property
    def is_refused_start(self) -> bool:
        """Whether vLLM itself said that it will not start, and why: it died of nothing else."""
        told = self.weight is Weight.ROOT and self.confidence is Confidence.CONFIRMED
        return told and self.kind is Kind.CAPACITY_REJECTION
