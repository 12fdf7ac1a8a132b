"""What the user tolerates."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """``max_preemptions_per_request``: preemptions per finished request that are no warning."""

    max_preemptions_per_request: float = 0.01
