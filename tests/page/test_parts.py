"""The parts of the page on made reports: hostile names, many engines, full histories, gaps."""

import base64
import hashlib
import math
import random
import re
from dataclasses import replace

import pytest

from sidecar.catalog import vllm_metrics as roles
from sidecar.history.row import Figure, Row
from sidecar.history.timeline import Timeline
from sidecar.model.report import Report
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause, Fault, Severity, Source, Verdict
from sidecar.model.window import Spread
from sidecar.page.document import write_page, write_waiting
from sidecar.page.policy import FILE_POLICY, POLICY
from sidecar.page.shown import HOUR, QUARTER, SPANS, Place, Shown, Span, fitting_span, since_when
from sidecar.telling.blind_spots import FAULT_WORDS
from sidecar.telling.figures import iso_time
from tests.export.reports import START, make_report
from tests.page.reading import Page, read_page

DAY_S = 86_400.0
PLACE = Place(interval_s=5.0, window_s=15.0, version="1.2.3")
NOW = START + 15
HOSTILE = "</title></style></script><script>alert(1)</script><img src=x onerror=alert(1)>'\"&"


def make_shown(report: Report | None = None, rows: list[Row] | None = None) -> Shown:
    timeline = Timeline(DAY_S)
    for row in rows or []:
        timeline.add(row)
    return Shown(report or make_report(), timeline, PLACE, NOW)


def page_of(shown: Shown) -> Page:
    return read_page(write_page(shown, HOUR))


def row_at(back: int, verdict: Verdict, **figures: float) -> Row:
    """The ``back``-th window before now."""
    end = NOW - 15.0 * back
    loud = None if verdict in {Verdict.NONE, Verdict.UNKNOWN} else Severity.WARNING
    known = {Figure(name): value for name, value in figures.items()}
    return Row(end - 15, end, verdict, loud, 1, known)


def test_names_that_others_chose_stay_text() -> None:
    report = make_report(gpus=2)
    assert report.nvml is not None
    gpus = tuple(replace(gpu, name=HOSTILE) for gpu in report.nvml.gpus)
    info = dict.fromkeys(("model_name", "vllm_version"), HOSTILE)
    shown = make_shown(replace(report, info=info, nvml=replace(report.nvml, gpus=gpus)))
    text = write_page(shown, HOUR)
    page = read_page(text)
    assert HOSTILE[:64] in page.text
    assert "<img" not in text
    assert text.count("<script") == 1
    assert text.count("</title>") == len(page.titles) + 1


def test_engines_with_hostile_names_and_hundreds_of_them_are_bounded() -> None:
    page = page_of(make_shown(make_report(Verdict.PREEMPTION, engines=64, gpus=64)))
    assert page.text.count("Engine ") == 8
    assert "56 more engines are in /api/windows." in page.text
    assert page.text.count("NVIDIA L4") <= 16


@pytest.mark.parametrize("span", SPANS, ids=lambda span: span.word)
def test_a_page_with_a_full_history_is_under_150_kilobytes(span: Span) -> None:
    draw = random.Random(3)
    rows = [
        Row(
            NOW - 15 * (back + 1),
            NOW - 15 * back,
            draw.choice(list(Verdict)),
            draw.choice(list(Severity)),
            1,
            {name: draw.random() * 1e6 for name in Figure},
        )
        for back in range(5760, -1, -1)
    ]
    shown = make_shown(make_report(Verdict.PREEMPTION, engines=64, gpus=64), rows)
    text = write_page(shown, span)
    assert len(text.encode()) < 150_000
    assert "and more before" in read_page(text).text


def test_the_policy_names_the_style_and_the_script_that_are_there() -> None:
    text = write_page(make_shown(), HOUR)
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in POLICY
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY + FILE_POLICY


def test_a_page_in_a_file_has_its_policy_in_it_and_asks_for_nothing() -> None:
    text = write_page(replace(make_shown(), live=False), HOUR)
    assert "<script" not in text
    assert "refresh" not in text
    assert 'http-equiv="Content-Security-Policy"' in text
    assert not [link for link in read_page(text).links if not link.startswith("#")]


def test_before_the_first_tick_nothing_is_claimed() -> None:
    page = read_page(write_waiting(5.0))
    assert "Nothing was sampled yet" in page.text
    assert not set(Verdict) & set(page.text.lower().split())


@pytest.mark.parametrize(
    ("verdict", "rows", "since"),
    [
        (Verdict.NONE, [], None),
        (Verdict.NONE, [(3, Verdict.STALLED), (2, Verdict.NONE), (1, Verdict.NONE)], NOW - 45),
        (Verdict.NONE, [(9, Verdict.NONE), (1, Verdict.NONE), (0, Verdict.NONE)], NOW - 30),
        # Single windows without a preemption do not end a thrash, five do.
        (
            Verdict.PREEMPTION,
            [(5, Verdict.PREEMPTION), (3, Verdict.NONE), (1, Verdict.PREEMPTION)],
            NOW - 90,
        ),
        (Verdict.PREEMPTION, [(9, Verdict.PREEMPTION), (1, Verdict.PREEMPTION)], NOW - 30),
        # A failure stays one failure while the server starts again.
        (Verdict.HOST_OOM, [(15, Verdict.HOST_OOM), (1, Verdict.HOST_OOM)], NOW - 240),
        (Verdict.HOST_OOM, [(40, Verdict.HOST_OOM), (1, Verdict.HOST_OOM)], NOW - 30),
    ],
)
def test_since_when_it_is_so(
    verdict: Verdict, rows: list[tuple[int, Verdict]], since: float | None
) -> None:
    report = replace(make_report(), verdict=verdict)
    shown = make_shown(report, [row_at(back, told) for back, told in rows])
    assert since_when(shown) == since


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("http://127.0.0.1:8000", "server http://127.0.0.1:8000 ·"),
        ("https://[::1]:8000/tenant?token=secret#secret", "server https://[::1]:8000 ·"),
        ("http://me:secret@vllm", "server http://vllm ·"),
    ],
)
def test_of_the_servers_address_no_more_is_told_than_who_it_is(target: str, told: str) -> None:
    shown = make_shown()
    text = write_page(replace(shown, place=replace(PLACE, target=target)), HOUR)
    assert told in read_page(text).text
    assert "secret" not in text
    assert "tenant" not in text


def test_a_clock_that_was_ahead_tells_no_time_to_come() -> None:
    ahead = [row_at(back - 1000, Verdict.UNKNOWN) for back in (2, 1, 0)]
    rows = [row_at(9, Verdict.STALLED), *ahead, row_at(1, Verdict.UNKNOWN)]
    report = make_report()
    since = Instant(report.at.monotonic - 120, report.at.unix + 14_880)
    shown = make_shown(replace(report, verdict=Verdict.UNKNOWN, state_since=since), rows)
    assert since_when(shown) == NOW - 30
    page = page_of(shown)
    assert "seen so since 2025-11-30T05:18:15Z (2 min ago)" in page.text
    changes = page.text.partition("Changes of verdict")[2].partition("Budgets")[0]
    assert [word for word in changes.split() if word.endswith("Z")] == [
        iso_time(NOW - 30),
        iso_time(NOW - 150),
    ]


def test_a_failure_that_is_just_seen_is_since_its_first_sign() -> None:
    report = make_report(Verdict.HOST_OOM)
    last = report.last_window
    assert last is not None
    shown = make_shown(replace(report, urgent=last.causes))
    assert since_when(shown) == last.causes[0].evidence[0].at.unix


def test_an_episode_that_goes_on_is_named_beside_another_verdict() -> None:
    report = replace(make_report(), alerts={Cause.HOST_OOM: Severity.CRITICAL})
    assert "Shortly before host_oom (critical)" in page_of(make_shown(report)).text


def test_a_source_that_fails_says_why_and_counts_it() -> None:
    report = make_report()
    status = replace(
        report.sources[Source.CGROUP], up=False, last_fault=Fault.DENIED, errors={Fault.DENIED: 7}
    )
    report = replace(
        report,
        sources={**report.sources, Source.CGROUP: status},
        observable={**report.observable, Cause.HOST_OOM: False},
        cgroup=None,
    )
    text = page_of(make_shown(report)).text
    assert f"cgroup {FAULT_WORDS[Fault.DENIED]}" in text
    assert "denied 7" in text
    assert f"host_oom ✗ not watched : cgroup: {FAULT_WORDS[Fault.DENIED]}" in text
    assert f"Not read: {FAULT_WORDS[Fault.DENIED]}." in text


def test_what_is_not_known_is_no_empty_bar() -> None:
    report = make_report()
    last = report.last_window
    assert last is not None
    shown = make_shown(replace(report, last_window=replace(last, budgets={})))
    text = page_of(shown).text
    assert "Live demand not known" in text
    assert "max_num_seqs is not known" in text


def test_a_gauge_that_is_no_share_is_said_as_not_read() -> None:
    report = make_report(Verdict.PREEMPTION)
    last = report.last_window
    assert last is not None
    engine = last.window.engines["0"]
    gauges = {**engine.gauges, roles.KV_USAGE: Spread(0.0, 1e300, 1e308, 1e308)}
    window = replace(last.window, engines={"0": replace(engine, gauges=gauges)})
    text = page_of(make_shown(replace(report, last_window=replace(last, window=window)))).text
    assert "how full it is was not read" in text
    assert "%" not in text.partition("What to do")[0]


def test_a_young_sidecar_shows_less_time() -> None:
    assert fitting_span(Timeline(DAY_S), NOW) == Span("", 60.0)
    young = make_shown(rows=[row_at(10, Verdict.NONE)]).timeline
    assert fitting_span(young, NOW) == Span("", 11 * 15.0)
    assert QUARTER.seconds == 900
    assert fitting_span(make_shown(rows=[row_at(100, Verdict.NONE)]).timeline, NOW) is HOUR


def test_gaps_are_shown_as_not_watched_and_cut_the_curves() -> None:
    rows = [row_at(back, Verdict.NONE, kv_usage=0.5) for back in (200, 199, 10, 9)]
    text = write_page(make_shown(rows=rows), HOUR)
    assert "not watched" in text
    (curve,) = re.findall(r'<path d="([^"]*)" class="c0">', text)
    assert curve.count("M") == 2
    assert not re.search(r"\b(nan|inf)\b", text)


@pytest.mark.parametrize("end", [NOW + 1e9, math.nextafter(NOW, math.inf), NOW - 1e9])
def test_rows_of_another_time_break_nothing(end: float) -> None:
    timeline = Timeline(DAY_S)
    timeline.add(Row(end - 15, end, Verdict.NONE))
    read_page(write_page(Shown(make_report(), timeline, PLACE, NOW), HOUR))
