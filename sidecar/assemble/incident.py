"""One incident, one cause: what follows a failure is its consequence, not a second failure."""

from dataclasses import dataclass, field, replace

from sidecar.model.evidence import Evidence, Weight
from sidecar.model.samples import Instant
from sidecar.model.saved_state import IncidentMemory
from sidecar.model.vocabulary import Cause, Kind, Source

JOIN_S = 60.0
"""Seconds after the last evidence for which more evidence belongs to the same incident. The V0
engine's death is noticed up to 10 s late; a starved host stretches that."""
RECOVERED_S = 20.0
"""Tokens made so many seconds after the last evidence end an incident: the server lives on. Shorter
will not do: other engines of the same server make tokens while its main process takes up to 12 s to
notice that one has died."""
FORMER_MOST = 8
COUNTS_EACH = frozenset({Source.CGROUP, Source.KERNEL_LOG, Source.KUBERNETES})
"""Sources that tell each kill or end once; a log tells one failure in many lines."""


@dataclass(slots=True)
class Incident:
    """Evidence of failures that belong together, and the root among them once it is known.

    ``stamp``: that of the last line that bore one; None once another source has told. What that tells is
    seen as it happens, so a line that follows is measured by when it was read.
    """

    opened: Instant
    last: Instant
    stamp: float | None = None
    root: Evidence | None = None
    seen: set[tuple[Cause, str]] = field(default_factory=set)
    recorded: set[Kind] = field(default_factory=set)
    """The kinds of kills that the kernel's records told of."""

    def take(self, evidence: Evidence) -> None:
        """Join a piece of evidence."""
        self.last = max(self.last, evidence.at)
        if evidence.stamp is not None or evidence.source is not Source.VLLM_LOG:
            self.stamp = evidence.stamp
        self.seen.add((evidence.cause, evidence.signal))
        if evidence.source is Source.KERNEL_LOG:
            self.recorded.add(evidence.kind)
        if evidence.weight is Weight.ROOT and (
            self.root is None or rank(evidence.cause) < rank(self.root.cause)
        ):
            self.root = evidence


@dataclass(slots=True)
class Incidents:
    """The running incident, if there is one."""

    running: Incident | None = None
    former: list[tuple[Instant, Instant]] = field(default_factory=list)
    """When the incidents before began and ended."""

    def end(self) -> None:
        """The running incident is over."""
        if self.running is not None:
            span = (self.running.opened, self.running.last)
            self.former = [*self.former[1 - FORMER_MOST :], span]
        self.running = None

    def was_told(self, at: Instant) -> bool:
        """Whether a moment lies within an incident that is over, or shortly around it."""
        return any(
            opened.monotonic - JOIN_S <= at.monotonic <= last.monotonic + JOIN_S
            for opened, last in self.former
        )

    def admit(self, evidence: Evidence) -> Evidence | None:
        """Weigh new evidence against the running incident.

        Returns what counts: a root of its own, a consequence nobody has explained yet, or nothing
        (a repetition of what is known, or a consequence whose root is known). A kill that the kernel
        counted is never a repetition.
        """
        evidence = self.of_its_kind(evidence)
        incident = self.running
        if incident is None or not self.belongs(evidence):
            self.end()
            incident = self.running = Incident(opened=evidence.at, last=evidence.at)
            incident.take(evidence)
            return evidence
        told = (evidence.cause, evidence.signal) in incident.seen
        known = told and evidence.source not in COUNTS_EACH
        explained = evidence.weight is Weight.CONSEQUENCE and incident.root is not None
        incident.take(evidence)
        return None if known or explained else evidence

    def of_its_kind(self, evidence: Evidence) -> Evidence:
        """A count of kills with the kind that the kernel's record told of before.

        A cgroup counts kills of its processes by any OOM killer (cgroup-v2.rst, ``oom_kill``).
        """
        incident = self.running
        counted = evidence.source is Source.CGROUP and evidence.kind is Kind.CGROUP
        if incident is None or not counted or not self.belongs(evidence):
            return evidence
        return (
            replace(evidence, kind=Kind.SYSTEM) if incident.recorded == {Kind.SYSTEM} else evidence
        )

    def belongs(self, evidence: Evidence) -> bool:
        """Whether a piece of evidence belongs to the running incident, by the later of two clocks.

        Lines that were read late arrive at once; their own stamps keep incidents apart.
        """
        incident = self.running
        if incident is None:
            return False
        gap = evidence.at.monotonic - incident.last.monotonic
        if evidence.stamp is not None and incident.stamp is not None:
            gap = max(gap, evidence.stamp - incident.stamp)
        return gap <= JOIN_S

    def memory(self) -> IncidentMemory | None:
        """The running incident as it is kept over our own restart."""
        incident = self.running
        if incident is None:
            return None
        return IncidentMemory(
            opened=incident.opened.unix,
            last=incident.last.unix,
            stamp=incident.stamp,
            root=incident.root,
            seen=frozenset(incident.seen),
        )

    def remember(self, memory: IncidentMemory | None, now: Instant) -> None:
        """Go on with an incident that ran before our restart."""
        if memory is None:
            return
        root = memory.root
        self.running = Incident(
            opened=now.when(memory.opened),
            last=now.when(memory.last),
            stamp=memory.stamp,
            root=None if root is None else replace(root, at=now.when(root.at.unix)),
            seen=set(memory.seen),
        )

    def see_tokens(self, since: Instant) -> None:
        """Tokens were made after that moment: an incident that lies a while back is over."""
        if (
            self.running is not None
            and since.monotonic - self.running.last.monotonic >= RECOVERED_S
        ):
            self.end()


def rank(cause: Cause) -> int:
    """Place of a cause in the order of precedence, 0 first."""
    return list(Cause).index(cause)
