"""One line of the table of benchmarks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured, beside a reference in the same run.

    ``ratio``: how many times better than the reference. ``met``: whether the target is met, None where
    there is none.
    """

    what: str
    ours: float
    unit: str
    reference: str = ""
    theirs: float | None = None
    ratio: float | None = None
    target: str = ""
    met: bool | None = None
