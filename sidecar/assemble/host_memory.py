"""Cgroup counters and kernel records -> evidence of a kill that belongs to this server."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sidecar.catalog import signals
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.readings import CgroupReading, KernelKill, Process, ProcessReading
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause, Confidence, Kind, Source

KILL_COUNTERS = (("oom_kill", signals.OOM_KILL), ("oom_group_kill", signals.OOM_GROUP_KILL))
SERVER_COMMS = ("VLLM::", "vllm")
"""How the kernel prints vLLM's process names; it cuts them at 15 characters."""
WEIGHTS = {Confidence.CONFIRMED: Weight.ROOT, Confidence.SUSPECTED: Weight.SUPPORT}
"""A name alone decides nothing: the neighbour's processes bear the same one."""
REMEMBERED_PIDS = 4096


@dataclass(slots=True)
class HostMemory:
    """What has been seen of the server's cgroup and processes so far."""

    baseline: dict[str, int] | None = None
    identity: int | None = None
    path: str | None = None
    pids: dict[int, str] = field(default_factory=dict)

    def see_processes(self, reading: ProcessReading) -> None:
        """Remember the server's processes: the kernel's record comes when they are gone."""
        for process in reading.processes:
            self.pids.pop(process.pid, None)
            self.pids[process.pid] = process.comm
        while len(self.pids) > REMEMBERED_PIDS:
            del self.pids[next(iter(self.pids))]

    def see_cgroup(self, reading: CgroupReading, at: Instant) -> tuple[Evidence, ...]:
        """Kills counted since the reading before. A cgroup made anew counts from zero.

        ``max``, ``high``, ``oom`` without a kill and v1's failcnt are pressure, never a kill.
        """
        if reading.gone:
            return ()
        anew = self.identity is not None and reading.identity not in (None, self.identity)
        # Another path is another cgroup, whose kills may be of long ago; the same path with another
        # directory was made anew at a restart of the container, and counts from zero.
        base = self.baseline if self.path in {None, reading.path} else None
        self.path = reading.path
        self.identity = reading.identity if reading.identity is not None else self.identity
        self.baseline = dict(reading.events)
        if base is None:
            return ()
        return tuple(
            Evidence(
                cause=Cause.HOST_OOM,
                kind=Kind.CGROUP,
                source=Source.CGROUP,
                signal=signal,
                at=at,
                amount=float(rise),
            )
            for counter, signal in KILL_COUNTERS
            if (rise := rise_of(counter, {} if anew else base, reading.events)) > 0
        )

    def see_kills(self, kills: Iterable[KernelKill]) -> tuple[Evidence, ...]:
        """Kernel records of kills that concern this server; others' kills are nobody's business."""
        found = []
        for kill in kills:
            confidence = self.concerns_us(kill)
            if confidence is not None:
                found.append(
                    Evidence(
                        cause=Cause.HOST_OOM,
                        kind=kill.kind,
                        source=Source.KERNEL_LOG,
                        signal=signals.OOM_KILL_RECORD,
                        at=Instant(kill.at_monotonic, kill.at_unix),
                        confidence=confidence,
                        weight=WEIGHTS[confidence],
                    )
                )
        return tuple(found)

    def concerns_us(self, kill: KernelKill) -> Confidence | None:
        """How surely a kill hit this server: by cgroup, else by pid, else by name alone."""
        ours = self.path.strip("/") if self.path else ""
        if ours and kill.victim_cgroup is not None:
            return Confidence.CONFIRMED if is_within(kill.victim_cgroup, ours) else None
        if kill.pid is not None and same_name(self.pids.get(kill.pid), kill.comm):
            return Confidence.CONFIRMED
        if not ours and not self.pids and (kill.comm or "").startswith(SERVER_COMMS):
            return Confidence.SUSPECTED
        return None


def rise_of(counter: str, base: Mapping[str, int], now: Mapping[str, int]) -> int:
    """How much a counter rose; one that fell was reset and counts from zero."""
    value, before = now.get(counter, 0), base.get(counter, 0)
    return value - before if value >= before else value


def is_within(path: str, ours: str) -> bool:
    """Whether a cgroup path is ours or below it, also when ours is seen from a namespace."""
    parts, own = path.strip("/").split("/"), ours.split("/")
    return any(parts[start : start + len(own)] == own for start in range(len(parts)))


def same_name(known: str | None, printed: str | None) -> bool:
    """Whether a pid still is the process we knew: pids are used again, names then differ."""
    if known is None:
        return False
    return printed is None or known[:15] == printed[:15]


def survivors(before: Iterable[Process], now: Iterable[Process]) -> bool:
    """Whether every process that lived before still lives."""
    return {p.pid for p in before} <= {p.pid for p in now}
