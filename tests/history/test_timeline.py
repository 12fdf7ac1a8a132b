"""A day of rows is bounded, loses no failure, and shows gaps as gaps."""

import math

import pytest

from sidecar.history.past import Past
from sidecar.history.row import Figure, Row
from sidecar.history.timeline import MOST_ROWS, PACKED, Timeline
from sidecar.model.vocabulary import Severity, Verdict
from tests.history.made import START, WINDOW_S, make_line, make_result, make_row

DAY_S = 86_400.0
A_DAY = int(DAY_S / WINDOW_S)


def test_rows_come_back_as_they_were() -> None:
    timeline = Timeline(DAY_S)
    figures = {Figure.KV_USAGE: 0.5, Figure.PREEMPTIONS: 3.0}
    row = Row(START, START + 15, Verdict.PREEMPTION, Severity.CRITICAL, 1, figures)
    timeline.add(row)
    assert timeline.last() == row
    assert list(timeline.newest_first()) == [row]
    assert timeline.oldest() == START


def test_a_day_of_windows_is_kept_one_by_one_and_what_is_older_is_forgotten() -> None:
    timeline = Timeline(DAY_S)
    for number in range(A_DAY + 100):
        timeline.add(make_row(number))
    assert len(timeline) == A_DAY
    assert timeline.oldest() == START + 100 * WINDOW_S
    assert len(timeline.packed) < 320_000


def test_short_windows_that_are_alike_are_one_row_and_others_are_not() -> None:
    timeline = Timeline(DAY_S)
    for number in range(10):
        timeline.add(make_row(number, window_s=1.0))
    timeline.add(make_row(10, Verdict.PREEMPTION, window_s=1.0))
    timeline.add(make_row(11, window_s=1.0))
    assert [(row.verdict, row.windows) for row in timeline.newest_first()] == [
        (Verdict.NONE, 1),
        (Verdict.PREEMPTION, 1),
        (Verdict.NONE, 10),
    ]


def test_a_day_of_changing_seconds_is_bounded_and_keeps_its_failure() -> None:
    timeline = Timeline(DAY_S)
    for number in range(int(DAY_S)):
        verdict = Verdict.NONE if number % 2 else Verdict.PREEMPTION
        timeline.add(
            make_row(number, Verdict.HOST_OOM if number == 5000 else verdict, window_s=1.0)
        )
    assert len(timeline) <= MOST_ROWS
    oldest = timeline.oldest()
    assert oldest is not None
    assert oldest <= START + 3600
    rows = list(timeline.newest_first())
    assert sum(row.windows for row in rows) >= DAY_S - 3600
    (failure,) = [row for row in rows if row.verdict is Verdict.HOST_OOM]
    assert failure.start <= START + 5000 < failure.end


def test_runs_are_cut_by_another_verdict_and_by_a_gap() -> None:
    timeline = Timeline(DAY_S)
    for number in (0, 1, 2, 6, 7, 8, 9):
        timeline.add(make_row(number, Verdict.STALLED if number == 8 else Verdict.NONE))
    told = [((run.start - START) / WINDOW_S, run.verdict, run.windows) for run in timeline.runs()]
    assert told == [
        (9, Verdict.NONE, 1),
        (8, Verdict.STALLED, 1),
        (6, Verdict.NONE, 2),
        (0, Verdict.NONE, 3),
    ]
    assert list(Timeline(DAY_S).runs()) == []


def test_columns_show_gaps_the_worst_and_each_count_once() -> None:
    timeline = Timeline(DAY_S)
    for number in (0, 1, 2, 3, 8, 9):
        row = make_row(number, Verdict.STALLED if number == 2 else Verdict.NONE)
        timeline.add(
            Row(row.start, row.end, row.verdict, row.severity, 1, {Figure.PREEMPTIONS: 2.0})
        )
    columns = timeline.columns(START, 2 * WINDOW_S, 5)
    assert [None if one is None else one.verdict for one in columns] == [
        Verdict.NONE,
        Verdict.STALLED,
        None,
        None,
        Verdict.NONE,
    ]
    counted = [one.figures[Figure.PREEMPTIONS] for one in columns if one is not None]
    assert counted == [4.0, 4.0, 4.0]
    # Columns narrower than a window: it covers several, and its count stands in one of them.
    narrow = timeline.columns(START, WINDOW_S / 3, 12)
    assert sum(one.figures.get(Figure.PREEMPTIONS, 0.0) for one in narrow if one) == 8.0
    assert None not in narrow


def test_a_window_shorter_than_a_column_is_not_lost() -> None:
    timeline = Timeline(DAY_S)
    timeline.add(Row(START + 100, START + 101, Verdict.HOST_OOM, Severity.CRITICAL))
    columns = timeline.columns(START, 240.0, 4)
    assert [one.verdict if one else None for one in columns] == [Verdict.HOST_OOM, None, None, None]


def test_rows_outside_the_span_are_in_no_column() -> None:
    timeline = Timeline(DAY_S)
    timeline.add(make_row(0))
    timeline.add(make_row(100))
    assert timeline.columns(START + 15, WINDOW_S, 99) == (None,) * 99


def test_a_clock_that_steps_back_forgets_nothing_that_follows() -> None:
    timeline = Timeline(3600.0)
    timeline.add(make_row(1_000_000))
    for number in range(10):
        timeline.add(make_row(number))
    assert len(timeline) == 11
    assert timeline.last() == make_row(9)


@pytest.mark.parametrize("value", [1e39, 1e300, -1e300])
def test_a_figure_beyond_single_precision_stands_at_its_edge(value: float) -> None:
    timeline = Timeline(DAY_S)
    timeline.add(Row(START, START + 15, Verdict.NONE, None, 1, {Figure.WAITING: value}))
    last = timeline.last()
    assert last is not None
    assert math.isfinite(last.figures[Figure.WAITING])


def test_counts_beyond_single_precision_can_be_merged() -> None:
    timeline = Timeline(DAY_S)
    for number in range(MOST_ROWS + 1):
        verdict = Verdict.NONE if number % 2 else Verdict.PREEMPTION
        start = START + number
        figures = {Figure.PREEMPTIONS: 1e308}
        timeline.add(Row(start, start + 1, verdict, None, 1, figures))
    assert len(timeline) <= MOST_ROWS


def test_where_nothing_can_be_merged_room_is_made_for_many() -> None:
    timeline = Timeline(DAY_S)
    for number in range(MOST_ROWS + 1):
        timeline.add(make_row(2 * number, window_s=1.0))
    assert MOST_ROWS * 0.9 < len(timeline) <= MOST_ROWS - 100
    assert timeline.last() == make_row(2 * MOST_ROWS, window_s=1.0)


def test_what_a_clock_ahead_told_is_not_the_oldest() -> None:
    timeline = Timeline(DAY_S)
    timeline.add(make_row(1000))
    assert timeline.oldest(START + 100) is None
    timeline.add(make_row(0))
    assert timeline.oldest(START + 100) == START


def test_a_year_of_windows_does_not_blur_the_last_hour() -> None:
    past = Past(365 * DAY_S)
    for number in range(40):
        past.add(make_result(number), make_line(number))
    assert len(past.timeline) == 40
    assert past.archive.horizon_s == 365 * DAY_S


def test_a_row_has_a_fixed_size() -> None:
    assert PACKED.size == 50
