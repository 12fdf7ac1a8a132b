"""A change of the configuration: advice rests, and both sides are compared."""

from dataclasses import replace

import pytest

from sidecar.advise.change import (
    COMPARED_WINDOWS,
    LOOK_WINDOWS,
    REST_AT_MOST,
    REST_WINDOWS,
    compare,
)
from sidecar.advise.memory import Advisor
from sidecar.model.advice import Advice, Lever
from sidecar.model.limits import Known, Limit, Limits, Origin
from sidecar.model.saved_state import AdviceMemory, Checkpoint, Work
from sidecar.model.vocabulary import Cause, Kind, Phase, ServerState, Severity
from sidecar.parse.saved_state import decode_checkpoint, encode_checkpoint
from tests.advise.cases import make_judgement, thrash, told

BEFORE = told(max_num_seqs=32.0, max_model_len=2048.0)
AFTER = told(max_num_seqs=8.0, max_model_len=2048.0)
CALM = {"waiting": 0.0, "usage": 0.5}


def restart(
    advisor: Advisor, limits: Limits, *, first: int = 10, windows: int = 40
) -> list[Advice]:
    """Thrash under ``BEFORE``, a restart seen as the windows of a start-up, then calm."""
    for index in range(first):
        advisor.advise(thrash(index, limits=BEFORE))
    starting = make_judgement(
        first, limits={}, served=False, state=ServerState.STARTING, phase=Phase.STARTUP
    )
    advisor.advise(starting)
    return [
        advisor.advise(
            make_judgement(first + 1 + i, limits=limits, finished=20.0, tokens=20_000.0, **CALM)  # type: ignore[arg-type]
        )
        for i in range(windows)
    ]


def test_advice_rests_after_a_change_and_then_compares() -> None:
    shown = restart(Advisor(), AFTER)
    resting = shown[:REST_WINDOWS]
    assert all(a.resting and a.lever is Lever.NONE for a in resting)
    assert resting[0].because == (
        "max_num_seqs went from 32 to 8: both sides are measured before there is new advice",
    )
    compared = shown[REST_WINDOWS : REST_WINDOWS + COMPARED_WINDOWS]
    assert not any(a.resting for a in compared)
    (words,) = compared[0].because
    assert words.startswith("max_num_seqs went from 32 to 8: 4 preemptions for each request before")
    assert words.endswith("0 after; 1000 output tokens per second before, 2000 after")
    assert all(a.because and not a.resting for a in compared)
    assert all(a == Advice(Lever.NONE) for a in shown[REST_WINDOWS + COMPARED_WINDOWS :])


def test_pressure_gets_no_lever_while_advice_rests_and_one_afterwards() -> None:
    advisor = Advisor()
    shown = restart(advisor, AFTER, windows=1)
    shown += [advisor.advise(thrash(20 + i, limits=AFTER)) for i in range(REST_WINDOWS)]
    assert [a.lever for a in shown] == [Lever.NONE] * REST_WINDOWS + [Lever.LOWER_MAX_NUM_SEQS]
    assert "went from" in shown[-1].because[0]


def test_a_failure_shows_while_advice_rests() -> None:
    advisor = Advisor()
    restart(advisor, AFTER, windows=1)
    oom = (Cause.CUDA_OOM, Kind.ALLOCATION_FAILURE, Severity.CRITICAL)
    advice = advisor.advise(make_judgement(30, limits=AFTER, cause=oom))
    assert advice.lever is Lever.LOWER_GPU_MEMORY_UTILIZATION
    assert not advice.resting


@pytest.mark.parametrize(
    "limits",
    [
        BEFORE,
        told(max_num_seqs=32.0, max_model_len=2048.0, kv_capacity_tokens=5000.0),
        {},
        # Another place tells: what it says of what is in effect is no change.
        told(Origin.COMMAND_LINE, max_num_seqs=8.0),
    ],
)
def test_a_restart_without_a_change_brings_no_rest(limits: Limits) -> None:
    assert not any(a.resting for a in restart(Advisor(), limits))


def test_limits_that_become_known_during_one_life_are_no_change() -> None:
    advisor = Advisor()
    for index, limits in enumerate(({}, BEFORE, AFTER)):
        assert not advisor.advise(make_judgement(index, limits=limits)).resting


def test_a_restart_within_one_window_is_seen() -> None:
    advisor = Advisor()
    advisor.advise(make_judgement(0, limits=BEFORE))
    assert advisor.advise(make_judgement(1, limits=AFTER, restarted=True)).resting


def test_limits_that_come_late_in_a_new_life_are_compared() -> None:
    advisor = Advisor()
    advisor.advise(make_judgement(0, limits=BEFORE))
    assert not advisor.advise(make_judgement(1, limits={}, restarted=True)).resting
    assert not advisor.advise(
        make_judgement(2, limits=told(max_model_len=2048.0, max_num_seqs=32.0))
    ).resting
    late = {**AFTER, **told(Origin.COMMAND_LINE, watermark=0.05)}
    assert advisor.advise(make_judgement(3, limits=late)).resting


def test_limits_are_not_compared_for_ever() -> None:
    advisor = Advisor()
    advisor.advise(make_judgement(0, limits=BEFORE))
    for index in range(LOOK_WINDOWS):
        advisor.advise(make_judgement(1 + index, limits=BEFORE, restarted=index == 0))
    assert not advisor.advise(make_judgement(9, limits=AFTER)).resting


def test_a_second_change_begins_the_rest_anew() -> None:
    advisor = Advisor()
    restart(advisor, AFTER, windows=3)
    third = told(max_num_seqs=16.0, max_model_len=2048.0)
    shown = [
        advisor.advise(make_judgement(30 + i, limits=third, restarted=i == 0)) for i in range(12)
    ]
    assert [a.resting for a in shown].count(True) == REST_WINDOWS
    assert shown[0].because[0].startswith("max_num_seqs went from 8 to 16")


def test_an_idle_server_rests_on_but_not_for_ever() -> None:
    advisor = Advisor()
    restart(advisor, AFTER, windows=0)
    shown = [
        advisor.advise(make_judgement(20 + i, limits=AFTER, tokens=0.0, finished=0.0, **CALM))  # type: ignore[arg-type]
        for i in range(REST_AT_MOST + 5)
    ]
    assert shown[REST_WINDOWS + 5].resting
    assert not shown[-1].resting
    assert "too little was done" in shown[-1].because[0]


def known(**values: tuple[float, Origin]) -> Limits:
    return {Limit(name): Known(*pair) for name, pair in values.items()}


ARGS = Origin.LOG_ARGUMENTS


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({}, {}, {}),
        (BEFORE, BEFORE, {}),
        (BEFORE, {}, {}),
        ({}, AFTER, {}),
        (BEFORE, AFTER, {Limit.MAX_NUM_SEQS: (32.0, 8.0)}),
        # A setting that appears, or vanishes, where the same place told others of both.
        (
            BEFORE,
            {**BEFORE, **told(watermark=0.05)},
            {Limit.WATERMARK: (None, 0.05)},
        ),
        ({**BEFORE, **told(watermark=0.05)}, BEFORE, {Limit.WATERMARK: (0.05, None)}),
        # A place that told nothing before proves nothing by telling now.
        (BEFORE, {**BEFORE, **told(Origin.COMMAND_LINE, watermark=0.05)}, {}),
        (
            known(max_num_seqs=(32.0, ARGS), max_model_len=(2048.0, Origin.LOG)),
            known(max_num_seqs=(32.0, ARGS), max_num_batched_tokens=(8192.0, Origin.LOG)),
            {},
        ),
        # Rounding is no change.
        (told(watermark=0.05), told(watermark=0.0500001), {}),
    ],
)
def test_what_differs_between_two_lives(
    before: Limits, after: Limits, changed: dict[Limit, tuple[float | None, float | None]]
) -> None:
    assert compare(before, after) == changed


def test_what_advice_remembers_outlives_our_own_restart() -> None:
    advisor = Advisor()
    for index in range(5):
        advisor.advise(thrash(index, limits=BEFORE))
    kept = Checkpoint(saved_unix=2_000.0, advice=advisor.checkpoint())
    assert decode_checkpoint(encode_checkpoint(kept)) == kept
    ours = Advisor()
    ours.restore(kept.advice)
    advice = ours.advise(make_judgement(9, limits=AFTER))
    assert advice.resting
    assert ours.changes.before == Work(
        preemptions=200.0, finished=50.0, tokens=50_000.0, seconds=50.0
    )


def test_a_failed_allocation_outlives_our_own_restart() -> None:
    advisor = Advisor()
    oom = (Cause.CUDA_OOM, Kind.ALLOCATION_FAILURE, Severity.CRITICAL)
    advisor.advise(make_judgement(0, cause=oom))
    ours = Advisor()
    ours.restore(advisor.checkpoint())
    assert ours.memory.recall(1_030.0).cuda_oom


def test_a_checkpoint_without_advice_is_read() -> None:
    text = encode_checkpoint(Checkpoint(saved_unix=1.0)).replace(b'"advice":null,', b"")
    assert b"advice" not in text
    assert decode_checkpoint(text).advice is None


@pytest.mark.parametrize("bad", [b'"cotenant":"x"', b'"cotenant":-1', b'"cotenant":[]'])
def test_a_damaged_memory_is_refused(bad: bytes) -> None:
    text = encode_checkpoint(Checkpoint(saved_unix=1.0, advice=AdviceMemory()))
    assert b'"cotenant":null' in text
    with pytest.raises(ValueError, match="not a"):
        decode_checkpoint(text.replace(b'"cotenant":null', bad))


def test_a_limit_of_a_later_version_is_left_out() -> None:
    memory = AdviceMemory(limits=told(watermark=0.05, max_num_seqs=8.0))
    text = encode_checkpoint(Checkpoint(saved_unix=1.0, advice=memory))
    read = decode_checkpoint(text.replace(b'"watermark"', b'"watermark_of_later"'))
    assert read.advice == replace(memory, limits=told(max_num_seqs=8.0))


SEEN_BY_PLACE = {Limit.MAX_NUM_SEQS: (32.0, 8.0), Limit.KV_CAPACITY_TOKENS: (4096.0, 4000.0)}


def test_a_change_that_one_place_told_of_is_seen_where_the_surest_place_is_another() -> None:
    advisor = Advisor()
    advisor.advise(make_judgement(0, limits=BEFORE))
    now = told(Origin.COMMAND_LINE, max_num_seqs=8.0)
    advice = advisor.advise(make_judgement(1, limits=now, restarted=True), changed=SEEN_BY_PLACE)
    assert advice.resting
    assert advice.because[0].startswith("max_num_seqs went from 32 to 8:")


def test_a_change_of_a_former_life_is_none_of_the_next() -> None:
    advisor = Advisor()
    advisor.advise(make_judgement(0, limits=BEFORE))
    for index in range(1, 30):
        seen = make_judgement(index, limits=AFTER, restarted=index == 1)
        advisor.advise(seen, changed=SEEN_BY_PLACE)
    # The server did not answer for a while: the same life, and the places tell the same.
    gone = make_judgement(30, limits=AFTER, served=False, state=ServerState.DEAD)
    advisor.advise(gone, changed=SEEN_BY_PLACE)
    assert not advisor.advise(make_judgement(31, limits=AFTER), changed=SEEN_BY_PLACE).resting


def test_what_start_up_measures_is_no_change_by_place_either() -> None:
    advisor = Advisor()
    advisor.advise(make_judgement(0, limits=BEFORE))
    measured = {Limit.KV_CAPACITY_TOKENS: (4096.0, 4000.0)}
    seen = make_judgement(1, limits=BEFORE, restarted=True)
    assert not advisor.advise(seen, changed=measured).resting
