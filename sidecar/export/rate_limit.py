"""How often requests are answered at all: a token bucket."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A request each ``interval_s`` seconds, and ``burst`` of them at once."""

    interval_s: float
    burst: int


class TokenBucket:
    """Holds up to ``burst`` tokens, full at first; each ``interval_s`` seconds one more."""

    def __init__(self, limit: RateLimit) -> None:
        self.limit = limit
        self.tokens = float(limit.burst)
        self.at: float | None = None

    @property
    def retry_after_s(self) -> int:
        """Whole seconds after which a request that was refused may come again."""
        return max(1, math.ceil(self.limit.interval_s))

    def take(self, now: float) -> bool:
        """Take a token at ``now`` (monotonic seconds); False if there is none."""
        if self.at is not None:
            grown = self.tokens + (now - self.at) / self.limit.interval_s
            self.tokens = min(float(self.limit.burst), grown)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True
