"""How a capacity run goes, on stderr: a bar where somebody looks, plain lines where a file does."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

from sidecar.clock import ClockLike
from sidecar.envelope_folder import Place, Repeat, say_place
from sidecar.model.envelope import StageRun
from sidecar.pipeline import Step

WIDTH: Final = 20
COLUMNS: Final = 80
CLEAR: Final = "\r\x1b[2K"
"""To the line's begin, and without what stood there (ECMA-48)."""


class Progress:
    """Tells of repeats as they begin and end, and on a terminal of what goes on between."""

    def __init__(
        self,
        stream: TextIO,
        clock: ClockLike,
        *,
        is_terminal: bool,
        columns: Callable[[], int] = lambda: COLUMNS,
    ) -> None:
        self.stream = stream
        self.clock = clock
        self.is_terminal = is_terminal
        self.columns = columns
        self.place: Place | None = None
        self.number = 0
        self.total = 0
        self.phase = ""
        self.since = 0.0

    def begin(self, place: Place, number: int, total: int) -> None:
        """A repeat is begun: the server is waited for."""
        self.place, self.number, self.total = place, number, total
        self.enter("waits until the server is quiet")
        if not self.is_terminal:
            self.tell(f"{number} of {total}: {say_place(place)} {self.phase}")

    def load(self) -> None:
        """Its load is begun."""
        self.enter("load runs")
        if not self.is_terminal and self.place is not None:
            self.tell(f"{self.number} of {self.total}: {say_place(self.place)} {self.phase}")

    def enter(self, phase: str) -> None:
        """Another phase of the repeat."""
        self.phase, self.since = phase, self.clock.now().monotonic
        self.draw("")

    def step(self, step: Step) -> None:
        """The daemon took a step."""
        verdict = step.report.verdict
        self.draw(f", last window {verdict.value}" if step.report.last_window else "")

    def end(self, repeat: Repeat, *, kept: bool) -> None:
        """A repeat is done, now or in a run before."""
        said = ", kept from before" if kept else ""
        self.tell(f"{say_place(repeat.place)}{said}: {say_run(repeat.run)}")

    def draw(self, more: str) -> None:
        """The bar, if anybody looks."""
        if not self.is_terminal or self.place is None:
            return
        done = round(WIDTH * (self.number - 1) / self.total)
        bar = "=" * done + " " * (WIDTH - done)
        passed = self.clock.now().monotonic - self.since
        where = f"{self.number}/{self.total} {say_place(self.place)}"
        text = f"[{bar}] {where} {self.phase}, {passed:.0f} s{more}"
        # A line that is broken cannot be cleared.
        self.write(f"{CLEAR}{text[: max(0, self.columns() - 1)]}")

    def tell(self, line: str) -> None:
        """A line that stays."""
        self.write(f"{CLEAR if self.is_terminal else ''}{line}\n")

    def close(self) -> None:
        """Take the bar away."""
        if self.is_terminal:
            self.write(CLEAR)

    def write(self, text: str) -> None:
        """What cannot be said is no reason to stop measuring."""
        with suppress(OSError, ValueError):
            self.stream.write(text)
            self.stream.flush()


def say_run(run: StageRun) -> str:
    """A repeat in one line."""
    view = run.server
    parts = [f"{count(view.completed)} requests completed in {view.seconds:.1f} s"]
    lost = [n for n in (view.aborted, view.errors, view.rejected) if n]
    if lost:
        parts.append(f"{count(sum(lost))} did not")
    parts.append(f"{count(view.preemptions)} preemptions")
    if view.cache_peak is not None:
        parts.append(f"cache up to {view.cache_peak * 100:.0f}%")
    if run.exit_code:
        parts.append(f"the load's command ended with {run.exit_code}")
    if run.client_fault is not None:
        parts.append(run.client_fault)
    parts.extend(
        f"client and server differ in {one.figure} ({one.client:.4g} and {one.server:.4g})"
        for one in run.disagreements
    )
    return "; ".join(parts)


def count(value: float | None) -> str:
    """A count, or that nobody counted."""
    return "uncounted" if value is None else f"{value:.0f}"
