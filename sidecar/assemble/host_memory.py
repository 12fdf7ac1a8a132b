"""Counters of kills and records of the kernel -> evidence of a kill that belongs to this server."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sidecar.assemble.kill_ledger import KillLedger, Toll
from sidecar.assemble.process_roles import party_of
from sidecar.catalog import signals
from sidecar.model.evidence import Evidence, Parties, Weight
from sidecar.model.readings import CgroupReading, KernelKill, Process, ProcessReading
from sidecar.model.samples import Instant
from sidecar.model.saved_state import CgroupMemory
from sidecar.model.vocabulary import Cause, Confidence, Kind, LimitOwner, Source, Way
from sidecar.parse.container_id import container_id, is_pod

SERVER_COMMS = ("VLLM::", "vllm")
"""How the kernel prints vLLM's process names; it cuts them at 15 characters."""
REMEMBERED_PIDS = 512
FORMER_S = 120.0
"""Seconds for which a cgroup that the server was in before a restart is still its own: the record of
its end is read after the container was made anew."""
FORMER_MOST = 64
STRAY_S = 10.0
"""Seconds between the removal of the server's cgroup and a kill beside it that make the kill its own:
a container that came and went between two looks had a name that nobody saw."""
STRAYS_MOST = 64


class Belonging(StrEnum):
    """Whose a killed process was.

    ``maybe``: of the server's pod, or of a cgroup below its own, or by its name alone. ``beside``: a
    process named as vLLM's in a cgroup beside the server's. ``unknown``: what is known of the server
    cannot tell.
    """

    OURS = "ours"
    MAYBE = "maybe"
    BESIDE = "beside"
    UNKNOWN = "unknown"
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Place:
    """The server's cgroup as a record of the kernel may name it. ``anchored``: from the top."""

    parts: tuple[str, ...]
    container: str | None
    anchored: bool = False

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
        places = len(path) - length + 1 if length else 0
        for start in range(min(places, 1) if self.anchored else places):
            if path[start : start + length] == self.parts:
                return start + length
        return None

    def is_beside(self, path: tuple[str, ...]) -> bool:
        """Whether a path names a cgroup with the same parent, as far as we see that."""
        above = self.parts[:-1]
        return len(path) > len(above) > 0 and path[-1 - len(above) : -1] == above


@dataclass(slots=True)
class HostMemory:
    """What has been seen of the server's cgroup and processes so far."""

    ledger: KillLedger = field(default_factory=KillLedger)
    place: Place | None = None
    way: Way | None = None
    inner: bool = False
    is_gone: bool = False
    former: dict[Place, Instant] = field(default_factory=dict)
    lost: Instant | None = None
    strays: list[Evidence] = field(default_factory=list)
    pids: dict[int, str] = field(default_factory=dict)
    seen: dict[int, float] = field(default_factory=dict)
    """When each pid was last seen to live, on the monotonic clock: pids are used again."""

    def see_processes(self, reading: ProcessReading, at: Instant) -> None:
        """Remember the server's processes: the kernel's record comes when they are gone.

        In a container the pids that we see are not those that the kernel prints.
        """
        if not reading.host_pids:
            self.pids.clear()
            return
        for process in reading.processes:
            self.pids.pop(process.pid, None)
            self.pids[process.pid] = process.comm
            self.seen[process.pid] = at.monotonic
        while len(self.pids) > REMEMBERED_PIDS:
            del self.pids[next(iter(self.pids))]
        self.pids = {
            pid: comm
            for pid, comm in self.pids.items()
            if at.monotonic - self.seen.get(pid, at.monotonic) <= FORMER_S
        }
        self.seen = {pid: self.seen.get(pid, at.monotonic) for pid in self.pids}

    def see_cgroup(self, reading: CgroupReading, at: Instant) -> Toll:
        """Kills counted since the reading before.

        ``max``, ``high``, ``oom`` without a kill and v1's failcnt are pressure, never a kill.
        """
        return self.ledger.see(reading, at.monotonic)

    def see_place(self, reading: CgroupReading, at: Instant) -> None:
        """Remember which cgroup is the server's, for a while which one was, and when it went."""
        was_gone, self.is_gone = self.is_gone, reading.gone
        if reading.gone:
            self.lost = self.lost if was_gone else at
            return
        place = Place(parts_of(reading.path), reading.container, reading.anchored)
        if self.place is not None and self.place != place:
            self.former[self.place] = at
            self.lost = at
            while len(self.former) > FORMER_MOST:
                del self.former[next(iter(self.former))]
        self.place, self.way, self.inner = place, reading.way, reading.inner

    def see_kills(self, kills: Iterable[KernelKill]) -> tuple[tuple[Evidence, ...], bool]:
        """Kernel records of kills that concern this server; others' kills are nobody's business.

        The second value says whether there was one of which nobody can say whose it was.
        """
        found = []
        is_unsure = False
        for kill in kills:
            match self.whose(kill):
                case Belonging.OURS:
                    found.append(self.record_of(kill, Confidence.CONFIRMED, Weight.ROOT))
                case Belonging.MAYBE:
                    found.append(self.record_of(kill, Confidence.SUSPECTED, Weight.SUPPORT))
                case Belonging.BESIDE:
                    stray = self.record_of(kill, Confidence.SUSPECTED, Weight.ROOT)
                    self.strays = [*self.strays[1 - STRAYS_MOST :], stray]
                    is_unsure |= self.is_gone
                case Belonging.UNKNOWN:
                    is_unsure = True
                case Belonging.OTHERS:
                    continue
        return tuple(found), is_unsure

    def take_strays(self, now: Instant) -> tuple[Evidence, ...]:
        """Kills beside the server's cgroup, if that went at about the same time."""
        lost = self.lost
        young = [one for one in self.strays if now.monotonic - one.at.monotonic <= STRAY_S]
        near = [
            one
            for one in young
            if lost is not None and abs(one.at.monotonic - lost.monotonic) <= STRAY_S
        ]
        self.strays = [one for one in young if one not in near]
        return tuple(near)

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

    def whose(self, kill: KernelKill) -> Belonging:
        """Whose process was killed: by cgroup, else by pid, else by name alone."""
        places = list(self.places(kill.at_monotonic))
        if places and kill.victim_cgroup is not None:
            return self.whose_cgroup(kill, places, parts_of(kill.victim_cgroup))
        if kill.pid is not None and same_name(self.pids.get(kill.pid), kill.comm):
            return Belonging.OURS
        if self.pids:
            return Belonging.OTHERS
        is_named = (kill.comm or "").startswith(SERVER_COMMS)
        return Belonging.MAYBE if is_named and not places else Belonging.UNKNOWN

    def whose_cgroup(
        self, kill: KernelKill, places: Iterable[Place], path: tuple[str, ...]
    ) -> Belonging:
        """By the victim's cgroup."""
        ends = (place.end_in(path) for place in places)
        end = next((end for end in ends if end is not None), None)
        if end is not None:
            # Of a pod's cgroup nobody says in which of its containers the server is.
            is_doubtful = self.way is Way.POD or (len(path) > end and not self.inner)
            return Belonging.MAYBE if is_doubtful else Belonging.OURS
        if self.place is None or not self.place.is_beside(path) or path[-1] in self.siblings():
            return Belonging.OTHERS
        if (kill.comm or "").startswith(SERVER_COMMS):
            return Belonging.BESIDE
        return Belonging.UNKNOWN if self.is_gone else Belonging.OTHERS

    def siblings(self) -> frozenset[str]:
        """The cgroups that are known to be beside the server's."""
        known = self.ledger.known
        children = known.children if known is not None else None
        return frozenset(key.rpartition("#")[0] for key in children or ())

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

    def remember(
        self, memory: CgroupMemory | None, processes: Mapping[int, str], now: Instant
    ) -> None:
        """Go on with what was known before our restart."""
        self.pids.update(processes)
        self.seen.update(dict.fromkeys(processes, now.monotonic))
        if memory is not None:
            self.ledger = KillLedger(memory)
            self.place = Place(parts_of(memory.path), memory.container, memory.anchored)
            self.way, self.inner, self.is_gone = memory.way, memory.inner, memory.gone


def evidence_of(toll: Toll, reading: CgroupReading, at: Instant) -> tuple[Evidence, ...]:
    """What the kills of one look speak for.

    Below a cgroup that holds the server's processes itself are those that it shut away, and in a pod
    are containers that are not its own: they decide nothing unless it died with them.
    """
    others = reading.way is Way.POD or is_pod(reading.path) or not reading.inner
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
