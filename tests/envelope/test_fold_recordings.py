"""Stages of a real stepped benchmark, folded: what its own counters and its clients say of each."""

import json
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from sidecar.classify.policy import Policy
from sidecar.derive.latency import count_outcomes
from sidecar.envelope.accept import find_bounds
from sidecar.envelope.agreement import find_disagreements
from sidecar.envelope.clients import read_result
from sidecar.envelope.fold import Folded, LiveRules, Load, fold
from sidecar.model.budget import Binding
from sidecar.model.envelope import ClientView, Objectives, Stage, StageRun
from sidecar.model.samples import Tick
from sidecar.model.vocabulary import Cause, Source, Verdict
from sidecar.pipeline import Pipeline
from sidecar.recording.folder import Recording
from sidecar.recording.gridded_ticks import read_ticks

FOLDER = Path(__file__).parents[1] / "data/recordings/m_capacity_stages_vllm_bench"
RULES = LiveRules(10.0, Policy(), frozenset({Source.VLLM_METRICS, Source.VLLM_LOG}))
LATE_S = 2.0
"""A stage began at once after the one before: its last scrapes tell of that one."""


@dataclass(frozen=True)
class Told:
    """What was known of a stage before."""

    load: int
    completed: float
    preemptions: float
    waiting: float


TOLD = (
    Told(1, 5, 0, 0),
    Told(2, 10, 0, 0),
    Told(4, 20, 0, 0),
    Told(8, 32, 9, 2),
    Told(16, 48, 49, 10),
)


@cache
def ticks(interval_s: float) -> tuple[Tick, ...]:
    return tuple(read_ticks(Recording(FOLDER), interval_s))


@cache
def folded(load: int, interval_s: float = 1.0) -> Folded:
    rows = json.loads((FOLDER / "stages.json").read_text())
    begin, end = next(
        (one["t"], other["t"])
        for one, other in pairwise(rows)
        if one["what"] == "stage_begin" and one["detail"]["concurrency"] == load
    )
    of_stage = [tick for tick in ticks(interval_s) if begin - 5 <= tick.at.unix <= end + LATE_S]
    return fold(of_stage, Load(begin + LATE_S, end, end + LATE_S), RULES)


@cache
def client(load: int) -> ClientView:
    return read_result((FOLDER / f"stage_c{load}.json").read_text())


@pytest.mark.parametrize("told", TOLD, ids=lambda told: f"c{told.load}")
def test_a_stage_is_what_its_clients_and_its_counters_say(told: Told) -> None:
    view = folded(told.load).server
    assert view.completed == told.completed == client(told.load).completed
    assert (view.aborted, view.errors) == (0.0, 0.0)
    assert view.preemptions == told.preemptions
    assert view.waiting_peak == told.waiting
    assert view.running_peak is not None
    assert view.running_peak <= told.load
    assert view.output.mean == 700.0
    assert view.prompt.mean == pytest.approx(64, abs=2)


@pytest.mark.parametrize("told", TOLD, ids=lambda told: f"c{told.load}")
def test_begin_and_end_of_a_run_are_found_to_an_interval(told: Told) -> None:
    for interval_s in (0.5, 1.0, 2.0):
        view = folded(told.load, interval_s).server
        theirs = client(told.load).seconds
        assert theirs is not None
        # The client's run also holds what it does before its first and after its last request.
        assert -1.5 * interval_s <= theirs - view.seconds <= interval_s + 1.5


@pytest.mark.parametrize("told", TOLD, ids=lambda told: f"c{told.load}")
def test_rates_and_means_are_of_the_run_and_not_of_the_time_around_it(told: Told) -> None:
    view = folded(told.load).server
    assert view.output_tokens_per_second == pytest.approx(700 * told.completed / view.seconds)
    assert view.e2e.mean is not None
    assert 1.3 < view.e2e.mean < 2.3
    assert view.cache_mean is not None
    assert view.cache_peak is not None
    assert 0 < view.cache_mean < view.cache_peak <= 1


def test_the_one_client_on_an_idle_machine_agrees_with_the_server() -> None:
    assert find_disagreements(folded(1).server, client(1), 1.0) == ()


def test_clients_that_starve_are_told_from_the_server() -> None:
    found = {one.figure for one in find_disagreements(folded(16).server, client(16), 1.0)}
    assert found == {"ttft_mean", "e2e_mean"}


def test_verdicts_are_those_of_the_live_windows() -> None:
    assert set(folded(2).server.verdicts) == {Verdict.NONE}
    assert folded(16).server.verdicts[Verdict.PREEMPTION] >= 1
    assert sum(folded(16).server.verdicts.values()) >= 2
    windows = sum(folded(4).server.verdicts.values())
    # Nothing of the host was recorded.
    assert folded(4).server.unobservable == {Cause.HOST_OOM: windows}


def test_what_binds_is_the_cache_once_it_preempts() -> None:
    bindings = {told.load: folded(told.load).server.binding for told in TOLD}
    assert bindings == {
        1: Binding.NONE,
        2: Binding.NONE,
        4: Binding.NONE,
        8: Binding.CACHE,
        16: Binding.CACHE,
    }


def test_the_knee_is_the_first_stage_that_preempts() -> None:
    stages = [
        Stage(f"c{told.load}", told.load, (StageRun(1, folded(told.load).server, exit_code=0),))
        for told in TOLD
    ]
    bounds = find_bounds(stages, Objectives())
    assert bounds.first_preempting == "c8"
    # Nobody could have seen a host OOM, and nothing was repeated.
    assert bounds.last_good is None


def test_the_server_is_known_by_what_it_tells() -> None:
    identity = folded(4).identity
    assert identity.model_name == "tiny"
    assert identity.vllm_version == "0.32.0"
    assert identity.capacity == 4128
    assert identity.limits["max_model_len"] == 2048
    assert not identity.limits.keys() & {"kv_capacity_tokens", "kv_memory_bytes"}
    assert folded(4).killed is None


def test_windows_of_any_length_add_up_to_the_whole() -> None:
    whole = fold(ticks(1.0), Load(0.0, 1e10), RULES).server
    for window_s in (2.0, 5.0, 15.0, 1000.0):
        pipeline = Pipeline(window_s=window_s, policy=Policy(), configured=RULES.asked)
        judged = [one for tick in ticks(1.0) for one in pipeline.step(tick).closed]
        judged += pipeline.finish()
        engines = [engine for one in judged for engine in one.window.engines.values()]
        assert sum(e.deltas.get("preemptions", 0.0) for e in engines) == whole.preemptions == 58
        made = sum(e.deltas.get("generation_tokens", 0.0) for e in engines)
        assert whole.output_tokens_per_second == pytest.approx(made / whole.seconds)
        ended = sum(sum(count_outcomes(one.window).values()) for one in judged)
        assert ended == whole.completed == 115
        counted = sum(e.histograms["e2e"].count for e in engines if "e2e" in e.histograms)
        assert counted == whole.completed


@pytest.mark.parametrize("scenario", ["f1_host_oom_enginecore", "i_enginecore_sigkill"])
def test_a_server_that_dies_in_a_run_is_told_with_its_cause(scenario: str) -> None:
    recording = Recording(FOLDER.parent / scenario)
    rules = LiveRules(10.0, Policy(), recording.sources())
    killed = fold(read_ticks(recording, 1.0), Load(0.0, 1e10), rules).killed
    expected = {
        "f1_host_oom_enginecore": Verdict.HOST_OOM,
        "i_enginecore_sigkill": Verdict.ENGINE_FAILURE,
    }
    assert killed is expected[scenario]


def test_a_run_in_two_engines_is_one_run() -> None:
    recording = Recording(FOLDER.parent / "j_dp2")
    view = fold(
        read_ticks(recording, 1.0), Load(0.0, 1e10), LiveRules(10.0, Policy(), recording.sources())
    ).server
    pipeline = Pipeline(window_s=1e12, policy=Policy(), configured=recording.sources())
    for tick in read_ticks(recording, 1.0):
        pipeline.step(tick)
    (judgement,) = pipeline.finish()
    engines = judgement.window.engines
    assert len(engines) == 2
    assert view.completed == sum(sum(engine.outcomes.values()) for engine in engines.values())
    usage = [engine.gauges["kv_cache_usage"].greatest for engine in engines.values()]
    assert view.cache_peak == max(usage)
    assert sum(usage) > view.cache_peak
