"""Rename, delete, symlink switch: the old file is finished first, nothing is read twice."""

import gzip
import shutil
from pathlib import Path

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.portion import Portion
from sidecar.sources.tail import Tail


def read_all(tail: Tail, calls: int = 4) -> bytes:
    got = [tail.read() for _ in range(calls)]
    return b"".join(part.data for part in got if isinstance(part, Portion))


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def begun(path: Path) -> Tail:
    path.write_text("before\n")
    tail = Tail(path)
    assert tail.read() == Portion()
    return tail


def test_a_renamed_file_is_finished_before_its_successor(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    append(log, "one\n")
    log.rename(tmp_path / "log.1")
    append(tmp_path / "log.1", "two\n")
    log.write_text("three\n")
    assert read_all(tail) == b"one\ntwo\nthree\n"
    append(log, "four\n")
    assert read_all(tail) == b"four\n"
    tail.close()


def test_a_short_file_that_was_packed_is_not_read_again(tmp_path: Path) -> None:
    log, packed = tmp_path / "log", tmp_path / "log.1.gz"
    tail = begun(log)
    append(log, "one\n")
    assert read_all(tail) == b"one\n"
    log.rename(tmp_path / "log.1")
    log.touch()
    packed.write_bytes(gzip.compress((tmp_path / "log.1").read_bytes()))
    (tmp_path / "log.1").unlink()
    assert read_all(tail, 8) == b""
    append(log, "two\n")
    assert read_all(tail) == b"two\n"
    tail.close()


def test_a_packed_file_with_the_same_begin_is_not_taken_for_the_one_that_is_read(
    tmp_path: Path,
) -> None:
    log, hole = tmp_path / "log", b"\0" * 5000
    (tmp_path / "log.2.gz").write_bytes(gzip.compress(hole + b"old\n"))
    log.write_bytes(hole + b"one\n")
    tail = Tail(log, from_start=True)
    assert read_all(tail) == b"one\n"
    # As ``copytruncate`` does it, of a writer that does not append.
    shutil.copyfile(log, tmp_path / "log.1")
    log.write_bytes(b"two\n")
    assert read_all(tail, 20) == b"two\n"
    tail.close()


def test_a_writer_that_holds_the_old_file_a_little_longer_is_heard(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    log.rename(tmp_path / "log.1")
    log.write_text("new\n")
    first = tail.read()
    append(tmp_path / "log.1", "late\n")
    assert isinstance(first, Portion)
    assert first.data + read_all(tail) == b"late\nnew\n"
    tail.close()


def test_a_last_line_without_an_end_is_told_when_its_file_is_left(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    append(log, "cut off")
    assert read_all(tail, 1) == b""
    log.rename(tmp_path / "log.1")
    log.write_text("new\n")
    assert read_all(tail) == b"cut off\nnew\n"
    tail.close()


def test_a_deleted_file_is_absent_until_it_is_made_anew(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    append(log, "last\n")
    log.unlink()
    assert tail.read() == Portion(b"last\n")
    assert [tail.read() for _ in range(3)][-1] is Fault.ABSENT
    log.write_text("anew\n")
    assert read_all(tail) == b"anew\n"
    tail.close()


def test_a_symlink_that_is_pointed_elsewhere_is_followed(tmp_path: Path) -> None:
    first, second, link = tmp_path / "0.log", tmp_path / "1.log", tmp_path / "current"
    link.symlink_to(first)
    first.write_text("before\n")
    second.write_text("two\n")
    tail = Tail(link)
    assert tail.read() == Portion()
    append(first, "one\n")
    link.unlink()
    link.symlink_to(second)
    assert read_all(tail) == b"one\ntwo\n"
    tail.close()


def test_nothing_between_two_looks_is_skipped_however_often_it_rotated(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    append(log, "one\n")
    log.rename(tmp_path / "log.2")
    (tmp_path / "log.1").write_text("two\n")
    log.write_text("three\n")
    assert read_all(tail, 8) == b"one\ntwo\nthree\n"
    tail.close()


def test_an_old_file_beside_a_log_that_was_made_anew_is_not_its_successor(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_text("ancient\n")
    log = tmp_path / "log"
    tail = begun(log)
    append(log, "one\n")
    log.unlink()
    log.write_text("two\n")
    assert read_all(tail) == b"one\ntwo\n"
    tail.close()


def test_an_empty_successor_is_no_sign_yet_that_the_old_file_is_left(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    # As logrotate does it with ``create``: the writer is told to open the new one only afterwards.
    log.rename(tmp_path / "log.1")
    log.touch()
    assert read_all(tail, 4) == b""
    append(tmp_path / "log.1", "late\n")
    assert read_all(tail, 4) == b"late\n"
    assert tail.is_going_on
    append(log, "new\n")
    assert read_all(tail, 2) == b"new\n"
    tail.close()


def test_an_old_file_that_nobody_writes_to_is_left_for_an_empty_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = begun(log)
    log.rename(tmp_path / "log.1")
    log.touch()
    assert read_all(tail, 7) == b""
    assert tail.identity == (log.stat().st_dev, log.stat().st_ino)
    tail.close()
