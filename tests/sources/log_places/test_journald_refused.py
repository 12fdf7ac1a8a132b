"""A journal that cannot be read says why, and is tried again with patience."""

from pathlib import Path

import pytest

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.journald import JournalFeed
from sidecar.sources.log_places.streams import StreamPlace
from tests.fakes.log_reader import Reader
from tests.fakes.scaled_clock import ScaledClock


def read(program: Path) -> Reader:
    feed = JournalFeed("vllm", program=(str(program),))
    return Reader(StreamPlace(ScaledClock(20), "journald:vllm", feed))


def script(folder: Path, text: str) -> Path:
    program = folder / "journalctl"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "echo 'Hint: You are currently not seeing messages from other users.' >&2",
            Fault.DENIED,
        ),
        (
            "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1",
            Fault.DENIED,
        ),
        ("echo 'No journal files were found.' >&2", Fault.ABSENT),
        ("exit 1", Fault.IO_ERROR),
        ("kill -9 $$", Fault.IO_ERROR),
    ],
)
async def test_what_journalctl_complains_of_is_the_fault(
    text: str, fault: Fault, tmp_path: Path
) -> None:
    reader = read(script(tmp_path, text))
    await reader.place.open()
    await reader.meets(fault)
    await reader.place.close()


async def test_no_journalctl_is_absent_until_there_is_one(tmp_path: Path) -> None:
    reader = read(tmp_path / "journalctl")
    await reader.place.open()
    await reader.meets(Fault.ABSENT)
    script(tmp_path, 'case "$*" in *--follow*) echo \'{"MESSAGE": "x"}\'; exec sleep 60; esac')
    await reader.reads(b"x\n")
    await reader.place.close()


async def test_a_journalctl_that_we_may_not_run_is_denied(tmp_path: Path) -> None:
    program = script(tmp_path, "")
    program.chmod(0o600)
    reader = read(program)
    await reader.place.open()
    await reader.meets(Fault.DENIED)
    await reader.place.close()


async def test_nonsense_is_passed_over(tmp_path: Path) -> None:
    text = """case "$*" in *--follow*) cat <<'END'
nonsense
[1]
{"MESSAGE": null}
{"MESSAGE": {"a": 1}}
{"MESSAGE": [1e9, "x"]}
{"MESSAGE": "well"}
END
exec sleep 60; esac"""
    reader = read(script(tmp_path, text))
    await reader.place.open()
    await reader.reads(b"x\nwell\n")
    await reader.place.close()
