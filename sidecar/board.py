"""What the daemon shows: its latest report, with what is known beside the pipeline, and the last windows."""

from collections import deque
from dataclasses import dataclass, field, replace

from sidecar.clock import ClockLike
from sidecar.envelope.live import compare_live
from sidecar.export.results import encode, window_result
from sidecar.model.envelope import Envelope
from sidecar.model.report import STANDS_STILL, ReloadStatus, Report
from sidecar.pipeline import Step

KEPT_WINDOWS = 1000
KEPT_CHARACTERS = 4 * 1024 * 1024
"""A window of one engine has 1,500 characters, one of 64 engines 30,000."""


@dataclass(slots=True)
class Board:
    """The latest report and the last windows: what the HTTP server may look at.

    ``envelope``: the measured one that the server is held against, if there is one.
    """

    clock: ClockLike
    interval_s: float
    report: Report | None = None
    windows: deque[str] = field(default_factory=deque)
    characters: int = 0
    last_tick: float | None = None
    reload: ReloadStatus | None = None
    envelope: Envelope | None = None

    def complete(self, step: Step) -> Step:
        """A step with what is known beside the pipeline: the last reload, and the measured envelope."""
        status = None if self.envelope is None else compare_live(self.envelope, step.report)
        report = replace(step.report, reload=self.reload, envelope=status)
        return replace(step, report=report)

    def post(self, step: Step) -> None:
        """Replace what is shown."""
        self.report = step.report
        for judgement in step.closed:
            self.keep(encode(window_result(judgement)))
        self.last_tick = self.clock.now().monotonic

    def show_reload(self, status: ReloadStatus) -> None:
        """Show what came of a reload, without waiting for the next tick."""
        self.reload = status
        if self.report is not None:
            self.report = replace(self.report, reload=status)

    def keep(self, window: str) -> None:
        """Keep a closed window as its text, and forget the oldest beyond the bounds."""
        self.windows.append(window)
        self.characters += len(window)
        while len(self.windows) > KEPT_WINDOWS or self.characters > KEPT_CHARACTERS:
            self.characters -= len(self.windows.popleft())

    def is_alive(self) -> bool:
        """Whether the last tick is young enough."""
        if self.last_tick is None:
            return False
        return self.clock.now().monotonic - self.last_tick < STANDS_STILL * self.interval_s
