"""A row of ``cgroup.jsonl`` -> the reading it holds, and back.

A row must have ``version``, ``path`` and ``files``, the raw texts. What else was seen stands in keys
of its own, each of which may be missing: recordings of other programs have none of them.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final, TypeVar

from sidecar.model.readings import CgroupReading, Witness
from sidecar.model.vocabulary import Fault, Way
from sidecar.parse.cgroup import parse_cgroup

T = TypeVar("T", bool, int, str)
_LARGEST: Final = 1 << 64


def cgroup_row(reading: CgroupReading, files: Mapping[str, str] | None) -> dict[str, object]:
    """The row of one look: ``files`` are the texts of which ``reading`` was made."""
    row: dict[str, object] = {
        "version": reading.version,
        "path": reading.path,
        "files": None if files is None else dict(files),
    }
    beside: dict[str, object] = {
        "identity": reading.identity,
        "boot": reading.boot,
        "way": None if reading.way is None else reading.way.value,
        "inner": reading.inner or None,
        "anchored": reading.anchored or None,
        "userspace_kills": reading.userspace_kills,
        "host_available": reading.host_available,
        "witness": None if reading.witness is None else _plain(reading.witness),
    }
    return row | {key: value for key, value in beside.items() if value is not None}


def read_cgroup_row(row: Mapping[str, Any]) -> CgroupReading | Fault:
    """What a row says.

    Raises:
        KeyError: a key is missing that must be there.
        TypeError: a value is of another kind than it must be.
        ValueError: a value is none of those that can be.
    """
    files = row["files"]
    if files is not None and not files:
        return Fault.DENIED
    version = int(row["version"])
    if version not in {1, 2}:
        raise ValueError("no version of the interface")
    way = _optional(row, "way", str)
    reading = parse_cgroup(version, str(row["path"]), files, _number(row, "identity"))
    return replace(
        reading,
        boot=_optional(row, "boot", str),
        way=None if way is None else Way(way),
        inner=bool(_optional(row, "inner", bool)),
        anchored=bool(_optional(row, "anchored", bool)),
        userspace_kills=_number(row, "userspace_kills"),
        host_available=_number(row, "host_available"),
        witness=None if row.get("witness") is None else _witness(row["witness"]),
    )


def _witness(row: Mapping[str, Any]) -> Witness:
    path = row["path"]
    if not isinstance(path, str):
        raise TypeError("path")
    children = row.get("children")
    settled = _optional(row, "settled", bool)
    return Witness(
        path=path,
        identity=_number(row, "identity"),
        kills=_number(row, "kills"),
        children=None if children is None else {name: _whole(children[name]) for name in children},
        settled=settled is not False,
        current=_number(row, "current"),
        limit=_number(row, "limit"),
        reclaimable=_number(row, "reclaimable"),
    )


def _plain(witness: Witness) -> dict[str, object]:
    children = None if witness.children is None else dict(witness.children)
    return {**asdict(replace(witness, children=None)), "children": children}


def _optional(row: Mapping[str, Any], key: str, kind: type[T]) -> T | None:
    value = row.get(key)
    if value is not None and type(value) is not kind:
        raise TypeError(key)
    return value


def _number(row: Mapping[str, Any], key: str) -> int | None:
    value = row.get(key)
    return None if value is None else _whole(value)


def _whole(value: object) -> int:
    """A count, a size or an inode: never negative, and within 64 bits."""
    if type(value) is not int:
        raise TypeError("no whole number")
    if not 0 <= value < _LARGEST:
        raise ValueError("no count")
    return value
