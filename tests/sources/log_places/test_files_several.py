"""Folders and patterns: every log in them is a stream of its own."""

from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.readings import LogReading
from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.container_files import Layout, finder
from sidecar.sources.log_places.files import FilesPlace
from sidecar.sources.vllm_log import VllmLogSource

READY = "(APIServer pid=1) INFO:     Application startup complete.\n"
OPEN_REQUEST = "INFO 10-01 18:43:28 [logger.py:36] Received request c-1: prompt: 'x\n"
QUOTED = "torch.OutOfMemoryError: CUDA out of memory. Tried\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def follow(path: object) -> FilesPlace:
    return FilesPlace(Clock(), "logs", finder(str(path), Layout.PLAIN), limit_s=10)


async def read(place: FilesPlace, reads: int = 4) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for _ in range(reads):
        got = await place.read()
        for portion in [] if isinstance(got, Fault) else got:
            name = Path(portion.stream).name
            found[name] = found.get(name, b"") + portion.data
    return {name: data for name, data in found.items() if data}


@pytest.mark.parametrize("pattern", ["", "*.log"])
async def test_all_logs_of_a_folder_are_followed_but_not_what_rotation_left(
    pattern: str, tmp_path: Path
) -> None:
    for name in ("a.log", "b.log", "a.log.1", "a.log-20260101", "b.log.2.gz"):
        append(tmp_path / name, "before\n")
    place = follow(tmp_path / pattern)
    await place.open()
    for name in ("a.log", "b.log", "a.log.1"):
        append(tmp_path / name, f"{name}\n")
    assert await read(place) == {"a.log": b"a.log\n", "b.log": b"b.log\n"}
    await place.close()


async def test_a_log_that_appears_later_is_read_whole(tmp_path: Path) -> None:
    append(tmp_path / "a.log", "before\n")
    place = follow(tmp_path / "*.log")
    await place.open()
    append(tmp_path / "b.log", "whole\n")
    place._follower._found_at = float("-inf")
    assert await read(place) == {"b.log": b"whole\n"}
    await place.close()


async def test_a_log_that_is_renamed_to_a_name_that_fits_is_not_read_twice(tmp_path: Path) -> None:
    append(tmp_path / "a.log", "before, and long enough to be known again by its begin .....\n")
    place = follow(tmp_path / "*.log")
    await place.open()
    append(tmp_path / "a.log", "one\n")
    assert await read(place) == {"a.log": b"one\n"}
    (tmp_path / "a.log").rename(tmp_path / "a-old.log")
    append(tmp_path / "a.log", "two\n")
    place._follower._found_at = float("-inf")
    found = await read(place)
    place._follower._found_at = float("-inf")
    found |= await read(place)
    assert found == {"a.log": b"two\n"}
    await place.close()


async def test_no_match_and_no_folder_are_absent(tmp_path: Path) -> None:
    for pattern in (tmp_path / "*.log", tmp_path / "none" / "*.log"):
        place = follow(pattern)
        await place.open()
        assert await place.read() is Fault.ABSENT
        await place.close()


async def test_lines_of_one_stream_are_no_context_of_another(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        append(tmp_path / name, "before\n")
    source = VllmLogSource(Clock(), [follow(tmp_path / "*.log")])
    await source.open()
    append(tmp_path / "a.log", OPEN_REQUEST)
    append(tmp_path / "b.log", READY)
    await source.sample()
    append(tmp_path / "a.log", QUOTED)
    append(tmp_path / "b.log", QUOTED)
    reading = (await source.sample()).reading
    assert isinstance(reading, LogReading)
    assert [event.signature for event in reading.events] == ["torch_out_of_memory"]
    await source.close()


async def test_what_stands_above_the_first_line_says_whether_that_is_users_text(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    append(log, OPEN_REQUEST)
    source = VllmLogSource(Clock(), [log])
    await source.open()
    append(log, QUOTED)
    reading = (await source.sample()).reading
    assert isinstance(reading, LogReading)
    assert (reading.lines, reading.events) == (1, ())
    await source.close()
