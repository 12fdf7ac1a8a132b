"""What only several lines together say."""

from sidecar.log_triage import LogTriage, triage
from sidecar.model.vocabulary import Cause, Kind, Phase, Verdict
from sidecar.parse.log_line import LONGEST
from sidecar.parse.whole_log import LineReader

READY = "(APIServer pid=1) INFO:     Application startup complete."
SILENT = "(EngineCore pid=7) INFO 10-22 09:{:02}:49 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds."
STILL = "INFO 06-12 07:32:{:02} [metrics.py:341] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 30 reqs, Waiting: 1 reqs"


def read(*lines: str) -> LogTriage:
    return triage(["\n".join(lines).encode()])


def test_a_wrapped_wording_is_told_at_its_first_line_and_once() -> None:
    found = read(
        "WARNING 05-01 10:00:00 [scheduler.py:1768] Sequence group cmpl-12345-0 is pree",
        "mpted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache spac",
        "e. total_num_cumulative_preemption=1",
    )
    (one,) = found.causes
    assert (one.cause, one.kind, one.count, one.first_line) == (
        Cause.PREEMPTION,
        Kind.RECOMPUTE,
        1,
        1,
    )


def test_two_records_are_never_joined() -> None:
    found = read(
        "WARNING 05-01 10:00:00 [x.py:1] something long enough to look like a wrapped line: CUDA out",
        "ERROR 05-01 10:00:00 [x.py:1] of memory. Tried to allocate",
    )
    assert found.verdict is Verdict.NONE


def test_three_signs_of_no_progress_in_a_row_are_a_stall() -> None:
    (one,) = read(READY, *[STILL.format(n) for n in (1, 6, 11)]).causes
    assert (one.cause, one.phase, one.first_line) == (Cause.STALLED, Phase.RUNTIME, 2)


def test_two_signs_or_signs_far_apart_are_none() -> None:
    assert read(READY, STILL.format(1), STILL.format(6)).verdict is Verdict.NONE
    assert read(READY, *[SILENT.format(n) for n in (1, 11, 31)]).verdict is Verdict.NONE


def test_silent_workers_are_no_stall_while_the_server_starts() -> None:
    start = (
        "(EngineCore pid=7) INFO 10-22 09:00:00 [core.py:97] Initializing a V1 LLM engine (v0.11)"
    )
    lines = [SILENT.format(n) for n in range(1, 8)]
    assert read(start, *lines).verdict is Verdict.NONE
    assert read(READY, *lines).verdict is Verdict.STALLED


def test_a_failed_allocation_of_pinned_memory_is_the_hosts() -> None:
    frame = '  File "/opt/vllm/v1/worker/x.py", line 12, in pin_memory'
    (one,) = read(frame, "    return x", "RuntimeError: CUDA error: out of memory").causes
    assert (one.cause, one.kind) == (Cause.HOST_OOM, Kind.ALLOCATION_FAILURE)
    assert read("RuntimeError: CUDA error: out of memory").verdict is Verdict.CUDA_OOM


def test_an_empty_log_has_no_lines_and_says_nothing() -> None:
    assert triage([]) == LogTriage(lines=0, cut=0, verdict=Verdict.NONE, causes=())
    assert triage([b"a\nb"]).lines == 2
    assert triage([b"a\nb\n"]).lines == 2


def test_a_line_without_end_is_cut_counted_and_does_not_disturb_the_numbers() -> None:
    huge = b"torch.OutOfMemoryError: CUDA out of memory. " + b"x" * (3 * LONGEST)
    oom = b"\ntorch.OutOfMemoryError: CUDA out of memory.\n"
    data = b"first\n" + huge + oom
    found = triage(data[at : at + 10_000] for at in range(0, len(data), 10_000))
    (one,) = found.causes
    assert (found.lines, found.cut, one.first_line) == (3, 1, 2)


def test_what_the_reader_keeps_stays_small() -> None:
    reader = LineReader()
    for _ in range(50):
        list(reader.feed(b"y" * 100_000))
        assert len(reader._kept) <= 2 * LONGEST
