"""From the page of each scenario alone: what, since when, what shows it, what to do, what is unseen."""

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.commands.demo import SCENARIOS
from sidecar.commands.scan import run_scan
from sidecar.history.timeline import Timeline
from sidecar.model.vocabulary import Cause, Source
from sidecar.page.document import write_page
from sidecar.page.shown import HOUR, SPANS, Shown, Span, fitting_span
from sidecar.telling.actions import action_for
from sidecar.telling.sentences import explain, say_urgent
from sidecar.telling.words import LEVERS, say_kind
from tests.page.reading import Page, read_page
from tests.page.scenes import EXPECTED, all_scenarios, scene, stopped

HEADLINES = {
    "healthy": "No trouble was seen, but 1 of 5 causes could not be",
    "preemption": "The KV cache is too small for the load: requests are preempted",
    "cuda_oom": "GPU memory ran out",
    "host_oom": "Killed at the memory limit of its container or unit",
    "engine_failure": "The engine died; nothing that is seen shows memory as the reason",
    "stalled": "Requests are there, but no token is generated",
    "startup_rejection": "vLLM did not start: too little GPU memory for what was asked",
    "unknown": "Too little is seen to judge",
}
SECTIONS = (
    "What to do",
    "What shows it",
    "The last ",
    "Budgets",
    "Memory",
    "What can be seen from here",
)
SIGNS = {
    "preemption": "preemptions_counter",
    "cuda_oom": "gpu_out_of_memory",
    "host_oom": "oom_kill",
    "engine_failure": "process_died",
    "stalled": "no_progress",
    "startup_rejection": "no_memory_for_cache_blocks",
}


def page_of(shown: Shown) -> Page:
    return read_page(write_page(shown, fitting_span(shown.timeline, shown.now)))


def test_every_scenario_has_a_page() -> None:
    assert set(all_scenarios()) == set(EXPECTED)


@pytest.mark.parametrize("scenario", EXPECTED)
def test_the_page_says_what_is_wrong_since_when_and_what_to_do(scenario: str) -> None:
    shown = scene(scenario)
    page = page_of(shown)
    report = shown.report
    assert page.headings[0] == ("h1", HEADLINES[scenario])
    sections = [text for level, text in page.headings if level == "h2"]
    assert [one[:9] if one.startswith("The last ") else one for one in sections] == list(SECTIONS)
    assert re.search(r"Since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", page.text)
    assert f"Server {report.state.value}" in page.text
    lever, step = LEVERS[report.advice.lever], report.advice.step_words
    if scenario not in {"healthy", "unknown"}:
        head, _, rest = page.text.partition("What to do")
        assert f"To do {step[:1].upper()}{step[1:]}." in head
        assert f"Lever {lever} ( {report.advice.lever.value} )" in rest
        assert f": {SIGNS[scenario]}" in page.text
        assert report.advice.cost in page.text
        assert all(reason in page.text for reason in report.advice.because)


@pytest.mark.parametrize("scenario", EXPECTED)
def test_the_page_speaks_the_words_of_the_terminal(scenario: str) -> None:
    shown = scene(scenario)
    last = shown.report.last_window
    assert last is not None
    urgent = say_urgent(shown.report.urgent, shown.report.observable)
    assert (urgent or explain(last)) in page_of(shown).text


@pytest.mark.parametrize("scenario", EXPECTED)
def test_every_cause_is_seen_or_says_why_not_and_what_would_show_it(scenario: str) -> None:
    shown = scene(scenario)
    text = page_of(shown).text.partition("What can be seen from here")[2]
    for cause in Cause:
        if shown.report.observable[cause]:
            assert f"{cause.value} ✓ watched" in text
        else:
            assert re.search(f"{cause.value} ✗ not watched ?: .+? To watch it: ", text)
    for source in Source:
        assert source.value in text


@pytest.mark.parametrize("scenario", EXPECTED)
@pytest.mark.parametrize("span", SPANS, ids=lambda span: span.word)
def test_the_page_is_well_formed_semantic_and_without_anything_from_elsewhere(
    scenario: str, span: Span
) -> None:
    text = write_page(scene(scenario), span)
    page = read_page(text)
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith(("#", "/")) for link in page.links)
    assert all(link[1:] in page.ids for link in page.links if link.startswith("#"))
    assert not {name for _, name in page.attributes if name == "style" or name.startswith("on")}
    assert "http" not in re.sub(r'http-equiv="refresh"', "", text)
    # Every picture says in words what it shows; the swatches of the legend stand beside theirs.
    assert len(page.titles) >= page.pictures > 0
    for tag in ("html", "header", "main", "section", "nav", "figure", "footer"):
        assert f"<{tag}" in text


@pytest.mark.parametrize("scenario", ["cuda_oom", "engine_failure", "startup_rejection"])
def test_the_log_of_a_scenario_is_triaged_in_the_words_of_its_page(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = (SCENARIOS / scenario).glob("log.jsonl*")
    opened = gzip.open if source.suffix == ".gz" else open
    with opened(source, "rt") as rows:
        lines = [json.loads(row)["line"] for row in rows]
    log = tmp_path / "vllm.log"
    log.write_text("\n".join(lines))
    run_scan([str(log)], output="text")
    scanned = capsys.readouterr().out
    shown = scene(scenario)
    page = page_of(shown).text
    first = shown.causes[0]
    action = action_for(first.cause, first.kind)
    assert action is not None
    for words in (
        say_kind(first.cause, first.kind),
        action.never,
        LEVERS[shown.report.advice.lever],
    ):
        assert words in scanned
        assert words in page


def test_unknown_is_not_told_as_healthy() -> None:
    page = page_of(scene("unknown"))
    assert "Too little is seen to judge" in page.text
    assert "answers, but shows no series that is known" in page.text
    assert "0 of 17 that are looked for were found" in page.text
    assert "not found (never counted as 0)" in page.text
    assert "not measured in this span" in page.text
    assert "0%" not in page.text


def test_a_death_that_may_have_been_a_kill_for_memory_says_so_first() -> None:
    head, _, _ = page_of(scene("engine_failure")).text.partition("What to do")
    assert "a kill for lack of host memory could not have been seen" in head
    assert "whether it is started again is not watched" in head
    watched = scene("engine_failure")
    observable = {**watched.report.observable, Cause.HOST_OOM: True}
    report = replace(watched.report, urgent=watched.causes, observable=observable)
    assert "a kill for lack" not in page_of(replace(watched, report=report)).text


def test_a_clock_that_stands_still_comes_first() -> None:
    shown = stopped(scene("healthy"))
    page = page_of(shown)
    assert page.text.index("clock stands still") < page.text.index("No trouble was seen")
    assert "head critical" in write_page(shown, HOUR)


def test_the_same_value_gives_the_same_page() -> None:
    assert write_page(scene("preemption"), HOUR) == write_page(scene("preemption"), HOUR)


def test_without_a_past_the_page_says_so() -> None:
    shown = scene("healthy")
    empty = Shown(shown.report, Timeline(86_400.0), shown.place, shown.now)
    page = page_of(empty)
    assert "None: no window is closed yet." in page.text
    assert "not watched" in page.text
