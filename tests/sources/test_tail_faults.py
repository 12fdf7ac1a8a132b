"""What cannot be read is a fault, and is tried again; what appears later is read whole."""

import os
from pathlib import Path

import pytest

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.portion import Portion
from sidecar.sources.tail import Tail


def test_a_file_that_appears_late_is_read_from_its_begin(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = Tail(log)
    assert tail.read() is Fault.ABSENT
    assert tail.read() is Fault.ABSENT
    log.write_text("first\n")
    assert tail.read() == Portion(b"first\n")
    tail.close()


def test_a_missing_folder_is_an_absent_file(tmp_path: Path) -> None:
    assert Tail(tmp_path / "none" / "log").read() is Fault.ABSENT
    (tmp_path / "file").touch()
    assert Tail(tmp_path / "file" / "log").read() is Fault.ABSENT


def test_what_is_no_regular_file_is_not_followed(tmp_path: Path) -> None:
    assert Tail(tmp_path).read() is Fault.UNSUPPORTED
    os.mkfifo(tmp_path / "fifo")
    assert Tail(tmp_path / "fifo").read() is Fault.UNSUPPORTED


@pytest.mark.component("root")
def test_permission_that_is_lost_and_given_back_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = folder / "log"
    log.write_text("before\n")
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.name.startswith("pytest"):
            parent.chmod(0o755)
    folder.chmod(0o755)
    log.chmod(0o600)
    tail = Tail(log)
    os.seteuid(65534)
    try:
        assert tail.read() is Fault.DENIED
        os.seteuid(0)
        log.chmod(0o644)
        os.seteuid(65534)
        assert tail.read() == Portion()
        os.seteuid(0)
        with log.open("a") as file:
            file.write("after\n")
        os.seteuid(65534)
        assert tail.read() == Portion(b"after\n")
    finally:
        os.seteuid(0)
        tail.close()
