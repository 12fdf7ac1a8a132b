"""``replay`` says the same of the same recording, byte for byte, and survives what it is given."""

import gzip
import json
import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sidecar import cli

REAL = Path(__file__).parents[1] / "data/recordings"
T0 = 1_700_000_000.0


def replay(
    folder: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[list[dict[str, Any]], str]:
    """Results and what is said beside them."""
    code = cli.main(["replay", str(folder), "--format", "json", *options])
    out, err = capsys.readouterr()
    assert code == 0
    return [json.loads(line) for line in out.splitlines()], err


def write(folder: Path, **files: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recording.json").write_text(json.dumps({"format": 1, "created": T0, "about": ""}))
    for name, rows in files.items():
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text)
    return folder


def unpack(name: str, folder: Path) -> Path:
    """A real recording as plain files."""
    shutil.copytree(REAL / name, folder)
    for path in folder.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    return folder


@pytest.mark.parametrize("output", ["text", "json"])
def test_the_same_recording_gives_the_same_bytes(
    output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for _ in range(2):
        assert cli.main(["replay", str(REAL / "v2_host_oom"), "--format", output]) == 0
        said.append(capsys.readouterr())
    assert said[0] == said[1]
    assert "host_oom" in said[0].out
    assert said[0].err == ""


def test_plain_and_packed_files_give_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = replay(REAL / "f1_host_oom_enginecore", capsys)
    plain = replay(unpack("f1_host_oom_enginecore", tmp_path / "plain"), capsys)
    assert plain == packed


def test_the_options_of_the_daemon_count(capsys: pytest.CaptureFixture[str]) -> None:
    folder = REAL / "c_preempt_thrash"
    options = ("--interval", "1s", "--window", "10s")
    strict, _ = replay(folder, capsys, *options)
    lax, _ = replay(folder, capsys, *options, "--max-preemptions-per-request", "1000")
    assert {w["window"]["end"] - w["window"]["start"] for w in strict} == {10.0}
    assert {w["severity"] for w in strict if w["verdict"] == "preemption"} != {"info"}
    assert {w["severity"] for w in lax if w["verdict"] == "preemption"} == {"info"}


def test_unreadable_rows_are_counted_on_stderr_by_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = unpack("a_healthy", tmp_path / "plain")
    with (folder / "health.jsonl").open("a") as file:
        file.write('{"t": 1, secret-canary}\n')
    whole, _ = replay(REAL / "a_healthy", capsys)
    found, err = replay(folder, capsys)
    assert found == whole
    assert err == "health.jsonl: 1 rows could not be read and were left out\n"


def test_rows_out_of_order_do_not_break_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = unpack("a_healthy", tmp_path / "plain")
    for path in folder.glob("*.jsonl"):
        lines = path.read_text().splitlines(keepends=True)
        random.Random(7).shuffle(lines)
        path.write_text("".join(lines))
    found, err = replay(folder, capsys)
    assert found
    assert err == ""


def test_one_row_is_one_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (window,), _ = replay(write(tmp_path, health=[{"t": T0, "status": 200}]), capsys)
    assert window["verdict"] == "unknown"


def test_a_recording_without_rows_says_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(write(tmp_path, health=[]), capsys) == ([], "")


@pytest.mark.parametrize("gap_s", [3600.0, 86_400.0 * 365])
def test_a_gap_ends_and_its_windows_are_unknown(
    gap_s: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = (REAL.parent / "expositions/0.26.0.txt").read_text()
    row = {"status": 200, "content_type": "text/plain", "body": body}
    moments = [T0 + n for n in range(0, 60, 5)]
    rows = [{"t": t, **row} for t in (*moments, *(t + gap_s for t in moments))]
    found, _ = replay(write(tmp_path, metrics=rows), capsys)
    assert {w["verdict"] for w in found if T0 + 60 < w["window"]["start"] < T0 + gap_s - 15} == {
        "unknown"
    }
    assert [w["verdict"] for w in (*found[1:3], *found[-2:])] == ["none"] * 4
    assert len(found) < 700


@pytest.mark.parametrize("moment", [-1e308, 1e308, -1.0, 0.0, 1e18])
def test_a_moment_far_from_all_others_does_not_hang_it(
    moment: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"t": t, "status": 200} for t in (T0, T0 + 5, moment, T0 + 10)]
    found, err = replay(write(tmp_path, health=rows), capsys)
    assert len(found) < 700
    assert err in {"", "health.jsonl: 1 rows could not be read and were left out\n"}


def test_windows_that_say_the_same_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", str(REAL / "h_restart")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert sum("still dead" in line for line in said) == 1
    assert said[-1] == "  the same until 2026-11-29T21:03:15Z, 6 more windows"


def test_every_window_is_told_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    results, _ = replay(REAL / "h_restart", capsys)
    ends = [result["window"]["end"] for result in results]
    assert [later - end for end, later in pairwise(ends)] == [15] * (len(ends) - 1)
