"""Rows of ``cgroup.jsonl``: what was seen comes back; what cannot be is refused."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.readings import CgroupReading, Witness
from sidecar.model.vocabulary import Fault, Way
from sidecar.parse.cgroup import parse_cgroup
from sidecar.parse.recorded_cgroup import cgroup_row, read_cgroup_row

FILES = {"memory.events": "oom_kill 1\n", "memory.current": "5\n"}
COUNTS = st.integers(0, (1 << 64) - 1)
WITNESSES = st.builds(
    Witness,
    path=st.text(),
    identity=st.none() | COUNTS,
    kills=st.none() | COUNTS,
    children=st.none() | st.dictionaries(st.text(), COUNTS, max_size=5),
    settled=st.booleans(),
    current=st.none() | COUNTS,
    limit=st.none() | COUNTS,
    reclaimable=st.none() | COUNTS,
)
Row = dict[str, Any]


def row(**beside: object) -> Row:
    return {"version": 2, "path": "/x", "files": FILES, **beside}


@given(
    version=st.sampled_from([1, 2]),
    files=st.none() | st.just(FILES),
    identity=COUNTS,
    boot=st.none() | st.text(),
    way=st.none() | st.sampled_from(Way),
    inner=st.booleans(),
    userspace_kills=st.none() | COUNTS,
    host_available=st.none() | COUNTS,
    witness=st.none() | WITNESSES,
)
def test_what_was_seen_comes_back_from_its_row(
    version: int, files: dict[str, str] | None, identity: int, **beside: Any
) -> None:
    reading = replace(parse_cgroup(version, "/x", files, identity), **beside)
    assert read_cgroup_row(json.loads(json.dumps(cgroup_row(reading, files)))) == reading


def test_a_row_without_anything_beside_is_read() -> None:
    assert read_cgroup_row(row()) == CgroupReading(
        version=2, path="/x", events={"oom_kill": 1}, current=5
    )
    assert read_cgroup_row(row(files={})) is Fault.DENIED


def test_what_is_not_known_leaves_no_key() -> None:
    reading = parse_cgroup(2, "/x", FILES)
    assert set(cgroup_row(reading, FILES)) == {"version", "path", "files"}


WITNESS = {"path": "/", "identity": 1, "kills": 2, "children": {"x#3": 1}, "settled": True}


@pytest.mark.parametrize(
    "wrong",
    [
        {"identity": "7"},
        {"identity": 7.0},
        {"identity": -1},
        {"identity": 1 << 64},
        {"boot": 7},
        {"way": "magic"},
        {"way": ["pid"]},
        {"inner": 1},
        {"inner": "no"},
        {"userspace_kills": True},
        {"host_available": "much"},
        {"version": 3},
        {"version": None},
        {"files": "memory.events"},
        {"witness": 7},
        {"witness": []},
        {"witness": {}},
        {"witness": WITNESS | {"path": None}},
        {"witness": WITNESS | {"kills": "2"}},
        {"witness": WITNESS | {"kills": -2}},
        {"witness": WITNESS | {"children": ["x#3"]}},
        {"witness": WITNESS | {"children": 7}},
        {"witness": WITNESS | {"children": {"x#3": None}}},
        {"witness": WITNESS | {"settled": 1}},
        {"witness": WITNESS | {"limit": 1.5}},
    ],
    ids=str,
)
def test_a_value_of_another_kind_is_refused(wrong: Row) -> None:
    assert isinstance(read_cgroup_row(row(witness=WITNESS)), CgroupReading)
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        read_cgroup_row(row(**wrong))


@pytest.mark.parametrize("missing", ["version", "path", "files"])
def test_a_key_that_must_be_there_is_missed(missing: str) -> None:
    with pytest.raises(KeyError):
        read_cgroup_row({key: value for key, value in row().items() if key != missing})
