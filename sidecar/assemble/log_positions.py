"""How far the log was read and how much of it, and from where another run of ours goes on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.model.readings import LogReading
from sidecar.model.report import LogStatus
from sidecar.model.samples import Instant
from sidecar.model.saved_state import Position

LAG_S = 5.0
"""Seconds by which the kept place may lie behind, over lines that meant nothing: to read them once more
changes nothing, and a busy log would have the state written at every tick."""

Positions = Mapping[str, Position]


@dataclass(slots=True)
class LogPositions:
    """The places behind what was read. ``means``: since it was kept a line was read that means something."""

    read: Positions = field(default_factory=dict)
    kept: Positions = field(default_factory=dict)
    kept_at: Instant | None = None
    means: bool = False

    def see(self, reading: LogReading) -> None:
        """Lines were read."""
        self.read = reading.positions or self.read
        self.means |= bool(reading.events or reading.past)

    def keep(self, now: Instant) -> Positions:
        """The places to go on from, if we end now."""
        if self.means or self.kept.keys() != self.read.keys() or self.is_old(now):
            self.kept, self.kept_at, self.means = self.read, now, False
        return self.kept

    def is_old(self, now: Instant) -> bool:
        """Whether the kept place is that of too long ago."""
        before = self.kept_at
        return before is None or now.monotonic - before.monotonic >= LAG_S

    def resume(self, positions: Positions) -> None:
        """Go on from what was kept."""
        self.read = self.kept = positions


def next_volume(log: LogStatus, reading: LogReading) -> LogStatus:
    """The log's volume with one more reading."""
    dropped = dict(log.dropped)
    for reason, count in reading.dropped.items():
        dropped[reason] = dropped.get(reason, 0) + count
    return LogStatus(
        lines=log.lines + reading.lines,
        bytes=log.bytes + reading.bytes,
        lag_bytes=reading.lag_bytes,
        dropped=dropped,
    )
