"""Advice over windows: what shows at once, what must hold first, and what fades."""

from dataclasses import replace

from sidecar.advise.hold import HELD, HOLD_WINDOWS, HORIZON_WINDOWS, QUIET_WINDOWS
from sidecar.advise.memory import Advisor
from sidecar.model.advice import Lever
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Cause, Kind, Phase, ServerState, Severity
from tests.advise.cases import CARD, CROWDED, MIX, make_judgement, thrash, told

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
    seen = [thrash(0, limits=LIMITS)]
    seen += [thrash(i, limits=LIMITS, budget=LARGE) for i in range(1, HOLD_WINDOWS + 1)]
    shown = levers(*seen)
    assert shown[:-1] == [Lever.LOWER_MAX_NUM_SEQS] * HOLD_WINDOWS
    assert shown[-1] is Lever.LOWER_MAX_MODEL_LEN


def test_a_lever_that_gave_way_comes_back_after_the_horizon() -> None:
    seen = [thrash(0, limits=LIMITS)]
    seen += [thrash(i, limits=LIMITS, budget=LARGE) for i in range(1, HOLD_WINDOWS + 1)]
    seen += [thrash(i, limits=LIMITS) for i in range(HOLD_WINDOWS + 1, 40)]
    shown = levers(*seen)
    back = shown.index(Lever.LOWER_MAX_NUM_SEQS, HOLD_WINDOWS)
    assert back - HOLD_WINDOWS >= HORIZON_WINDOWS
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


def test_advice_goes_with_the_load() -> None:
    assert levers(thrash(0), make_judgement(1, waiting=0.0, usage=0.4))[-1] is Lever.NONE


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


def test_the_figure_of_a_step_holds_still_while_it_is_about_the_same() -> None:
    advisor = Advisor()
    values = []
    for index, holds in enumerate((6.8, 5.5, 7.9, 6.1, 3.1)):
        step = advisor.advise(thrash(index, budget=replace(MIX, safe_concurrency=holds))).step
        assert step is not None
        values.append(step.value)
    assert values == [6.0, 6.0, 6.0, 6.0, 3.0]


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
    assert len(advisor.changes.done) <= 20
    assert len(advisor.steady.left) <= len(Lever)
