"""How many series the table of families makes at most, and how many engines fit into the budget."""

from collections.abc import Sequence

from sidecar.catalog.exported import EVIDENCE, FAMILIES, GPU_LIMIT, PROCESS_FAMILIES
from sidecar.catalog.family import Scope
from sidecar.model.report import EvidenceKey

SERIES_LIMIT = 2_500
"""No exposition of ours holds more series, whatever vLLM, its logs or its users send."""


def count_series(scope: Scope) -> int:
    """The greatest number of series of all families with this scope, evidence left out."""
    return sum(
        family.series for family in FAMILIES if family.scope is scope and family is not EVIDENCE
    )


def bound_series(evidence_keys: Sequence[EvidenceKey], engines: int, gpus: int) -> int:
    """The greatest number of series of an exposition with so many engines and GPUs shown."""
    return (
        count_series(Scope.SERVER)
        + len(PROCESS_FAMILIES)
        + len(evidence_keys)
        + count_series(Scope.ENGINE) * engines
        + count_series(Scope.GPU) * min(gpus, GPU_LIMIT)
    )


def limit_engines(evidence_keys: Sequence[EvidenceKey], wanted: int) -> int:
    """How many engines may be shown apart, beside ``other``, within ``SERIES_LIMIT``."""
    room = SERIES_LIMIT - bound_series(evidence_keys, 0, GPU_LIMIT)
    return max(0, min(wanted, room // count_series(Scope.ENGINE) - 1))
