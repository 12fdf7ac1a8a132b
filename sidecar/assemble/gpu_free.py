"""Readings of one GPU's free memory over time -> how much of it stays free. Pure.

What is free now says little: a co-tenant comes and goes, and while the server starts, sleeps or is
dead the card is emptier than it will be. Only the least that was free while the server served is
proven, and only once that was watched for long enough.
"""

from collections import deque
from dataclasses import dataclass, field

HORIZON_S = 600.0
"""Seconds of watching that the least is taken over."""
LEAST_WATCHED_S = HORIZON_S / 4
"""Seconds of the horizon that must have been watched before anything is said."""
SLOT_S = 10.0
"""Seconds that share one minimum, so that what is kept does not grow with the clock."""
STEP_MOST_S = 60.0
"""Seconds that two readings in a row prove at most: nobody knows what was between them."""


@dataclass(slots=True)
class Slot:
    """The least of ten watched seconds, in bytes; ``at`` is when it was last added to."""

    number: int
    least: int
    at: float


@dataclass(slots=True)
class FreeWatch:
    """The free memory of one GPU while the server serves.

    Time counts only while it is watched: a gap (a lost GPU, a hung driver) neither adds to it nor
    lets a minimum grow old. ``watched``: seconds so far.
    """

    watched: float = 0.0
    last: float | None = None
    slots: deque[Slot] = field(default_factory=deque)

    def begin_anew(self) -> None:
        """Forget everything: what was free so far says nothing of what follows."""
        self.watched = 0.0
        self.last = None
        self.slots.clear()

    def miss(self) -> None:
        """Nothing could be read: the time up to the next reading was not watched."""
        self.last = None

    def see(self, at: float, free: int) -> None:
        """``free`` bytes at ``at`` (monotonic seconds)."""
        if self.last is not None:
            self.watched += min(max(0.0, at - self.last), STEP_MOST_S)
        self.last = at
        number = int(self.watched // SLOT_S)
        if self.slots and self.slots[-1].number == number:
            slot = self.slots[-1]
            slot.least, slot.at = min(slot.least, free), at
        else:
            self.slots.append(Slot(number, free, at))
        # The slot in which the horizon begins is kept whole.
        while self.slots[0].number < number - int(HORIZON_S / SLOT_S):
            self.slots.popleft()

    def durable(self, at: float) -> int | None:
        """The least over the horizon; None if too little of the time before ``at`` was watched.

        That is told to the length of a slot.
        """
        recent = next((slot for slot in self.slots if at - slot.at < HORIZON_S), None)
        if recent is None or self.watched - recent.number * SLOT_S < LEAST_WATCHED_S:
            return None
        return min(slot.least for slot in self.slots)
