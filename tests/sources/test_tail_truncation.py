"""A truncated file is read from its begin again, even if it has grown past our place since."""

from pathlib import Path

from sidecar.sources.tail import Portion, Tail


def begun(path: Path, text: str = "2026-01-01 first line of the old content\n") -> Tail:
    path.write_text(text)
    tail = Tail(path, from_start=True)
    assert tail.read() == Portion(text.encode())
    return tail


def test_a_shorter_file_is_begun_anew(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    log.write_text("new\n")
    assert tail.read() == Portion(b"new\n")
    tail.close()


def test_a_file_that_is_longer_than_before_is_begun_anew_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    text = "2026-01-02 " + "a line of the new content\n" * 9
    log.write_text(text)
    assert tail.read() == Portion(text.encode())
    tail.close()


def test_what_was_left_of_a_line_does_not_leak_into_the_new_content(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    with log.open("a") as file:
        file.write("half a li")
    assert tail.read() == Portion()
    log.write_text("new\n")
    assert tail.read() == Portion(b"new\n")
    tail.close()


def test_the_hole_of_a_writer_that_does_not_append_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    with log.open("r+b") as file:
        file.truncate(0)
        file.seek(500_000)
        file.write(b"after the hole\n")
    assert tail.read() == Portion(b"after the hole\n")
    tail.close()
