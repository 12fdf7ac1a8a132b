"""Situations that the given recordings do not hold, composed of rows that they do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.classify.policy import Policy
from sidecar.commands.replay import judge_recording
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Cause, Confidence, Kind, Severity, Verdict
from sidecar.recording.folder import Recording
from tests.fakes.compose import Composition

SAID = "(APIServer pid=1) {} 11-29 20:58:49 [{}] {}"
DEAD = (
    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack "
    "trace (above) for the root cause."
)
CRASH = tuple(
    SAID.format(*parts)
    for parts in (
        (
            "WARNING",
            "core_client.py:817",
            "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
        ),
        ("ERROR", "async_llm.py:906", "AsyncLLM output_handler failed."),
        (
            "ERROR",
            "async_llm.py:906",
            DEAD,
        ),
    )
)
CUDA_OOM = (
    "(EngineCore_DP0 pid=8402) ERROR 10-24 01:26:57 [core.py:710] torch.OutOfMemoryError: CUDA out"
    " of memory. Tried to allocate 960.00 MiB. GPU 0 has a total capacity of 79.14 GiB of which"
    " 712.75 MiB is free."
)
REFUSED = "No available memory for the cache blocks"


Found = dict[int, Judgement]
Judge = Callable[[Composition], Found]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Judge a composition; windows by their end in seconds after its start."""

    def run(composition: Composition) -> Found:
        recording = Recording(composition.write(tmp_path / "recording"))
        judgements = judge_recording(recording, interval_s=1.0, window_s=10.0, policy=Policy())
        found = {round(j.window.end - composition.base): j for j in judgements}
        assert not recording.unreadable
        return found

    return run


def busy() -> Composition:
    """A V1 server under load, without preemption: 50 s."""
    return Composition("m_capacity_stages_vllm_bench").cut(24, 74)


def verdicts(found: Found) -> list[Verdict]:
    return [j.verdict for _, j in sorted(found.items())]


def causes(found: Found) -> set[Cause]:
    return {c.cause for j in found.values() for c in j.causes}


def test_a_hung_engine_is_stalled_and_nothing_else(judge: Judge) -> None:
    found = judge(Composition("c_preempt_thrash").cut(20, 80).freeze(20, 45))
    assert found[40].verdict is Verdict.STALLED
    assert causes(found) == {Cause.PREEMPTION, Cause.STALLED}
    assert found[60].verdict is Verdict.PREEMPTION


def test_a_dead_engine_with_a_server_kept_alive_is_a_failure_and_not_a_stall(judge: Judge) -> None:
    recording = busy().freeze(20, 50).every_second("health", 20, 50, {"status": 503})
    found = judge(recording.log(19.5, *CRASH[:3]).only_before("process", 20))
    assert found[20].verdict is Verdict.ENGINE_FAILURE
    assert verdicts(found)[2:5] == [Verdict.ENGINE_FAILURE] * 3, "it still lies dead of it"
    assert Cause.STALLED not in causes(found)
    assert Cause.HOST_OOM not in causes(found)


def test_an_engine_that_only_its_health_shows_dead_is_a_failure(judge: Judge) -> None:
    recording = busy().freeze(20, 50).every_second("health", 20, 50, {"status": 503})
    found = judge(recording.drop("log", "process"))
    assert found[30].verdict is Verdict.ENGINE_FAILURE
    assert causes(found) == {Cause.ENGINE_FAILURE}


def test_v0_goes_on_answering_after_its_engine_was_killed_for_memory(judge: Judge) -> None:
    died = "ERROR 11-29 21:30:11 [client.py:305] RuntimeError('Engine process (pid 31637) died.')"
    recording = Composition("0.8.5_preempt_thrash").cut(0, 35).cgroup_v1(60, kills=(33,))
    found = judge(recording.freeze(33, 40).refuse(40, 60).log(43, died).drop("process"))
    assert found[40].verdict is Verdict.HOST_OOM
    assert found[40].causes[0].severity is Severity.CRITICAL
    assert Cause.ENGINE_FAILURE not in causes(found)
    assert found[50].verdict is Verdict.HOST_OOM, "it still lies dead of it"


def test_a_kill_is_counted_after_the_lines_of_the_dying_engine(judge: Judge) -> None:
    recording = busy().cgroup_v1(50, kills=(20.4,)).log(19.8, *CRASH).refuse(21, 50)
    found = judge(recording.only_before("process", 20))
    assert found[20].verdict is Verdict.HOST_OOM
    assert causes(found) == {Cause.HOST_OOM}


def test_a_neighbour_killed_in_our_cgroup_is_a_warning(judge: Judge) -> None:
    found = judge(busy().cgroup_v1(50, kills=(22,)))
    assert found[30].verdict is Verdict.HOST_OOM
    assert found[30].severity is Severity.WARNING
    assert found[40].verdict is Verdict.NONE


@pytest.mark.parametrize("t", [28.0, 29.2, 29.9])
def test_a_neighbour_killed_at_the_end_of_a_window_is_a_warning(judge: Judge, t: float) -> None:
    found = judge(busy().cgroup_v1(50, kills=(t,)))
    severities = {j.severity for j in found.values() if j.verdict is Verdict.HOST_OOM}
    assert severities == {Severity.WARNING}


SUMMARY = (
    "6,595,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg={0},task_memcg={0},task={1},pid=77,uid=0"
)
KILLED = (
    "3,596,1,-;Memory cgroup out of memory: Killed process 77 ({1}) total-vm:1kB, anon-rss:1kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0"
)
KILL = (SUMMARY, KILLED)


def kernel(recording: Composition, t: float, cgroup: str, comm: str) -> Composition:
    recording.rows["kernel_log"] = [{"t": t, "line": line.format(cgroup, comm)} for line in KILL]
    return recording


def test_a_kill_in_another_container_is_not_ours(judge: Judge) -> None:
    found = judge(kernel(busy().cgroup_v1(50), 22, "/docker/" + "a" * 64, "VLLM::Worker"))
    assert set(verdicts(found)) == {Verdict.NONE}


def test_a_kernel_record_alone_names_a_kill_of_ours(judge: Judge) -> None:
    recording = kernel(busy().cgroup_v1(50), 22, "/vllm", "VLLM::Worker")
    found = judge(recording.refuse(23, 50).log(22.5, *CRASH).only_before("process", 22))
    assert found[30].verdict is Verdict.HOST_OOM
    assert found[30].causes[0].kind is Kind.CGROUP
    assert found[30].causes[0].confidence is Confidence.CONFIRMED


def test_a_neighbours_vllm_that_is_killed_is_not_ours_by_its_name(judge: Judge) -> None:
    found = judge(kernel(busy().drop("process"), 22, "/docker/" + "a" * 64, "VLLM::Worker"))
    assert not causes(found)


def test_a_kill_by_name_alone_is_suspected_when_our_server_dies_with_it(judge: Judge) -> None:
    recording = kernel(busy().drop("process"), 22, "/docker/" + "a" * 64, "VLLM::Worker")
    found = judge(recording.log(22.5, *CRASH).refuse(23, 50))
    assert found[30].verdict is Verdict.HOST_OOM
    assert found[30].causes[0].confidence is Confidence.SUSPECTED


@pytest.mark.parametrize("t", [-2.0, 2.0])
def test_a_kill_by_name_alone_is_not_ours_when_our_server_told_of_what_it_died(
    judge: Judge, t: float
) -> None:
    refused = Composition("g_no_memory_for_cache_blocks").drop("process", "cgroup")
    said = next(row["t"] for row in refused.rows["log"] if REFUSED in row["line"])
    found = judge(kernel(refused, said + t, "/docker/" + "a" * 64, "VLLM::EngineCor"))
    assert causes(found) == {Cause.CUDA_OOM}


def test_a_plain_kill_that_the_log_tells_of_is_no_out_of_memory(judge: Judge) -> None:
    recording = busy().cgroup_v1(50).log(22.5, *CRASH).refuse(23, 50)
    found = judge(recording.only_before("process", 22))
    assert found[30].verdict is Verdict.ENGINE_FAILURE
    assert causes(found) == {Cause.ENGINE_FAILURE}


def test_a_crash_dump_that_quotes_an_out_of_memory_is_no_out_of_memory(judge: Judge) -> None:
    dump = (
        "(EngineCore pid=9) ERROR 11-29 21:06:24 [dump_input.py:79] Dumping scheduler output for"
        " model execution: SchedulerOutput(scheduled_new_reqs=[NewRequestData(req_id=cmpl-CUDA out"
        " of memory-0,prompt_token_ids_len=46,sampling_params=SamplingParams(stop=["
        "'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB', 'Out of memory:"
        " Killed process 1 (x)'])"
    )
    worker = (
        "(EngineCore pid=9) ERROR 11-29 21:06:24 [multiproc_executor.py:315] Worker proc"
        " VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor."
    )
    recording = busy().log(22.5, worker, dump, *CRASH).refuse(23, 50)
    found = judge(recording.only_before("process", 22))
    assert causes(found) == {Cause.ENGINE_FAILURE}


def test_an_api_server_that_does_not_answer_for_a_while_is_unknown(judge: Judge) -> None:
    silent = {"status": None, "error": "timeout"}
    recording = busy().every_second("metrics", 20, 41, silent)
    found = judge(recording.every_second("health", 20, 41, {"status": 0, "error": "timeout"}))
    assert found[30].verdict is Verdict.UNKNOWN
    assert not causes(found)


def test_a_caught_allocation_failure_is_a_warning(judge: Judge) -> None:
    found = judge(busy().log(22, CUDA_OOM))
    assert found[30].verdict is Verdict.CUDA_OOM
    assert found[30].severity is Severity.WARNING
    assert found[40].verdict is Verdict.NONE


def test_an_allocation_failure_that_ends_the_engine_is_critical_and_the_root(judge: Judge) -> None:
    recording = busy().log(22, CUDA_OOM, CUDA_OOM).log(22.5, *CRASH).refuse(23, 50)
    found = judge(recording.only_before("process", 22))
    assert found[30].verdict is Verdict.CUDA_OOM
    assert found[30].severity is Severity.CRITICAL
    assert found[30].causes[0].kind is Kind.ALLOCATION_FAILURE
    assert causes(found) == {Cause.CUDA_OOM}


def test_a_crash_under_preemption_is_a_crash(judge: Judge) -> None:
    recording = Composition("c_preempt_thrash").cut(20, 60).log(25, *CRASH).refuse(26, 40)
    found = judge(recording.only_before("process", 25))
    assert found[20].verdict is Verdict.PREEMPTION
    assert found[30].verdict is Verdict.ENGINE_FAILURE
    assert {c.cause for c in found[30].causes} == {Cause.ENGINE_FAILURE, Cause.PREEMPTION}


def test_an_engine_failure_during_a_wanted_stop_is_none(judge: Judge) -> None:
    wanted = SAID.format("INFO", "launcher.py:100", "[shutdown] API server: shutdown triggered")
    recording = busy().log(21.5, wanted).log(21.7, *CRASH[1:]).refuse(22, 50)
    found = judge(recording.only_before("process", 22))
    assert not causes(found)


def test_a_stop_that_follows_a_failure_was_not_wanted(judge: Judge) -> None:
    died = SAID.format(
        "ERROR",
        "utils.py:300",
        "RuntimeError: Engine core process EngineCore_DP1 died unexpectedly.",
    )
    wanted = SAID.format("INFO", "launcher.py:254", "[shutdown] API server: shutdown triggered")
    recording = busy().log(21.5, died, wanted).refuse(22, 50)
    found = judge(recording.only_before("process", 22))
    assert found[30].verdict is Verdict.ENGINE_FAILURE
    assert found[50].verdict is Verdict.ENGINE_FAILURE


def test_a_server_that_vanishes_without_a_word_is_a_failure(judge: Judge) -> None:
    found = judge(busy().refuse(22, 50).only_before("log", 22).only_before("process", 22))
    assert found[30].verdict is Verdict.ENGINE_FAILURE
    assert found[30].causes[0].confidence is Confidence.SUSPECTED


def test_a_server_that_vanishes_with_nobody_watching_its_log_is_unknown(judge: Judge) -> None:
    found = judge(busy().refuse(22, 50).drop("log", "process"))
    assert found[40].verdict is Verdict.UNKNOWN
    assert not causes(found)


def test_an_idle_server_that_outlived_a_failure_dies_of_something_else(judge: Judge) -> None:
    recording = Composition("a_healthy").cut(45, 85).log(3, CUDA_OOM).refuse(30, 40)
    found = judge(recording.only_before("log", 29).only_before("process", 29))
    last = found[max(found)]
    assert last.verdict is Verdict.ENGINE_FAILURE
    assert last.severity is Severity.CRITICAL


def test_a_second_start_that_fails_is_a_second_incident(judge: Judge) -> None:
    first = Composition("g_no_memory_for_cache_blocks").cut(0, 40)
    again = Composition("g_no_memory_for_cache_blocks")
    for source, rows in again.rows.items():
        first.rows[source] += [{**row, "t": row["t"] + 40} for row in rows]
    found = judge(first)
    ends = [end for end, j in found.items() if j.causes]
    assert {c.kind for j in found.values() for c in j.causes} == {Kind.CAPACITY_REJECTION}
    distinct = {e.at.unix for j in found.values() for c in j.causes for e in c.evidence}
    assert len(distinct) == 2
    assert min(ends) <= 30
    assert max(ends) >= 70


def test_nothing_readable_is_never_none(judge: Judge) -> None:
    broken = {"status": 200, "content_type": "text/plain", "body": "<html>"}
    found = judge(busy().every_second("metrics", 0, 50, broken))
    assert set(verdicts(found)) == {Verdict.UNKNOWN}


def test_a_cgroup_that_was_asked_for_and_cannot_be_read_leaves_unknown(judge: Judge) -> None:
    recording = busy().cgroup_v1(50)
    recording.rows["cgroup"] = [{**row, "files": {}} for row in recording.rows["cgroup"]]
    found = judge(recording)
    assert set(verdicts(found)) == {Verdict.UNKNOWN}


def test_a_cgroup_without_a_count_of_kills_can_show_no_kill(judge: Judge) -> None:
    recording = busy().cgroup_v1(50)
    files = {"memory.usage_in_bytes": "5\n"}
    recording.rows["cgroup"] = [{**row, "files": files} for row in recording.rows["cgroup"]]
    found = judge(recording)
    assert set(verdicts(found)) == {Verdict.UNKNOWN}
    assert not found[30].observable[Cause.HOST_OOM]


def test_a_cgroup_that_is_gone_while_the_server_serves_shows_no_health(judge: Judge) -> None:
    recording = busy().cgroup_v1(50)
    for row in recording.rows["cgroup"]:
        if row["t"] > 20:
            row["files"] = None
    found = judge(recording)
    assert found[20].verdict is Verdict.NONE
    assert found[40].verdict is Verdict.UNKNOWN
    assert not found[40].observable[Cause.HOST_OOM]
