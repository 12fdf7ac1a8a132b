"""One figure of a benchmark, with what it is measured against."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured. ``ratio`` and ``met`` are None where there is nothing to compare with."""

    what: str
    ours: float
    unit: str
    reference: str = ""
    theirs: float | None = None
    ratio: float | None = None
    target: str = ""
    met: bool | None = None
