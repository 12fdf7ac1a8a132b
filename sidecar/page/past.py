"""What was: a strip of verdicts, and small plots below it on the same axis of time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from sidecar.history.row import Figure, Row
from sidecar.model.vocabulary import Severity, Verdict
from sidecar.page.shown import SPANS, Shown, Span
from sidecar.telling.figures import (
    UNKNOWN,
    clock_time,
    count_of,
    iso_time,
    say_duration,
    say_number,
    say_seconds,
)
from sidecar.telling.markup import Markup, element, join

COLUMNS = 360
WIDTH, HEIGHT = 720.0, 64.0
STRIP = 34.0
TICKS = 6
MOST_CHANGES = 12
HEIGHTS = {
    Verdict.NONE: 0.3,
    Verdict.UNKNOWN: 0.45,
    Verdict.PREEMPTION: 0.65,
    Verdict.STALLED: 0.8,
}
"""Share of the strip that a verdict fills: it can be told without its colour. Failures fill it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The time that is shown: ``columns`` of ``wide`` seconds each, to ``until``."""

    until: float
    wide: float
    columns: int

    @property
    def since(self) -> float:
        """Where it begins."""
        return self.until - self.wide * self.columns

    def place(self, column: float) -> float:
        """Where the left edge of a column stands."""
        return column / self.columns * WIDTH


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot: its curves, each with the word for it, and the top of its axis if that is fixed."""

    title: str
    curves: tuple[tuple[Figure, str], ...]
    unit: str = "count"
    top: float | None = None
    bars: bool = False


PLOTS = (
    Plot("Preemptions", ((Figure.PREEMPTIONS, ""),), bars=True),
    Plot("KV cache in use, peak", ((Figure.KV_USAGE, "peak"),), unit="share", top=1.0),
    Plot("Output tokens per second", ((Figure.OUTPUT, ""),)),
    Plot("Requests, peak", ((Figure.WAITING, "waiting"), (Figure.RUNNING, "running"))),
    Plot(
        "Time to first token", ((Figure.TTFT_P95, "p95"), (Figure.TTFT_P50, "p50")), unit="seconds"
    ),
)


def lay_axis(shown: Shown, span: Span) -> Axis:
    """Whole windows to a column, so that none is cut; it ends with the newest window."""
    window_s = shown.place.window_s
    newest = shown.timeline.last()
    until = shown.now if newest is None else max(newest.end, shown.now - window_s)
    if newest is not None and newest.end > shown.now + window_s:
        until = shown.now  # the clock stepped back: what is to come is not shown
    wide = math.ceil(span.seconds / COLUMNS / window_s - 1e-9) * window_s
    return Axis(until, wide, max(1, math.ceil(span.seconds / wide - 1e-9)))


def show_past(shown: Shown, span: Span) -> Markup:
    """The strip, the plots, and the last changes in words."""
    axis = lay_axis(shown, span)
    columns = shown.timeline.columns(axis.since, axis.wide, axis.columns)
    links = (element("li", link_to(one, span)) for one in SPANS)
    nav = element("nav", element("ul", *links), aria_label="time span")
    return element(
        "section",
        element("h2", f"The last {say_duration(span.seconds)}", id="past"),
        nav if shown.live else Markup(""),
        show_strip(axis, columns),
        show_legend(columns),
        join(show_plot(plot, axis, columns) for plot in PLOTS),
        show_times(axis),
        element("h3", "Changes of verdict"),
        show_changes(shown, axis),
        aria_labelledby="past",
    )


def link_to(one: Span, current: Span) -> Markup:
    """A span to choose."""
    here = "page" if one is current else None
    return element("a", one.word, href=f"/?span={one.word}", aria_current=here)


# The strip


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring columns that are judged alike; ``row`` None: nobody watched."""

    first: int
    last: int
    row: Row | None
    windows: int = 0


def list_runs(columns: Sequence[Row | None]) -> Iterator[Run]:
    """The columns, those that follow each other and are alike as one."""
    run: Run | None = None
    for at, row in enumerate(columns):
        windows = 0 if row is None else row.windows
        if run is not None and kind_of(run.row) == kind_of(row):
            run = Run(run.first, at, row, run.windows + windows)
            continue
        if run is not None:
            yield run
        run = Run(at, at, row, windows)
    if run is not None:
        yield run


def kind_of(row: Row | None) -> tuple[Verdict, Severity | None] | None:
    """What two columns have in common that are alike."""
    return None if row is None else (row.verdict, row.severity)


def say_verdict_of(row: Row | None) -> str:
    """How a span was judged, in words."""
    if row is None:
        return "not watched"
    loud = "" if row.severity is None else f" ({row.severity.value})"
    return f"{row.verdict.value}{loud}"


def show_strip(axis: Axis, columns: Sequence[Row | None]) -> Markup:
    """A bar for each run, as high as its verdict is bad, with its words where the pointer rests."""
    bars = []
    for run in list_runs(columns):
        share = 0.12 if run.row is None else HEIGHTS.get(run.row.verdict, 1.0)
        x, end = axis.place(run.first), axis.place(run.last + 1)
        bars.append(
            element(
                "rect",
                element("title", f"{say_verdict_of(run.row)}, {say_span(axis, run)}"),
                x=f"{x:.1f}",
                y=f"{STRIP * (1 - share):.1f}",
                width=f"{max(end - x, 1.0):.1f}",
                height=f"{STRIP * share:.1f}",
                class_="gap" if run.row is None else f"v-{run.row.verdict.value}",
            )
        )
    watched = sum(row is not None for row in columns)
    worst = max((row for row in columns if row), key=lambda row: row.badness, default=None)
    told = "nothing was watched" if worst is None else f"the worst was {worst.verdict.value}"
    return element(
        "svg",
        element(
            "title", f"Verdicts over time: {told}; {watched / len(columns):.0%} of it was watched"
        ),
        *bars,
        viewBox=f"0 0 {WIDTH:.0f} {STRIP:.0f}",
        preserveAspectRatio="none",
        role="img",
        class_="strip",
    )


def say_span(axis: Axis, run: Run) -> str:
    """From when to when."""
    begin, end = axis.since + axis.wide * run.first, axis.since + axis.wide * (run.last + 1)
    return f"{iso_time(begin)} to {clock_time(end)}"


def show_legend(columns: Sequence[Row | None]) -> Markup:
    """The verdicts that the strip shows, each with its colour."""
    there = {row.verdict for row in columns if row is not None}
    items = [
        element("li", swatch(f"v-{verdict.value}"), verdict.value)
        for verdict in Verdict
        if verdict in there
    ]
    if any(row is None for row in columns):
        items.append(element("li", swatch("gap"), "not watched"))
    return element("ul", *items, class_="legend")


def swatch(kind: str) -> Markup:
    """A small square in the colour of a class."""
    square = element("rect", width="10", height="10", class_=kind)
    return element("svg", square, viewBox="0 0 10 10", class_="swatch", aria_hidden="true")


def list_changes(shown: Shown, axis: Axis) -> list[Row]:
    """The runs of the span, newest first; one more than is shown. A clock that was ahead tells none."""
    within = takewhile(lambda run: run.end > axis.since, shown.timeline.runs())
    told = (run for run in within if run.start < axis.until)
    return list(islice(told, MOST_CHANGES + 1))


def show_changes(shown: Shown, axis: Axis) -> Markup:
    """The last changes in words, newest first: what the strip shows to who sees no strip."""
    changes = list_changes(shown, axis)
    if not changes:
        return element("p", "None: no window is closed yet.")
    items = [
        element(
            "li",
            element("time", iso_time(row.start)),
            f" to {clock_time(row.end)}: ",
            element("b", say_verdict_of(row)),
            f", {count_of(row.windows, 'window')}",
        )
        for row in changes[:MOST_CHANGES]
    ]
    if len(changes) > MOST_CHANGES:
        items.append(element("li", "and more before"))
    return element("ol", *items, class_="changes")


# The plots


def show_plot(plot: Plot, axis: Axis, columns: Sequence[Row | None]) -> Markup:
    """Curves with their last and greatest values in words."""
    greatest = [
        value
        for figure, _ in plot.curves
        for row in columns
        if row is not None and (value := row.figures.get(figure)) is not None
    ]
    top = plot.top or (max(greatest, default=0.0) * 1.05 or 1.0)
    inside = [element("path", d=f"M0 {HEIGHT / 2:.0f}H{WIDTH:.0f}", class_="grid")]
    told: list[str] = []
    for number, (figure, word) in enumerate(plot.curves):
        values = [None if row is None else row.figures.get(figure) for row in columns]
        draw = draw_bars if plot.bars else draw_line
        inside.append(
            element(
                "path", d=draw(axis, values, top), class_=f"c{number}{' bars' if plot.bars else ''}"
            )
        )
        told.append(f"{word}: {say_values(plot, values)}".removeprefix(": "))
    title = element("b", plot.title)
    if not greatest:
        empty = element("span", "not measured in this span", class_="empty")
        return element("figure", element("figcaption", title, empty), class_="plot")
    caption = element(
        "figcaption", title, *(element("span", one, class_=f"c{at}") for at, one in enumerate(told))
    )
    if plot.bars and not any(greatest):
        return element("figure", caption, class_="plot")
    drawn = element(
        "svg",
        element("title", f"{plot.title}: {'; '.join(told)}"),
        *inside,
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        preserveAspectRatio="none",
        role="img",
    )
    return element("figure", caption, drawn, class_="plot")


def say_values(plot: Plot, values: Sequence[float | None]) -> str:
    """The last value and the greatest one; of what is counted, the sum."""
    known = [value for value in values if value is not None]
    if not known:
        return UNKNOWN
    if plot.bars:
        return f"{say_number(sum(known))} in all"
    last = say_value(plot.unit, known[-1])
    return f"{last} last, {say_value(plot.unit, max(known))} at most"


def say_value(unit: str, value: float | None) -> str:
    """A value with its unit."""
    if value is None:
        return UNKNOWN
    if unit == "share":
        return f"{value:.0%}"
    return say_seconds(value) if unit == "seconds" else say_number(value)


def height_of(value: float, top: float) -> float:
    """Where a value stands, from the top."""
    return HEIGHT * (1 - min(max(value / top, 0.0), 1.0)) * 0.96 + 1


def draw_line(axis: Axis, values: Sequence[float | None], top: float) -> str:
    """A line through the middles of the columns, broken where nothing is known."""
    strokes: list[str] = []
    is_down = False
    for at, value in enumerate(values):
        if value is None:
            is_down = False
            continue
        x, y = axis.place(at + 0.5), height_of(value, top)
        if is_down:
            strokes.append(f"L{x:.0f} {y:.1f}")
        else:
            # A point without neighbours must be seen, too.
            strokes.append(f"M{axis.place(at):.0f} {y:.1f}H{x:.0f}")
        is_down = True
    return "".join(strokes)


def draw_bars(axis: Axis, values: Sequence[float | None], top: float) -> str:
    """A stroke for each column that counted something."""
    return "".join(
        f"M{axis.place(at + 0.5):.1f} {HEIGHT:.0f}V{height_of(value, top):.1f}"
        for at, value in enumerate(values)
        if value
    )


def show_times(axis: Axis) -> Markup:
    """The axis of time, in UTC."""
    moments = [axis.since + (axis.until - axis.since) * at / TICKS for at in range(TICKS + 1)]
    return element(
        "ol",
        *(element("li", clock_time(one)) for one in moments),
        class_="times",
        aria_label="time in UTC",
    )
