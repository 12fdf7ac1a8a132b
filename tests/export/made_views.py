"""What the HTTP server is shown in tests."""

from collections.abc import Callable, Sequence

from sidecar.export.pages import Views
from sidecar.model.report import Report
from sidecar.page.shown import Span
from tests.export.reports import make_report


def make_views(
    windows: Sequence[str] = (),
    *,
    report: Callable[[], Report | None] = make_report,
    alive: Callable[[], bool] = lambda: True,
    page: Callable[[Span | None], str] = lambda span: (
        f"<p>{'fits' if span is None else span.word}</p>"
    ),
) -> Views:
    """Views of fixed things. ``windows`` is looked at with every request."""

    def last(limit: int, before: float | None) -> Sequence[str]:
        return list(windows)[-limit:] if before is None else []

    return Views(report, last, alive, page)
