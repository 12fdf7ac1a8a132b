"""``capture`` as a command: what it records, how it ends, and that nothing in it is anybody's secret."""

import json
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from sidecar.recording.folder import TICKS, WINDOWS
from tests.fakes.daemon import COMMAND, environment, run_command
from tests.process.test_canary import CANARIES, KEY, LINES, TOKEN, target

__all__ = ["target"]

OFTEN = ("--interval", "100ms", "--window", "500ms")
QUIET = ("--gpu", "off", "--kernel-log", "off", "--cgroup", "off")
ENV_KEY = "canary-environment-key"
QUERY = "canary-query"
WRITES = """\
import pathlib, sys, time
time.sleep(0.5)
pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())
time.sleep(0.7)
"""


def description(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "recording.json").read_text())
    return found


def test_nothing_of_users_and_no_secret_is_in_a_capture_or_its_bundle(
    target: str, tmp_path: Path
) -> None:
    log, token, bundle = tmp_path / "vllm.log", tmp_path / "token", tmp_path / "out.tar.gz"
    log.write_text("")
    token.write_text(f"{TOKEN}\n")
    load = (sys.executable, "-c", WRITES, str(log), "--api-key", KEY, f"http://h/?q={QUERY}")
    done = run_command(
        *("capture", "--target", target, "--log", str(log), "--target-token-file", str(token)),
        *(*OFTEN, *QUIET, "--out", str(tmp_path / "out"), "--bundle", str(bundle), "--drain", "1s"),
        *("--about", f"a run with {ENV_KEY}", "--", *load),
        env={"OPENAI_API_KEY": ENV_KEY},
        stdin=LINES,
    )
    assert done.returncode == 0, done

    texts = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    with tarfile.open(bundle) as archive:
        members = archive.getmembers()
        for member in members:
            file = archive.extractfile(member)
            assert file is not None
            texts[f"bundle {member.name}"] = file.read().decode()
    assert {"recording.json", "log.jsonl", "metrics.jsonl", TICKS, WINDOWS} <= texts.keys()
    assert len(members) * 2 == len(texts)
    assert {(one.uid, one.gid, one.uname) for one in members} == {(0, 0, "")}
    for name, text in {**texts, "stderr": done.stderr}.items():
        for canary in (*CANARIES, ENV_KEY, QUERY):
            assert canary not in text, (name, canary, text[max(0, text.find(canary) - 200) :][:300])
    # What was read of the line that is not kept stands there: its numbers are those of the server.
    assert '"max_num_seqs":4' in texts["log.jsonl"]
    assert "cuda_oom" in texts[WINDOWS]


def test_a_recording_of_a_time_replays_as_it_was_judged(target: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    done = run_command(
        *("capture", "--target", target, *OFTEN, *QUIET, "--out", str(folder), "--for", "2s")
    )
    assert done.returncode == 0, done
    replayed = run_command("replay", str(folder), "--format", "json")
    assert replayed.stdout == (folder / WINDOWS).read_text()
    assert replayed.stdout.count("\n") >= 3


def test_the_command_ends_the_recording_and_its_failure_is_ours(
    target: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    done = run_command(
        *("capture", "--target", target, *OFTEN, *QUIET, "--out", str(folder), "--drain", "1s"),
        *("--", sys.executable, "-c", "raise SystemExit(7)"),
    )
    assert done.returncode == 1
    assert "the command ended with 7" in done.stderr
    assert description(folder)["load"]["outcome"]["exit_code"] == 7


def test_a_signal_ends_command_and_recording_and_what_was_recorded_stands(
    target: str, tmp_path: Path
) -> None:
    folder, mark = tmp_path / "out", tmp_path / "mark"
    waits = f"import pathlib, time; pathlib.Path({str(mark)!r}).write_text('x'); time.sleep(60)"
    running = subprocess.Popen(
        [
            *(*COMMAND, "capture", "--target", target, *OFTEN, *QUIET, "--out", str(folder)),
            *("--", sys.executable, "-c", waits),
        ],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 20
    while not mark.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=20)
    assert running.returncode == 1
    assert "ended early: stopped" in said
    assert description(folder)["load"]["outcome"]["ended"] == "stopped"
    assert run_command("replay", str(folder)).returncode == 0


def test_a_recording_ends_at_its_largest_size(target: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    done = run_command(
        *("capture", "--target", target, *OFTEN, *QUIET, "--out", str(folder)),
        *("--for", "1m", "--max-size", "200KiB"),
    )
    assert done.returncode == 1
    assert "ended early: too large" in done.stderr
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert 200 << 10 < size < 2 << 20


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "either --for TIME or -- COMMAND is needed"),
        (("--for", "1s", "--", "true"), "either --for TIME or -- COMMAND is needed"),
        (("--for", "nonsense"), "not a duration"),
        (("--for", "1s", "--max-size", "7"), "not a size"),
        (("--", "/no/such/command"), "/no/such/command: no such command"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    target: str, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    out = ("--out", str(tmp_path / "out"))
    done = run_command("capture", "--target", target, *OFTEN, *QUIET, *out, *arguments)
    assert done.returncode == 2, done
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_that_holds_something_is_not_written_to(target: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("mine")
    done = run_command("capture", "--target", target, "--out", str(tmp_path / "out"), "--for", "1s")
    assert (done.returncode, done.stdout) == (2, "")
    assert "something is in it already" in done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_a_capture_tells_the_same_at_another_interval_and_without_its_ticks(
    target: str, tmp_path: Path
) -> None:
    log, folder = tmp_path / "vllm.log", tmp_path / "out"
    log.write_text("")
    done = run_command(
        *("capture", "--target", target, "--log", str(log), *OFTEN, *QUIET, "--out", str(folder)),
        *("--drain", "1s", "--", sys.executable, "-c", WRITES, str(log)),
        stdin=LINES,
    )
    assert done.returncode == 0, done
    coarse = run_command("replay", str(folder), "--interval", "1s", "--window", "5s")
    (folder / TICKS).unlink()
    untold = run_command("replay", str(folder))
    for replayed in (coarse, untold):
        assert "cuda_oom" in replayed.stdout, replayed
        assert replayed.stderr == ""


def test_a_disk_that_takes_no_more_ends_the_recording_and_that_is_said(
    target: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    capture = ("capture", "--target", target, *OFTEN, *QUIET, "--out", str(folder), "--for", "1m")
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 150; exec "$@"', "-", *COMMAND, *capture],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 1, done
    assert "ended early: disk full" in done.stderr
    assert description(folder)["load"]["outcome"]["ended"] == "disk_full"
    assert run_command("replay", str(folder)).returncode == 0
