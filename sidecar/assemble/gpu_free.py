"""Readings of one GPU over time -> how much of it stays free, and the most that others held. Pure.

What is free now says little: a co-tenant comes and goes, and while the server starts, sleeps or is
dead the card is emptier than it will be. Only the least that was free while the server served is
proven, and only once that was watched over the whole horizon.
"""

from collections import deque
from dataclasses import dataclass, field

HORIZON_S = 600.0
"""Seconds of watching that the least is taken over; before they are full nothing is said."""
UNWATCHED_MOST_S = 30.0
"""Seconds that may be missing between them: a reading that failed now and then, no more."""
SLOT_S = 10.0
"""Seconds that share one minimum, so that what is kept does not grow with the clock."""
STEP_MOST_S = 60.0
"""Seconds that two readings in a row prove at most: nobody knows what was between them."""


@dataclass(frozen=True, slots=True)
class Durable:
    """The horizon in bytes: the least that was free, and the most that others held.

    ``others`` is None if once it could not be seen.
    """

    free: int
    others: int | None


@dataclass(slots=True)
class Slot:
    """Ten watched seconds, in bytes. It began after ``began`` watched seconds, at ``since``.

    ``others`` is None before they were looked for; ``unseen``: once they could not be seen.
    """

    number: int
    began: float
    since: float
    least: int
    others: int | None = None
    unseen: bool = False


@dataclass(slots=True)
class FreeWatch:
    """One GPU while the server serves.

    Time counts only while it is watched: a gap (a lost GPU, a hung driver) neither adds to it nor
    lets what was seen grow old. ``watched``: seconds so far.
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
            self.slots[-1].least = min(self.slots[-1].least, free)
        else:
            self.slots.append(Slot(number, self.watched, at, free))
        # The slot in which the horizon begins is kept whole.
        while len(self.slots) > 1 and self.slots[1].began <= self.watched - HORIZON_S:
            self.slots.popleft()

    def see_others(self, held: int | None) -> None:
        """Others hold ``held`` bytes by the last reading; None: that cannot be seen."""
        if not self.slots:
            return
        slot = self.slots[-1]
        slot.unseen |= held is None
        slot.others = max(slot.others or 0, held or 0)

    def durable(self, at: float) -> Durable | None:
        """The horizon before ``at``; None if not all of it was watched, while the server served."""
        if not self.slots:
            return None
        first = self.slots[0]
        watched = self.watched - first.began
        if watched < HORIZON_S or at - first.since - watched > UNWATCHED_MOST_S:
            return None
        held = [None if slot.unseen else slot.others for slot in self.slots]
        known = [size for size in held if size is not None]
        return Durable(
            free=min(slot.least for slot in self.slots),
            others=max(known) if len(known) == len(held) else None,
        )
