"""Lost engines and replaced servers, told by the process list alone: real recordings, rows left out."""

from pathlib import Path

from sidecar.assemble.process_roles import is_engine
from sidecar.catalog import signals
from sidecar.classify.policy import Policy
from sidecar.commands.replay import judge_recording
from sidecar.model.readings import Process
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Cause, Kind, Source, Verdict
from sidecar.recording.folder import Recording
from tests.fakes.compose import Composition, Row


def judge(folder: Path, composition: Composition) -> dict[int, Judgement]:
    recording = Recording(composition.write(folder / "recording"))
    judgements = judge_recording(recording, interval_s=1.0, window_s=10.0, policy=Policy())
    assert not recording.unreadable
    return {round(j.window.end - composition.base): j for j in judgements}


def signs(found: dict[int, Judgement]) -> set[str]:
    return {e.signal for j in found.values() for c in j.causes for e in c.evidence}


def without_engine(row: Row) -> Row:
    kept = [
        one for one in row["processes"] if not is_engine(Process(pid=one["pid"], comm=one["comm"]))
    ]
    return {**row, "processes": kept}


def busy() -> Composition:
    return Composition("m_capacity_stages_vllm_bench").cut(24, 74)


def test_an_engine_that_vanishes_from_the_list_is_a_failure_while_the_server_answers(
    tmp_path: Path,
) -> None:
    recording = busy().drop("log", "health").freeze(22, 50)
    recording.rows["process"] = [
        without_engine(row) if row["t"] > 22 else row for row in recording.rows["process"]
    ]
    found = judge(tmp_path, recording)
    failed = found[30]
    assert failed.verdict is Verdict.ENGINE_FAILURE
    assert (failed.causes[0].kind, signs(found)) == (Kind.KILLED, {signals.ENGINE_PROCESS_LOST})
    assert found[20].verdict is not Verdict.ENGINE_FAILURE


def test_a_lost_engine_is_the_consequence_of_the_kill_that_the_cgroup_counts(
    tmp_path: Path,
) -> None:
    recording = busy().drop("log", "health").freeze(22, 50).cgroup_v1(50, kills=(21.9,))
    recording.rows["process"] = [
        without_engine(row) if row["t"] > 22 else row for row in recording.rows["process"]
    ]
    found = judge(tmp_path, recording)
    assert found[30].verdict is Verdict.HOST_OOM
    assert Cause.ENGINE_FAILURE not in {c.cause for j in found.values() for c in j.causes}


def test_a_server_that_was_replaced_between_two_looks_was_restarted(tmp_path: Path) -> None:
    recording = busy().drop("health")
    for row in recording.rows["process"]:
        if row["t"] > 25:
            row["processes"] = [{**one, "pid": one["pid"] + 10_000} for one in row["processes"]]
    found = judge(tmp_path, recording)
    told = [e for j in found.values() for c in j.causes for e in c.evidence]
    assert {e.signal for e in told if e.source is Source.PROCESS} == {signals.SERVER_RESTARTED}
    assert found[30].verdict is Verdict.ENGINE_FAILURE
    assert found[50].verdict is not Verdict.ENGINE_FAILURE
