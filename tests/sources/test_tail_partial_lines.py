"""Lines are given whole: halves wait, gigantic ones are dropped and counted, calls are bounded."""

from pathlib import Path

import pytest

from sidecar.sources.log_places.lines import LONGEST_LINE, LineCutter
from sidecar.sources.log_places.portion import Portion
from sidecar.sources.tail import Tail


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_half_line_waits_for_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    tail = Tail(log)
    append(log, b"one\ntw")
    assert tail.read() == Portion()
    append(log, b"x\n")
    tail.read()
    tail.close()


def test_halves_are_put_together(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    tail = Tail(log)
    tail.read()
    append(log, b"one\ntw")
    assert tail.read() == Portion(b"one\n")
    append(log, b"o\nthree\n")
    assert tail.read() == Portion(b"two\nthree\n")
    tail.close()


def test_reading_begins_at_the_end_of_what_is_there_and_not_amid_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old\nhalf of an old li")
    tail = Tail(log)
    assert tail.read() == Portion()
    append(log, b"ne\nnew\n")
    assert tail.read() == Portion(b"new\n")
    tail.close()


def test_a_call_reads_no_more_than_its_bound_and_tells_the_lag(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    tail = Tail(log, most=100)
    tail.read()
    append(log, b"123456789\n" * 25)
    assert tail.read() == Portion(b"123456789\n" * 10, lag_bytes=150)
    assert tail.read() == Portion(b"123456789\n" * 10, lag_bytes=50)
    assert tail.read() == Portion(b"123456789\n" * 5)
    tail.close()


def test_a_gigantic_line_is_dropped_and_counted_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    tail = Tail(log)
    tail.read()
    append(log, b"x" * (LONGEST_LINE + 1))
    assert tail.read() == Portion(overlong=1)
    append(log, b"x" * (LONGEST_LINE + 1))
    assert tail.read() == Portion()
    append(log, b"x\nnext\n")
    assert tail.read() == Portion(b"next\n")
    tail.close()


def test_binary_data_is_given_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    tail = Tail(log)
    tail.read()
    append(log, bytes(range(1, 256)) + b"\n")
    got = tail.read()
    assert isinstance(got, Portion)
    assert got.data.endswith(bytes(range(11, 256)) + b"\n")
    tail.close()


@pytest.mark.parametrize("at", [0, 1, 100_000, 262_144, 300_000, 700_000])
@pytest.mark.parametrize(("more", "dropped"), [(0, 0), (1, 1), (200_000, 1)])
def test_an_overlong_line_is_found_wherever_it_stands_in_what_was_read(
    at: int, more: int, dropped: int
) -> None:
    line = b"x" * (LONGEST_LINE - 1 + more) + b"\n"
    before, after = b"short\n" * (at // 6), b"short\n" * 100_000
    cutter = LineCutter()
    kept = cutter.feed(before + line + after)
    assert kept == before + (b"" if dropped else line) + after
    assert cutter.take_overlong() == dropped
