"""One incident counts once, however often it is printed; two count twice."""

from sidecar.log_triage import LogCause, LogTriage, triage
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase, Verdict

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
DEAD = "(APIServer pid=1) ERROR 10-24 01:{}:58 [x.py:1] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
START = (
    "(EngineCore pid=7) INFO 10-24 01:{}:00 [core.py:133] Initializing a V1 LLM engine (v0.32.0)"
)
READY = "(APIServer pid=1) INFO:     Application startup complete."
KILL = "[ {}.1] Memory cgroup out of memory: Killed process {} (VLLM::EngineCor) total-vm:1kB"


def read(*lines: str) -> LogTriage:
    return triage(["\n".join(lines).encode()])


def only(found: LogTriage) -> LogCause:
    (one,) = found.causes
    return one


def rank(number: int, minute: int) -> str:
    return f"(Worker_TP{number} pid={number}) ERROR 10-24 01:{minute:02}:57 [m.py:1] {OOM}"


def test_ranks_and_requests_are_one_incident() -> None:
    found = only(read(READY, *[rank(n, 26) for n in range(8)], *[DEAD.format(26)] * 500))
    assert (found.cause, found.count, found.first_line) == (Cause.CUDA_OOM, 1, 2)
    assert found.phase is Phase.RUNTIME
    assert found.confidence is Confidence.CONFIRMED


def test_the_same_root_an_hour_later_is_another_incident() -> None:
    assert only(read(rank(0, 1), rank(0, 50))).count == 2


def test_a_crash_loop_counts_its_starts() -> None:
    lines = [text for minute in (1, 2, 3) for text in (START.format(f"{minute:02}"), OOM)]
    found = only(read(*lines))
    assert found.count == 3
    assert found.phase is Phase.STARTUP


def test_kills_are_told_apart_by_their_process() -> None:
    found = only(read(KILL.format(1, 10), KILL.format(1, 10), KILL.format(2, 11)))
    assert (found.kind, found.count) == (Kind.CGROUP, 2)


def test_a_block_that_names_no_limit_belongs_to_the_kill_after_it() -> None:
    found = only(read("[ 0.9] dd invoked oom-killer: gfp_mask=0x1", KILL.format(1, 10)))
    assert (found.kind, found.count, found.first_line) == (Kind.CGROUP, 1, 1)


def test_the_unit_that_systemd_mourns_is_the_one_that_was_killed() -> None:
    mourned = "May 15 23:09:27 n systemd[1]: vllm.service: Failed with result 'oom-kill'."
    assert only(read(KILL.format(1, 10), mourned)).kind is Kind.CGROUP


def test_warnings_of_the_old_engine_count_by_their_totals() -> None:
    warning = "WARNING 05-01 10:00:{:02} [scheduler.py:1768] Sequence group c-0 is preempted by PreemptionMode.RECOMPUTE mode because. total_num_cumulative_preemption={}"
    lines = [warning.format(n, total) for n, total in enumerate((1, 51, 101, 1, 51))]
    assert only(read(*lines)).count == 1 + 50 + 50 + 1 + 50


def test_statistics_add_up() -> None:
    stats = "Avg prompt tput: 1.0 toks/s, Reqs Running: 4, Waiting: 3, Preemptions: {}, x"
    assert only(read(stats.format(5), stats.format(7))).count == 12


def test_several_causes_stand_side_by_side_in_order_of_precedence() -> None:
    refused = "ValueError: No available memory for the cache blocks."
    found = read(START.format("01"), refused, READY, rank(0, 30), KILL.format(1, 10))
    assert found.verdict is Verdict.HOST_OOM
    assert [(one.cause, one.kind) for one in found.causes] == [
        (Cause.HOST_OOM, Kind.CGROUP),
        (Cause.CUDA_OOM, Kind.CAPACITY_REJECTION),
        (Cause.CUDA_OOM, Kind.ALLOCATION_FAILURE),
    ]
