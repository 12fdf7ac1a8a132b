"""Criteria on made stages: what is met, what is not, what nobody could tell; and the bounds that follow."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.envelope.accept import accept, find_bounds
from sidecar.envelope.criteria import is_good, judge_stage
from sidecar.model.budget import Binding, Lengths
from sidecar.model.envelope import (
    Bounds,
    Client,
    ClientView,
    Criterion,
    Finding,
    Objectives,
    Quantiles,
    ServerView,
    Stage,
    StageRun,
)
from sidecar.model.vocabulary import Cause, Verdict

ASKED = Objectives(ttft_p95=0.5, inter_token_p95=0.05, e2e_p95=5.0, queue_p95=0.3)
VIEW = ServerView(
    seconds=60.0,
    completed=200.0,
    aborted=0.0,
    errors=0.0,
    rejected=0.0,
    preemptions=0.0,
    cache_peak=0.6,
    queue=Quantiles(p95=0.1),
    ttft=Quantiles(p95=0.2),
    inter_token=Quantiles(p95=0.02),
    e2e=Quantiles(p95=3.0),
    output_tokens_per_second=1000.0,
    running_peak=8.0,
    waiting_peak=1.0,
    per_running=400.0,
    prompt=Lengths(64.0, 64.0, 80.0, 90.0),
    output=Lengths(700.0, 700.0, 800.0, 900.0),
    drained_s=0.5,
    queue_grew=False,
    binding=Binding.NONE,
    verdicts={Verdict.NONE: 12},
)
CLIENT = ClientView(Client.VLLM_BENCH, completed=200.0, failed=0.0)
RUN = StageRun(1, VIEW, exit_code=0)


def stage(*views: ServerView, name: str = "c8", load: float = 8.0, **about: Any) -> Stage:
    runs = tuple(
        replace(StageRun(number, view, exit_code=0), **about)
        for number, view in enumerate(views, start=1)
    )
    return Stage(name, load, runs)


def finding(one: Stage, criterion: Criterion, objectives: Objectives = ASKED) -> Finding:
    return next(f for f in judge_stage(one, objectives) if f.criterion is criterion)


def test_a_stage_that_meets_everything_is_accepted() -> None:
    accepted = accept([stage(VIEW, VIEW)], ASKED, "c8")
    assert accepted.accepted
    assert [one.criterion for one in accepted.findings] == list(Criterion)
    assert {one.met for one in accepted.findings} == {True}
    assert {one.criterion: (one.figure, one.bound) for one in accepted.findings} == {
        Criterion.COMPLETES: (0.0, 0.0),
        Criterion.NO_OOM: (0.0, 0.0),
        Criterion.PREEMPTION: (0.0, 0.01),
        Criterion.TTFT_P95: (0.2, 0.5),
        Criterion.INTER_TOKEN_P95: (0.02, 0.05),
        Criterion.E2E_P95: (3.0, 5.0),
        Criterion.QUEUE_P95: (0.1, 0.3),
        Criterion.QUEUE_STOPS_GROWING: (None, None),
        Criterion.DRAINS: (0.5, None),
        Criterion.REPEATS_AGREE: (0.0, 0.15),
    }


def test_only_latencies_that_were_asked_for_are_judged() -> None:
    asked = {one.criterion for one in judge_stage(stage(VIEW, VIEW), Objectives(e2e_p95=5.0))}
    assert Criterion.E2E_P95 in asked
    assert not asked & {Criterion.TTFT_P95, Criterion.INTER_TOKEN_P95, Criterion.QUEUE_P95}


NOT_MET: dict[str, tuple[Criterion, dict[str, Any], float | None]] = {
    "aborted": (Criterion.COMPLETES, {"aborted": 50.0}, 0.2),
    "errors": (Criterion.COMPLETES, {"errors": 200.0}, 0.5),
    "rejected": (Criterion.COMPLETES, {"rejected": 600.0}, 0.75),
    "nothing": (Criterion.COMPLETES, {"completed": 0.0}, None),
    "host_oom": (Criterion.NO_OOM, {"verdicts": {Verdict.HOST_OOM: 1, Verdict.NONE: 1}}, 1.0),
    "cuda_oom": (Criterion.NO_OOM, {"verdicts": {Verdict.CUDA_OOM: 2}}, 2.0),
    "preempts": (Criterion.PREEMPTION, {"preemptions": 4.0}, 0.02),
    "ttft": (Criterion.TTFT_P95, {"ttft": Quantiles(p95=0.6)}, 0.6),
    "inter_token": (Criterion.INTER_TOKEN_P95, {"inter_token": Quantiles(p95=0.06)}, 0.06),
    "e2e": (Criterion.E2E_P95, {"e2e": Quantiles(p95=5.1)}, 5.1),
    "queue": (Criterion.QUEUE_P95, {"queue": Quantiles(p95=1.0)}, 1.0),
    "grows": (Criterion.QUEUE_STOPS_GROWING, {"queue_grew": True}, None),
    "left": (Criterion.DRAINS, {"drained_s": None}, None),
}


@pytest.mark.parametrize("name", NOT_MET)
def test_one_repeat_that_fails_is_enough(name: str) -> None:
    criterion, changed, figure = NOT_MET[name]
    bad = replace(VIEW, **changed)
    for views in ((VIEW, bad), (bad, VIEW)):
        found = finding(stage(*views), criterion)
        assert found.met is False
        if figure is not None:
            assert found.figure == pytest.approx(figure)
        assert not accept([stage(*views)], ASKED, "c8").accepted


UNTOLD: dict[str, tuple[Criterion, dict[str, Any], str]] = {
    "ends": (
        Criterion.COMPLETES,
        {"aborted": None, "errors": None, "rejected": None},
        "nobody counted the requests that failed",
    ),
    "unknown": (
        Criterion.NO_OOM,
        {"verdicts": {Verdict.NONE: 10, Verdict.UNKNOWN: 2}},
        "windows that could not show it: unknown were 2 of 24",
    ),
    "blind": (
        Criterion.NO_OOM,
        {"unobservable": {Cause.HOST_OOM: 3, Cause.STALLED: 1}},
        "windows that could not show it: host_oom in 3 of 24",
    ),
    "preemptions": (
        Criterion.PREEMPTION,
        {"preemptions": None},
        "preemptions of a repeat were not counted",
    ),
    "ttft": (Criterion.TTFT_P95, {"ttft": Quantiles()}, "it was not measured in a repeat"),
    "queue": (Criterion.QUEUE_P95, {"queue": Quantiles()}, "it was not measured in a repeat"),
    "grows": (
        Criterion.QUEUE_STOPS_GROWING,
        {"queue_grew": None},
        "too few samples of a repeat tell it",
    ),
    "drains": (Criterion.DRAINS, {"drained_s": None, "running_peak": None}, "it was not seen"),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_what_nobody_could_measure_is_not_met_and_says_so(name: str) -> None:
    criterion, changed, why = UNTOLD[name]
    one = stage(VIEW, replace(VIEW, **changed))
    found = finding(one, criterion)
    assert found.met is None
    assert found.figure is None
    assert found.why == why
    assert not is_good(judge_stage(one, ASKED))


def test_no_window_shows_nothing() -> None:
    found = finding(stage(replace(VIEW, verdicts={}), replace(VIEW, verdicts={})), Criterion.NO_OOM)
    assert (found.met, found.why) == (None, "no window was judged")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"killed": Verdict.HOST_OOM}, "repeat 1: the server died (host_oom)"),
        ({"whole": False}, "repeat 1: it ended early"),
        ({"exit_code": 7}, "repeat 1: the load's command ended with 7"),
    ],
)
def test_a_repeat_that_did_not_go_to_its_end_completes_nothing(
    changed: dict[str, Any], why: str
) -> None:
    found = finding(stage(VIEW, VIEW, **changed), Criterion.COMPLETES)
    assert (found.met, found.why) == (False, why)


def test_a_death_by_oom_is_an_oom_also_where_its_window_is_not_counted() -> None:
    one = stage(VIEW, VIEW, killed=Verdict.CUDA_OOM)
    assert finding(one, Criterion.NO_OOM).met is False


def test_requests_that_only_the_client_lost_count() -> None:
    client = replace(CLIENT, completed=190.0, failed=10.0)
    found = finding(stage(VIEW, VIEW, client=client), Criterion.COMPLETES)
    assert found.met is False
    assert found.figure == pytest.approx(0.05)
    tolerant = replace(ASKED, errors=0.05)
    assert finding(stage(VIEW, VIEW, client=client), Criterion.COMPLETES, tolerant).met is True
    untold = replace(VIEW, completed=None, aborted=None)
    assert finding(stage(untold, untold, client=CLIENT), Criterion.COMPLETES).met is True


def test_a_latency_that_the_server_does_not_tell_is_the_clients() -> None:
    untold = replace(VIEW, ttft=Quantiles())
    client = replace(CLIENT, ttft=Quantiles(p95=0.4))
    found = finding(stage(untold, untold, client=client), Criterion.TTFT_P95)
    assert (found.met, found.figure, found.why) == (True, 0.4, "by the client")


def test_repeats_agree_within_what_was_asked() -> None:
    slower = replace(VIEW, output_tokens_per_second=860.0)
    assert finding(stage(VIEW, slower), Criterion.REPEATS_AGREE).met is True
    slower = replace(VIEW, output_tokens_per_second=840.0)
    found = finding(stage(VIEW, slower), Criterion.REPEATS_AGREE)
    assert found.met is False
    assert found.figure == pytest.approx(0.16)
    assert found.why == "farthest: output_tokens_per_second"


def test_small_differences_are_none_however_large_their_share() -> None:
    other = replace(
        VIEW,
        ttft=Quantiles(p95=0.24),
        inter_token=Quantiles(p95=0.024),
        e2e=Quantiles(p95=3.09),
        preemptions=2.0,
    )
    assert finding(stage(VIEW, other), Criterion.REPEATS_AGREE).figure == 0.0
    other = replace(VIEW, ttft=Quantiles(p95=0.3))
    assert finding(stage(VIEW, other), Criterion.REPEATS_AGREE).met is False


def test_one_repeat_agrees_with_nobody() -> None:
    found = finding(stage(VIEW), Criterion.REPEATS_AGREE)
    assert (found.met, found.why) == (None, "there is one repeat only")
    empty = ServerView(seconds=0.0)
    found = finding(stage(empty, empty), Criterion.REPEATS_AGREE)
    assert (found.met, found.why) == (None, "no figure was told by all repeats")


def test_a_stage_that_was_not_run_is_not_accepted() -> None:
    missing = accept([stage(VIEW, VIEW)], ASKED, "c16")
    assert not missing.accepted
    assert missing.findings == (
        Finding(Criterion.COMPLETES, None, 0.0, met=None, why="the stage was not run"),
    )
    bare = accept([Stage("c8", 8.0, ())], ASKED, "c8")
    assert not bare.accepted
    assert bare.findings[0].why == "no repeat was run"


# Bounds

BAD = replace(VIEW, preemptions=20.0, binding=Binding.CACHE)


def rising(*views: ServerView) -> list[Stage]:
    return [
        stage(view, view, name=f"c{load}", load=load)
        for load, view in zip((1, 2, 4, 8, 16), views, strict=False)
    ]


def test_the_safe_load_is_the_last_good_one_less_a_margin() -> None:
    other = replace(VIEW, running_peak=9.0, output_tokens_per_second=900.0, e2e=Quantiles(p95=3.2))
    stages = [*rising(VIEW, VIEW), stage(VIEW, other, name="c4", load=4.0)]
    stages += [stage(BAD, BAD, name="c8", load=8.0)]
    bounds = find_bounds(stages, ASKED)
    assert bounds == Bounds(
        last_good="c4",
        first_preempting="c8",
        safe_load=4.0 * 0.9,
        running=9.0,
        waiting=1.0,
        cache_peak=0.6,
        per_running=400.0,
        ttft_p95=0.2,
        inter_token_p95=0.02,
        e2e_p95=3.2,
        output_tokens_per_second=950.0,
        prompt=Lengths(64.0, 64.0, 80.0, 90.0),
        output=Lengths(700.0, 700.0, 800.0, 900.0),
        binding=Binding.CACHE,
    )


def test_a_good_stage_above_a_bad_one_raises_no_bound() -> None:
    bounds = find_bounds(rising(VIEW, BAD, VIEW, VIEW), ASKED)
    assert (bounds.last_good, bounds.first_preempting) == ("c1", "c2")
    accepted = accept(rising(VIEW, BAD, VIEW), ASKED, "c4")
    assert accepted.accepted


def test_where_all_is_well_the_highest_load_is_the_last_good_one() -> None:
    bounds = find_bounds(rising(VIEW, VIEW, VIEW), ASKED)
    assert (bounds.last_good, bounds.first_preempting) == ("c4", None)
    assert bounds.binding is Binding.NONE


def test_where_nothing_is_well_nothing_is_safe() -> None:
    bounds = find_bounds(rising(BAD, BAD), ASKED)
    assert bounds == Bounds(first_preempting="c1", binding=Binding.CACHE)
    assert find_bounds([], ASKED) == Bounds()


def test_a_stage_may_be_bad_before_it_preempts() -> None:
    slow = replace(VIEW, e2e=Quantiles(p95=9.0), binding=Binding.ADMISSION)
    bounds = find_bounds(rising(VIEW, slow, BAD), ASKED)
    assert (bounds.last_good, bounds.first_preempting) == ("c1", "c4")
    assert bounds.binding is Binding.ADMISSION


def test_preemption_within_the_tolerance_is_no_knee() -> None:
    few = replace(VIEW, preemptions=2.0)
    assert find_bounds(rising(few), ASKED).first_preempting is None
    strict = replace(ASKED, preemptions_per_request=0.0)
    assert find_bounds(rising(few), strict).first_preempting == "c1"
    lost = replace(VIEW, preemptions=1.0, completed=0.0)
    assert find_bounds(rising(lost), ASKED).first_preempting == "c1"


@given(st.lists(st.booleans(), max_size=5), st.randoms())
def test_the_last_good_stage_ends_the_unbroken_row_of_good_ones(
    good: list[bool], dice: Any
) -> None:
    stages = rising(*(VIEW if one else BAD for one in good))
    unbroken = next((n for n, one in enumerate(good) if not one), len(good))
    shuffled = list(stages)
    dice.shuffle(shuffled)
    bounds = find_bounds(shuffled, ASKED)
    assert bounds == find_bounds(stages, ASKED)
    assert bounds.last_good == (stages[unbroken - 1].name if unbroken else None)
    assert (bounds.safe_load is None) == (not unbroken)


@given(
    st.lists(
        st.builds(
            replace,
            st.just(VIEW),
            completed=st.none() | st.floats(0, 1e6),
            preemptions=st.none() | st.floats(0, 1e6),
            e2e=st.builds(Quantiles, p95=st.none() | st.floats(0, 10)),
            queue_grew=st.none() | st.booleans(),
            drained_s=st.none() | st.floats(0, 10),
        ),
        min_size=1,
        max_size=4,
    ),
    st.randoms(),
)
def test_the_order_of_repeats_does_not_matter(views: list[ServerView], dice: Any) -> None:
    one = judge_stage(stage(*views), ASKED)
    dice.shuffle(views)
    other = judge_stage(stage(*views), ASKED)
    assert [(f.criterion, f.figure, f.met) for f in one] == [
        (f.criterion, f.figure, f.met) for f in other
    ]
