"""The server's process tree, from /proc: names and sizes; of arguments known numbers only."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.assemble.process_roles import ENGINES, party_of
from sidecar.clock import ClockLike
from sidecar.model.limits import Limits
from sidecar.model.readings import Process, ProcessReading
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Party, Source
from sidecar.parse.launch_arguments import limits_of_argv
from sidecar.parse.recorded_limits import limits_row
from sidecar.sources.base import Tap, sample_of
from sidecar.thread import CallThread, Crew

PROC: Final = Path("/proc")
_LISTEN: Final = "0A"
_DEAD: Final = frozenset("ZXx")
_FORWARDERS: Final = frozenset({"docker-proxy", "rootlessport", "slirp4netns", "pasta", "passt"})
"""These listen on behalf of a server that lives elsewhere."""
_KNOWN_MOST: Final = 4096
_RETRY_SCANS: Final = 12
_ALL_EVERY: Final = 5
"""Every so many looks the processes of the host are listed, of which there may be thousands."""
_STRANGERS_EVERY: Final = 4
"""Every so many lists those are read again that were not ours: a pid may have recurred, an orphan may have
come to the server as its pid 1."""
_PARENTS_MOST: Final = 4
_STAT_BYTES: Final = 4096
_STATUS_BYTES: Final = 16 * 1024
_ARGUMENT_BYTES: Final = 64 * 1024
_PINNED_EVERY: Final = 12
"""Every so many looks the pinned memory is read, which costs as much as all the rest of a look."""
_PINNED: Final = (b"VmLck:", b"VmPin:")
_HOST_PIDS: Final = "pid:[4026531836]"
"""The host's own pid namespace: its number is fixed, ``PROC_PID_INIT_INO`` of ``linux/proc_ns.h``."""


@dataclass(frozen=True, slots=True)
class _Stat:
    """One line of ``/proc/PID/stat``; ``born`` (clock ticks since boot) tells pids apart that recur."""

    pid: int
    comm: str
    state: str
    ppid: int
    born: int
    rss_pages: int


class ProcessSource:
    """Follows the process ``pid``, or whichever listens on TCP ``port``, and all that it starts.

    A process seen in the tree once stays in it while it lives, also when its parents are gone.
    """

    name: Final = Source.PROCESS

    def __init__(
        self,
        clock: ClockLike,
        *,
        limit_s: float,
        pid: int | None = None,
        port: int | None = None,
        proc_root: Path = PROC,
        tap: Tap | None = None,
        crew: Crew | None = None,
    ) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._tree = _Tree(proc_root, pid, port)
        self._thread = CallThread("process", crew)
        self._tap = tap
        self._pids: tuple[int, ...] = ()

    @property
    def pids(self) -> Sequence[int]:
        """The processes that lived at the last look."""
        return self._pids

    @property
    def root_pid(self) -> int | None:
        """The server's first process; None before it was found, and after its death."""
        return self._tree.root_pid

    async def open(self) -> None:
        """Find the server, if it is there."""
        await self.sample()

    async def close(self) -> None:
        """Let the thread go."""
        self._thread.close()

    async def sample(self) -> Sample:
        """The tree now; empty once the server was there and none of its processes lives."""
        begun = self._clock.now()
        got = await self._thread.call(self._tree.read, self._limit_s)
        if isinstance(got, ProcessReading):
            self._pids = tuple(one.pid for one in got.processes)
            if self._tap is not None:
                self._tap(begun, _row(got))
        return sample_of(self.name, begun, self._clock.now(), got)


def _row(reading: ProcessReading) -> Mapping[str, object]:
    """The row of a recording."""
    processes = [
        {
            "pid": one.pid,
            "comm": one.comm,
            "rss": one.rss,
            "born": one.born,
            "pinned": one.pinned,
        }
        for one in reading.processes
    ]
    row: dict[str, object] = {
        "processes": processes,
        "root": reading.root,
        "host_pids": reading.host_pids,
    }
    if reading.limits:
        row["limits"] = limits_row(reading.limits)
    return row


class _Tree:
    """The closure over parents of all that was ever seen and lives; blocks."""

    def __init__(self, proc_root: Path, pid: int | None, port: int | None) -> None:
        self._proc = proc_root
        self._given = pid
        self._listeners = None if port is None else _Listeners(proc_root, port)
        self._known: dict[int, int] = {}
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._root: int | None = None
        self._looks = 0
        self._lists = 0
        self._listed: frozenset[str] = frozenset()
        self._strangers: frozenset[str] = frozenset()
        self._pinned: dict[int, int | None] = {}
        self._host_pids: bool | None = None
        self._told_by: tuple[int, int] | None = None
        self._limits: Limits = {}

    @property
    def root_pid(self) -> int | None:
        """The first process, while it lives."""
        return self._root if self._root in self._known else None

    def read(self) -> ProcessReading | Fault:
        """The living processes of the tree, by pid."""
        try:
            table = self._look()
        except PermissionError:
            return Fault.DENIED
        except OSError:
            return Fault.IO_ERROR
        self._known = {
            pid: born for pid, born in self._known.items() if _born(table.get(pid)) == born
        }
        if self.root_pid is None:
            # One that was there all the time may be the server now.
            table |= self._stats(self._strangers)
            fault = self._find(table)
            if fault is not None and not self._known:
                return fault if self._root is None else self._reading(table)
        self._grow(table.values())
        return self._reading(table)

    def _reading(self, table: dict[int, _Stat]) -> ProcessReading:
        if self._looks % _PINNED_EVERY == 1:
            self._pinned = {pid: _pinned(self._proc, pid) for pid in self._known}
        if self._host_pids is None:
            self._host_pids = _sees_host(self._proc)
        return ProcessReading(
            tuple(
                Process(
                    pid=pid,
                    comm=table[pid].comm,
                    rss=table[pid].rss_pages * self._page_bytes,
                    born=born,
                    pinned=self._pinned.get(pid),
                )
                for pid, born in sorted(self._known.items())
            ),
            root=self.root_pid,
            host_pids=self._host_pids,
            limits=self._limits_of_root(),
        )

    def _limits_of_root(self) -> Limits:
        """What the first process was told, read once; again at times while it told nothing.

        Who is given by its pid may be a shell still, that becomes the server.
        """
        root = self.root_pid
        told_by = None if root is None else (root, self._known[root])
        again = not self._limits and self._looks % _PINNED_EVERY == 1
        if told_by != self._told_by or again:
            self._told_by = told_by
            self._limits = {} if root is None else _limits(self._proc, root)
        return self._limits

    def _look(self) -> dict[int, _Stat]:
        """Those we know; at times, and whenever one of ours is gone, also who may be ours."""
        self._looks += 1
        if self.root_pid is not None and self._looks % _ALL_EVERY:
            table = self._stats(map(str, self._known))
            if all(_born(table.get(pid)) == born for pid, born in self._known.items()):
                return table
        return self._stats(self._list())

    def _list(self) -> frozenset[str]:
        """All processes of the host but those that were listed twice and were not ours."""
        self._lists += 1
        before, self._listed = self._listed, frozenset(os.listdir(self._proc))  # noqa: PTH208
        # Twice: a list may have missed a process, and then its child looks like a stranger.
        is_due = self._lists % _STRANGERS_EVERY == 0 or self.root_pid is None
        ours = frozenset(map(str, self._known))
        known = frozenset() if is_due else self._strangers - ours
        self._strangers = (self._listed & before) - ours
        return self._listed - known

    def _stats(self, names: Iterable[str]) -> dict[int, _Stat]:
        return {one.pid: one for one in _table(self._proc, names)}

    def _find(self, table: dict[int, _Stat]) -> Fault | None:
        """Look for the server's processes; a pid that was given is looked for until it was seen."""
        if self._given is not None:
            found: Iterable[int] | Fault = [self._given] if self._root is None else []
        elif self._listeners is not None:
            found = self._listeners.pids(table)
        else:
            found = []
        if isinstance(found, Fault):
            return found
        living = [table[pid] for pid in found if _born(table.get(pid)) is not None]
        if not living:
            return Fault.ABSENT
        living = [_main_of(one, table) for one in living]
        self._known |= {one.pid: one.born for one in living}
        self._root = min(living, key=lambda one: (one.born, one.pid)).pid
        return None

    def _grow(self, table: Iterable[_Stat]) -> None:
        children: dict[int, list[_Stat]] = {}
        for one in table:
            children.setdefault(one.ppid, []).append(one)
        pending = list(self._known)
        while pending and len(self._known) < _KNOWN_MOST:
            for child in children.get(pending.pop(), ()):
                if child.pid not in self._known and child.state not in _DEAD:
                    self._known[child.pid] = child.born
                    pending.append(child.pid)


class _Listeners:
    """Who holds a listening socket of a port. Looking through all descriptors is dear."""

    def __init__(self, proc_root: Path, port: int) -> None:
        self._proc = proc_root
        self._port = port
        self._failed: frozenset[str] = frozenset()
        self._fault = Fault.ABSENT
        self._skipped = 0

    def pids(self, table: dict[int, _Stat]) -> list[int] | Fault:
        """The pids, or that there is no such socket, or that we may not see whose it is."""
        sockets = frozenset(self._sockets())
        if not sockets:
            return Fault.ABSENT
        if sockets == self._failed and self._skipped < _RETRY_SCANS:
            self._skipped += 1
            return self._fault
        found, denied = self._scan(sockets, table)
        self._failed = frozenset() if found else sockets
        self._fault = Fault.DENIED if denied else Fault.ABSENT
        self._skipped = 0
        return found or self._fault

    def _scan(self, sockets: frozenset[str], table: dict[int, _Stat]) -> tuple[list[int], bool]:
        found, denied = [], False
        for one in table.values():
            # An engine inherits the socket of the server that forked it, and keeps it as an orphan.
            if one.comm in _FORWARDERS or one.state in _DEAD or party_of(one.comm) in ENGINES:
                continue
            try:
                if _holds(self._proc / str(one.pid) / "fd", sockets):
                    found.append(one.pid)
            except PermissionError:
                denied = True
            except OSError:
                continue
        return found, denied

    def _sockets(self) -> Iterator[str]:
        """Listening sockets as descriptors name them; rows as in ``proc_net_tcp.rst``."""
        for name in ("tcp", "tcp6"):
            try:
                text = (self._proc / "net" / name).read_text(errors="replace")
            except OSError:
                continue
            for line in text.splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[3] == _LISTEN:  # noqa: PLR2004  (inode is field 9)
                    port = fields[1].rpartition(":")[2]
                    if port == f"{self._port:04X}":
                        yield f"socket:[{fields[9]}]"


def _main_of(one: _Stat, table: dict[int, _Stat]) -> _Stat:
    """The server's first process: the front end in Rust, which listens, is a child of it."""
    parent = table.get(one.ppid)
    for _ in range(_PARENTS_MOST):
        if parent is None or party_of(parent.comm) is not Party.API_SERVER:
            return one
        one, parent = parent, table.get(parent.ppid)
    return one


def _pinned(proc_root: Path, pid: int) -> int | None:
    """Bytes that are locked or pinned (``proc_pid_status(5)``); None where we may not know."""
    try:
        with open(f"{proc_root}/{pid}/status", "rb") as file:  # noqa: PTH123  (as for stat)
            rows = [line.split() for line in file.read(_STATUS_BYTES).splitlines()]
        sizes = [int(row[1]) for row in rows if row and row[0] in _PINNED]
    except (OSError, ValueError, IndexError):
        return None
    return sum(sizes) * 1024 if sizes else None


def _limits(proc_root: Path, pid: int) -> Limits:
    """The limits on a command line (``proc_pid_cmdline(5)``): nothing else of it is kept."""
    try:
        with open(f"{proc_root}/{pid}/cmdline", "rb") as file:  # noqa: PTH123  (as for stat)
            text = file.read(_ARGUMENT_BYTES)
    except OSError:
        return {}
    # Behind the last NUL stands nothing, or what was cut.
    words = text.split(b"\0")[:-1]
    return limits_of_argv([word.decode("utf-8", "replace") for word in words])


def _sees_host(proc_root: Path) -> bool:
    """Whether our pids are the host's."""
    try:
        return os.readlink(proc_root / "self" / "ns" / "pid") == _HOST_PIDS  # noqa: PTH115
    except OSError:
        return False


def _holds(descriptors: Path, sockets: frozenset[str]) -> bool:
    with os.scandir(descriptors) as entries:
        for entry in entries:
            try:
                if os.readlink(entry.path) in sockets:  # noqa: PTH115  (thousands of them)
                    return True
            except FileNotFoundError:
                continue
    return False


def _table(proc_root: Path, names: Iterable[str]) -> Iterator[_Stat]:
    place = str(proc_root)
    for name in names:
        if not name.isdigit():
            continue
        try:
            text = _read(f"{place}/{name}/stat").decode("utf-8", "replace")
        except OSError:
            # It ended between the listing and the reading, or is hidden from us.
            continue
        stat = _stat(text)
        if stat is not None:
            yield stat


def _read(path: str) -> bytes:
    """A small file of the kernel, which gives it in one piece; by few calls, for there are thousands.

    Raises:
        OSError: it is not there, or not to be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _STAT_BYTES)
    finally:
        os.close(descriptor)


def _stat(text: str) -> _Stat | None:
    """The name may hold spaces and parentheses, hence its end is the last parenthesis."""
    head, _, tail = text.rpartition(")")
    pid, _, comm = head.partition(" (")
    fields = tail.split()
    try:
        return _Stat(
            pid=int(pid),
            comm=comm,
            state=fields[0],
            ppid=int(fields[1]),
            born=int(fields[19]),
            rss_pages=int(fields[21]),
        )
    except (ValueError, IndexError):
        return None


def _born(stat: _Stat | None) -> int | None:
    return None if stat is None or stat.state in _DEAD else stat.born
