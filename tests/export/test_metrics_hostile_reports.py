"""Any report at all gives an exposition that parses, within the label sets and the budget."""

import math
from collections.abc import Iterable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from sidecar.catalog import exported, series_budget
from sidecar.catalog.family import PREFIX, Label
from sidecar.export.metrics import Exposition, Format
from sidecar.export.results import encode, report_result
from sidecar.model.report import Report
from sidecar.telling.plain import ENGINE_NAME
from sidecar.telling.sentences import window_line, window_text
from tests.export.reports import EVIDENCE_KEYS
from tests.strategies import REPORTS

FAMILIES = {family.base_name: family for family in exported.FAMILIES}
SIGNALS = {key.signal for key in EVIDENCE_KEYS}
calm = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def is_allowed(label: Label, value: str) -> bool:
    if label.values:
        return value in label.values
    match label.name:
        case "engine":
            return ENGINE_NAME.fullmatch(value) is not None
        case "gpu":
            return value.isdigit() and len(value) <= 4
        case "signal":
            return value in SIGNALS
        case _:
            return value.isprintable() and 0 < len(value) <= 64


def check_families(families: Iterable[Metric], max_engines: int) -> None:
    engines: set[str] = set()
    series = 0
    for metric in families:
        for sample in metric.samples:
            series += 1
            assert math.isfinite(sample.value)
            if not sample.name.startswith(PREFIX):
                assert sample.name in exported.PROCESS_FAMILIES
                continue
            name = sample.name.removesuffix("_total").removesuffix("_info")
            family = FAMILIES[name]
            labels = {label.name: label for label in family.labels}
            assert all(is_allowed(labels[key], value) for key, value in sample.labels.items())
            engines.update(value for key, value in sample.labels.items() if key == "engine")
    assert series <= series_budget.SERIES_LIMIT
    assert len(engines - {exported.OTHER}) <= max_engines


@calm
@given(report=REPORTS, max_engines=st.sampled_from([0, 1, 64, 5_000]))
def test_text_parses_and_stays_within_its_sets(report: Report, max_engines: int) -> None:
    payload = Exposition(EVIDENCE_KEYS, max_engines=max_engines).payload(
        report, Format.TEXT, compressed=False
    )
    families = list(text_string_to_metric_families(payload.body.decode()))
    check_families(families, max_engines)


@calm
@given(report=REPORTS)
def test_openmetrics_parses_and_stays_within_its_sets(report: Report) -> None:
    payload = Exposition(EVIDENCE_KEYS).payload(report, Format.OPENMETRICS, compressed=False)
    families = list(openmetrics.text_string_to_metric_families(payload.body.decode()))  # type: ignore[no-untyped-call]
    check_families(families, 64)


@calm
@given(report=REPORTS)
def test_results_are_one_line_of_json_and_one_line_of_words(report: Report) -> None:
    text = encode(report_result(report))
    assert text == encode(report_result(report))
    assert "\n" not in text
    assert "NaN" not in text.replace('"NaN"', ""), "an engine may bear that name, a number may not"
    if report.last_window is not None:
        assert "\n" not in window_line(report.last_window)
        assert window_text(report.last_window).count("\n") <= 7, "a verdict, a lever, six parts"
