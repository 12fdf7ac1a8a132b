"""One incident, one cause: what follows a failure is its consequence, not a second failure."""

from dataclasses import dataclass, field

from sidecar.model.evidence import Evidence, Weight
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause

JOIN_S = 60.0
"""Seconds after the last evidence for which more evidence belongs to the same incident. The V0
engine's death is noticed up to 10 s late; a starved host stretches that."""
RECOVERED_S = 3.0
"""Tokens made so many seconds after the last evidence end an incident: the server lives on."""


@dataclass(slots=True)
class Incident:
    """Evidence of failures that belong together, and the root among them once it is known."""

    opened: Instant
    last: Instant
    root: Evidence | None = None
    seen: set[tuple[Cause, str]] = field(default_factory=set)

    def take(self, evidence: Evidence) -> None:
        """Join a piece of evidence."""
        self.last = max(self.last, evidence.at)
        self.seen.add((evidence.cause, evidence.signal))
        if evidence.weight is Weight.ROOT and (
            self.root is None or rank(evidence.cause) < rank(self.root.cause)
        ):
            self.root = evidence


@dataclass(slots=True)
class Incidents:
    """The running incident, if there is one."""

    running: Incident | None = None

    def admit(self, evidence: Evidence) -> Evidence | None:
        """Weigh new evidence against the running incident.

        Returns what counts: a root of its own, a consequence nobody has explained yet, or nothing
        (a repetition of what is known, or a consequence whose root is known).
        """
        incident = self.running
        if incident is None or not self.belongs(evidence.at):
            incident = self.running = Incident(opened=evidence.at, last=evidence.at)
            incident.take(evidence)
            return evidence
        known = (evidence.cause, evidence.signal) in incident.seen
        explained = evidence.weight is Weight.CONSEQUENCE and incident.root is not None
        incident.take(evidence)
        return None if known or explained else evidence

    def belongs(self, at: Instant) -> bool:
        """Whether something at this instant belongs to the running incident."""
        return self.running is not None and (at.monotonic - self.running.last.monotonic <= JOIN_S)

    def see_tokens(self, at: Instant) -> None:
        """Tokens were made: an incident that lies a while back is over."""
        if self.running is not None and at.monotonic - self.running.last.monotonic >= RECOVERED_S:
            self.running = None


def rank(cause: Cause) -> int:
    """Place of a cause in the order of precedence, 0 first."""
    return list(Cause).index(cause)
