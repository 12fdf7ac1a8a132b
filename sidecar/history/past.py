"""The past of one server: results of its windows as text, and their figures for plots."""

from sidecar.history.archive import MOST_BYTES, Archive
from sidecar.history.row import read_row
from sidecar.history.timeline import Timeline

HORIZON_S = 24 * 3600.0
LONGEST_PLOT_S = HORIZON_S
"""Figures are kept no longer: their number is bounded, so a longer time would blur the last hour."""


class Past:
    """The windows of the last ``horizon_s`` seconds; their figures of a day at most.

    ``unreadable``: kept windows that could not be read.
    """

    def __init__(self, horizon_s: float = HORIZON_S, most_bytes: int = MOST_BYTES) -> None:
        self.archive = Archive(horizon_s, most_bytes)
        self.timeline = Timeline(min(horizon_s, LONGEST_PLOT_S))
        self.unreadable = 0

    def add(self, result: object, line: str) -> None:
        """Take in a window's result, and the same as a line of text; one beyond the calendar is none."""
        try:
            row = read_row(result)
        except ValueError:
            self.unreadable += 1
            return
        self.archive.add(line, row)
        self.timeline.add(row)

    def restore(self, number: int, packed: bytes) -> None:
        """Take in a block that was kept, in the order of the numbers and before any ``add``."""
        rows, unreadable = self.archive.restore(number, packed)
        self.unreadable += unreadable
        for row in rows:
            self.timeline.add(row)
