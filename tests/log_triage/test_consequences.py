"""A death counts only where nothing explains it: no root, and no wish to stop."""

import pytest

from sidecar.log_triage import LogTriage, triage
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase, Verdict

READY = "(APIServer pid=1) INFO:     Application startup complete."
START = (
    "(EngineCore pid=7) INFO 10-24 01:00:00 [core.py:133] Initializing a V1 LLM engine (v0.32.0)"
)
DIED = "(APIServer pid=1) ERROR 10-24 {}:26:58 [core_client.py:605] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client."
DEAD = "(APIServer pid=1) ERROR 10-24 {}:26:58 [x.py:1] EngineDeadError: EngineCore encountered an issue."
OOM = "(EngineCore pid=7) ERROR 10-24 01:26:57 [core.py:710] torch.OutOfMemoryError: CUDA out of memory."
STOP = "(APIServer pid=1) INFO 10-24 01:26:50 [launcher.py:254] [shutdown] API server: shutdown triggered"
UVICORN = "INFO:     Shutting down"


def read(*lines: str) -> LogTriage:
    return triage(["\n".join(lines).encode()])


def test_a_death_without_a_root_is_an_engine_failure() -> None:
    (one,) = read(READY, DIED.format("01"), DEAD.format("01"), UVICORN).causes
    assert (one.cause, one.kind, one.count) == (Cause.ENGINE_FAILURE, Kind.KILLED, 1)
    assert one.phase is Phase.RUNTIME


@pytest.mark.parametrize("lines", [(OOM, DIED.format("01")), (DIED.format("01"), OOM)])
def test_a_root_explains_the_deaths_around_it(lines: tuple[str, str]) -> None:
    assert [one.cause for one in read(READY, *lines).causes] == [Cause.CUDA_OOM]


def test_a_root_of_the_morning_does_not_explain_a_death_in_the_evening() -> None:
    found = read(READY, OOM, DIED.format("20"))
    assert [one.cause for one in found.causes] == [Cause.CUDA_OOM, Cause.ENGINE_FAILURE]


@pytest.mark.parametrize("stop", [STOP, UVICORN])
def test_deaths_after_a_stop_are_harmless(stop: str) -> None:
    found = read(READY, stop, DIED.format("01"), DEAD.format("01"))
    assert found.verdict is Verdict.NONE
    assert found.causes == ()


def test_a_stop_that_only_follows_a_death_explains_nothing() -> None:
    assert read(READY, DIED.format("01"), UVICORN, DEAD.format("01")).verdict == "engine_failure"


def test_a_stop_ends_with_the_next_start() -> None:
    assert read(READY, STOP, START, READY, DIED.format("01")).verdict is Verdict.ENGINE_FAILURE


def test_an_out_of_memory_counts_even_while_stopping() -> None:
    assert read(READY, STOP, OOM).verdict is Verdict.CUDA_OOM


@pytest.mark.parametrize(
    ("code", "kind"), [("-9", Kind.KILLED), ("-11", Kind.CRASHED), ("None", Kind.KILLED)]
)
def test_the_exit_code_tells_a_crash_from_a_kill(code: str, kind: Kind) -> None:
    line = f"ERROR 11-29 22:32:53 [m.py:315] Worker proc VllmWorker-0 died unexpectedly (exit code: {code}), shutting down executor."
    (one,) = read(line).causes
    assert one.kind is kind


@pytest.mark.parametrize(
    "line",
    ["Killed", "      Exit Code:    137", "Exited with code 137", "x: line 1: 7 Killed ( y )"],
)
def test_a_bare_kill_is_suspected_and_no_memory_cause(line: str) -> None:
    (one,) = read(line).causes
    assert (one.cause, one.confidence) == (Cause.ENGINE_FAILURE, Confidence.SUSPECTED)
