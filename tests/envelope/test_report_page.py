"""The report as a page: it needs nothing else, shows every figure as a picture and as text, and stays safe."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.envelope.figures import Repeats, Unit
from sidecar.envelope.plot import HEIGHT, WIDTH, Level, Mark, Plot, Series, draw
from sidecar.envelope.report_page import STYLE, main_plots, write_page
from sidecar.model.envelope import (
    Envelope,
    Identity,
    Objectives,
    Quantiles,
    ServerView,
    Stage,
    StageRun,
)
from tests.envelope import made

KEYS = ("preemptions", "cache", "ttft", "output", "inter_token", "e2e", "queue")
ELEMENTS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "h1",
    "h2",
    "div",
    "p",
    "dl",
    "dt",
    "dd",
    "figure",
    "figcaption",
    "svg",
    "desc",
    "path",
    "rect",
    "text",
    "section",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "strong",
    "pre",
}
ATTRIBUTES = {
    "lang",
    "charset",
    "name",
    "content",
    "http-equiv",
    "class",
    "viewbox",
    "role",
    "aria-labelledby",
    "aria-label",
    "id",
    "d",
    "x",
    "y",
    "width",
    "height",
    "text-anchor",
    "scope",
    "tabindex",
}
EMPTY = {"meta"}
MOST_BYTES = 150_000


class Page(HTMLParser):
    """What a browser would find."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def svgs(text: str) -> dict[str, ET.Element]:
    """The drawings by their keys."""
    found = [ET.fromstring(one) for one in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    return {one.attrib["aria-labelledby"].split("-")[0]: one for one in found}


def places(element: ET.Element, kind: str) -> list[tuple[float, float]]:
    """Where the strokes of a class begin and turn."""
    return [
        (float(x), float(y))
        for path in element.iter("path")
        if path.attrib["class"] == kind
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.attrib["d"])
    ]


def assert_contained(element: ET.Element) -> None:
    """Nothing is drawn outside, and every number is one."""
    for path in element.iter("path"):
        numbers = re.findall(r"-?[a-z\d.]+", re.sub(r"[MLHVhv]", " ", path.attrib["d"]))
        assert all(math.isfinite(float(one)) for one in numbers), path.attrib
        for x, y in re.findall(r"[ML](\S+) ([-\d.]+)", path.attrib["d"]):
            assert -0.1 <= float(x) <= WIDTH + 0.1
            assert -0.1 <= float(y) <= HEIGHT + 0.1
    for text in element.iter("text"):
        assert 0 <= float(text.attrib["x"]) <= WIDTH
        assert 0 <= float(text.attrib["y"]) <= HEIGHT


# --- The page -----------------------------------------------------------------------------------


def test_it_needs_no_other_file_and_no_script() -> None:
    text = write_page(made.make_envelope())
    page = Page(text)
    assert {tag for tag, _ in page.found} <= ELEMENTS
    assert {name for _, attrs in page.found for name in attrs} <= ATTRIBUTES
    for outside in ("http:", "https:", "//", "url(", "@import", "<script", "javascript:"):
        assert outside not in text, outside
    assert "default-src 'none'" in text


@pytest.mark.parametrize("word", made.HOSTILE)
def test_names_of_others_stay_text(word: str) -> None:
    text = write_page(made.make_hostile(word))
    page, plain = Page(text), Page(write_page(made.make_hostile("plain")))
    assert [tag for tag, _ in page.found] == [tag for tag, _ in plain.found]
    for mine, theirs in zip(page.found, plain.found, strict=True):
        assert mine[1].keys() - {"class"} == theirs[1].keys() - {"class"}
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text.encode()) < MOST_BYTES
    for one in svgs(text).values():
        assert_contained(one)


def test_the_largest_run_stays_small() -> None:
    runs = tuple(StageRun(at, made.make_view(made.TOLD["c8"], 1 + at / 7)) for at in range(99))
    word = made.HOSTILE[-1]
    stages = tuple(Stage(f"{word}{load}", float(load), runs) for load in range(1, 120))
    envelope = replace(made.make_hostile(word), stages=stages)
    text = write_page(envelope)
    assert len(text.encode()) < MOST_BYTES
    assert "59 further stages are not shown." in text


def test_both_themes_and_small_screens_are_styled() -> None:
    text = write_page(made.make_envelope())
    assert "@media(prefers-color-scheme:dark)" in text
    assert '<meta name="viewport" content="width=device-width,initial-scale=1">' in text
    assert "@media(max-width:600px)" in text


def luminance(colour: str) -> float:
    """WCAG's relative luminance of ``#rgb`` or ``#rrggbb``."""
    digits = colour[1:]
    pairs = [digit * 2 for digit in digits] if len(digits) == 3 else re.findall("..", digits)
    linear = []
    for pair in pairs:
        share = int(pair, 16) / 255
        linear.append(share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_colour_can_be_read(theme: int) -> None:
    blocks = re.findall(r":root\{(.*?)\}", STYLE, re.DOTALL)
    colours = dict(re.findall(r"--(\w+):\s*(#\w{3,6})(?=[;}]|$)", blocks[theme].replace("\n", "")))
    for name in ("ink", "quiet", "good", "bad", "level", "s0", "s1", "s2"):
        for ground in ("paper", "box"):
            one, other = luminance(colours[name]), luminance(colours[ground])
            contrast = (max(one, other) + 0.05) / (min(one, other) + 0.05)
            assert contrast >= 4.5, (name, ground, contrast)


def test_the_same_envelope_gives_the_same_bytes() -> None:
    assert write_page(made.make_envelope()) == write_page(made.make_envelope())


def test_no_secret_is_on_it() -> None:
    canary = "sk-canary-0451-abcdef"
    identity = replace(
        made.IDENTITY, launch=("vllm", "serve", "m", "--api-key", canary), environment={"A": canary}
    )
    rollback = f"vllm serve m --api-key {canary}"
    assert canary not in write_page(made.make_envelope(identity=identity, rollback=rollback))


def test_text_and_page_say_the_same() -> None:
    words = " ".join(" ".join(Page(write_page(made.make_envelope())).words).split())
    for said in (
        "Accepted: c4 at 4 concurrent requests meets every criterion.",
        "c8 at 8 concurrent requests",
        "1,766 ±1.5%",
        made.ROLLBACK,
        "What was measured",
    ):
        assert said in words


# --- The plots ----------------------------------------------------------------------------------


def test_every_plot_has_a_title_a_description_and_the_same_axis() -> None:
    drawn = svgs(write_page(made.make_envelope()))
    assert tuple(drawn) == KEYS
    across = set()
    for key, element in drawn.items():
        title, desc = element.find("title"), element.find("desc")
        assert title is not None
        assert desc is not None
        assert title.attrib["id"] == f"{key}-t"
        assert desc.attrib["id"] == f"{key}-d"
        assert title.text
        assert "concurrent requests" in (desc.text or "")
        across.add(tuple(x for x, _ in places(element, "line s0")))
        assert_contained(element)
    assert len(across) == 1
    assert len(next(iter(across))) == 5


def test_a_description_tells_the_medians() -> None:
    element = svgs(write_page(made.make_envelope()))["preemptions"]
    assert (element.findtext("desc") or "") == (
        "by concurrent requests: 1: 0, 2: 0, 4: 0, 8: 0.281, 16: 1.02. safe up to 3.6. "
        "from c8 on it preempts. tolerated 0.01."
    )


def test_the_knee_and_the_safe_load_stand_at_their_loads() -> None:
    for element in svgs(write_page(made.make_envelope())).values():
        line = places(element, "line s0")
        (knee, _), (safe, _) = (places(element, f"mark {kind}")[0] for kind in ("knee", "safe"))
        assert knee == line[3][0]
        assert line[1][0] < safe < line[2][0]
        words = [text.text for text in element.iter("text")]
        assert "from c8 on it preempts" in words
        assert "safe up to 3.6" in words


def test_repeats_are_dots_and_the_line_goes_through_their_medians() -> None:
    stages = tuple(made.make_stage(name, (1.0, 1.1, 1.4)) for name in made.TOLD)
    element = svgs(write_page(made.make_envelope(stages=stages)))["output"]
    dots, line = places(element, "dots s0"), places(element, "line s0")
    assert len(dots) == 15
    for at, (x, y) in enumerate(line):
        three = dots[at * 3 : at * 3 + 3]
        assert {dot[0] for dot in three} == {x}
        assert sorted(dot[1] for dot in three)[1] == y


def test_greater_figures_stand_higher_and_what_is_not_known_breaks_the_line() -> None:
    stages = list(made.make_envelope().stages)
    runs = (StageRun(1, ServerView(seconds=1.0), exit_code=0),)
    stages[2] = Stage("c4", 4, runs)
    drawn = svgs(write_page(made.make_envelope(stages=tuple(stages))))
    heights = [y for _, y in places(drawn["output"], "line s0")]
    assert heights == sorted(heights, reverse=True)
    assert len(heights) == 4
    (path,) = [one for one in drawn["output"].iter("path") if one.attrib["class"] == "line s0"]
    assert [mark for mark in path.attrib["d"] if mark in "ML"] == ["M", "L", "M", "L"]


def test_an_objective_is_a_line_or_told_to_lie_above() -> None:
    near = svgs(write_page(made.make_envelope(objectives=Objectives(e2e_p95=5.0))))["e2e"]
    lines = [path for path in near.iter("path") if path.attrib["class"] == "level"]
    assert len(lines) == 1
    assert "objective for p95 5 s" in [text.text for text in near.iter("text")]
    far = svgs(write_page(made.make_envelope(objectives=Objectives(e2e_p95=500.0))))["e2e"]
    assert not [path for path in far.iter("path") if path.attrib["class"] == "level"]
    assert "objective for p95 500 s, above" in [text.text for text in far.iter("text")]


def test_a_plot_of_nothing_says_so() -> None:
    for element in svgs(write_page(made.make_blind())).values():
        words = [text.text for text in element.iter("text")]
        assert "not measured" in words
        assert not places(element, "line s0")


@pytest.mark.parametrize("load", [math.inf, -math.inf, math.nan])
def test_a_load_that_is_no_number_is_not_marked(load: float) -> None:
    bounds = replace(made.BOUNDS, safe_load=load)
    for element in svgs(write_page(made.make_envelope(bounds=bounds))).values():
        assert not places(element, "mark safe")
        assert_contained(element)


def test_the_cache_is_drawn_of_its_whole() -> None:
    plot = next(plot for plot in main_plots(made.make_envelope()) if plot.key == "cache")
    words = [text.text for text in ET.fromstring(draw(plot)).iter("text")]
    assert "100%" in words
    assert "0%" in words


anything = st.floats(allow_nan=True, allow_infinity=True) | st.none()


@st.composite
def envelopes(draw_value: st.DrawFn) -> Envelope:
    """Stages with any figures at any loads."""
    loads = draw_value(
        st.lists(st.floats(-1e308, 1e308, allow_nan=False), max_size=6, unique=True).map(sorted)
    )
    stages = []
    for at, load in enumerate(loads):
        runs = []
        for repeat in range(draw_value(st.integers(0, 3))):
            one, two, three = (draw_value(anything) for _ in range(3))
            latency = Quantiles(one, two, three)
            view = ServerView(
                seconds=1.0,
                completed=draw_value(anything),
                preemptions=draw_value(anything),
                cache_peak=one,
                cache_mean=two,
                ttft=latency,
                e2e=latency,
                output_tokens_per_second=three,
            )
            runs.append(StageRun(repeat, view))
        stages.append(Stage(f"s{at}", load, tuple(runs)))
    knee = draw_value(st.none() | st.sampled_from([f"s{at}" for at in range(7)]))
    bounds = replace(made.BOUNDS, first_preempting=knee, safe_load=draw_value(anything))
    return made.make_envelope(identity=Identity(), stages=tuple(stages), bounds=bounds)


@given(envelopes())
@settings(max_examples=100)
def test_whatever_was_measured_can_be_drawn(envelope: Envelope) -> None:
    text = write_page(envelope)
    Page(text)
    for element in svgs(text).values():
        assert_contained(element)
        assert "nan" not in "".join(element.itertext())


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=5),
    st.lists(st.floats(0.001, 1e6), min_size=1, max_size=8, unique=True),
)
def test_curves_keep_the_order_of_their_values(values: list[float], loads: list[float]) -> None:
    points = tuple(
        (load, Repeats((value,))) for load, value in zip(sorted(loads), values, strict=False)
    )
    plot = Plot(
        "k", "t", Unit.SECONDS, (Series("p50", points),), tuple(sorted(loads)), "loads",
        (Mark(loads[0], "here", "knee"),), Level(1.0, "asked"),
    )  # fmt: skip
    drawn = places(ET.fromstring(draw(plot)), "line s0")
    for (one, (_, first)), (two, (_, second)) in zip(
        zip(points, drawn, strict=True), zip(points[1:], drawn[1:], strict=True), strict=False
    ):
        if one[1].median < two[1].median:
            assert first >= second
        assert one[0] < two[0]
