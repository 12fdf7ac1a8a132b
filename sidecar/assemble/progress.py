"""Whether work moves: how long requests have waited or run while no token was made."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.assemble.counters import EngineRise
from sidecar.catalog import vllm_metrics as roles
from sidecar.model.readings import EngineReading, MetricsReading
from sidecar.model.samples import Instant

MOVING = (roles.GENERATION_TOKENS, roles.PROMPT_TOKENS, roles.FINISHED)
WORK = (roles.RUNNING, roles.WAITING, roles.SWAPPED)


@dataclass(slots=True)
class Progress:
    """Since when each engine has had work and made nothing of it.

    ``step_s``: seconds between the last two readings that told anything.
    """

    stuck_since: dict[str, Instant] = field(default_factory=dict)
    last_sample: Instant | None = None
    step_s: float = 0.0

    def advance(
        self, reading: MetricsReading, rises: Mapping[str, EngineRise], at: Instant
    ) -> Instant | None:
        """Take in a reading and what rose since the one before.

        Returns the moment of that one if a token was made since: it is not known when.
        """
        token = None
        for engine, seen in reading.engines.items():
            rise = rises.get(engine)
            moved = rise is None or has_moved(rise)
            if moved or not has_work(seen):
                self.stuck_since.pop(engine, None)
            else:
                self.stuck_since.setdefault(engine, self.last_sample or at)
            if rise is not None and rise.deltas.get(roles.GENERATION_TOKENS, 0.0) > 0:
                token = self.last_sample or at
        for engine in self.stuck_since.keys() - reading.engines.keys():
            del self.stuck_since[engine]
        if reading.naming is None:
            # What rose meanwhile shows in the next one that can be read.
            return None
        if self.last_sample is not None:
            self.step_s = at.monotonic - self.last_sample.monotonic
        self.last_sample = at
        return token

    def stalled_s(self, now: Instant) -> float:
        """Seconds for which the longest stuck engine has been stuck, 0 if none is."""
        return max(
            (now.monotonic - since.monotonic for since in self.stuck_since.values()), default=0.0
        )


def has_work(seen: EngineReading) -> bool:
    """Whether requests wait or run."""
    return any(seen.values.get(role, 0.0) > 0 for role in WORK)


def has_moved(rise: EngineRise) -> bool:
    """Whether anything was made: tokens, finished requests, first tokens, engine steps."""
    return any(rise.deltas.get(role, 0.0) > 0 for role in MOVING) or any(
        histogram.count > 0 for histogram in rise.histograms.values()
    )
