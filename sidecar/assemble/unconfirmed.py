"""What speaks for a kill of the server but decides nothing alone: it counts once the server died."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sidecar.model.evidence import Evidence, Weight
from sidecar.model.samples import Instant

NEAR_S = 10.0
"""Seconds between a kill of some vLLM process and our server's death that make it ours: V0 takes
up to 10 s to notice."""
MOST = 64


@dataclass(slots=True)
class Unconfirmed:
    """Evidence that waits for a death, oldest first."""

    heard: list[Evidence] = field(default_factory=list)

    def hear(self, evidence: Evidence) -> None:
        """Keep a piece of evidence; of too many the oldest go."""
        self.heard = [*self.heard[1 - MOST :], evidence]

    def take(self, death: Instant) -> tuple[Evidence, ...]:
        """What a death makes believable: each is a root now."""
        near = [one for one in self.heard if is_near(one.at, death)]
        self.heard = [one for one in self.heard if one not in near]
        return tuple(replace(one, weight=Weight.ROOT) for one in near)

    def remember(self, kept: Iterable[Evidence], now: Instant) -> None:
        """Go on with what was kept over our restart."""
        self.heard = [replace(one, at=now.when(one.at.unix)) for one in kept]


def is_near(one: Instant, other: Instant) -> bool:
    """Whether two moments can belong to one death."""
    return abs(one.monotonic - other.monotonic) <= NEAR_S
