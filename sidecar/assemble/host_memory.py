"""Counters of kills and records of the kernel -> evidence of a kill that belongs to this server."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sidecar.assemble.kill_ledger import KillLedger, Toll
from sidecar.assemble.process_roles import party_of
from sidecar.catalog import signals
from sidecar.model.checkpoint import CgroupMemory
from sidecar.model.evidence import Evidence, Parties, Weight
from sidecar.model.readings import CgroupReading, KernelKill, Process, ProcessReading
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause, Confidence, Kind, LimitOwner, Source, Way
from sidecar.parse.container_id import container_id

SERVER_COMMS = ("VLLM::", "vllm")
"""How the kernel prints vLLM's process names; it cuts them at 15 characters."""
WEIGHTS = {Confidence.CONFIRMED: Weight.ROOT, Confidence.SUSPECTED: Weight.SUPPORT}
"""A name alone decides nothing: the neighbour's processes bear the same one."""
REMEMBERED_PIDS = 512
FORMER_S = 120.0
"""Seconds for which a cgroup that the server was in before a restart is still its own: the record of
its end is read after the container was made anew."""
FORMER_MOST = 64
STRAY_S = 10.0
"""Seconds between the removal of the server's cgroup and a kill beside it that make the kill its own:
a container that came and went between two looks had a name that nobody saw."""
STRAYS_MOST = 64


@dataclass(frozen=True, slots=True)
class Place:
    """The server's cgroup as a record of the kernel may name it."""

    parts: tuple[str, ...]
    container: str | None

    def end_in(self, path: tuple[str, ...]) -> int | None:
        """Where in the path the server's own cgroup ends; None if it is another.

        From a namespace we see only the end of the path, or of a cgroup beside ours the id alone.
        """
        if self.container is not None:
            named = [container_id(part) for part in path]
            if self.container in named:
                return named.index(self.container) + 1
            if any(named):
                return None
        length = len(self.parts)
        for start in range(len(path) - length + 1 if length else 0):
            if path[start : start + length] == self.parts:
                return start + length
        return None

    def is_beside(self, path: tuple[str, ...]) -> bool:
        """Whether a path names a cgroup with the same parent, as far as we see it."""
        above = self.parts[:-1]
        return bool(path) and path[:-1][len(path) - 1 - len(above) :] == above


@dataclass(slots=True)
class HostMemory:
    """What has been seen of the server's cgroup and processes so far."""

    ledger: KillLedger = field(default_factory=KillLedger)
    place: Place | None = None
    way: Way | None = None
    former: dict[Place, Instant] = field(default_factory=dict)
    lost: Instant | None = None
    strays: list[KernelKill] = field(default_factory=list)
    pids: dict[int, str] = field(default_factory=dict)

    def see_processes(self, reading: ProcessReading) -> None:
        """Remember the server's processes: the kernel's record comes when they are gone.

        In a container the pids that we see are not those that the kernel prints.
        """
        if not reading.host_pids:
            self.pids.clear()
            return
        for process in reading.processes:
            self.pids.pop(process.pid, None)
            self.pids[process.pid] = process.comm
        while len(self.pids) > REMEMBERED_PIDS:
            del self.pids[next(iter(self.pids))]

    def see_cgroup(self, reading: CgroupReading) -> Toll:
        """Kills counted since the reading before.

        ``max``, ``high``, ``oom`` without a kill and v1's failcnt are pressure, never a kill.
        """
        return self.ledger.see(reading)

    def see_place(self, reading: CgroupReading, at: Instant) -> None:
        """Remember which cgroup is the server's, for a while which one was, and when it went."""
        if reading.gone:
            self.lost = at
            return
        place = Place(parts_of(reading.path), reading.container)
        if self.place is not None and self.place != place:
            self.former[self.place] = at
            self.lost = at
            while len(self.former) > FORMER_MOST:
                del self.former[next(iter(self.former))]
        self.place, self.way = place, reading.way

    def see_kills(self, kills: Iterable[KernelKill]) -> tuple[Evidence, ...]:
        """Kernel records of kills that concern this server; others' kills are nobody's business."""
        found = []
        for kill in kills:
            confidence = self.concerns_us(kill)
            if confidence is not None:
                found.append(self.record_of(kill, confidence, WEIGHTS[confidence]))
            elif self.is_stray(kill):
                self.strays = [*self.strays[1 - STRAYS_MOST :], kill]
        return tuple(found)

    def take_strays(self, now: Instant) -> tuple[Evidence, ...]:
        """Kills beside the server's cgroup, if that went at about the same time."""
        young = [kill for kill in self.strays if now.monotonic - kill.at_monotonic <= STRAY_S]
        lost = self.lost
        if lost is None or now.monotonic - lost.monotonic > STRAY_S:
            self.strays = young
            return ()
        self.strays = []
        return tuple(self.record_of(kill, Confidence.SUSPECTED, Weight.ROOT) for kill in young)

    def is_stray(self, kill: KernelKill) -> bool:
        """Whether a kill hit a process named as vLLM's in a cgroup beside the server's."""
        if self.place is None or kill.victim_cgroup is None:
            return False
        named = (kill.comm or "").startswith(SERVER_COMMS)
        return named and self.place.is_beside(parts_of(kill.victim_cgroup))

    def record_of(self, kill: KernelKill, confidence: Confidence, weight: Weight) -> Evidence:
        """A kernel's record as evidence."""
        return Evidence(
            cause=Cause.HOST_OOM,
            kind=kill.kind,
            source=Source.KERNEL_LOG,
            signal=signals.OOM_KILL_RECORD,
            at=Instant(kill.at_monotonic, kill.at_unix),
            confidence=confidence,
            weight=weight,
            parties=self.parties_of(kill),
        )

    def concerns_us(self, kill: KernelKill) -> Confidence | None:
        """How surely a kill hit this server: by cgroup, else by pid, else by name alone."""
        places = list(self.places(kill.at_monotonic))
        if places and kill.victim_cgroup is not None:
            path = parts_of(kill.victim_cgroup)
            if all(place.end_in(path) is None for place in places):
                return None
            # Of a pod's cgroup nobody says in which of its containers the server is.
            return Confidence.SUSPECTED if self.way is Way.POD else Confidence.CONFIRMED
        if kill.pid is not None and same_name(self.pids.get(kill.pid), kill.comm):
            return Confidence.CONFIRMED
        if not places and not self.pids and (kill.comm or "").startswith(SERVER_COMMS):
            return Confidence.SUSPECTED
        return None

    def places(self, now: float) -> Iterator[Place]:
        """The cgroups that are the server's, or were a short while ago, and have a name of their own."""
        known = [] if self.place is None else [self.place]
        known += [one for one, at in self.former.items() if now - at.monotonic <= FORMER_S]
        return (place for place in known if place.parts or place.container)

    def parties_of(self, kill: KernelKill) -> Parties:
        """Who was killed at whose allocation for whose limit."""
        known = self.pids.get(kill.pid) if kill.pid is not None else None
        comm = known if same_name(known, kill.comm) else kill.comm
        return Parties(
            victim=None if comm is None else party_of(comm),
            trigger=None if kill.trigger is None else party_of(kill.trigger),
            limit_owner=self.owner_of(kill),
        )

    def owner_of(self, kill: KernelKill) -> LimitOwner | None:
        """Whose limit was met, seen from the server's cgroup."""
        if kill.kind is Kind.SYSTEM:
            return LimitOwner.HOST
        if kill.limit_cgroup is None or kill.victim_cgroup is None:
            return None
        victim, limit = parts_of(kill.victim_cgroup), parts_of(kill.limit_cgroup)
        ends = [place.end_in(victim) for place in self.places(kill.at_monotonic)]
        end = next((end for end in ends if end is not None), None)
        if end is None or limit != victim[: len(limit)]:
            return None
        if len(limit) == end:
            return LimitOwner.OWN
        return LimitOwner.ABOVE if len(limit) < end else LimitOwner.BELOW

    def remember(self, memory: CgroupMemory | None, processes: Mapping[int, str]) -> None:
        """Go on with what was known before our restart."""
        self.pids.update(processes)
        if memory is not None:
            self.ledger = KillLedger(memory)
            self.place = Place(parts_of(memory.path), memory.container)


def evidence_of(toll: Toll, reading: CgroupReading, at: Instant) -> tuple[Evidence, ...]:
    """What the kills of one look speak for.

    Below a cgroup that holds the server's processes itself are those that it shut away, and in a pod
    are containers that are not its own: they decide nothing unless it died with them.
    """
    others = reading.way is Way.POD or not reading.inner
    sure, below = Weight.ROOT, Weight.SUPPORT if others else Weight.ROOT
    confirmed, suspected = Confidence.CONFIRMED, Confidence.SUSPECTED
    rows = (
        (signals.OOM_KILL, toll.own, sure, confirmed),
        (signals.OOM_KILL_BELOW, toll.below, below, suspected if others else confirmed),
        (signals.OOM_KILL_WITNESSED, toll.witnessed, sure, confirmed if toll.sure else suspected),
        (signals.OOM_GROUP_KILL, toll.group, sure, confirmed),
        (signals.USERSPACE_KILL, toll.userspace, sure, confirmed),
    )
    return tuple(
        Evidence(
            cause=Cause.HOST_OOM,
            kind=Kind.USERSPACE if signal == signals.USERSPACE_KILL else Kind.CGROUP,
            source=Source.CGROUP,
            signal=signal,
            at=at,
            amount=float(amount),
            weight=weight,
            confidence=confidence,
        )
        for signal, amount, weight, confidence in rows
        if amount > 0
    )


def parts_of(path: str) -> tuple[str, ...]:
    """The names of a path; ``..`` of a view from beside is none."""
    return tuple(part for part in path.split("/") if part and part != "..")


def same_name(known: str | None, printed: str | None) -> bool:
    """Whether a pid still is the process we knew: pids are used again, names then differ."""
    if known is None:
        return False
    return printed is None or known[:15] == printed[:15]


def survivors(before: Iterable[Process], now: Iterable[Process]) -> bool:
    """Whether every process that lived before still lives."""
    return {p.pid for p in before} <= {p.pid for p in now}
