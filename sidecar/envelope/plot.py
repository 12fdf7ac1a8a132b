"""One plot as inline SVG: curves over the load, repeats as dots, the knee and the safe load marked.

Colours are classes, which the page sets for light and dark; every curve also differs by its dashes and
bears its name. Whatever text comes in is escaped here.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

from sidecar.envelope.figures import Repeats, Unit
from sidecar.envelope.wording import say
from sidecar.telling.axes import Scale, scale_loads, scale_values, spread_out, thin, ticks
from sidecar.telling.figures import say_number
from sidecar.telling.markup import escape

WIDTH, HEIGHT = 360, 236
LEFT, RIGHT, TOP, BOTTOM = 52, 40, 36, 36
LINE = 13
"""Height of a line of text."""
LEVEL_IN_SIGHT = 3.0
"""A level higher than so many times what was measured is told, not drawn to scale."""
MOST_POINTS = 100
MOST_DOTTED = 20
"""Points of a curve, and repeats of each, that are all drawn as dots; of more, the least and the greatest."""


@dataclass(frozen=True, slots=True)
class Series:
    """One curve. ``points``: at each load the repeats, None where none told it."""

    label: str
    points: tuple[tuple[float, Repeats | None], ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A load that is marked on every plot. ``kind``: ``knee`` or ``safe``."""

    load: float
    label: str
    kind: str


@dataclass(frozen=True, slots=True)
class Level:
    """A value that should not be passed."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Plot:
    """What is drawn. ``key``: a plain word, unique on the page. ``top``: where the axis ends."""

    key: str
    title: str
    unit: Unit
    series: tuple[Series, ...]
    loads: tuple[float, ...]
    load_label: str
    marks: tuple[Mark, ...] = ()
    level: Level | None = None
    top: float | None = None


def draw(plot: Plot) -> str:
    """The plot as an ``svg`` element with title and description."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-labelledby="{plot.key}-t {plot.key}-d">'
        f'<title id="{plot.key}-t">{escape(plot.title)}</title>'
        f'<desc id="{plot.key}-d">{escape(describe(plot))}</desc>'
        f"{''.join(draw_parts(plot))}</svg>"
    )


def describe(plot: Plot) -> str:
    """What the curves show, in words: the medians by load, what is marked."""
    sentences = []
    for series in plot.series:
        told = [
            f"{say_number(load)}: {say(repeats.median, plot.unit)}"
            for load, repeats in series.points[:MOST_POINTS]
            if repeats is not None
        ]
        name = f"{series.label} " if series.label else ""
        sentences.append(f"{name}by {plot.load_label}: {', '.join(told) or 'not measured'}.")
    sentences += [f"{mark.label}." for mark in plot.marks]
    if plot.level is not None:
        sentences.append(f"{plot.level.label} {say(plot.level.value, plot.unit)}.")
    return " ".join(sentences)


def draw_parts(plot: Plot) -> Iterator[str]:
    """Everything between the tags, what lies below first."""
    across = load_scale(plot)
    repeats = [one for series in plot.series for _, one in series.points if one is not None]
    yield from draw_marks(plot, across)
    yield from draw_loads(plot, across)
    if not repeats:
        yield text(
            (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2, "not measured", "middle"
        )
        return
    up = value_scale(plot, repeats)
    yield from draw_values(plot, up)
    yield from draw_level(plot, up)
    if up.is_log:
        yield text(2, HEIGHT - 4, "log scale", "start", "quiet")
    for number, series in enumerate(plot.series):
        yield from draw_series(series, number, across, up)
    yield from name_level(plot, up)
    yield from draw_names(plot.series, across, up)


def load_scale(plot: Plot) -> Scale:
    """The axis of loads; the same for every plot with the same loads and marks."""
    loads = [*plot.loads, *(mark.load for mark in plot.marks)]
    return scale_loads(loads, LEFT, WIDTH - RIGHT)


def value_scale(plot: Plot, repeats: Sequence[Repeats]) -> Scale:
    """The axis of values, with the level on it if it is near enough."""
    values = [value for one in repeats for value in one.values]
    if plot.level is not None and plot.level.value <= LEVEL_IN_SIGHT * max(values):
        values.append(plot.level.value)
    return scale_values(
        values, HEIGHT - BOTTOM, TOP, top=plot.top, may_be_log=plot.unit is Unit.SECONDS
    )


def text(x: float, y: float, words: str, anchor: str, kind: str = "") -> str:
    """A line of text."""
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


def path(points: Iterable[str], kind: str) -> str:
    """Strokes."""
    return f'<path class="{kind}" d="{"".join(points)}"/>'


def draw_marks(plot: Plot, across: Scale) -> Iterator[str]:
    """Each marked load: a line from top to bottom, and its name above, one line for each."""
    for row, mark in enumerate(plot.marks):
        x = across.place(mark.load)
        if mark.kind == "knee":
            wide = max(0.0, WIDTH - RIGHT - x)
            yield (
                f'<rect class="beyond" x="{x:.1f}" y="{TOP}" width="{wide:.1f}" '
                f'height="{HEIGHT - TOP - BOTTOM}"/>'
            )
        yield path((f"M{x:.1f} {TOP - 2}V{HEIGHT - BOTTOM}",), f"mark {mark.kind}")
        yield text(*keep_within(x, mark.label, 11 + row * LINE), kind=f"name {mark.kind}")


def keep_within(x: float, words: str, y: float) -> tuple[float, float, str, str]:
    """A line of text over ``x``, moved aside where it would leave the drawing."""
    wide = sum(2 if east_asian_width(char) in "WF" else 1 for char in words)
    half = wide * LINE / 4
    if x + half > WIDTH - 2:
        return WIDTH - 2, y, words, "end"
    return (2, y, words, "start") if x - half < 2 else (x, y, words, "middle")  # noqa: PLR2004 - a little room


def draw_loads(plot: Plot, across: Scale) -> Iterator[str]:
    """The axis of loads: a tick for each stage, as many numbers as there is room for."""
    y = HEIGHT - BOTTOM
    places = [across.place(load) for load in plot.loads]
    yield path((f"M{place:.1f} {y}v4" for place in places[:MOST_POINTS]), "axis")
    yield path((f"M{LEFT} {y}H{WIDTH - RIGHT}",), "axis")
    for at in thin(places, 24):
        yield text(places[at], y + 4 + LINE, say_number(plot.loads[at]), "middle")
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, plot.load_label, "middle", "quiet")


def draw_values(plot: Plot, up: Scale) -> Iterator[str]:
    """The axis of values, with a line across for each tick."""
    found = ticks(up)
    yield path((f"M{LEFT} {up.place(value):.1f}H{WIDTH - RIGHT}" for value in found), "grid")
    for value in found:
        yield text(LEFT - 6, up.place(value) + 4, say(value, plot.unit), "end")


def draw_level(plot: Plot, up: Scale) -> Iterator[str]:
    """The level that should not be passed, where it is in sight."""
    if plot.level is not None and plot.level.value <= up.high:
        yield path((f"M{LEFT} {up.place(plot.level.value):.1f}H{WIDTH - RIGHT}",), "level")


def name_level(plot: Plot, up: Scale) -> Iterator[str]:
    """What the level is, over the curves; or that it lies above the drawing."""
    if plot.level is None:
        return
    words = f"{plot.level.label} {say(plot.level.value, plot.unit)}"
    if plot.level.value > up.high:
        yield text(LEFT + 4, TOP + 10, f"{words}, above", "start", "name level")
        return
    y = up.place(plot.level.value)
    is_below = y < TOP + LINE
    yield text(LEFT + 4, y + LINE - 1 if is_below else y - 4, words, "start", "name level")


def draw_series(series: Series, number: int, across: Scale, up: Scale) -> Iterator[str]:
    """A line through the medians, broken where nothing was told; dots for the repeats."""
    line: list[str] = []
    dots: list[str] = []
    pen = "M"
    for load, repeats in series.points[:MOST_POINTS]:
        if repeats is None:
            pen = "M"
            continue
        x = across.place(load)
        line.append(f"{pen}{x:.1f} {up.place(repeats.median):.1f}")
        pen = "L"
        shown = repeats.values
        if max(len(series.points), len(shown)) > MOST_DOTTED:
            shown = (repeats.least, repeats.greatest)
        dots += dict.fromkeys(f"M{x:.1f} {up.place(value):.1f}h0" for value in shown)
    yield path(line, f"line s{number}")
    yield path(dots, f"dots s{number}")


def draw_names(series: Sequence[Series], across: Scale, up: Scale) -> Iterator[str]:
    """The name of each curve at its end, none over another."""
    ends = []
    for number, one in enumerate(series):
        told = [(load, repeats) for load, repeats in one.points[:MOST_POINTS] if repeats]
        if told and one.label:
            load, repeats = told[-1]
            ends.append((number, one.label, across.place(load), up.place(repeats.median)))
    places = spread_out([y for *_, y in ends], LINE, HEIGHT - BOTTOM)
    for (number, label, x, _), y in zip(ends, places, strict=True):
        yield text(x + 8, y + 4, label, "start", f"name s{number}")
