"""Lines of the kernel's log in, decided kills out: none is told before what was read ahead of it. Pure."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from sidecar.model.readings import KernelKill
from sidecar.model.samples import Instant
from sidecar.parse.kernel_line import KernelFold, Told

_KILLS: Final = 1024
_HELD_S: Final = 5.0
"""Seconds for which kills may wait until what was read before them is decided."""


class KernelInbox:
    """Holds kills until they are asked for. ``lost`` counts those that came while it was full.

    ``told``: as ``KernelFold`` takes it.
    """

    def __init__(self, told: Iterable[Told] = (), at: float = 0.0) -> None:
        self._fold = KernelFold(told, at)
        self._kills: deque[KernelKill] = deque()
        self._ready = 0
        self._held_since: Instant | None = None
        self.lost = 0

    @property
    def has_news(self) -> bool:
        """Whether a kill is decided that was not taken yet."""
        return self._ready > 0

    @property
    def told(self) -> tuple[Told, ...]:
        """What another inbox that goes on from here is to be given."""
        return self._fold.told

    def feed(self, line: str, now: Instant) -> None:
        """Take in a line; ``settle`` belongs before it, and after."""
        self._keep(self._fold.feed(line, now))

    def flush(self, now: Instant) -> None:
        """Give up waiting for lines that do not come; to be followed by ``settle``."""
        self._keep(self._fold.flush(now))

    def settle(self, now: Instant) -> bool:
        """Make ready what is decided; returns whether no line up to here can add to it any more."""
        if self._fold.undecided(now):
            self._held_since = self._held_since or now
            if now.monotonic - self._held_since.monotonic < _HELD_S:
                return False
        self._held_since = None
        self._ready = len(self._kills)
        return True

    def take(self) -> tuple[KernelKill, ...]:
        """The kills that are decided."""
        kills = tuple(self._kills.popleft() for _ in range(self._ready))
        self._ready = 0
        return kills

    def _keep(self, kills: tuple[KernelKill, ...]) -> None:
        for kill in kills:
            if len(self._kills) < _KILLS:
                self._kills.append(kill)
            else:
                self.lost += 1
