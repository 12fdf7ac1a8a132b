"""A moment, and one reading of one source at a moment."""

from dataclasses import dataclass

from sidecar.model.readings import Reading
from sidecar.model.vocabulary import Fault, Source


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """One moment on two clocks.

    ``monotonic`` (seconds, arbitrary origin) gives order and durations and never steps;
    ``unix`` (seconds since 1970) is for people and Prometheus and may step.
    """

    monotonic: float
    unix: float

    def when(self, unix: float) -> "Instant":
        """The moment that the wall clock called ``unix``, seen from this one; never after it."""
        return Instant(self.monotonic - max(0.0, self.unix - unix), unix)


@dataclass(frozen=True, slots=True)
class Sample:
    """What one source said at one instant: a reading or a fault, never both, never neither."""

    source: Source
    at: Instant
    reading: Reading | None = None
    fault: Fault | None = None
    duration_s: float = 0.0

    def __post_init__(self) -> None:
        if (self.reading is None) == (self.fault is None):
            raise ValueError("a sample holds exactly one of reading and fault")


@dataclass(frozen=True, slots=True)
class Tick:
    """All samples taken for one point of the grid, in order of their instants.

    ``on_grid`` is false for the extra step that evidence of a failure wakes between two points; ``at`` is
    the moment at which that began.
    """

    at: Instant
    samples: tuple[Sample, ...]
    on_grid: bool = True
    missed: int = 0
    lateness_s: float = 0.0
