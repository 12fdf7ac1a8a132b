"""The kept windows on disk outlive a kill, a full disk and a hand that meddles."""

import asyncio
import gzip
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from sidecar.history.archive import Archive
from sidecar.history.past import Past
from sidecar.history_folder import LARGEST, HistoryFolder
from tests.fakes.daemon import daemon
from tests.fakes.patience import until
from tests.history.made import make_line, make_result, make_row


def folder_in(path: Path, said: list[str] | None = None) -> HistoryFolder:
    heard: list[str] = [] if said is None else said
    return HistoryFolder(path / "a.windows", heard.append)


async def keep(folder: HistoryFolder, past: Past, first: int, count: int) -> None:
    for number in range(first, first + count):
        past.add(make_result(number), make_line(number))
        await folder.save(past.archive)


async def load(path: Path) -> Past:
    past, folder = Past(), folder_in(path)
    await folder.load(past)
    folder.close()
    return past


async def test_windows_are_there_for_the_next_run(tmp_path: Path) -> None:
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    await keep(folder, past, 0, 300)
    folder.close()
    again = await load(tmp_path)
    assert list(again.archive.last(1000)) == [make_line(number) for number in range(300)]
    assert len(again.timeline) == 300


async def test_each_window_only_adds_its_own_bytes(tmp_path: Path) -> None:
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    await keep(folder, past, 0, 5)
    (file,) = folder.folder.iterdir()
    before = (file.stat().st_ino, file.stat().st_size)
    await keep(folder, past, 5, 1)
    assert file.stat().st_ino == before[0]
    assert 0 < file.stat().st_size - before[1] < 500
    folder.close()


async def test_a_run_goes_on_where_the_last_one_was_cut(tmp_path: Path) -> None:
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    await keep(folder, past, 0, 4)
    folder.close()
    (file,) = folder.folder.iterdir()
    # A kill amid a write leaves the beginning of a window.
    os.truncate(file, file.stat().st_size - 20)
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    await keep(folder, past, 10, 2)
    folder.close()
    told = [make_line(number) for number in (0, 1, 2, 10, 11)]
    assert list((await load(tmp_path)).archive.last(100)) == told


async def test_what_is_too_old_or_too_much_is_gone_from_disk_too(tmp_path: Path) -> None:
    past, folder = Past(3600.0, most_bytes=30_000), folder_in(tmp_path)
    await folder.load(past)
    await keep(folder, past, 0, 1000)
    files = sorted(folder.folder.iterdir())
    assert [int(one.name.split(".")[0]) for one in files] == [b.number for b in past.archive.blocks]
    assert sum(one.stat().st_size for one in files) == past.archive.size
    folder.close()


@pytest.mark.parametrize("harm", ["longer", "shorter", "gone", "folder_gone", "a_folder"])
async def test_what_a_hand_does_to_a_file_is_mended_with_the_next_windows(
    tmp_path: Path, harm: str
) -> None:
    said: list[str] = []
    past, folder = Past(), folder_in(tmp_path, said)
    await folder.load(past)
    await keep(folder, past, 0, 3)
    (file,) = folder.folder.iterdir()
    match harm:
        case "longer":
            file.write_bytes(file.read_bytes() + b"x")
        case "shorter":
            os.truncate(file, 10)
        case _:
            file.unlink()
    if harm == "folder_gone":
        folder.folder.rmdir()
    if harm == "a_folder":
        file.mkdir()
    await keep(folder, past, 3, 1)
    assert (folder.failures, said) == (1, ["history_not_saved"])
    if harm == "folder_gone":
        folder.folder.mkdir()
    if harm == "a_folder":
        file.rmdir()
    await keep(folder, past, 4, 1)
    folder.close()
    told = [make_line(number) for number in range(5)]
    assert list((await load(tmp_path)).archive.last(100)) == told
    assert len(said) == 1, "it is said once"


async def test_files_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "a.windows"
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    (place / "00000001.jsonl.gz").write_bytes(b"no gzip")
    (place / "00000002.jsonl.gz").write_bytes(gzip.compress(b"0" * 1000) + os.urandom(LARGEST))
    (place / "00000003.jsonl.gz").write_bytes(gzip.compress(f"{make_line(3)}\n".encode()))
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    assert list(past.archive.last(10)) == [make_line(3)]
    await keep(folder, past, 4, 1)
    assert sorted(one.name for one in place.iterdir()) == ["00000003.jsonl.gz", "notes.txt"]
    folder.close()


@pytest.mark.parametrize("harm", ["a_folder", "a_pipe", "a_link", "a_link_to_nowhere"])
async def test_what_is_no_file_hides_no_other_and_is_left_alone(tmp_path: Path, harm: str) -> None:
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    await keep(folder, past, 0, 3)
    folder.close()
    odd, elsewhere = folder.folder / "00000007.jsonl.gz", tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    match harm:
        case "a_folder":
            odd.mkdir()
        case "a_pipe":
            os.mkfifo(odd)
        case "a_link":
            odd.symlink_to(elsewhere)
        case _:
            odd.symlink_to("nowhere")
    said: list[str] = []
    past, folder = Past(), folder_in(tmp_path, said)
    await folder.load(past)
    await keep(folder, past, 3, 300)
    folder.close()
    told = [make_line(number) for number in range(303)]
    assert list((await load(tmp_path)).archive.last(1000)) == told
    assert said == ["history_not_saved"]
    assert odd in set(folder.folder.iterdir())
    assert elsewhere.read_text() == "mine"


@pytest.mark.parametrize("name", ["1", "٣", "9" * 246, "-0000001", "000000001"])
async def test_only_names_that_we_write_are_read(tmp_path: Path, name: str) -> None:
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    (folder.folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(f"{make_line(9)}\n".encode()))
    await keep(folder, past, 0, 2)
    folder.close()
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    await keep(folder, past, 2, 1)
    folder.close()
    assert folder.failures == 0
    told = [make_line(number) for number in range(3)]
    assert list((await load(tmp_path)).archive.last(100)) == told


async def test_what_a_kill_left_half_written_is_gone_with_the_next_start(tmp_path: Path) -> None:
    place = tmp_path / "a.windows"
    place.mkdir()
    (place / "00000003.jsonl.new").write_bytes(b"half")
    (place / "00000004.jsonl.new").mkdir()
    (place / "mine.new").write_bytes(b"mine")
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    await keep(folder, past, 0, 1)
    folder.close()
    assert folder.failures == 0
    left = ["00000000.jsonl.gz", "00000004.jsonl.new", "mine.new"]
    assert sorted(one.name for one in place.iterdir()) == left


async def test_a_link_in_place_of_what_is_being_written_leads_nowhere(tmp_path: Path) -> None:
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    (tmp_path / "elsewhere").write_text("mine")
    (folder.folder / "00000000.jsonl.new").symlink_to(tmp_path / "elsewhere")
    await keep(folder, past, 0, 1)
    folder.close()
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert list((await load(tmp_path)).archive.last(10)) == [make_line(0)]


async def test_what_could_not_be_seen_at_the_start_is_not_written_over(tmp_path: Path) -> None:
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    await keep(folder, past, 0, 300)
    folder.close()
    # Away at the start, as a disk that hangs or is mounted late, and back afterwards.
    folder.folder.rename(tmp_path / "away")
    folder.folder.write_text("in the way")
    said: list[str] = []
    past, folder = Past(), folder_in(tmp_path, said)
    await folder.load(past)
    await keep(folder, past, 300, 2)
    folder.folder.unlink()
    (tmp_path / "away").rename(folder.folder)
    await keep(folder, past, 302, 2)
    folder.close()
    assert said == ["history_not_saved"]
    told = [make_line(number) for number in range(304)]
    assert list((await load(tmp_path)).archive.last(1000)) == told


async def test_the_oldest_files_beyond_what_is_read_at_a_start_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a.windows"
    place.mkdir()
    for number in range(20):
        packed = gzip.compress(f"{make_line(number)}\n".encode() * 50)
        (place / f"{number:08}.jsonl.gz").write_bytes(packed)
    monkeypatch.setattr("sidecar.history_folder.READ_CHARACTERS", 500 * len(make_line(0)))
    past, folder = Past(), folder_in(tmp_path)
    await folder.load(past)
    assert [block.number for block in past.archive.blocks] == list(range(10, 20))
    await keep(folder, past, 20, 1)
    folder.close()
    assert len(list(place.iterdir())) == 10, "the newest goes on"


async def test_a_folder_that_cannot_be_had_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.windows").write_text("in the way")
    said: list[str] = []
    past, folder = Past(), folder_in(tmp_path, said)
    await folder.load(past)
    await keep(folder, past, 0, 2)
    assert said == ["history_not_saved"]
    assert len(past.archive.last(10)) == 2
    folder.close()


async def test_a_disk_that_hangs_holds_up_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = asyncio.Event()
    loop = asyncio.get_running_loop()
    folder = folder_in(tmp_path)
    archive = Archive(86_400.0)
    await folder.load(Past())
    write = folder.write

    def hang(changes: Any) -> Any:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
        return write(changes)

    monkeypatch.setattr(folder, "write", hang)
    monkeypatch.setattr("sidecar.history_folder.SAVE_LIMIT_S", 0.02)
    for number in range(3):
        archive.add(make_line(number), make_row(number))
        await folder.save(archive)
    release.set()
    monkeypatch.undo()
    await until(lambda: not folder.thread.busy)
    await folder.save(archive)
    folder.close()
    told = list((await load(tmp_path)).archive.last(10))
    assert told == [make_line(number) for number in range(3)]


def test_the_windows_of_a_killed_daemon_are_served_by_the_next_one(tmp_path: Path) -> None:
    options = ("--target", "http://127.0.0.1:9", "--interval", "100ms", "--window", "200ms")
    quiet = ("--cgroup", "off", "--kernel-log", "off", "--gpu", "off", "--listen", "127.0.0.1:0")
    state = ("--state-dir", str(tmp_path))

    def windows(running: Any) -> list[dict[str, Any]]:
        return list(json.loads(running.get("/api/windows?limit=1000")[1]))

    with daemon(*options, *quiet, *state) as running:
        running.until(lambda: len(windows(running)) >= 5)
        before = windows(running)
        # A window is shown before it is written, so that a slow disk keeps nothing from being seen; but
        # it is written before the next one is shown.
        running.until(lambda: len(windows(running)) > len(before))
        running.end(signal.SIGKILL)
    killed = time.time()
    with daemon(*options, *quiet, *state) as running:
        running.until(lambda: any(one["window"]["start"] > killed for one in windows(running)))
        after = windows(running)
        page = running.get("/")[1]
    kept = [one["window"] for one in after]
    assert [one["window"] for one in before] == kept[: len(before)]
    assert len({one["end"] for one in kept}) == len(kept), "none is told twice"
    assert "not watched" in page, "the time between them was not seen"
