"""Whether the server lived through what happened: told by what it did afterwards."""

from collections.abc import Iterable
from dataclasses import dataclass

from sidecar.model.evidence import Evidence, Weight
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause

SURVIVED_S = 1.0
"""An answer so many seconds after the evidence shows that the server lived through it."""
ANSWER_S = 1.0
"""Seconds that an answer may take beyond its time."""
PATIENCE_LEAST_S, PATIENCE_MOST_S = 2.5, 150.0
"""Seconds that are waited for a sign of life at least, for the host of a kill is starved, and at most,
for nobody may have read the server for hours."""
LOST_S = 5.0
"""A process of the server that vanished so many seconds around the evidence died of it."""


@dataclass(slots=True)
class Survival:
    """The last signs of life and of death.

    ``last_token``: the latest moment after which a token is known to have been made.
    """

    last_answer: Instant | None = None
    last_token: Instant | None = None
    last_refusal: Instant | None = None
    last_loss: Instant | None = None
    has_work: bool = False

    def of(self, evidence: Iterable[Evidence], *, is_doubted: bool) -> bool:
        """Whether the server was seen to live after all of this.

        With work at hand only tokens prove it: V0 goes on answering, frozen, for up to 10 s after
        its engine died. ``is_doubted``: who answers said last that the engine is dead.
        """
        last = max((e.at.monotonic for e in failures(evidence)), default=None)
        if last is None or is_doubted or self.is_known_dead(last):
            return False
        sign = self.last_token if self.has_work else self.last_answer
        return sign is not None and sign.monotonic - last >= SURVIVED_S

    def is_known_dead(self, since: float) -> bool:
        """Whether nobody listened any more, or a process was gone, after a moment."""
        if self.last_loss is not None and abs(self.last_loss.monotonic - since) <= LOST_S:
            return True
        return self.last_refusal is not None and self.last_refusal.monotonic >= since

    def is_open(
        self, evidence: Iterable[Evidence], now: Instant, patience_s: float, *, is_doubted: bool
    ) -> bool:
        """Whether it may still turn out, within the patience, that the server lived or died."""
        evidence = tuple(evidence)
        last = max((e.at.monotonic for e in failures(evidence)), default=None)
        if last is None or now.monotonic - last >= patience_s:
            return False
        return not self.is_known_dead(last) and not self.of(evidence, is_doubted=is_doubted)


def failures(evidence: Iterable[Evidence]) -> Iterable[Evidence]:
    """The evidence that a server can die of."""
    return (
        e
        for e in evidence
        if e.cause not in {Cause.PREEMPTION, Cause.STALLED} and e.weight is not Weight.SUPPORT
    )


def patience_of(step_s: float) -> float:
    """Seconds to wait for a sign of life where the server is read every ``step_s`` seconds.

    What rose until the first reading that is ``SURVIVED_S`` later may have risen before the failure:
    the one after it shows what was made since.
    """
    return min(PATIENCE_MOST_S, max(PATIENCE_LEAST_S, 2 * step_s + SURVIVED_S + ANSWER_S))
