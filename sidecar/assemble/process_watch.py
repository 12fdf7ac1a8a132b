"""One listing of processes after the other -> engines that were lost, and servers that were replaced."""

from dataclasses import dataclass, field

from sidecar.assemble.process_roles import is_engine, is_server, orphans_among
from sidecar.model.readings import Process, ProcessReading
from sidecar.model.samples import Instant

ESTABLISHED_LOOKS = 2
"""Listings that an engine must be in to be missed: a program that it starts bears its name at first."""

Key = tuple[int, int | None]
"""Pid, and when it began: pids are used again."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Engines that vanished while the API server lived: when, and how many there were before."""

    at: Instant
    engines: int


@dataclass(slots=True)
class ProcessWatch:
    """What the listings have shown of one server.

    ``root``: its first process, as it was last seen to live. ``replaced``: the last listing shows
    another one, which was not among the processes before. ``loss``: not made good so far.
    ``masterless``: since when engines live without an API server.
    """

    root: Key | None = None
    replaced: bool = False
    loss: Loss | None = None
    masterless: Instant | None = None
    orphans: int = 0
    looks: dict[Key, int] = field(default_factory=dict)
    before: frozenset[Key] = frozenset()

    def see(self, reading: ProcessReading, at: Instant) -> None:
        """Take in a listing."""
        self.see_root(reading)
        self.orphans = len(orphans_among(reading.processes, reading.root))
        has_server = any(
            is_server(one, reading.root) and not is_engine(one) for one in reading.processes
        )
        is_masterless = self.orphans > 0 and not has_server
        self.masterless = (self.masterless or at) if is_masterless else None
        self.see_engines(reading, at, has_server=has_server)
        self.before = frozenset(map(key_of, reading.processes))

    def see_root(self, reading: ProcessReading) -> None:
        """Whether the server was replaced: not by one of its own children, which outlived it."""
        root = next((key_of(one) for one in reading.processes if one.pid == reading.root), None)
        if root is None:
            self.replaced = False
            return
        self.replaced = self.root not in {None, root} and root not in self.before
        self.root = root

    def see_engines(self, reading: ProcessReading, at: Instant, *, has_server: bool) -> None:
        """Which engines are missed."""
        present = {key_of(one) for one in reading.processes if is_engine(one)}
        established = {key for key, looks in self.looks.items() if looks >= ESTABLISHED_LOOKS}
        self.looks = {key: self.looks.get(key, 0) + 1 for key in present}
        if self.loss is None and not established <= present:
            self.loss = Loss(at, len(established))
        if self.loss is None:
            return
        if self.replaced or not has_server or len(present) >= self.loss.engines:
            self.loss = None


def key_of(process: Process) -> Key:
    """What tells a process from all others."""
    return process.pid, process.born
