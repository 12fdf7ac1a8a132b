"""What is shown is the latest, and is made once between two ticks."""

from dataclasses import replace

import pytest

from sidecar.board import Board
from sidecar.model.report import ReloadStatus
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Verdict
from sidecar.page import document
from sidecar.page.shown import SPANS, Place, Shown, Span
from sidecar.pipeline import Step
from tests.export.reports import make_judgement, make_report
from tests.fakes.clock import FakeClock

PLACE = Place(interval_s=1.0, window_s=5.0)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Span]:
    """The spans of the pages that were really written."""
    spans: list[Span] = []
    write = document.write_page

    def count(shown: Shown, span: Span) -> str:
        spans.append(span)
        return write(shown, span)

    monkeypatch.setattr(document, "write_page", count)
    return spans


def test_a_page_is_written_once_for_each_span_and_step(written: list[Span]) -> None:
    clock = FakeClock()
    board = Board(clock, PLACE)
    assert "Nothing was sampled yet" in board.page(None)
    report = make_report()
    board.post(Step(report, (make_judgement(),)))
    for _ in range(3):
        for span in (None, *SPANS):
            board.page(span)
    assert len(written) == 1 + len(SPANS)
    board.post(Step(replace(report, at=Instant(1001.0, report.at.unix + 1)), ()))
    board.page(SPANS[0])
    assert len(written) == 2 + len(SPANS)
    board.show_reload(ReloadStatus(successful=False, success_unix=0.0))
    board.page(SPANS[0])
    assert len(written) == 3 + len(SPANS)


async def test_a_clock_that_stands_still_is_shown_without_a_tick(written: list[Span]) -> None:
    clock = FakeClock()
    board = Board(clock, PLACE)
    board.post(Step(make_report(), ()))
    assert "clock stands still" not in board.page(None)
    await clock.advance(10.0)
    assert "clock stands still" in board.page(None)
    assert len(written) == 2


def test_closed_windows_are_kept_as_text_and_as_figures() -> None:
    board = Board(FakeClock(), PLACE)
    board.post(Step(make_report(), (make_judgement(Verdict.STALLED),)))
    (line,) = board.past.archive.last(10)
    assert '"verdict":"stalled"' in line
    last = board.past.timeline.last()
    assert last is not None
    assert last.verdict is Verdict.STALLED
