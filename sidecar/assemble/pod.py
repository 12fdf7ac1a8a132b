"""What the kubelet tells of our pod -> evidence that the server's container ended."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sidecar.catalog import signals
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.readings import Container, PodReading, Termination
from sidecar.model.samples import Instant
from sidecar.model.saved_state import PodMemory
from sidecar.model.vocabulary import Cause, Confidence, Kind, Source, TerminationReason

SIGNALLED = range(129, 193)
"""Exit codes of a process that a signal ended: 128 and its number."""
WHOLE_SECOND_S = 1.0
"""The kubelet cuts times to whole seconds: the end was up to so much later."""
MOST_UNTOLD = 256
"""Terminations that are kept until it is known which container is the server's."""


@dataclass(slots=True)
class Pod:
    """What was seen of our pod so far.

    ``counted``: how often each container had ended, by name, when it was last told; a run that ended
    and was not started again counts too. ``server``: name of the server's container, once known.
    """

    uid: str | None = None
    counted: dict[str, int] = field(default_factory=dict)
    server: str | None = None
    untold: list[tuple[str, Termination]] = field(default_factory=list)

    def see(
        self, reading: PodReading, at: Instant, *, container_id: str | None
    ) -> tuple[Evidence, ...]:
        """What ended since the reading before; the first one is the baseline.

        ``container_id``: the server's, by its cgroup. Until the server's container is known nothing is
        told, and nothing is forgotten.
        """
        is_first = reading.uid != self.uid
        if is_first:
            self.uid, self.counted, self.server, self.untold = reading.uid, {}, None, []
        self.untold = [*self.untold, *reading.ended][-MOST_UNTOLD:]
        ends = {one.name: self.ends_of(one) for one in reading.containers}
        if is_first:
            self.counted, self.untold = dict(ends), []
        # The id changes at each restart, and the cgroup shows the new one later than the kubelet.
        self.server = by_id(reading, container_id) or self.server or by_name(reading)
        if self.server is None:
            return ()
        told = [one for name, one in self.untold if name == self.server]
        before = self.counted.get(self.server, 0)
        self.counted, self.untold = self.counted | ends, []
        # A count that fell was lost by a restart of the node, and goes on from where it is now.
        rise = self.counted.get(self.server, 0) - before
        return tuple(evidence_of(told, rise, at)) if rise > 0 else ()

    def ends_of(self, container: Container) -> int:
        """How often a container has ended: its restarts, and the present run if that is over."""
        is_over = not container.running and any(
            name == container.name and one.container_id == container.container_id
            for name, one in self.untold
        )
        ends = container.restarts + is_over
        # That the present run is over was told once, perhaps a while ago.
        before = self.counted.get(container.name, ends)
        return before if before == container.restarts + 1 and not container.running else ends

    def memory(self) -> PodMemory | None:
        """What must outlive us."""
        return None if self.uid is None else PodMemory(self.uid, dict(self.counted))

    def remember(self, memory: PodMemory | None) -> None:
        """Go on where we were before our own restart."""
        if memory is not None:
            self.uid, self.counted = memory.uid, dict(memory.restarts)


def by_id(reading: PodReading, container_id: str | None) -> str | None:
    """Name of the container that the server's cgroup bears the id of; never our own."""
    names = (
        one.name
        for one in reading.containers
        if one.container_id is not None and one.container_id == container_id
    )
    return next((name for name in names if name != reading.ours), None)


def by_name(reading: PodReading) -> str | None:
    """Name of the server's container by the settings, or as the only one beside ours."""
    others = [one.name for one in reading.containers if one.name != reading.ours]
    is_ours_known = len(others) < len(reading.containers)
    return reading.given or (others[0] if is_ours_known and len(others) == 1 else None)


def evidence_of(told: list[Termination], rise: int, at: Instant) -> Iterator[Evidence]:
    """Evidence whose amounts add up to ``rise``. Only the last of several ends may be told of."""
    known = told[-rise:]
    if not known:
        yield terminated(None, at, rise)
    for place, termination in enumerate(known):
        moment = ended_at(termination, at)
        if termination.reason is TerminationReason.OOM_KILLED:
            yield oom_killed(moment)
        yield terminated(termination, moment, 1 if place else rise - len(known) + 1)


def terminated(termination: Termination | None, at: Instant, amount: int) -> Evidence:
    """The server's container ended. Code 0 is the end of a server too, which nobody asked for."""
    code = None if termination is None else termination.exit_code
    return Evidence(
        cause=Cause.ENGINE_FAILURE,
        kind=Kind.KILLED if code in SIGNALLED else Kind.CRASHED,
        source=Source.KUBERNETES,
        signal=signals.CONTAINER_TERMINATED,
        at=at,
        weight=Weight.CONSEQUENCE,
        amount=float(amount),
    )


def oom_killed(at: Instant) -> Evidence:
    """The kernel killed a process of the container for memory.

    When, and whether the container ended of it, is not said: the runtime reads a counter that an
    earlier kill of a child has raised as well.
    """
    return Evidence(
        cause=Cause.HOST_OOM,
        kind=Kind.CGROUP,
        source=Source.KUBERNETES,
        signal=signals.CONTAINER_OOM_KILLED,
        at=at,
        weight=Weight.SUPPORT,
        confidence=Confidence.SUSPECTED,
    )


def ended_at(termination: Termination, at: Instant) -> Instant:
    """When a container ended, never after ``at``."""
    if termination.at_unix is None:
        return at
    return at.when(min(at.unix, termination.at_unix + WHOLE_SECOND_S))
