"""How soon a log is looked at again: soon while it says little, less often while it never rests."""

from typing import Final

QUICK_S: Final = 0.02
"""Seconds from one look to the next while lines come now and then."""
STEADY_S: Final = 0.07
"""The same while they come all the time: with a look for each of fifty lines a second the daemon takes
3.3 % of a core, eight times what it takes beside a quiet log at a clock of 1 s."""
BURST_LOOKS: Final = 16
"""Looks that may follow each other quickly: a failure tells itself in some tenths of a second."""


class Pace:
    """Looks are earned by time, one for each ``STEADY_S``, and what was earned is soon spent."""

    def __init__(self) -> None:
        self._earned = float(BURST_LOOKS)
        self._looked_at = float("-inf")

    def look(self, now: float) -> None:
        """Somebody looks, when the monotonic clock shows so many seconds."""
        rested = (now - self._looked_at) / STEADY_S
        self._earned = max(0.0, min(BURST_LOOKS, self._earned + rested) - 1)
        self._looked_at = now

    def gap_s(self, *, is_behind: bool = False) -> float:
        """Seconds from the last look to the next one at least; what is behind is read on soon."""
        return QUICK_S if is_behind or self._earned >= 1 else STEADY_S
