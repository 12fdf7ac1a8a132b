"""What is kept of a window's result, and what is none."""

import pytest

from sidecar.history.row import BADNESS, Figure, Row, merge, read_row
from sidecar.model.vocabulary import Severity, Verdict
from tests.history.made import START, make_result


@pytest.mark.parametrize("verdict", Verdict)
def test_a_result_is_read_as_it_was_written(verdict: Verdict) -> None:
    row = read_row(make_result(2, verdict))
    assert (row.start, row.end, row.verdict, row.windows) == (START + 30, START + 45, verdict, 1)
    assert set(row.figures) == set(Figure)
    assert 0 <= row.figures[Figure.KV_USAGE] <= 1


def test_engines_are_added_and_the_fullest_cache_speaks() -> None:
    one, two = read_row(make_result(0)), read_row(make_result(0, engines=2))
    assert two.figures[Figure.RUNNING] == 2 * one.figures[Figure.RUNNING]
    assert two.figures[Figure.KV_USAGE] == one.figures[Figure.KV_USAGE]


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        "x",
        {},
        {"window": {"start": 2, "end": 1}, "verdict": "none"},
        {"window": {"start": 1, "end": float("nan")}, "verdict": "none"},
        {"window": {"start": 1, "end": 10**400}, "verdict": "none"},
        {"window": {"start": True, "end": 2}, "verdict": "none"},
        {"window": {"start": -1, "end": 2}, "verdict": "none"},
        {"window": {"start": 1, "end": 1e300}, "verdict": "none"},
        {"window": {"start": 1, "end": 2}},
        {"window": {"start": 1, "end": 2}, "verdict": "well"},
        {"window": {"start": 1, "end": 2}, "verdict": "none", "severity": "loud"},
    ],
)
def test_what_is_no_result_is_refused(told: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_row(told)


def test_what_was_not_measured_is_absent_not_zero() -> None:
    told = {"window": {"start": 1, "end": 2}, "verdict": "unknown", "latency": {"ttft": "slow"}}
    assert read_row(told).figures == {}


def test_the_worse_of_two_speaks_for_both() -> None:
    good = Row(0, 15, Verdict.NONE, None, 1, {Figure.PREEMPTIONS: 0, Figure.WAITING: 2})
    bad = Row(
        15, 30, Verdict.PREEMPTION, Severity.WARNING, 3, {Figure.PREEMPTIONS: 4, Figure.KV_USAGE: 1}
    )
    both = merge(good, bad)
    assert (both.start, both.end, both.windows) == (0, 30, 4)
    assert (both.verdict, both.severity) == (Verdict.PREEMPTION, Severity.WARNING)
    assert both.figures == {Figure.PREEMPTIONS: 4, Figure.WAITING: 2, Figure.KV_USAGE: 1}
    assert merge(bad, good) == both


def test_causes_are_worse_than_not_knowing_and_that_is_worse_than_none() -> None:
    order = sorted(Verdict, key=lambda one: BADNESS[one])
    assert order[:3] == [Verdict.NONE, Verdict.UNKNOWN, Verdict.PREEMPTION]
    assert order[-1] is Verdict.HOST_OOM


@pytest.mark.parametrize("peak", [1e308, 3.0, -0.5])
def test_what_is_no_share_is_not_how_full_the_cache_was(peak: float) -> None:
    told = {
        "window": {"start": 1, "end": 2},
        "verdict": "none",
        "budgets": {"0": {"kv_usage": {"max": peak}}, "1": {"kv_usage": {"max": 0.5}}},
    }
    assert read_row(told).figures[Figure.KV_USAGE] == 0.5
