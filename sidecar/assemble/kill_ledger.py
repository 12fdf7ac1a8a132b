"""Counters of kills that come, go and begin anew -> each kill once, or the word that it was not seen.

A cgroup counts for as long as its directory is there. What it counted after our last look at it is
lost with it, unless the cgroup above tells: in v2 its count includes that of children that are gone
(``cgroup-v2.rst``, ``memory.events`` is hierarchical). So the kills above that no living child
explains happened in one that vanished.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sidecar.model.readings import CgroupReading, Witness
from sidecar.model.saved_state import CgroupMemory
from sidecar.parse.container_id import is_pod

RESTART_S = 10.0
"""Seconds after the removal of the server's cgroup for which a kill in one that came and went is taken
for its own, where other containers come and go beside it. In its own pod nobody else does."""
ALL, LOCAL, GROUP, USERSPACE = "all", "local", "group", "userspace"


@dataclass(frozen=True, slots=True)
class Toll:
    """The kills told by one look.

    ``own``: in the server's cgroup itself; ``below``: in cgroups below it. ``witnessed``: in it after
    the last look, before it was removed; not ``sure`` where another cgroup vanished at the same time
    and the kill may have been there. ``group``: groups that were killed whole. ``userspace``: by
    systemd-oomd. ``unseen``: the cgroup went, and nothing tells what it counted after the last look.
    """

    own: int = 0
    below: int = 0
    witnessed: int = 0
    sure: bool = True
    group: int = 0
    userspace: int = 0
    unseen: bool = False


@dataclass(slots=True)
class KillLedger:
    """The counters as they were last accounted for; when the cgroup went, on the monotonic clock."""

    known: CgroupMemory | None = None
    gone_at: float | None = None

    def see(self, reading: CgroupReading, now: float) -> Toll:
        """Account for a look. The first one of a boot is the baseline: its kills are of the past."""
        before = self.known
        if before is None or is_other_boot(before, reading):
            self.known = None if reading.gone else remember(reading, counts_of(reading))
            return Toll()
        if reading.gone:
            return self.see_gone(before, reading, now)
        if is_same_directory(before, reading):
            return self.see_again(before, reading)
        return self.see_successor(before, reading)

    def see_again(self, before: CgroupMemory, reading: CgroupReading) -> Toll:
        """The same cgroup: what rose was counted in it."""
        counts = counts_of(reading, before.counts)
        toll = rise_of(before.counts, counts)
        witness = reading.witness
        if witness is None or witness.settled:
            self.known = remember(reading, {**before.counts, **counts})
        else:
            # The numbers above do not belong together: those of the look before are kept, and what
            # was told since is not to be told again from above.
            self.known = replace(
                before,
                counts={**before.counts, **counts},
                counted=before.counted + toll.own + toll.below,
            )
        return toll

    def see_gone(self, before: CgroupMemory, reading: CgroupReading, now: float) -> Toll:
        """No cgroup: what it counted at the end is told from above, or by nobody."""
        witness = reading.witness
        was_there = not before.gone
        if witness is not None and is_same_witness(before, witness) and is_early(before, witness):
            return Toll()
        if was_there:
            self.gone_at = now
        self.known = after(before, witness)
        told = unexplained(before, witness)
        if told is None:
            return Toll(unseen=was_there)
        kills, alone = told
        if was_there or self.may_be_ours(witness, now):
            # Where ours was gone before, the kill hit one that came and went between two looks.
            return Toll(witnessed=kills, sure=alone and was_there)
        return Toll(unseen=kills > 0)

    def may_be_ours(self, witness: Witness | None, now: float) -> bool:
        """Whether what came and went unseen, while ours was gone, was made in its place."""
        if witness is not None and is_pod(witness.path):
            return True
        return self.gone_at is not None and now - self.gone_at <= RESTART_S

    def see_successor(self, before: CgroupMemory, reading: CgroupReading) -> Toll:
        """Another cgroup: the one before went, this one came to be, or the server is another."""
        witness = reading.witness
        counts = counts_of(reading)
        base = base_of(before, reading)
        own = rise_of(base, counts) if base is not None else Toll()
        self.known = remember(reading, counts)
        stranger = base is None and counts.get(ALL, 0) > 0
        if witness is not None and holds(witness.children, before.identity):
            # The one before is there still: the server moved.
            return replace(own, unseen=stranger)
        told = unexplained(before, witness)
        was_there = not before.gone
        if told is None:
            return replace(own, unseen=was_there or stranger)
        kills, alone = told
        return replace(own, witnessed=kills, sure=alone and was_there, unseen=stranger)


def is_other_boot(before: CgroupMemory, reading: CgroupReading) -> bool:
    """Whether the machine was started anew: its counters then began at zero."""
    return None not in {before.boot, reading.boot} and before.boot != reading.boot


def is_same_directory(before: CgroupMemory, reading: CgroupReading) -> bool:
    """Whether a look is of the same directory. Where no inode is told, the path decides."""
    if reading.identity is None:
        return before.path == reading.path
    return before.path == reading.path and before.identity == reading.identity


def is_same_witness(before: CgroupMemory, witness: Witness) -> bool:
    """Whether the count above goes on from the one that we know. v1 has none."""
    return (
        before.witness_kills is not None
        and witness.kills is not None
        and before.witness_path == witness.path
        and before.witness_identity == witness.identity
    )


def counts_of(reading: CgroupReading, before: Mapping[str, int] | None = None) -> dict[str, int]:
    """The counters that a look could read.

    Where kills in the cgroup itself are not counted apart (v1, Linux before 5.2, or this look did not
    read them), all that rose since the look ``before`` are taken for its own.
    """
    counts: dict[str, int] = {}
    if "oom_kill" in reading.events:
        every = counts[ALL] = reading.events["oom_kill"]
        known = before or {}
        guess = known.get(LOCAL, every) + risen(known.get(ALL, every), every)
        counts[LOCAL] = (reading.local_events or {}).get("oom_kill", guess)
    # Older kernels than 5.17 do not count groups; all others count those below apart.
    if reading.local_events is not None and "oom_group_kill" in reading.local_events:
        counts[GROUP] = reading.local_events["oom_group_kill"]
    if reading.userspace_kills is not None:
        counts[USERSPACE] = reading.userspace_kills
    return counts


def rise_of(base: Mapping[str, int], now: Mapping[str, int]) -> Toll:
    """What rose. A counter that was not readable before is its own baseline."""
    rise = {name: risen(base.get(name, value), value) for name, value in now.items()}
    own = rise.get(LOCAL, 0)
    return Toll(
        own=own,
        below=max(0, rise.get(ALL, 0) - own),
        group=rise.get(GROUP, 0),
        userspace=rise.get(USERSPACE, 0),
    )


def risen(before: int, now: int) -> int:
    """How much a counter rose; one that fell began anew."""
    return now - before if now >= before else now


def base_of(before: CgroupMemory, reading: CgroupReading) -> Mapping[str, int] | None:
    """What another cgroup had counted at the last look; None where nobody knows."""
    zero = dict.fromkeys((ALL, LOCAL, GROUP, USERSPACE), 0)
    witness = reading.witness
    beside = witness is not None and (before.witness_path, before.witness_identity) == (
        witness.path,
        witness.identity,
    )
    if beside and before.children is not None:
        known = [n for key, n in before.children.items() if is_key_of(key, reading.identity)]
        if not known:
            return zero
        counts = counts_of(reading)
        new = max(0, counts.get(ALL, 0) - known[0])
        return {**counts, ALL: known[0], LOCAL: max(0, counts.get(LOCAL, 0) - new)}
    # The same name with another directory was made anew, at a restart of the container or unit.
    return zero if before.path == reading.path else None


def unexplained(before: CgroupMemory, witness: Witness | None) -> tuple[int, bool] | None:
    """The kills counted above that no child explains, and whether only ours is missing there.

    None where the numbers cannot tell.
    """
    if witness is None or not witness.settled or not is_same_witness(before, witness):
        return None
    if before.children is None or witness.children is None:
        return None
    above = (witness.kills or 0) - (before.witness_kills or 0) - before.counted
    explained = sum(now - before.children.get(key, 0) for key, now in witness.children.items())
    lost = before.children.keys() - witness.children.keys()
    others = [key for key in lost if not is_key_of(key, before.identity)]
    return max(0, above - explained), not others


def is_key_of(key: str, identity: int | None) -> bool:
    """Whether ``name#inode`` is the child with this inode."""
    return identity is not None and key.rpartition("#")[2] == str(identity)


def is_early(before: CgroupMemory, witness: Witness) -> bool:
    """Whether the look came amid the removal: the next one tells."""
    return not witness.settled or holds(witness.children, before.identity)


def holds(children: Mapping[str, int] | None, identity: int | None) -> bool:
    """Whether a child with this inode is among the children."""
    return any(is_key_of(key, identity) for key in children or ())


def remember(reading: CgroupReading, counts: Mapping[str, int]) -> CgroupMemory:
    """A look as the base of the next one."""
    return with_witness(
        CgroupMemory(
            boot=reading.boot,
            path=reading.path,
            identity=reading.identity,
            container=reading.container,
            way=reading.way,
            inner=reading.inner,
            anchored=reading.anchored,
            counts=counts,
        ),
        reading.witness,
    )


def after(before: CgroupMemory, witness: Witness | None) -> CgroupMemory:
    """The memory of a cgroup that is gone and accounted for."""
    return with_witness(replace(before, gone=True), witness)


def with_witness(memory: CgroupMemory, witness: Witness | None) -> CgroupMemory:
    """The memory with the witness of the same look."""
    return replace(
        memory,
        witness_path=None if witness is None else witness.path,
        witness_identity=None if witness is None else witness.identity,
        witness_kills=None if witness is None else witness.kills,
        children=None if witness is None else witness.children,
        counted=0,
    )
