"""Advice over windows: what shows at once, what must hold first, and what fades."""

from dataclasses import replace

import pytest

from sidecar.advise.hold import HELD, HOLD_WINDOWS, HORIZON_WINDOWS, QUIET_WINDOWS
from sidecar.advise.memory import Advisor
from sidecar.model.advice import Lever
from sidecar.model.budget import Lengths
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Cause, Kind, Phase, ServerState, Severity
from tests.advise.cases import CARD, CROWDED, GIB, MIX, make_judgement, thrash, told

LARGE = replace(MIX, largest_share=0.9)
LIMITS = told(max_num_seqs=32.0, max_model_len=32768.0)
OOM = (Cause.CUDA_OOM, Kind.ALLOCATION_FAILURE, Severity.CRITICAL)
REFUSED = (Cause.CUDA_OOM, Kind.CAPACITY_REJECTION, Severity.CRITICAL)


def levers(*judgements: Judgement) -> list[Lever]:
    advisor = Advisor()
    return [advisor.advise(judgement).lever for judgement in judgements]


def test_the_first_lever_shows_at_once() -> None:
    assert levers(thrash(0)) == [Lever.LOWER_MAX_NUM_SEQS]


def test_another_lever_must_hold_first() -> None:
    seen = [thrash(i, limits=LIMITS) for i in range(2)]
    seen += [thrash(2 + i, limits=LIMITS, budget=LARGE) for i in range(HOLD_WINDOWS)]
    shown = levers(*seen)
    assert shown[:-1] == [Lever.LOWER_MAX_NUM_SEQS] * (HOLD_WINDOWS + 1)
    assert shown[-1] is Lever.LOWER_MAX_MODEL_LEN


def test_a_lever_that_gave_way_comes_back_after_the_horizon() -> None:
    seen = [thrash(i, limits=LIMITS) for i in range(2)]
    seen += [thrash(2 + i, limits=LIMITS, budget=LARGE) for i in range(HOLD_WINDOWS)]
    seen += [thrash(i, limits=LIMITS) for i in range(HOLD_WINDOWS + 2, 40)]
    shown = levers(*seen)
    gone = shown.index(Lever.LOWER_MAX_MODEL_LEN)
    back = shown.index(Lever.LOWER_MAX_NUM_SEQS, gone)
    assert back - gone >= HORIZON_WINDOWS
    assert set(shown[back:]) == {Lever.LOWER_MAX_NUM_SEQS}


def test_failures_show_at_once_and_go_with_their_window() -> None:
    shown = levers(
        thrash(0),
        make_judgement(1, cause=(Cause.HOST_OOM, Kind.CGROUP, Severity.CRITICAL)),
        make_judgement(2, waiting=0.0, usage=0.0),
        thrash(3),
    )
    assert shown == [
        Lever.LOWER_MAX_NUM_SEQS,
        Lever.RAISE_HOST_MEMORY_LIMIT,
        Lever.NONE,
        Lever.LOWER_MAX_NUM_SEQS,
    ]


def test_a_quiet_window_under_load_keeps_the_lever_and_says_so() -> None:
    advisor = Advisor()
    first = advisor.advise(thrash(0))
    shown = [advisor.advise(make_judgement(i, usage=0.6)) for i in range(1, QUIET_WINDOWS + 1)]
    for kept in shown[:-1]:
        assert kept.lever is Lever.LOWER_MAX_NUM_SEQS
        assert kept.because == (HELD, *first.because)
    assert shown[-1].lever is Lever.NONE


def calm(index: int) -> Judgement:
    return make_judgement(index, waiting=0.0, usage=0.25)


def test_advice_goes_with_the_load_once_it_is_quiet() -> None:
    shown = levers(thrash(0), *(calm(i) for i in range(1, QUIET_WINDOWS + 1)))
    assert shown == [Lever.LOWER_MAX_NUM_SEQS] * QUIET_WINDOWS + [Lever.NONE]


@pytest.mark.parametrize("period", [2, 3, QUIET_WINDOWS])
def test_a_load_that_comes_in_bursts_keeps_its_lever(period: int) -> None:
    shown = levers(*(calm(i) if i % period else thrash(i) for i in range(40)))
    assert set(shown) == {Lever.LOWER_MAX_NUM_SEQS}


def test_advice_goes_with_the_server() -> None:
    gone = make_judgement(1, served=False, state=ServerState.STOPPED, phase=Phase.UNKNOWN)
    assert levers(thrash(0), gone)[-1] is Lever.NONE


def test_a_window_in_which_nothing_was_read_keeps_the_lever() -> None:
    blind = make_judgement(1, served=False)
    assert levers(thrash(0), blind)[-1] is Lever.LOWER_MAX_NUM_SEQS


def test_tolerated_preemptions_end_the_advice_too() -> None:
    tolerated = (Cause.PREEMPTION, Kind.RECOMPUTE, Severity.INFO)
    seen = [thrash(0)]
    seen += [make_judgement(i, preemptions=1.0, cause=tolerated) for i in range(1, 6)]
    assert levers(*seen)[-1] is Lever.NONE


def step_of(advisor: Advisor, judgement: Judgement) -> float | None:
    step = advisor.advise(judgement).step
    assert step is not None
    return step.value


def test_the_figure_of_a_step_holds_still_while_it_is_about_the_same() -> None:
    advisor = Advisor()
    values = [
        step_of(advisor, thrash(index, budget=replace(MIX, safe_concurrency=holds)))
        for index, holds in enumerate((6.8, 5.5, 7.9, 6.1, 1.1, 1.2, 6.4))
    ]
    assert values == [6.0] * 7


def test_another_figure_is_said_once_it_has_held() -> None:
    advisor = Advisor()
    values = [
        step_of(advisor, thrash(index, budget=replace(MIX, safe_concurrency=holds)))
        for index, holds in enumerate([11.5] + [4.5] * 6)
    ]
    # The median is far off from the third window on.
    assert values == [11.0] * 4 + [4.0] * 3


def test_a_shorter_context_is_never_shorter_than_what_came_since() -> None:
    def large(index: int, tokens: float) -> Judgement:
        budget = replace(LARGE, prompt=Lengths(p99=tokens), output=Lengths(p99=0.0))
        return thrash(index, budget=budget, limits=LIMITS)

    advisor = Advisor()
    shown = [advisor.advise(large(i, tokens)) for i, tokens in enumerate([9e3] * 6 + [12e3, 9e3])]
    steps = [a.step.value if a.step else None for a in shown[-3:]]
    assert {a.lever for a in shown[-3:]} == {Lever.LOWER_MAX_MODEL_LEN}
    assert steps == [11264.0, 15104.0, 15104.0]


def test_the_longest_requests_of_the_horizon_count() -> None:
    def large(index: int, tokens: float) -> Judgement:
        budget = replace(LARGE, prompt=Lengths(p99=tokens), output=Lengths(p99=0.0))
        return thrash(index, budget=budget, limits=LIMITS)

    shown = levers(*(large(i, 29e3 if i < 4 else 2e3) for i in range(12)))
    assert Lever.LOWER_MAX_MODEL_LEN not in shown


def test_a_server_whose_own_memory_grows_gets_no_more_cache() -> None:
    def leaks(index: int, step: int) -> Judgement:
        own = 40 * GIB + index * step
        return thrash(index, gpus=(replace(CARD, vllm=own, used=own),))

    assert set(levers(*(leaks(i, 0) for i in range(100)))) == {Lever.RAISE_KV_CACHE_MEMORY}
    shown = levers(*(leaks(i, GIB // 20) for i in range(100)))
    # 1 % of 80 GiB is reached after 16 windows of 51 MiB each.
    assert shown.index(Lever.LOWER_MAX_NUM_SEQS) == 17
    assert Lever.RAISE_KV_CACHE_MEMORY not in shown[17:]


def test_memory_that_a_new_start_takes_is_no_growth() -> None:
    small = replace(CARD, vllm=GIB, used=GIB)
    seen = [make_judgement(0, gpus=(small,))]
    seen += [thrash(i, gpus=(CARD,), restarted=i == 1) for i in range(1, 4)]
    assert levers(*seen)[-1] is Lever.RAISE_KV_CACHE_MEMORY


def test_more_cache_goes_at_once_where_it_is_not_safe_any_more() -> None:
    shown = levers(thrash(0, gpus=(CARD,)), thrash(1, gpus=(CROWDED,)), thrash(2, gpus=(CARD,)))
    assert shown == [
        Lever.RAISE_KV_CACHE_MEMORY,
        Lever.LOWER_MAX_NUM_SEQS,
        Lever.LOWER_MAX_NUM_SEQS,
    ]


def test_more_cache_is_not_kept_through_quiet_windows_that_make_it_unsafe() -> None:
    shown = levers(thrash(0, gpus=(CARD,)), make_judgement(1, gpus=(CROWDED,)))
    assert shown[-1] is Lever.NONE


def test_after_a_failed_allocation_no_more_cache() -> None:
    shown = levers(
        make_judgement(0, cause=OOM, gpus=(CARD,)),
        thrash(1, gpus=(CARD,)),
        # A restart within the hour does not make it forgotten.
        thrash(2, gpus=(CARD,), restarted=True),
    )
    assert shown == [
        Lever.LOWER_GPU_MEMORY_UTILIZATION,
        Lever.LOWER_MAX_NUM_SEQS,
        Lever.LOWER_MAX_NUM_SEQS,
    ]


def test_a_failed_allocation_is_forgotten_after_an_hour_and_a_restart() -> None:
    advisor = Advisor()
    advisor.advise(make_judgement(0, cause=OOM, gpus=(CARD,)))
    assert advisor.advise(thrash(400, gpus=(CARD,))).lever is Lever.LOWER_MAX_NUM_SEQS
    advisor.advise(make_judgement(401, restarted=True, waiting=0.0, usage=0.0))
    shown = [advisor.advise(thrash(index, gpus=(CARD,))) for index in range(440, 460)]
    assert shown[-1].lever is Lever.RAISE_KV_CACHE_MEMORY


def test_a_failed_start_speaks_against_more_cache_for_an_hour() -> None:
    refused = make_judgement(0, cause=REFUSED, phase=Phase.STARTUP, served=False)
    assert levers(refused, thrash(1, gpus=(CARD,)))[-1] is Lever.LOWER_MAX_NUM_SEQS
    assert levers(refused, thrash(400, gpus=(CARD,)))[-1] is Lever.RAISE_KV_CACHE_MEMORY


def test_a_cotenant_of_a_short_while_ago_speaks_against_more_cache() -> None:
    crowd = make_judgement(0, gpus=(replace(CARD, cotenant=8 * 1024**3),))
    assert levers(crowd, thrash(1, gpus=(CARD,)))[-1] is Lever.LOWER_MAX_NUM_SEQS
    assert levers(crowd, thrash(70, gpus=(CARD,)))[-1] is Lever.RAISE_KV_CACHE_MEMORY


def test_a_cotenant_that_died_with_the_server_is_remembered() -> None:
    crowd = make_judgement(0, gpus=(replace(CARD, cotenant=8 * 1024**3),))
    alone = replace(CARD, expected=False, vllm=0)
    assert levers(crowd, make_judgement(1, cause=OOM, gpus=(alone,)))[-1] is (
        Lever.FREE_COTENANT_MEMORY
    )


def test_an_urgent_failure_is_advised_and_not_remembered() -> None:
    advisor = Advisor()
    oom = make_judgement(0, cause=OOM)
    advice = advisor.advise_now(oom.window, oom.causes)
    assert advice.lever is Lever.LOWER_GPU_MEMORY_UTILIZATION
    assert advisor == Advisor()


def test_memory_is_bounded() -> None:
    advisor = Advisor()
    for index in range(2000):
        advisor.advise(thrash(index, gpus=(CARD,), restarted=index % 3 == 0))
    assert len(advisor.memory.peaks) <= 2
    assert len(advisor.memory.holds) <= 60
    assert len(advisor.memory.lengths) <= 29
    assert len(advisor.memory.own) == 1
    assert len(advisor.changes.done) <= 20
    assert len(advisor.steady.left) <= len(Lever)


def test_evidence_that_comes_and_goes_keeps_the_lever_between() -> None:
    """Requests evicted again and again in three windows, now and then in the next three."""
    limits = told(max_num_seqs=32.0, watermark=0.0)
    shown = levers(
        *(thrash(i, limits=limits, finished=400.0 if i // 3 % 2 else 10.0) for i in range(30))
    )
    assert Lever.NONE not in shown
    assert Lever.RAISE_WATERMARK in shown
