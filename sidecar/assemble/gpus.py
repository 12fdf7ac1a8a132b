"""Readings of the GPUs and of the processes over time -> whose memory it is, and what stays free. Pure.

NVML tells memory by pid of the host's pid namespace (``nvmlDeviceGetComputeRunningProcesses``). Only
where our own pids are the host's can the server's be told from anybody else's. Nothing is guessed:

- the server's own pids that are listed on a GPU hold ``vllm``; everybody else there is ``cotenant``;
- an engine without its API server, what remained of an earlier server, and a process that is dead
  but still listed, are nobody's: they count as co-tenant and are told apart as ``orphans``;
- where a size is hidden, or more than ``UNSEEN_BYTES`` are used by nobody who is listed, the split is
  ``HIDDEN``: ``cotenant`` is then the least that others hold, and None where that would be 0. If every
  listed pid is the server's and only sizes are missing, ``cotenant`` is 0: the list names everybody.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sidecar.assemble.gpu_free import FreeWatch
from sidecar.assemble.process_roles import is_engine, is_server, orphans_among
from sidecar.assemble.process_watch import Key, key_of
from sidecar.model.budget import GpuBudget, Sight
from sidecar.model.readings import Gpu, GpuProcess, NvmlReading, ProcessReading
from sidecar.model.samples import Instant

UNSEEN_BYTES = 1 << 30
"""Used memory of no listed process that is more than what the driver needs for itself and for the
contexts of those that are listed."""
LISTINGS_TO_GROW = 6
"""Listings of processes within which a new child of the server is in its tree for certain: all of
the host's are looked through at every fifth only."""


@dataclass(frozen=True, slots=True)
class Parties:
    """Pids of the driver's lists by whose they are. ``strange``: not ours for certain."""

    own: frozenset[int] = frozenset()
    orphaned: frozenset[int] = frozenset()
    strange: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Split:
    """One GPU's memory by whose it is; see ``GpuBudget``.

    ``strangers``: the least that others hold without the orphans, 0 where none are known.
    """

    sight: Sight
    vllm: int | None = None
    cotenant: int | None = None
    orphans: int | None = None
    strangers: int = 0


@dataclass(slots=True)
class Gpus:
    """The GPUs and the processes as last read, and what must be remembered of them.

    ``tree``: the server's processes as last listed; ``root`` the first of them. ``survivors``: those
    that an earlier server left. ``vanished``: pids that left the tree and that the driver still
    lists; those in ``lingering`` were listed after they had left, so that they are dead and hold on.
    ``listings``: how many there were; ``since`` how many when a pid appeared on a GPU.
    ``homes``: GPUs with the server's processes on them, by index. ``free``: by index and UUID.
    ``judged``: whose memory the last reading shows was told. ``known``: whose the pids are by what was
    read last.
    """

    reading: NvmlReading | None = None
    processes: ProcessReading | None = None
    serves: bool = False
    root: Key | None = None
    tree: frozenset[Key] = frozenset()
    survivors: frozenset[Key] = frozenset()
    vanished: frozenset[int] = frozenset()
    lingering: frozenset[int] = frozenset()
    listings: int = 0
    since: dict[int, int] = field(default_factory=dict)
    homes: set[int] = field(default_factory=set)
    shown: tuple[Gpu, ...] = ()
    free: dict[tuple[int, str], FreeWatch] = field(default_factory=dict)
    judged: bool = True
    known: Parties | None = None

    def feed(self, reading: NvmlReading, at: Instant, *, serves: bool) -> None:
        """The GPUs were read. ``serves``: the server serves, awake; else free memory proves nothing."""
        # A card that shows no processes any more leaves what was known of it as it is.
        if not self.judged or any(gpu.processes is None for gpu in reading.gpus):
            self.settle()
        self.reading, self.shown, self.serves = reading, reading.gpus, serves
        self.judged, self.known = False, None
        listed = frozenset(one.pid for gpu in reading.gpus for one in gpu.processes or ())
        self.vanished &= listed
        self.lingering = self.vanished
        self.since = {pid: self.since.get(pid, self.listings) for pid in listed}
        self.free = {
            key: self.free.get(key) or FreeWatch()
            for key in ((gpu.index, gpu.uuid) for gpu in reading.gpus)
        }
        for gpu in reading.gpus:
            self.watch_free(gpu, at)

    def watch_free(self, gpu: Gpu, at: Instant) -> None:
        """Add to what is known of one GPU's free memory."""
        watch = self.free[gpu.index, gpu.uuid]
        if not self.serves:
            watch.begin_anew()
        elif gpu.free is None or gpu.lost or gpu.mig:
            watch.miss()
        else:
            watch.see(at.monotonic, gpu.free)

    def judge(self) -> Mapping[int, Split]:
        """Whose memory it is on each GPU, once for every reading: empty if none has come since.

        To be asked when a tick's samples are all in: who is on a GPU and who belongs to the server
        are read apart, and in any order.
        """
        if self.judged or self.reading is None:
            return {}
        self.judged = True
        parties = self.settle()
        told = {}
        for gpu in self.reading.gpus:
            whose = told[gpu.index] = split(gpu, self.processes, parties)
            is_seen = whose.sight is Sight.SEEN
            self.free[gpu.index, gpu.uuid].see_others(whose.cotenant if is_seen else None)
        return told

    def miss(self) -> None:
        """The GPUs could not be read: what they were before says nothing of now."""
        self.settle()
        self.reading = self.known = None
        for watch in self.free.values():
            watch.miss()

    def see_processes(self, reading: ProcessReading | None) -> None:
        """The server's processes were listed; None: they could not be."""
        self.settle()
        self.processes, self.known = reading, None
        if reading is None:
            return
        self.listings += 1
        present = frozenset(map(key_of, reading.processes))
        pids = frozenset(one.pid for one in reading.processes)
        gone = frozenset(pid for pid, _ in self.tree - present) - pids
        self.vanished = (self.vanished | gone) - pids
        self.lingering -= pids
        self.survivors &= present
        self.see_root(reading, present)
        self.tree = present

    def see_root(self, reading: ProcessReading, present: frozenset[Key]) -> None:
        """Whether another server runs now: what lives of the one before is nobody's."""
        root = next((key for key in present if key[0] == reading.root), None)
        if root is None:
            return
        if self.root not in {None, root} and root not in self.tree:
            self.survivors = present & self.tree
            self.homes.clear()
            for watch in self.free.values():
                watch.begin_anew()
        self.root = root

    def settle(self) -> Parties:
        """Whose the pids are, worked out once for what was read last."""
        if self.known is None:
            self.known = self.parties()
            self.note_homes(self.known.own)
        return self.known

    def note_homes(self, own: frozenset[int]) -> None:
        """Keep on which GPUs the server is: one that is lost after that is missed."""
        for gpu in () if self.reading is None else self.reading.gpus:
            if gpu.processes is None or self.processes is None:
                continue
            if any(one.pid in own for one in gpu.processes):
                self.homes.add(gpu.index)
            else:
                self.homes.discard(gpu.index)

    def budgets(self, at: Instant) -> tuple[GpuBudget, ...]:
        """Each GPU of the last reading; after a failed one nothing but that it is there."""
        parties = self.settle()
        if self.reading is None:
            return tuple(
                GpuBudget(index=gpu.index, mig=gpu.mig, expected=gpu.index in self.homes)
                for gpu in self.shown
            )
        return tuple(self.budget(gpu, parties, at) for gpu in self.reading.gpus)

    def budget(self, gpu: Gpu, parties: Parties, at: Instant) -> GpuBudget:
        """One GPU. In MIG mode what is free on the card is not free for an instance of it."""
        whose = split(gpu, self.processes, parties)
        is_blind = gpu.mig or gpu.lost or gpu.free is None
        durable = None if is_blind else self.free[gpu.index, gpu.uuid].durable(at.monotonic)
        return GpuBudget(
            index=gpu.index,
            total=gpu.total,
            used=gpu.used,
            free=gpu.free,
            reserved=gpu.reserved,
            vllm=whose.vllm,
            cotenant=whose.cotenant,
            orphans=whose.orphans,
            free_durable=None if durable is None else durable.free,
            cotenant_durable=None if durable is None else durable.others,
            utilization=gpu.utilization,
            sight=whose.sight,
            mig=gpu.mig,
            lost=gpu.lost,
            expected=gpu.index in self.homes,
        )

    def parties(self) -> Parties:
        """Whose the pids are, as far as they are the host's."""
        reading = self.processes
        if reading is None or not reading.host_pids:
            return Parties()
        pids = frozenset(one.pid for one in reading.processes)
        left = {one.pid for one in orphans_among(reading.processes, reading.root)}
        left |= {pid for pid, _ in self.survivors}
        # The list of a process that ended just now may be older than its end.
        ending = self.vanished - self.lingering
        own = (pids - left) | ending
        orphaned = frozenset(left) | self.lingering
        strange = self.strangers(reading) - own - orphaned
        return Parties(own, orphaned, strange)

    def strangers(self, reading: ProcessReading) -> frozenset[int]:
        """Listed pids that belong to none of the server's processes for certain, if not to its tree.

        While the server starts, its children are in its tree late; while none of its processes is
        known that answers requests, one may be starting unseen.
        """
        if not any(
            is_server(one, reading.root) and not is_engine(one) for one in reading.processes
        ):
            return frozenset()
        latest = self.listings if self.serves else self.listings - LISTINGS_TO_GROW
        return frozenset(pid for pid, since in self.since.items() if since <= latest)


def split(gpu: Gpu, reading: ProcessReading | None, parties: Parties) -> Split:
    """Whose the memory of one GPU is."""
    if reading is not None and not reading.host_pids:
        return Split(Sight.OTHER_NAMESPACE)
    if gpu.processes is None or gpu.lost:
        return Split(Sight.HIDDEN)
    if not parties.own and not parties.orphaned:
        return Split(Sight.NO_SERVER)
    if any(one.pid <= 0 for one in gpu.processes):
        # So the driver lists a process of a namespace that ours does not see.
        return Split(Sight.OTHER_NAMESPACE)
    return split_by_pid(gpu, gpu.processes, parties)


def split_by_pid(gpu: Gpu, processes: Iterable[GpuProcess], parties: Parties) -> Split:
    """Whose the memory is where every pid says whose it is."""
    own, orphaned, others, unsure = [], [], [], []
    for one in processes:
        if one.pid in parties.own:
            own.append(one.used)
        elif one.pid in parties.orphaned:
            orphaned.append(one.used)
        elif one.pid in parties.strange:
            others.append(one.used)
        else:
            unsure.append(one.used)
    if gpu.mig and others and not unsure:
        # They are on the same card, perhaps on another instance, which takes nothing from ours.
        least = add(orphaned, at_least=True) or None
        return Split(Sight.HIDDEN, add(own), least, add(orphaned))
    whose = split_sizes(gpu, own, orphaned, others)
    if unsure:
        sight = Sight.HIDDEN if parties.own else Sight.NO_SERVER
        least = add(orphaned + others, at_least=True) or None
        whose = Split(sight, None, least, add(orphaned))
    return replace(whose, strangers=0 if gpu.mig else add(others, at_least=True) or 0)


def split_sizes(
    gpu: Gpu, own: list[int | None], orphaned: list[int | None], others: list[int | None]
) -> Split:
    """Whose the memory is where everybody who is listed is known."""
    vllm, cotenant, orphans = add(own), add(orphaned + others), add(orphaned)
    least = add(orphaned + others, at_least=True) or None
    if vllm is None or cotenant is None:
        return Split(Sight.HIDDEN, vllm, least if cotenant is None else cotenant, orphans)
    if gpu.used is not None and gpu.used - vllm - cotenant > UNSEEN_BYTES:
        return Split(Sight.HIDDEN, vllm or None, least, orphans or None)
    return Split(Sight.SEEN, vllm, cotenant, orphans)


def add(sizes: Iterable[int | None], *, at_least: bool = False) -> int | None:
    """The sum of sizes; None if one is not known, unless ``at_least`` those that are shall be added."""
    known = list(sizes)
    if None in known and not at_least:
        return None
    return sum(size for size in known if size is not None)
