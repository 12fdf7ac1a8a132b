"""Readings of the memory cgroup over time -> how near the server is to being killed, and how fast.

What counts is memory that the kernel cannot take back before it kills: usage less page cache and
reclaimable slab. Usage alone stands at the limit of every server that reads its weights from disk.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from math import inf, sqrt

from sidecar.model.readings import CgroupReading
from sidecar.model.report import HostOutlook
from sidecar.model.samples import Tick
from sidecar.model.vocabulary import LimitOwner

SPAN_S = 60.0
"""Seconds that the growth is measured over."""
LEAST_S = 20.0
"""Seconds of points that there must be: a server that loads a model grows by jumps."""
POINTS = 120
"""Points that are kept; a faster clock keeps only some of its readings."""
FIT_S = 5.0
"""Seconds that a fit holds: the next point of sixty changes little, and costs an eighth of all thinking."""
FAR_S = 60_000.0
"""A limit that is further away is not told: growth of less than 1/1000 of the headroom in a minute
is what allocators and page tables do on a server that has long been ready."""
SURE = 3.0
"""How many times its standard error growth must be for a time to be told from it: usage that only
goes up and down has a slope too."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes per second, and the standard error of that."""

    rate: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether memory grows for certain."""
        return self.rate > 0 and self.rate >= SURE * self.error


class HostGrowth:
    """How fast the memory of one cgroup grows."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=POINTS)
        self._owner: Hashable = None
        self._measured: Growth | None = None
        self._measured_at = -inf

    def see(self, tick: Tick) -> None:
        """Take in the readings of a tick."""
        for sample in tick.samples:
            reading = sample.reading
            if isinstance(reading, CgroupReading):
                used = needed(reading.current, reading.reclaimable)
                owner = (reading.boot, reading.path, reading.identity)
                if reading.gone or used is None:
                    self._forget()
                else:
                    self.feed(sample.at.monotonic, used, owner)

    def feed(self, at: float, used: float, owner: Hashable = None) -> None:
        """One point: bytes used at ``at`` (monotonic seconds) by the cgroup ``owner``.

        Another cgroup's points say nothing of this one, and neither do those after a step back.
        """
        points = self._points
        if owner != self._owner or (points and at < points[-1][0]):
            self._forget()
            self._owner = owner
        if points and at - points[-1][0] < SPAN_S / POINTS:
            return
        points.append((at, used))
        while at - points[0][0] > SPAN_S:
            points.popleft()

    def measure(self) -> Growth | None:
        """Least squares over the points, at most ``FIT_S`` old; None until they lie 20 s apart."""
        newest = self._points[-1][0] if self._points else -inf
        if self._measured is None or newest - self._measured_at >= FIT_S:
            self._measured, self._measured_at = self._fit(), newest
        return self._measured

    def _forget(self) -> None:
        self._points.clear()
        self._measured = None

    def _fit(self) -> Growth | None:
        points = self._points
        count = len(points)
        if count < 3 or points[-1][0] - points[0][0] < LEAST_S:  # noqa: PLR2004  (two fit any line)
            return None
        mean_at = sum(at for at, _ in points) / count
        mean_used = sum(used for _, used in points) / count
        spread = sum((at - mean_at) ** 2 for at, _ in points)
        rate = sum((at - mean_at) * (used - mean_used) for at, used in points) / spread
        missed = sum((used - mean_used - rate * (at - mean_at)) ** 2 for at, used in points)
        return Growth(rate=rate, error=sqrt(missed / (count - 2) / spread))


def needed(current: int | None, reclaimable: int | None) -> int | None:
    """Bytes that the kernel cannot take back; None where either is unknown."""
    return None if current is None or reclaimable is None else max(0, current - reclaimable)


def room_below(limit: int | None, current: int | None, reclaimable: int | None) -> int | None:
    """Bytes up to a limit; None without a limit, or where the use is unknown."""
    used = needed(current, reclaimable)
    return None if limit is None or used is None else max(0, limit - used)


def headroom_of(reading: CgroupReading) -> dict[LimitOwner, int]:
    """Bytes up to each limit that could kill the server, as far as they are known."""
    above = reading.witness
    rooms = {
        LimitOwner.OWN: room_below(reading.limit, reading.current, reading.reclaimable),
        LimitOwner.ABOVE: None
        if above is None
        else room_below(above.limit, above.current, above.reclaimable),
        LimitOwner.HOST: reading.host_available,
    }
    return {owner: room for owner, room in rooms.items() if room is not None}


def foresee(reading: CgroupReading | None, growth: Growth | None) -> HostOutlook | None:
    """How near the server's end is; None where nothing is known of its cgroup now.

    The time to the nearest limit is told only while memory grows for certain, and soon enough.
    """
    if reading is None or reading.gone:
        return None
    headroom = headroom_of(reading)
    time_s = None
    if headroom and growth is not None and growth.is_clear:
        time_s = min(headroom.values()) / growth.rate
    return HostOutlook(
        headroom=headroom,
        growth=None if growth is None else growth.rate,
        time_to_limit_s=None if time_s is None or time_s > FAR_S else time_s,
    )
