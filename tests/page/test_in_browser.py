"""The page in a real browser: read, looked at in both themes and on a phone, refreshed, attacked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from sidecar.export.http import HttpServer
from sidecar.export.metrics import Exposition
from sidecar.page.document import write_page
from sidecar.page.shown import Shown, Span, fitting_span
from sidecar.telling.words import LEVERS
from tests.export.made_views import make_views
from tests.export.reports import EVIDENCE_KEYS, make_report
from tests.fakes.chromium import Tab, chromium
from tests.fakes.patience import until
from tests.page.scenes import EXPECTED, scene
from tests.page.test_scenarios import HEADLINES

pytestmark = [pytest.mark.component("chromium"), pytest.mark.timeout(180)]

LOOKS = {
    "light": (1080, False),
    "dark": (1080, True),
    "phone": (360, False),
    "phone, dark": (360, True),
}
"""How wide the window is, and whether dark colours are preferred."""
PNG = b"\x89PNG\r\n\x1a\n"
POOR_CONTRAST = """
(function () {
  function numbers(colour) { return colour.match(/[\\d.]+/g).map(Number); }
  function light(rgb) {
    var parts = rgb.slice(0, 3).map(function (one) {
      one /= 255;
      return one <= 0.04045 ? one / 12.92 : Math.pow((one + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  }
  function behind(element) {
    for (; element; element = element.parentElement) {
      var colour = numbers(getComputedStyle(element).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  }
  var poor = [];
  document.querySelectorAll("body *").forEach(function (element) {
    var own = Array.prototype.some.call(element.childNodes, function (node) {
      return node.nodeType === 3 && node.data.trim();
    });
    if (!own || element.closest("svg,script,style")) return;
    var a = light(numbers(getComputedStyle(element).color)), b = light(behind(element));
    var ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(element.tagName + "." + element.className + " " + ratio.toFixed(2));
  });
  return poor;
})()
"""
"""Elements whose text is told from what is behind it by less than WCAG 2 AA asks for (4.5 to 1)."""


@dataclass
class Stage:
    """What the server shows; it may be changed while a browser looks."""

    shown: Shown
    asked: int = 0

    def page(self, span: Span | None) -> str:
        self.asked += 1
        shown = self.shown
        return write_page(shown, span or fitting_span(shown.timeline, shown.now))


@asynccontextmanager
async def serving(stage: Stage) -> AsyncIterator[str]:
    """The real server on a free port; its address."""
    server = HttpServer(make_views(page=stage.page), Exposition(EVIDENCE_KEYS))
    port = await server.start("127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        await server.stop(0.2)


async def is_wider_than_the_window(tab: Tab) -> bool:
    """Whether the page scrolls sideways."""
    wide = "document.scrollingElement.scrollWidth > document.scrollingElement.clientWidth"
    return bool(await tab.evaluate(wide))


@pytest.mark.parametrize("scenario", EXPECTED)
async def test_a_scenario_is_read_and_looked_at(scenario: str) -> None:
    shown = scene(scenario)
    lever = LEVERS[shown.report.advice.lever]
    pictures = {}
    async with serving(Stage(shown)) as url, chromium() as tab:
        for name, (width, dark) in LOOKS.items():
            await tab.look(width=width, dark=dark)
            await tab.open(url)
            text = await tab.text()
            assert HEADLINES[scenario] in text
            assert "Refreshed" in text
            if scenario not in {"healthy", "unknown"}:
                assert lever in text
            assert not await is_wider_than_the_window(tab), name
            assert await tab.evaluate(POOR_CONTRAST) == [], name
            pictures[name] = await tab.picture()
        assert await tab.evaluate("document.title") == (
            f"{shown.report.verdict.value}{loudness(shown)} - vllm-sidecar"
        )
        assert tab.complaints == []
    assert all(picture.startswith(PNG) for picture in pictures.values())
    assert all(len(picture) > 20_000 for picture in pictures.values()), "something is drawn"
    assert len(set(pictures.values())) == len(LOOKS), "every look is another picture"


def loudness(shown: Shown) -> str:
    last = shown.report.last_window
    found = shown.report.urgent or (last.causes if last else ())
    return f" ({found[0].severity.value})" if found else ""


async def test_names_that_others_chose_do_not_break_out() -> None:
    hostile = "</title><script>evil=1</script><img src=x onerror=evil=1>'\"&"
    report = replace(make_report(), info={"model_name": hostile, "vllm_version": hostile})
    shown = replace(scene("preemption"), report=report)
    async with serving(Stage(shown)) as url, chromium() as tab:
        await tab.open(url)
        assert hostile[:64] in await tab.text()
        assert await tab.evaluate("typeof evil") == "undefined"
        assert (
            await tab.evaluate("document.querySelectorAll('img,iframe,object,embed').length") == 0
        )
        assert await tab.evaluate("document.querySelectorAll('script').length") == 1
        assert tab.complaints == []


@pytest.mark.parametrize("name", ["W" * 64, "א" * 64, "a" + "\u0300" * 63])
async def test_a_long_name_does_not_widen_the_page_of_a_phone(name: str) -> None:
    report = make_report(gpus=1)
    assert report.nvml is not None
    gpus = tuple(replace(gpu, name=name) for gpu in report.nvml.gpus)
    info = dict.fromkeys(("model_name", "vllm_version"), name)
    report = replace(report, info=info, nvml=replace(report.nvml, gpus=gpus))
    async with (
        serving(Stage(replace(scene("preemption"), report=report))) as url,
        chromium() as tab,
    ):
        await tab.look(width=320)
        await tab.open(url)
        assert not await is_wider_than_the_window(tab)


async def test_the_policy_stops_what_got_in_all_the_same() -> None:
    async with serving(Stage(scene("healthy"))) as url, chromium() as tab:
        await tab.open(url)
        attack = "<img src=x onerror='evil=1'><p style='color:red'>x</p>"
        await tab.evaluate(f"document.body.insertAdjacentHTML('beforeend', {attack!r})")
        await tab.evaluate("fetch('http://127.0.0.2:9/').catch(function(){})&&0")
        await until(lambda: sum("Content Security Policy" in one for one in tab.complaints) >= 3)
        assert await tab.evaluate("typeof evil") == "undefined"


async def test_it_is_refreshed_in_place_and_says_when_it_is_not() -> None:
    before = scene("healthy")
    stage = Stage(replace(before, place=replace(before.place, interval_s=0.1)))
    async with chromium() as tab:
        async with serving(stage) as url:
            await tab.open(url)
            await tab.evaluate("document.getElementById('names').open=true;window.kept=1")
            await tab.evaluate("document.querySelector('#clock>summary').focus()")
            after = scene("host_oom")
            stage.shown = replace(after, place=stage.shown.place)
            await until(lambda: says(tab, "Killed at the memory limit"), 20)
            assert await tab.evaluate("window.kept") == 1, "it was not loaded anew"
            assert await tab.evaluate("document.getElementById('names').open") is True
            assert await tab.evaluate("document.getElementById('clock').open") is False
            focused = await tab.evaluate("document.activeElement.parentNode.id")
            assert focused == "clock"
            assert await tab.evaluate("document.title") == "host_oom (critical) - vllm-sidecar"
            assert tab.complaints == []
        # The sidecar is gone: what is still shown must not pass for what is.
        await until(lambda: says(tab, "what is shown is old"), 30)
        assert await tab.evaluate("document.getElementById('fresh').className") == "late"


async def says(tab: Tab, words: str) -> bool:
    """Whether a reader reads this now."""
    return words in await tab.text()


async def test_without_scripts_it_is_whole_and_asks_again_by_itself() -> None:
    stage = Stage(scene("cuda_oom"))
    async with serving(stage) as url, chromium() as tab:
        await tab.open(f"{url}?span=1h", scripts=False)
        text = await tab.text()
        assert "GPU memory ran out" in text
        assert "The last 1 h" in text
        assert "Not refreshed" not in text
        reload = "document.querySelector('noscript meta[http-equiv=refresh]')"
        assert await tab.evaluate(f"{reload} && {reload}.content") == "15"


async def test_the_keyboard_gets_everywhere() -> None:
    async with serving(Stage(scene("preemption"))) as url, chromium() as tab:
        await tab.open(url)
        met = []
        for _ in range(40):
            await tab.key("Tab")
            tag = await tab.evaluate("document.activeElement.tagName")
            name = await tab.evaluate("document.activeElement.textContent.slice(0, 20)")
            met.append((tag, name))
            if tag == "SUMMARY" and name.startswith("vLLM's metrics"):
                await tab.key("Enter")
                break
        assert ("A", "why, and the fix") in met
        assert ("A", "24h") in met
        assert await tab.evaluate("document.getElementById('names').open") is True
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert await tab.evaluate(outline) == "solid", "where the keyboard is can be seen"


async def test_a_span_is_chosen_by_its_link() -> None:
    async with serving(Stage(scene("preemption"))) as url, chromium() as tab:
        await tab.open(url)
        tab.loaded.clear()
        await tab.evaluate("document.querySelector('nav a[href=\"/?span=6h\"]').click()")
        await asyncio.wait_for(tab.loaded.wait(), 30)
        assert "The last 6 h" in await tab.text()
        assert (
            await tab.evaluate("document.querySelector('nav a[aria-current]').textContent") == "6h"
        )
        assert tab.complaints == []
