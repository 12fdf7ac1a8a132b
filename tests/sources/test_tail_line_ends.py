"""Lines with odd ends and odd sizes: CR LF, NUL bytes, ten megabytes without an end."""

import os
from pathlib import Path

from sidecar.sources.log_places.lines import LONGEST_LINE, LineCutter
from sidecar.sources.log_places.portion import MOST_BYTES, Portion
from sidecar.sources.tail import Tail


def begun(log: Path) -> Tail:
    log.touch()
    tail = Tail(log)
    tail.read()
    return tail


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


def test_carriage_returns_are_left_to_who_reads_the_line(tmp_path: Path) -> None:
    tail = begun(tmp_path / "log")
    append(tmp_path / "log", b"one\r\n 10%\r 20%\r\ntwo\r")
    assert tail.read() == Portion(b"one\r\n 10%\r 20%\r\n")
    append(tmp_path / "log", b"\n")
    assert tail.read() == Portion(b"two\r\n")
    tail.close()


def test_nul_bytes_are_taken_out_and_the_position_counts_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    append(log, b"o\0ne\n\0\0tw\0")
    assert tail.read() == Portion(b"one\n")
    place = tail.position()
    tail.close()
    append(log, b"o\n")
    later = Tail(log, resume=place)
    assert later.read() == Portion(b"two\n")
    later.close()


def test_ten_megabytes_without_an_end_cost_little_and_are_counted_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    append(log, b"x" * (10 * 1024 * 1024) + b"\nnext\n")
    portions = []
    for _ in range(12):
        portions.append(tail.read())
        assert sum(map(len, tail._cutter._begun)) <= LONGEST_LINE
    told = [portion for portion in portions if isinstance(portion, Portion)]
    assert b"".join(portion.data for portion in told) == b"next\n"
    assert sum(portion.overlong for portion in told) == 1
    assert told[0].lag_bytes == 10 * 1024 * 1024 + 6 - MOST_BYTES
    tail.close()


def test_a_long_line_is_treated_alike_whether_it_comes_at_once_or_in_pieces() -> None:
    text = b"a\n" + b"x" * LONGEST_LINE + b"\nb\n" + b"y" * (LONGEST_LINE - 1) + b"\n"
    at_once, in_pieces = LineCutter(), LineCutter()
    whole = at_once.feed(text)
    pieces = b"".join(in_pieces.feed(text[at : at + 1000]) for at in range(0, len(text), 1000))
    assert whole == pieces == b"a\nb\n" + b"y" * (LONGEST_LINE - 1) + b"\n"
    assert at_once.take_overlong() == in_pieces.take_overlong() == 1


def test_a_hole_of_gigabytes_is_jumped_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    with log.open("r+b") as file:
        os.truncate(file.fileno(), 8 * 1024**3)
        file.seek(8 * 1024**3)
        file.write(b"after the hole\n")
    data = b""
    for _ in range(4):
        got = tail.read()
        assert isinstance(got, Portion)
        data += got.data
    assert data == b"after the hole\n"
    tail.close()
