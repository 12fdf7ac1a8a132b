"""Raw texts of a memory cgroup's files -> one reading, for both versions of the interface."""

from collections.abc import Mapping

from sidecar.model.readings import CgroupReading

V2_FILES = (
    "memory.events",
    "memory.events.local",
    "memory.current",
    "memory.max",
    "memory.peak",
    "memory.pressure",
)
V1_FILES = (
    "memory.oom_control",
    "memory.failcnt",
    "memory.usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.max_usage_in_bytes",
)
_V1_UNLIMITED = 1 << 60
"""v1 writes "no limit" as the largest page count times the page size, just below 2**63."""
_V1_EVENTS = frozenset({"oom_kill"})


def parse_cgroup(
    version: int, path: str, files: Mapping[str, str] | None, identity: int | None = None
) -> CgroupReading:
    """The reading these files hold; a file that is missing or odd leaves its value unknown.

    ``files`` maps names to raw texts; None means that the directory is not there.
    """
    if files is None:
        return CgroupReading(version=version, path=path, gone=True)
    read = _read_v1 if version == 1 else _read_v2
    return read(path, files, identity)


def _read_v2(path: str, files: Mapping[str, str], identity: int | None) -> CgroupReading:
    local = files.get("memory.events.local")
    return CgroupReading(
        version=2,
        path=path,
        identity=identity,
        events=_flat_keyed(files.get("memory.events", "")),
        local_events=None if local is None else _flat_keyed(local),
        current=_count(files.get("memory.current")),
        limit=_count(files.get("memory.max")),
        peak=_count(files.get("memory.peak")),
        pressure=_pressure(files.get("memory.pressure", "")),
    )


def _read_v1(path: str, files: Mapping[str, str], identity: int | None) -> CgroupReading:
    control = _flat_keyed(files.get("memory.oom_control", ""))
    events = {key: value for key, value in control.items() if key in _V1_EVENTS}
    failures = _count(files.get("memory.failcnt"))
    if failures is not None:
        events["max"] = failures
    limit = _count(files.get("memory.limit_in_bytes"))
    return CgroupReading(
        version=1,
        path=path,
        identity=identity,
        events=events,
        current=_count(files.get("memory.usage_in_bytes")),
        limit=None if limit is None or limit >= _V1_UNLIMITED else limit,
        peak=_count(files.get("memory.max_usage_in_bytes")),
    )


def _flat_keyed(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
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
