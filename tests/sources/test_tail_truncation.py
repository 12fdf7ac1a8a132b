"""A truncated file is read from its begin again, even if it has grown past our place since.

What it held and nobody has read may be gone: that is told as a loss of unknown size.
"""

from pathlib import Path

from sidecar.sources.log_places.portion import Portion
from sidecar.sources.tail import Tail


def begun(path: Path, text: str = "2026-01-01 first line of the old content\n") -> Tail:
    path.write_text(text)
    tail = Tail(path, from_start=True)
    assert tail.read() == Portion(text.encode())
    return tail


def test_a_shorter_file_is_begun_anew(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    log.write_text("new\n")
    assert tail.read() == Portion(b"new\n", lost=1)
    tail.close()


def test_a_file_that_is_longer_than_before_is_begun_anew_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    text = "2026-01-02 " + "a line of the new content\n" * 9
    log.write_text(text)
    assert tail.read() == Portion(text.encode(), lost=1)
    tail.close()


def test_what_was_left_of_a_line_does_not_leak_into_the_new_content(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    with log.open("a") as file:
        file.write("half a li")
    assert tail.read() == Portion()
    log.write_text("new\n")
    assert tail.read() == Portion(b"new\n", lost=1)
    tail.close()


def test_the_hole_of_a_writer_that_does_not_append_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    with log.open("r+b") as file:
        file.truncate(0)
        file.seek(500_000)
        file.write(b"after the hole\n")
    assert tail.read() == Portion(b"after the hole\n", lost=1)
    tail.close()


def test_what_was_copied_away_before_it_was_truncated_is_read_from_the_copy(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    tail = begun(log, "2026-01-01 a first line that is long enough to know the file by again\n")
    with log.open("a") as file:
        file.write("half a li")
    assert tail.read() == Portion()
    with log.open("a") as file:
        file.write("ne\n")
    (tmp_path / "log.1").write_bytes(log.read_bytes())
    log.write_text("new\n")
    got = [tail.read() for _ in range(6)]
    portions = [portion for portion in got if isinstance(portion, Portion)]
    assert b"".join(portion.data for portion in portions) == b"half a line\nnew\n"
    assert sum(portion.lost for portion in portions) == 0
    tail.close()


def test_an_older_copy_with_the_same_begin_is_not_read_again(tmp_path: Path) -> None:
    banner = "a banner that is the same at every start, and long enough to be told by ..\n"
    (tmp_path / "log.1").write_text(banner + "of the start before\n" * 5)
    log = tmp_path / "log"
    tail = begun(log, banner)
    log.write_text("new\n")
    assert tail.read() == Portion(b"new\n", lost=1)
    tail.close()


def test_a_file_that_is_truncated_amid_a_long_read_goes_on_with_the_new_content(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    log.write_text("old line of the old content\n" * 100)
    tail = Tail(log, from_start=True, most=1000)
    assert isinstance(tail.read(), Portion)
    log.write_text("new\n")
    got = tail.read()
    assert isinstance(got, Portion)
    assert (got.data, got.lost) == (b"new\n", 1)
    tail.close()
