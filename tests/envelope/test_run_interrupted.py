"""``envelope run``, interrupted and killed: what is done is kept, what was cut off is run again."""

import json
import os
import signal
from pathlib import Path

import pytest

from sidecar.envelope.artifact import decode_envelope
from tests.envelope.runs import plan, run, running, serving, stage

pytestmark = pytest.mark.timeout(240)
CANARY = "canary-66-secret"


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        path = plan(server, tmp_path, [stage("c1", 1), stage("c2", 2, word="wait")])
        with running(path, out) as first:
            first.until((out / "02-c2/1/recording/metrics.jsonl").exists)
            loads = first.begins_load()
            killed = first.end(signal.SIGKILL)
        # Its load outlives a run that is killed: ended here, so that the server is quiet again.
        for pid in loads:
            os.kill(pid, signal.SIGKILL)
        done = {file: file.stat().st_mtime_ns for file in out.glob("*/*/done.json")}
        assert {str(file.relative_to(out)) for file in done} == {
            "01-c1/1/done.json",
            "01-c1/2/done.json",
        }
        with running(path, out) as second:
            second.until((out / "02-c2/1.aside-1").is_dir)
            second.begins_load()
            ended = second.end(signal.SIGINT)

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
            with running(path, out) as killed:
                killed.until((out / repeat / "done.json").exists)
                killed.end(signal.SIGKILL)
        ended = run(path, out)

    assert "Traceback" not in ended.err
    assert ended.err.count("kept from before") >= 3
    assert "ended early" not in ended.err
    envelope = decode_envelope((out / "envelope.json").read_text())
    told = [
        (s.name, r.repeat, r.whole, r.server.completed) for s in envelope.stages for r in s.runs
    ]
    assert told == [
        ("c1", 1, True, 12.0),
        ("c1", 2, True, 12.0),
        ("c3", 1, True, 36.0),
        ("c3", 2, True, 36.0),
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_and_its_load_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    with serving() as server:
        path = plan(server, tmp_path, [stage("c1", 1, word="wait")])
        with running(path, out) as started:
            loads = started.begins_load()
            ended = started.end(number)

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
        with running(path, out) as started:
            started.begins_load()
            other = run(path, out)
            started.end(signal.SIGINT)
    assert other.code == 2
    assert other.err == f"vllm-sidecar: {out}: another run goes on in it\n"


def test_a_server_that_is_another_one_ends_the_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        path = plan(server, tmp_path, [stage("c1", 1, more="repeats = 1"), stage("c2", 2)])
        with running(path, out) as first:
            first.until((out / "01-c1/1/done.json").exists)
            first.end(signal.SIGKILL)
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
        ended = run(path, out, {"HF_TOKEN": f"{CANARY}-3"})

    assert (out / "envelope.json").is_file(), ended.err
    assert "load with c1 1 --api-key ***" in (out / "01-c1/1/load.log").read_text()
    assert CANARY not in ended.out + ended.err
    for file in out.rglob("*"):
        if file.is_file():
            assert CANARY.encode() not in file.read_bytes(), file
    rollback = json.loads((out / "envelope.json").read_text())["rollback"]
    assert rollback == "VLLM_API_KEY=*** vllm serve x --api-key ***"
