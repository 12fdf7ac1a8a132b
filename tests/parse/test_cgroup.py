"""What the raw files of a memory cgroup say, in both versions."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.parse.cgroup import (
    V1_FILES,
    V2_FILES,
    parse_available,
    parse_cgroup,
    parse_kills,
    parse_limit,
    parse_reclaimable,
)

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"


def recorded(name: str) -> list[dict[str, Any]]:
    with gzip.open(RECORDINGS / name / "cgroup.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def test_a_recorded_v1_kill_is_read() -> None:
    rows = recorded("f1_host_oom_enginecore")
    first, last = (parse_cgroup(1, "/vllm", rows[i]["files"], 7) for i in (0, -1))
    assert first.events == {"oom_kill": 0, "max": 0}
    assert last.events == {"oom_kill": 1, "max": 3529}
    assert (last.limit, last.peak, last.current) == (2411724800, 2411724800, 401408)
    assert (last.local_events, last.identity, last.gone) == (None, 7, False)


def test_a_recorded_v2_kill_is_read() -> None:
    last = parse_cgroup(2, "/vllm", recorded("v2_host_oom")[-1]["files"])
    assert last.events == {
        "low": 0, "high": 0, "max": 1575, "oom": 1, "oom_kill": 1, "oom_group_kill": 0,
    }  # fmt: skip
    assert last.local_events == last.events
    assert (last.limit, last.peak) == (2726297600, 2726297600)
    assert last.pressure == {}


@pytest.mark.parametrize(
    ("version", "file", "text"),
    [
        (1, "memory.limit_in_bytes", "9223372036854771712\n"),
        (1, "memory.limit_in_bytes", "9223372036854710272\n"),
        (1, "memory.limit_in_bytes", "9223372036854775807\n"),
        (2, "memory.max", "max\n"),
    ],
)
def test_no_limit_is_none(version: int, file: str, text: str) -> None:
    assert parse_cgroup(version, "/x", {file: text}).limit is None


def test_pressure_is_a_share_of_the_last_ten_seconds() -> None:
    text = "some avg10=12.50 avg60=1.00 avg300=0.00 total=99\nfull avg10=0.00 avg60=0 total=1\n"
    assert parse_cgroup(2, "/x", {"memory.pressure": text}).pressure == {"some": 0.125, "full": 0.0}


def test_a_removed_directory_is_gone_and_not_zero() -> None:
    reading = parse_cgroup(2, "/x", None)
    assert (reading.gone, reading.events, reading.current) == (True, {}, None)


def test_a_file_that_is_missing_leaves_its_value_unknown() -> None:
    reading = parse_cgroup(2, "/x", {"memory.current": "5\n"})
    assert (reading.current, reading.events, reading.local_events) == (5, {}, None)
    assert (reading.peak, reading.limit) == (None, None)


def test_what_the_kernel_takes_back_and_what_it_cannot_is_read() -> None:
    """A real cgroup after its kill: the page cache is left."""
    last = parse_cgroup(2, "/vllm", recorded("v2_host_oom")[-1]["files"])
    assert last.reclaimable == 176128 + 69632 + 8880
    assert (last.shmem, last.unevictable) == (8192, 0)


V1_STAT = """cache 275877888
inactive_file 8192
active_file 159744
hierarchical_memory_limit 9223372036854771712
total_shmem 9068544
total_inactive_file 126423040
total_active_file 140386304
total_unevictable 16777216
"""


def test_v1_counts_what_is_below_under_names_of_its_own() -> None:
    reading = parse_cgroup(1, "/x", {"memory.stat": V1_STAT})
    assert reading.reclaimable == 126423040 + 140386304
    assert (reading.shmem, reading.unevictable) == (9068544, 16777216)


@pytest.mark.parametrize("missing", ["active_file", "inactive_file", "slab_reclaimable"])
def test_a_part_that_is_not_told_leaves_the_sum_unknown(missing: str) -> None:
    stat = {"active_file": 1, "inactive_file": 2, "slab_reclaimable": 3}
    del stat[missing]
    text = "".join(f"{key} {value}\n" for key, value in stat.items())
    assert parse_cgroup(2, "/x", {"memory.stat": text}).reclaimable is None
    assert parse_reclaimable(2, text) is None


@pytest.mark.parametrize(
    ("text", "available"),
    [
        ("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:   24659464 kB\n", 24659464 * 1024),
        ("MemAvailable: 4\n", None),
        ("MemAvailable: many kB\n", None),
        ("MemFree: 1 kB\n", None),
        ("", None),
    ],
)
def test_the_hosts_available_memory_is_in_kibibytes(text: str, available: int | None) -> None:
    assert parse_available(text) == available


@pytest.mark.parametrize(
    ("text", "kills"),
    [
        ("oom_kill_disable 0\nunder_oom 1\noom_kill 3\n", 3),
        ("low 0\noom_kill 4\noom_group_kill 1\n", 4),
        ("oom_kill_disable 0\nunder_oom 0\n", None),
        ("", None),
        (None, None),
    ],
)
def test_a_count_of_kills_that_is_not_there_is_no_zero(text: str | None, kills: int | None) -> None:
    """Linux before 4.13 has none in v1."""
    assert parse_kills(text) == kills


@given(st.sampled_from([1, 2]), st.text())
def test_any_small_text_is_read_without_an_error(version: int, text: str) -> None:
    for value in (parse_limit(version, text), parse_available(text), parse_kills(text)):
        assert value is None or value >= 0


@given(
    st.sampled_from([1, 2]),
    st.dictionaries(st.sampled_from(V1_FILES + V2_FILES), st.text()),
)
def test_any_text_is_read_without_an_error(version: int, files: dict[str, str]) -> None:
    reading = parse_cgroup(version, "/x", files)
    assert all(value >= 0 for value in reading.events.values())
    assert all(0 <= share <= 1 for share in reading.pressure.values())
