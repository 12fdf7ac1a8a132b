"""``envelope run``, interrupted and killed: what is done is kept, what was cut off is run again."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.envelope.artifact import decode_envelope
from tests.envelope.runs import finish, plan, run, serving, stage, start
from tests.fakes.daemon import COMMAND, environment

pytestmark = pytest.mark.timeout(120)
CANARY = "canary-66-secret"


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in children.read_text().split()] if children.exists() else []


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        path = plan(server, tmp_path, [stage("c1", 1), stage("c2", 2, word="wait")])
        running = start(path, out)
        until((out / "02-c2/1/recording/metrics.jsonl").exists)
        until(lambda: descendants(running.pid) != [])
        loads = descendants(running.pid)
        running.kill()
        killed = finish(running)
        done = {file: file.stat().st_mtime_ns for file in out.glob("*/*/done.json")}
        assert {str(file.relative_to(out)) for file in done} == {
            "01-c1/1/done.json",
            "01-c1/2/done.json",
        }
        # Its load outlives a run that is killed: ended here, so that the server is quiet again.
        for pid in loads:
            os.kill(pid, signal.SIGKILL)

        again = start(path, out)
        until((out / "02-c2/1.aside-1").is_dir)
        until(lambda: descendants(again.pid) != [])
        again.send_signal(signal.SIGINT)
        ended = finish(again)

    assert killed.code == -signal.SIGKILL
    assert ended.code == 1
    assert "ended early: it was stopped" in ended.err
    assert "c1 repeat 1, kept from before: 12 requests completed" in ended.err
    assert "c1 repeat 2, kept from before" in ended.err
    assert "Traceback" not in ended.err
    assert {file: file.stat().st_mtime_ns for file in out.glob("*/*/done.json")} == done
    assert (out / "02-c2/1.aside-1/recording/recording.json").is_file()
    envelope = decode_envelope((out / "envelope.json").read_text())
    assert [one.name for one in envelope.stages] == ["c1"]
    assert envelope.acceptance.findings[0].why == "the stage was not run"


def test_a_killed_run_that_goes_on_ends_as_one_that_was_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        path = plan(server, tmp_path, [stage("c1", 1), stage("c3", 3)])
        for repeat in ("01-c1/1", "01-c1/2", "02-c3/1"):
            running = start(path, out)
            until(lambda folder=out / repeat: (folder / "done.json").exists())  # type: ignore[misc]
            running.kill()
            finish(running)
        ended = run(path, out)

    assert ended.code == 0, (ended.err, ended.out)
    assert "Accepted: c3" in ended.out
    assert ended.err.count("kept from before") >= 3
    envelope = decode_envelope((out / "envelope.json").read_text())
    assert [[one.repeat for one in s.runs if one.whole] for s in envelope.stages] == [
        [1, 2], [1, 2],
    ]  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_and_its_load_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    with serving() as server:
        running = start(plan(server, tmp_path, [stage("c1", 1, word="wait")]), out)
        until(lambda: descendants(running.pid) != [])
        loads = descendants(running.pid)
        running.send_signal(number)
        ended = finish(running)

    assert ended.code == 1
    assert ended.out == ""
    assert ended.err.splitlines()[-1] == "ended early: it was stopped"
    assert not any(Path(f"/proc/{pid}").exists() for pid in loads)
    assert not (out / "01-c1/1/done.json").exists()
    assert not (out / "envelope.json").exists()
    told = json.loads((out / "01-c1/1/recording/recording.json").read_text())
    assert told["load"]["outcome"]["ended"] == "stopped"


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        path = plan(server, tmp_path, [stage("c1", 1, word="wait")])
        running = start(path, out)
        until(lambda: descendants(running.pid) != [])
        other = run(path, out)
        running.send_signal(signal.SIGINT)
        finish(running)
    assert other.code == 2
    assert other.err == f"vllm-sidecar: {out}: another run goes on in it\n"


def test_a_server_that_is_another_one_ends_the_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        path = plan(server, tmp_path, [stage("c1", 1, more="repeats = 1"), stage("c2", 2)])
        running = start(path, out)
        until((out / "01-c1/1/done.json").exists)
        running.kill()
        finish(running)
        header = out / "01-c1/1/recording/recording.json"
        told = json.loads(header.read_text())
        told["hardware"]["cpus"] += 64
        header.write_text(json.dumps(told))
        ended = run(path, out)
    assert ended.code == 1
    assert "ended early: c2 repeat 1: the server is another one than before: cpus" in ended.err
    assert not (out / "02-c2/1/done.json").exists()


def test_no_secret_of_plan_load_or_environment_reaches_anything(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        text = plan(server, tmp_path, [stage("c1", 1)]).read_text()
        more = f', "--api-key", "{CANARY}", "--header", "Authorization: Bearer {CANARY}-2", "{CANARY}-3"]'
        path = tmp_path / "plan.toml"
        path.write_text(
            text.replace(', "{repeat}"]', ', "{repeat}"' + more)
            + f'\n[rollback]\ncommand = "VLLM_API_KEY={CANARY}-4 vllm serve x --api-key k"\n'
        )
        assert text != path.read_text()
        process = subprocess.Popen(
            [*COMMAND, "envelope", "run", str(path), "--out", str(out)],
            env=environment({"HF_TOKEN": f"{CANARY}-3"}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        ended = finish(process)

    assert (out / "envelope.json").is_file(), ended.err
    assert "load with c1 1 --api-key ***" in (out / "01-c1/1/load.log").read_text()
    assert CANARY not in ended.out + ended.err
    for file in out.rglob("*"):
        if file.is_file():
            assert CANARY.encode() not in file.read_bytes(), file
    rollback = json.loads((out / "envelope.json").read_text())["rollback"]
    assert rollback == "VLLM_API_KEY=*** vllm serve x --api-key ***"
