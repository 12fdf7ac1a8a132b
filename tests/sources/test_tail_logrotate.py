"""The real logrotate, in each of its ways, loses nothing and doubles nothing."""

import os
import subprocess
from pathlib import Path

import pytest

from sidecar.sources.log_places.portion import Portion
from sidecar.sources.tail import Tail

pytestmark = pytest.mark.component("logrotate")


def append(log: Path, *texts: str) -> None:
    with log.open("a") as file:
        for text in texts:
            file.write(f"2026-01-31 {text} and so on, so that no two files begin alike\n")


def rotate(log: Path, *how: str) -> None:
    log.parent.chmod(0o755)
    rules = log.parent / "rules"
    lines = "\n ".join(("rotate 5", f"su {os.getuid()} {os.getgid()}", *how))
    rules.write_text(f"{log} {{\n {lines}\n}}\n")
    rules.chmod(0o644)
    subprocess.run(
        ["/usr/sbin/logrotate", "-f", "-s", str(log.parent / "state"), str(rules)],
        check=True,
        capture_output=True,
    )


def told(tail: Tail, looks: int = 8) -> tuple[list[str], int]:
    portions = [got for _ in range(looks) if isinstance(got := tail.read(), Portion)]
    lines = b"".join(portion.data for portion in portions).decode().splitlines()
    return [line.split()[1] for line in lines], sum(portion.lost for portion in portions)


@pytest.mark.parametrize(
    "how",
    [
        ("create",),
        ("create", "compress"),
        ("create", "compress", "delaycompress"),
        ("create", "dateext", "dateformat -%Y%m%d-%s"),
        ("copytruncate",),
        ("copytruncate", "compress"),
    ],
)
def test_what_was_written_before_and_after_is_told_once(
    how: tuple[str, ...], tmp_path: Path
) -> None:
    log = tmp_path / "vllm.log"
    append(log, "before")
    tail = Tail(log)
    tail.read()
    append(log, "one")
    assert told(tail, 1) == (["one"], 0)
    append(log, "two")
    rotate(log, *how)
    append(log, "three")
    assert told(tail) == (["two", "three"], 0)
    tail.close()


@pytest.mark.parametrize("how", [("create",), ("create", "compress")])
def test_two_rotations_between_two_looks_lose_nothing(how: tuple[str, ...], tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    append(log, "before")
    tail = Tail(log)
    tail.read()
    for text in ("one", "two", "three"):
        append(log, text)
        if text != "three":
            rotate(log, *how)
    assert told(tail, 12) == (["one", "two", "three"], 0)
    tail.close()
