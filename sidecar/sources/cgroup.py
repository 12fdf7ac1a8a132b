"""The memory cgroup of the server: its counters, which survive the processes they count.

Two interfaces (kernel documentation ``cgroup-v2.rst`` and ``cgroup-v1/memory.rst``), and hosts
that mount both. Of a process it is found through ``/proc/PID/cgroup`` and the mounts; a kill is
announced by the kernel, as a change of ``memory.events`` (v2) or through an eventfd (v1).
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from sidecar.clock import ClockLike
from sidecar.model.readings import CgroupReading
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.parse.cgroup import V1_FILES, V2_FILES, parse_cgroup
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.thread import CallThread
from sidecar.sources.wakeup import Wakeup, inotify

PROC: Final = Path("/proc")
CGROUP: Final = Path("/sys/fs/cgroup")
_FILE_BYTES: Final = 65536
_KILLS: Final = ("oom", "oom_kill", "oom_group_kill")
_SETTLE_S: Final = 0.05
_SETTLE_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class _Mount:
    """One mounted hierarchy: ``root`` of it appears at ``point``."""

    version: int
    root: str
    point: Path


@dataclass(frozen=True, slots=True)
class _Directory:
    """A memory cgroup: where it is, and its ``name`` as the kernel log writes it."""

    version: int
    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class _Raw:
    """What one visit brought; ``files`` None if the directory is not there any more."""

    directory: _Directory
    identity: int | None
    files: Mapping[str, str] | None


class CgroupSource:
    """Reads the cgroup at ``path``, or the one of the process that ``pid`` names at that moment.

    The cgroup of a process that died stays the one that is read, for its counters tell why.
    """

    name: Final = Source.CGROUP

    def __init__(
        self,
        clock: ClockLike,
        *,
        limit_s: float,
        path: Path | None = None,
        pid: Callable[[], int | None] | None = None,
        proc_root: Path = PROC,
        cgroup_root: Path = CGROUP,
        tap: Tap | None = None,
    ) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._pid = pid
        self._finder = _Finder(path, proc_root, cgroup_root)
        self._thread = CallThread("cgroup")
        self._wakeup = Wakeup()
        self._watched: tuple[Path, int | None] | None = None
        self._directory: _Directory | None = None
        self._kills: Mapping[str, int] = {}
        self._tap = tap

    async def open(self) -> None:
        """Find the cgroup and begin to watch it, if it is there."""
        await self.sample()

    async def close(self) -> None:
        """Stop watching."""
        self._wakeup.close()
        self._thread.close()

    async def sample(self) -> Sample:
        """The counters now."""
        begun = self._clock.now()
        pid = self._pid() if self._pid is not None else None
        raw = await self._thread.call(lambda: self._finder.visit(pid), self._limit_s)
        got: CgroupReading | Fault = raw if isinstance(raw, Fault) else self._reading(raw)
        sample = sample_of(self.name, begun, self._clock.now(), got)
        if self._tap is not None and isinstance(raw, _Raw):
            where = raw.directory
            files = None if raw.files is None else dict(raw.files)
            self._tap(begun, {"version": where.version, "path": where.name, "files": files})
        return sample

    async def wait(self) -> None:
        """Return when a kill was counted, or the server's cgroup got into an OOM; else never."""
        while True:
            await self._wakeup.wait()
            if await self._killed():
                return

    def _reading(self, raw: _Raw) -> CgroupReading:
        where = raw.directory
        reading = parse_cgroup(where.version, where.name, raw.files, raw.identity)
        target = (where.path, raw.identity)
        if raw.files is not None and target != self._watched:
            self._wakeup.arm(_watch(where))
            self._watched, self._directory = target, where
            self._kills = _kills(where)
        return reading

    async def _killed(self) -> bool:
        """Whether a kill was counted since the last look.

        Most wake-ups say that a limit was met and memory reclaimed. v1 wakes before it kills,
        and on removal of the cgroup, so that there the count is awaited for a while.
        """
        where = self._directory
        if where is None:
            return False
        for _ in range(_SETTLE_MOST if where.version == 1 else 1):
            await self._clock.pause(_SETTLE_S)
            now = _kills(where)
            if now != self._kills:
                self._kills = now
                return True
        return where.version == 1


class _Finder:
    """Finds the directory and reads its files; blocks, and remembers where it was."""

    def __init__(self, path: Path | None, proc_root: Path, cgroup_root: Path) -> None:
        self._path = path
        self._proc = proc_root
        self._cgroup = cgroup_root
        self._found: _Directory | None = None

    def visit(self, pid: int | None) -> _Raw | Fault:
        """The raw files of the directory that is meant now."""
        found = self._locate(pid)
        if isinstance(found, Fault):
            return found
        self._found = found
        return _read(found)

    def _locate(self, pid: int | None) -> _Directory | Fault:
        if self._path is not None:
            return self._explicit(self._path)
        current = self._of(pid) if pid is not None else Fault.ABSENT
        if isinstance(current, _Directory):
            # On v1 a process that exits is shown in the root cgroup before it is gone.
            leaving = self._found is not None and current.name == "/" != self._found.name
            return self._found if leaving and self._found is not None else current
        return self._found or current

    def _explicit(self, path: Path) -> _Directory | Fault:
        """A path in the file system, or a cgroup's name as systemd and the kernel write it."""
        name = str(path).lstrip("/")
        roots = (path, self._cgroup / name, self._cgroup / "memory" / name)
        for root in roots:
            version = _version(root)
            if version is not None:
                return _Directory(version, root, self._name(root) or str(path))
        return self._found or Fault.ABSENT

    def _name(self, directory: Path) -> str | None:
        mounts = [mount for mount in self._mounts() if directory.is_relative_to(mount.point)]
        if not mounts:
            return None
        mount = max(mounts, key=lambda one: len(one.point.parts))
        below = directory.relative_to(mount.point)
        return str(PurePosixPath(mount.root) / below.as_posix())

    def _of(self, pid: int) -> _Directory | Fault:
        try:
            text = (self._proc / str(pid) / "cgroup").read_text(errors="replace")
        except PermissionError:
            return Fault.DENIED
        except OSError:
            return Fault.ABSENT
        member = _membership(text)
        if member is None:
            return Fault.UNSUPPORTED
        version, name = member
        for path in self._candidates(pid, version, name):
            if _version(path) == version:
                return _Directory(version, path, name)
        return Fault.DENIED

    def _candidates(self, pid: int, version: int, name: str) -> Iterator[Path]:
        for mount in self._mounts():
            if mount.version == version:
                below = _below(name, mount.root)
                if below is not None:
                    yield mount.point / below
        # Another container's view of its own cgroup, where the pod shares its process namespace.
        inside = self._proc / str(pid) / "root" / str(CGROUP).lstrip("/")
        yield inside / "memory" if version == 1 else inside

    def _mounts(self) -> list[_Mount]:
        try:
            text = (self._proc / "self" / "mountinfo").read_text(errors="replace")
        except OSError:
            text = ""
        found = [mount for line in text.splitlines() if (mount := _mount(line, self._cgroup))]
        usual = (
            _Mount(1, "/", self._cgroup / "memory"),
            _Mount(2, "/", self._cgroup),
            _Mount(2, "/", self._cgroup / "unified"),
        )
        return found or list(usual)


def _membership(text: str) -> tuple[int, str] | None:
    """Version and name of the memory cgroup in ``/proc/PID/cgroup``: v1 wins where both stand."""
    unified: str | None = None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if "memory" in controllers.split(","):
            return 1, name
        if number == "0" and not controllers and name:
            unified = name.removesuffix(" (deleted)")
    return None if unified is None else (2, unified)


def _mount(line: str, cgroup_root: Path) -> _Mount | None:
    """A line of mountinfo (``proc_pid_mountinfo(5)``), if it mounts memory cgroups."""
    before, _, after = line.partition(" - ")
    fields, kind = before.split(" "), after.split(" ")
    if len(fields) < 5 or len(kind) < 3:  # noqa: PLR2004  (the fields used below)
        return None
    if kind[0] == "cgroup2":
        version = 2
    elif kind[0] == "cgroup" and "memory" in kind[2].split(","):
        version = 1
    else:
        return None
    point = Path(_unescaped(fields[4]))
    if point.is_relative_to(CGROUP):
        point = cgroup_root / point.relative_to(CGROUP)
    return _Mount(version, _unescaped(fields[3]), point)


def _unescaped(text: str) -> str:
    for code, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, plain)
    return text


def _below(name: str, root: str) -> str | None:
    """``name`` relative to ``root``; None for a cgroup outside of what is mounted."""
    path = PurePosixPath(name)
    if ".." in path.parts or not path.is_relative_to(root):
        return None
    return str(path.relative_to(root))


def _version(directory: Path) -> int | None:
    if (directory / "memory.usage_in_bytes").exists():
        return 1
    if any((directory / name).exists() for name in ("memory.events", "memory.current")):
        return 2
    return None


def _read(directory: _Directory) -> _Raw | Fault:
    try:
        identity = directory.path.stat().st_ino
    except FileNotFoundError:
        return _Raw(directory, None, None)
    except PermissionError:
        return Fault.DENIED
    except OSError:
        return Fault.IO_ERROR
    files: dict[str, str] = {}
    denied = False
    for name in V1_FILES if directory.version == 1 else V2_FILES:
        try:
            files[name] = _text(directory.path / name)
        except PermissionError:
            denied = True
        except OSError:
            # Not in this kernel, switched off (PSI: EOPNOTSUPP), or removed meanwhile (ENODEV).
            continue
    if files:
        return _Raw(directory, identity, files)
    if denied:
        return Fault.DENIED
    return Fault.UNSUPPORTED if directory.path.exists() else _Raw(directory, None, None)


def _text(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _FILE_BYTES).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _kills(directory: _Directory) -> Mapping[str, int]:
    """The counts of kills here, and in the parent, whose count outlives a removed container."""
    if directory.version == 1:
        places = {"here": directory.path / "memory.oom_control"}
    else:
        places = {
            "here": directory.path / "memory.events",
            "above": directory.path.parent / "memory.events",
        }
    counts: dict[str, int] = {}
    for place, path in places.items():
        try:
            file = {path.name: _text(path)}
        except OSError:
            continue
        events = parse_cgroup(directory.version, "", file).events
        counts |= {f"{place}.{key}": events[key] for key in _KILLS if key in events}
    return counts


def _watch(directory: _Directory) -> int | None:
    """A descriptor that the kernel makes readable around kills; None if it will not."""
    if directory.version == 1:
        return _watch_oom_control(directory.path)
    above = directory.path.parent / "memory.events"
    return inotify((directory.path / "memory.events", above))


def _watch_oom_control(path: Path) -> int | None:
    try:
        control = os.open(path / "memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        registry = os.open(path / "cgroup.event_control", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(registry, f"{event} {control}".encode())
        finally:
            os.close(registry)
    except OSError:
        os.close(event)
        return None
    finally:
        # The registration lives as long as the eventfd, and needs this descriptor no more.
        os.close(control)
    return event
