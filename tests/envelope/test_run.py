"""``envelope run``: the real program, a server that counts as vLLM does, a load that is a real process."""

import json
import re
from pathlib import Path

import pytest

from sidecar.envelope.artifact import decode_envelope, encode_envelope
from sidecar.envelope_folder import read_run
from sidecar.model.vocabulary import Verdict
from tests.envelope.runs import plan, run, serving, stage

pytestmark = pytest.mark.timeout(240)


def test_a_plan_is_run_to_its_end_and_accepted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving(fits=4) as server:
        loads = {"c1": 1, "c3": 3, "c8": 8}
        stages = [stage(name, load, requests=30 * load) for name, load in loads.items()]
        # What a busy machine takes from it must not decide here.
        patient = 'ttft_p95 = "10s"\ne2e_p95 = "40s"\nagree = 1.0'
        path = plan(
            server,
            tmp_path,
            stages,
            head='intended = "c3"',
            interval="200ms",
            objectives=patient,
        )
        ended = run(path, out)

    assert ended.code == 0, (ended.out, ended.err)
    assert "Accepted: c3" in ended.out
    assert re.search(r"^preemptions per request +0 +at most 0.01 +met$", ended.out, re.MULTILINE)
    assert "First preempting stage: c8" in ended.out
    assert "c8 repeat 2: 240 requests completed" in ended.err
    assert "Traceback" not in ended.err
    text = (out / "envelope.json").read_text()
    envelope = decode_envelope(text)
    assert [(one.name, one.load, len(one.runs)) for one in envelope.stages] == [
        ("c1", 1, 2),
        ("c3", 3, 2),
        ("c8", 8, 2),
    ]
    for one in envelope.stages:
        for told in one.runs:
            assert told.client is not None
            assert told.server.completed == told.client.completed
            assert told.exit_code == 0
            assert told.whole
    assert envelope.bounds.last_good == "c3"
    assert envelope.bounds.first_preempting == "c8"
    assert envelope.bounds.safe_load == pytest.approx(2.7)
    assert envelope.identity.model_name == "fake"
    assert envelope.identity.capacity == 1600
    # What was written is what the folder gives again.
    assert encode_envelope(read_run(out)) == text


def test_the_folder_is_laid_out_as_promised(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        path = plan(server, tmp_path, [stage("c1", 1, more="repeats = 1"), stage("c2", 2)])
        run(path, out)

    assert (out / "plan.toml").read_text() == path.read_text()
    assert sorted(p.name for p in out.iterdir() if p.is_dir()) == ["01-c1", "02-c2"]
    assert sorted(p.name for p in (out / "02-c2").iterdir()) == ["1", "2"]
    for repeat in (out / "01-c1/1", out / "02-c2/1", out / "02-c2/2"):
        assert (repeat / "recording/recording.json").is_file()
        assert json.loads((repeat / "done.json").read_text())["format"] == 1
        assert json.loads((repeat / "result.json").read_text())["completed"] in {12, 24}
    assert (out / "02-c2/2/load.log").read_text() == "load with c2 2\n"


def test_a_load_beyond_the_objectives_is_rejected(tmp_path: Path) -> None:
    with serving(fits=2) as server:
        ended = run(plan(server, tmp_path, [stage("c1", 1), stage("c8", 8)]), tmp_path / "out")

    assert ended.code == 1
    assert "Rejected: c8" in ended.out
    assert "Not met: preemptions per request" in ended.out
    assert "Traceback" not in ended.err


def test_a_stage_that_kills_the_server_ends_the_run_with_what_is_known(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        stages = [
            stage("c1", 1),
            stage("c2", 2, requests=40, word="die"),
            stage("c4", 4),
        ]
        path = plan(server, tmp_path, stages)
        ended = run(path, out)
        assert not (out / "03-c4").exists()
        again = run(path, out)

    assert ended.code == 1
    assert "ended early: c2 repeat 1: the server died" in ended.err
    assert "Traceback" not in ended.err
    envelope = decode_envelope((out / "envelope.json").read_text())
    assert [one.name for one in envelope.stages] == ["c1", "c2"]
    assert envelope.stages[1].runs[0].killed in {Verdict.ENGINE_FAILURE, Verdict.UNKNOWN}
    assert not envelope.acceptance.accepted
    assert envelope.bounds.last_good == "c1"
    # The death was measured: it is known, and not tried again.
    assert again.code == 1
    assert "ended early: c2 repeat 1: the server died" in again.err
    assert not list((out / "02-c2").glob("*aside*"))


def test_a_server_that_does_not_settle_ends_the_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        stages = [stage("c1", 1, word="stick", more="repeats = 1"), stage("c2", 2)]
        path = plan(
            server, tmp_path, stages, settle='quiet = "300ms"\nlimit = "1s"\ndrain = "500ms"'
        )
        ended = run(path, out)

    assert ended.code == 1
    assert "ended early: c2 repeat 1: the server was not quiet for 0.3 s within 1 s" in ended.err
    envelope = decode_envelope((out / "envelope.json").read_text())
    assert [one.name for one in envelope.stages] == ["c1"]
    assert envelope.stages[0].runs[0].server.drained_s is None


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    with serving() as server:
        path = plan(server, tmp_path, [stage("c1", 1)], settle='quiet = "300ms"\nlimit = "1s"')
    ended = run(path, tmp_path / "out")
    assert (ended.code, ended.out) == (1, "")
    said = "ended early: c1 repeat 1: the server's metrics could not be read within 1 s"
    assert ended.err.splitlines()[-1] == said


def test_a_command_that_fails_is_told_and_run_again_the_next_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        path = plan(server, tmp_path, [stage("c1", 1, word="fail", more="repeats = 1")])
        first = run(path, out)
        second = run(path, out)

    for ended in (first, second):
        assert ended.code == 1
        assert "the load's command ended with 3" in ended.err
        assert "the load's command ended with 3" in ended.out
    assert (out / "01-c1/1.aside-1/done.json").is_file()
    assert (out / "01-c1/1/done.json").is_file()


def test_a_result_that_was_promised_and_is_not_there_is_told(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        text = plan(server, tmp_path, [stage("c1", 1)]).read_text()
        path = tmp_path / "plan.toml"
        path.write_text(
            text.replace('"{result}"', '"-"').replace('"c1"', '"c1"\nresult = "vllm_bench"')
        )
        ended = run(path, out)

    assert "no result was written" in ended.err
    envelope = decode_envelope((out / "envelope.json").read_text())
    assert envelope.stages[0].runs[0].client_fault == "no result was written"


def test_another_plan_is_refused_in_the_same_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        run(plan(server, tmp_path, [stage("c1", 1)]), out)
        ended = run(plan(server, tmp_path, [stage("c1", 2)]), out)
        (tmp_path / "full").mkdir()
        (tmp_path / "full/thing").touch()
        other = run(tmp_path / "plan.toml", tmp_path / "full")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"vllm-sidecar: {out}: it is the run of another plan\n"
    assert (other.code, other.err) == (
        2,
        f"vllm-sidecar: {tmp_path}/full: something else is in it\n",
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('unit = "concurrency"', "units = 1", "plan: units: unknown key; did you mean unit?"),
        (
            'interval = "100ms"',
            'intervall = "1s"',
            "plan: sidecar.intervall: unknown setting; did you mean interval?",
        ),
        (
            'interval = "100ms"',
            'interval = "canary"',
            "interval: not a duration such as 250ms, 5s or 2m",
        ),
        (
            'interval = "100ms"',
            'state_dir = "/tmp"',
            "plan: sidecar.state_dir: a run sets it itself",
        ),
        (
            "command = [",
            'command = ["no-such-program-at-all", ',
            "no-such-program-at-all: no such command",
        ),
    ],
)
def test_a_bad_plan_is_one_line_and_leaves_nothing(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    with serving() as server:
        path = plan(server, tmp_path, [stage("c1", 1)])
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    ended = run(path, tmp_path / "out")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"vllm-sidecar: {said}\n"
    assert not (tmp_path / "out").exists()
