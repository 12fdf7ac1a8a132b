"""What the daemon shows: its latest report, with what is known beside the pipeline, and the past."""

from dataclasses import dataclass, field, replace

from sidecar.clock import ClockLike
from sidecar.export.results import encode, window_result
from sidecar.history.past import Past
from sidecar.model.envelope import Envelope
from sidecar.model.report import STANDS_STILL, ReloadStatus, Report
from sidecar.page.shown import Place, Shown, Span, fitting_span
from sidecar.pipeline import Step


@dataclass(slots=True)
class Board:
    """The latest report and the closed windows before it: what the HTTP server may look at.

    ``place``: where we run. ``envelope``: the measured one that the server is held against, if there is one.
    """

    clock: ClockLike
    place: Place
    report: Report | None = None
    past: Past = field(default_factory=Past)
    last_tick: float | None = None
    reload: ReloadStatus | None = None
    envelope: Envelope | None = None
    written: dict[Span | None, tuple[object, str]] = field(default_factory=dict)

    def complete(self, step: Step) -> Step:
        """A step with what is known beside the pipeline: the last reload, and the measured envelope."""
        report = step.report
        if report.reload is not self.reload:
            report = replace(report, reload=self.reload)
        if self.envelope is not None:
            # It brings what compares envelopes, which few need.
            from sidecar.envelope.live import compare_live  # noqa: PLC0415

            report = replace(report, envelope=compare_live(self.envelope, report))
        return step if report is step.report else replace(step, report=report)

    def post(self, step: Step) -> None:
        """Replace what is shown."""
        self.report = step.report
        for judgement in step.closed:
            result = window_result(judgement)
            self.past.add(result, encode(result))
        self.last_tick = self.clock.now().monotonic

    def show_reload(self, status: ReloadStatus) -> None:
        """Show what came of a reload, without waiting for the next tick."""
        self.reload = status
        if self.report is not None:
            self.report = replace(self.report, reload=status)

    def page(self, asked: Span | None) -> str:
        """The page for people. The same for all who ask between two ticks: it costs milliseconds."""
        # What writes it comes with who looks at it first: 2 MB that nobody else should pay.
        from sidecar.page.document import write_page, write_waiting  # noqa: PLC0415

        report, now = self.report, self.clock.now()
        if report is None:
            return write_waiting(self.place.interval_s)
        alive = self.is_alive()
        span = asked or fitting_span(self.past.timeline, now.unix)
        key = (report.at, report.reload, alive)
        written = self.written.get(asked)
        if written is None or written[0] != key:
            shown = Shown(report, self.past.timeline, self.place, now.unix, alive=alive)
            written = self.written[asked] = (key, write_page(shown, span))
        return written[1]

    def is_alive(self) -> bool:
        """Whether the last tick is young enough."""
        if self.last_tick is None:
            return False
        return self.clock.now().monotonic - self.last_tick < STANDS_STILL * self.place.interval_s
