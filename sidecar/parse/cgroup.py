"""Raw texts of a memory cgroup's files -> one reading, for both versions of the interface."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sidecar.model.readings import CgroupReading
from sidecar.parse.container_id import container_id

V2_FILES = (
    "memory.events",
    "memory.events.local",
    "memory.current",
    "memory.max",
    "memory.peak",
    "memory.pressure",
    "memory.stat",
)
V1_FILES = (
    "memory.oom_control",
    "memory.failcnt",
    "memory.usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.stat",
)


@dataclass(frozen=True, slots=True)
class Names:
    """What one version of the interface calls things.

    ``cache``: the keys of ``memory.stat`` whose sum the kernel takes back before it kills. v1 counts
    there without ``total_`` what is in the cgroup itself, and has no key for its slab.
    """

    kills: str
    current: str
    limit: str
    cache: tuple[str, ...]
    shmem: str
    unevictable: str


NAMES: Mapping[int, Names] = {
    1: Names(
        kills="memory.oom_control",
        current="memory.usage_in_bytes",
        limit="memory.limit_in_bytes",
        cache=("total_active_file", "total_inactive_file"),
        shmem="total_shmem",
        unevictable="total_unevictable",
    ),
    2: Names(
        kills="memory.events",
        current="memory.current",
        limit="memory.max",
        cache=("active_file", "inactive_file", "slab_reclaimable"),
        shmem="shmem",
        unevictable="unevictable",
    ),
}
_V1_UNLIMITED = 1 << 60
"""v1 writes "no limit" as the largest page count times the page size, just below 2**63."""
_V1_EVENTS = frozenset({"oom_kill"})


def parse_cgroup(
    version: int, path: str, files: Mapping[str, str] | None, identity: int | None = None
) -> CgroupReading:
    """The reading these files hold; a file that is missing or odd leaves its value unknown.

    ``files`` maps names to raw texts; None means that the directory is not there.
    """
    container = container_id(path)
    if files is None:
        return CgroupReading(version=version, path=path, gone=True, container=container)
    read = _read_v1 if version == 1 else _read_v2
    names = NAMES[1 if version == 1 else 2]
    stat = _flat_keyed(files.get("memory.stat", ""), (*names.cache, names.shmem, names.unevictable))
    return replace(
        read(path, files, identity),
        container=container,
        current=_count(files.get(names.current)),
        limit=parse_limit(version, files.get(names.limit)),
        reclaimable=_reclaimable(names, stat),
        shmem=stat.get(names.shmem),
        unevictable=stat.get(names.unevictable),
    )


def parse_kills(text: str | None) -> int | None:
    """The count of OOM kills in ``memory.events`` (v2) or ``memory.oom_control`` (v1)."""
    return None if text is None else _flat_keyed(text).get("oom_kill")


def parse_limit(version: int, text: str | None) -> int | None:
    """A limit in bytes; None for none, or for a text that is no limit."""
    limit = _count(text)
    return None if limit is None or (version == 1 and limit >= _V1_UNLIMITED) else limit


def parse_bytes(text: str | None) -> int | None:
    """A file that holds one number; None where it holds none."""
    return _count(text)


def parse_reclaimable(version: int, text: str | None) -> int | None:
    """Bytes in ``memory.stat`` that the kernel takes back before it kills; None if not all is told."""
    return (
        None
        if text is None
        else _reclaimable(NAMES[version], _flat_keyed(text, NAMES[version].cache))
    )


def parse_available(meminfo: str) -> int | None:
    """MemAvailable of ``/proc/meminfo`` (proc(5)), in bytes."""
    for line in meminfo.splitlines():
        key, _, rest = line.partition(":")
        if key == "MemAvailable":
            number, _, unit = rest.strip().partition(" ")
            kibibytes = _count(number)
            return kibibytes * 1024 if kibibytes is not None and unit == "kB" else None
    return None


def _reclaimable(names: Names, stat: Mapping[str, int]) -> int | None:
    parts = [stat[key] for key in names.cache if key in stat]
    return sum(parts) if len(parts) == len(names.cache) else None


def _read_v2(path: str, files: Mapping[str, str], identity: int | None) -> CgroupReading:
    local = files.get("memory.events.local")
    return CgroupReading(
        version=2,
        path=path,
        identity=identity,
        events=_flat_keyed(files.get("memory.events", "")),
        local_events=None if local is None else _flat_keyed(local),
        peak=_count(files.get("memory.peak")),
        pressure=_pressure(files.get("memory.pressure", "")),
    )


def _read_v1(path: str, files: Mapping[str, str], identity: int | None) -> CgroupReading:
    control = _flat_keyed(files.get("memory.oom_control", ""))
    events = {key: value for key, value in control.items() if key in _V1_EVENTS}
    failures = _count(files.get("memory.failcnt"))
    if failures is not None:
        events["max"] = failures
    return CgroupReading(
        version=1,
        path=path,
        identity=identity,
        events=events,
        peak=_count(files.get("memory.max_usage_in_bytes")),
    )


def _flat_keyed(text: str, keys: Collection[str] | None = None) -> dict[str, int]:
    """The numbers by their keys; of ``memory.stat``, which has fifty, those in ``keys``."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        if keys is not None and key not in keys:
            continue
        number = _count(value)
        if key and number is not None:
            found[key] = number
    return found


def _count(text: str | None) -> int | None:
    # isascii: "²".isdigit() holds, and int() refuses it. 20 digits hold any 64-bit number.
    digits = (text or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 20 else None  # noqa: PLR2004


def _pressure(text: str) -> dict[str, float]:
    """Share of the last 10 s in which some, or all, tasks stood still for memory: 0 to 1."""
    shares: dict[str, float] = {}
    for line in text.splitlines():
        scope, *fields = line.split() or [""]
        for field in fields:
            name, _, value = field.partition("=")
            if scope in {"some", "full"} and name == "avg10":
                share = _percent(value)
                if share is not None:
                    shares[scope] = share
    return shares


def _percent(text: str) -> float | None:
    whole, _, part = text.partition(".")
    if _count(whole) is None or (part and _count(part) is None):
        return None
    return min(1.0, float(text) / 100)
