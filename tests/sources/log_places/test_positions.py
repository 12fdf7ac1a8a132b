"""A position survives JSON and finds its place again, or is given up."""

import errno
import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.sources.log_places.portion import Portion
from sidecar.sources.log_places.position import (
    FilePosition,
    FilesPosition,
    JournalPosition,
    PodPosition,
    Position,
    from_json,
    to_json,
)
from sidecar.sources.tail import Tail

LINE = b"2026-01-31 a line that tells this file from every other one that there is\n"


@pytest.mark.parametrize(
    "position",
    [
        FilesPosition({"/a": FilePosition(1, 2, 3, "ff", 4), "/b": FilePosition(1, 3, 0, "", 0)}),
        FilesPosition({}),
        JournalPosition("s=1;i=2"),
        PodPosition("2026-01-31T10:00:00.5Z", 3),
    ],
)
def test_a_position_is_the_same_after_json(position: Position) -> None:
    assert from_json(json.loads(json.dumps(to_json(position)))) == position


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["files", "cursor", "time", "lines", "x"]), inner)
        ),
    )
)
def test_anything_else_is_no_position(value: object) -> None:
    found = from_json(value)
    assert found is None or from_json(to_json(found)) == found


def left_after_one_line(log: Path) -> FilePosition:
    """Where a run stopped that had read the first of two lines and a half."""
    log.write_bytes(LINE)
    tail = Tail(log, from_start=True)
    assert tail.read() == Portion(LINE)
    with log.open("ab") as file:
        file.write(b"half")
    assert tail.read() == Portion()
    place = tail.position()
    tail.close()
    assert place is not None
    assert place.offset == len(LINE)
    with log.open("ab") as file:
        file.write(b" a line\n")
    return place


def read_on(log: Path, place: FilePosition) -> tuple[bytes, int]:
    tail = Tail(log, resume=place)
    got = [tail.read() for _ in range(8)]
    tail.close()
    portions = [portion for portion in got if isinstance(portion, Portion)]
    return b"".join(p.data for p in portions), sum(p.lost for p in portions)


def test_reading_goes_on_in_front_of_the_half_line(tmp_path: Path) -> None:
    place = left_after_one_line(tmp_path / "log")
    assert read_on(tmp_path / "log", place) == (b"half a line\n", 0)


@pytest.mark.parametrize("rotated", ["log.1", "log-20260131", "log.old"])
def test_a_file_that_was_rotated_meanwhile_is_finished_first(rotated: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    place = left_after_one_line(log)
    log.rename(tmp_path / rotated)
    log.write_text("new\n")
    assert read_on(log, place) == (b"half a line\nnew\n", 0)


def test_files_between_the_left_one_and_the_live_one_are_read_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    place = left_after_one_line(log)
    (tmp_path / "log.4").write_text("ancient\n")
    log.rename(tmp_path / "log.3")
    (tmp_path / "log.2").write_text("second\n")
    (tmp_path / "log.1").write_text("third\n")
    log.write_text("fourth\n")
    assert read_on(log, place) == (b"half a line\nsecond\nthird\nfourth\n", 0)


def test_a_file_that_was_packed_meanwhile_is_finished_from_the_package(tmp_path: Path) -> None:
    log = tmp_path / "log"
    place = left_after_one_line(log)
    (tmp_path / "log.2.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    (tmp_path / "log.1").write_text("second\n")
    log.write_text("third\n")
    assert read_on(log, place) == (b"half a line\nsecond\nthird\n", 0)


def test_a_damaged_package_ends_where_it_is_damaged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    place = left_after_one_line(log)
    (tmp_path / "log.1.gz").write_bytes(gzip.compress(log.read_bytes())[:-20])
    log.unlink()
    log.write_text("new\n")
    data, lost = read_on(log, place)
    assert lost == 1
    assert data in {b"", b"new\n"}


def test_a_copied_and_truncated_file_is_finished_from_the_copy(tmp_path: Path) -> None:
    log = tmp_path / "log"
    place = left_after_one_line(log)
    (tmp_path / "log.1").write_bytes(log.read_bytes())
    log.write_text("new\n")
    assert read_on(log, place) == (b"half a line\nnew\n", 0)


def test_another_file_with_the_same_inode_is_not_taken_for_ours(tmp_path: Path) -> None:
    log = tmp_path / "log"
    place = left_after_one_line(log)
    with log.open("r+b") as file:
        # The same device, inode and size: what a reused inode looks like.
        file.write(b"other")
    assert read_on(log, place) == (b"", 1)


def test_a_place_that_is_gone_is_a_loss_and_reading_begins_at_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    place = left_after_one_line(log)
    log.unlink()
    log.write_text("long ago\n")
    assert read_on(log, place) == (b"", 1)


def test_an_input_error_does_not_make_a_file_be_read_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(LINE)
    broken = [False]

    def pread(descriptor: int, most: int, offset: int) -> bytes:
        if broken[0]:
            raise OSError(errno.ESTALE, "stale")
        return os.pread(descriptor, most, offset)

    tail = Tail(log, from_start=True, pread=pread)
    assert tail.read() == Portion(LINE)
    with log.open("ab") as file:
        file.write(b"more\n")
    broken[0] = True
    assert not isinstance(tail.read(), Portion)
    broken[0] = False
    assert tail.read() == Portion(b"more\n")
    tail.close()
