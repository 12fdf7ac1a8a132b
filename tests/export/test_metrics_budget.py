"""Series stay within their budget, whatever comes in."""

import pytest

from sidecar.catalog import series_budget
from sidecar.catalog.family import Scope
from sidecar.catalog.signals import EVIDENCE
from sidecar.export.metrics import Exposition, Format
from sidecar.model.report import EvidenceKey, Report
from sidecar.model.vocabulary import Cause, Source
from tests.export.reports import EVIDENCE_KEYS, make_report

MANY_SIGNS = tuple(
    EvidenceKey(Cause.ENGINE_FAILURE, Source.VLLM_LOG, f"sign_{n}") for n in range(55)
)


def count_series(report: Report, keys: tuple[EvidenceKey, ...], max_engines: int = 64) -> int:
    text = Exposition(keys, max_engines=max_engines).payload(report, Format.TEXT, compressed=False)
    return sum(1 for line in text.body.splitlines() if not line.startswith(b"#"))


def test_one_engine_and_one_gpu_stay_within_300_series_even_with_55_signs() -> None:
    assert series_budget.bound_series(MANY_SIGNS, engines=1, gpus=1) <= 300
    assert count_series(make_report(), MANY_SIGNS) <= 300


def test_what_we_export_today_leaves_room_for_more() -> None:
    assert series_budget.bound_series(EVIDENCE, engines=1, gpus=1) <= 295
    assert count_series(make_report(), EVIDENCE) <= 295


def test_a_further_engine_costs_at_most_25_and_a_further_gpu_at_most_12_series() -> None:
    assert series_budget.count_series(Scope.ENGINE) <= 25
    assert series_budget.count_series(Scope.GPU) <= 12
    one = count_series(make_report(), EVIDENCE_KEYS)
    assert count_series(make_report(engines=2), EVIDENCE_KEYS) - one <= 25
    assert count_series(make_report(gpus=2), EVIDENCE_KEYS) - one <= 12


@pytest.mark.parametrize("max_engines", [0, 1, 64, 10_000])
def test_thousands_of_engines_and_gpus_never_pass_the_limit(max_engines: int) -> None:
    report = make_report(engines=3_000, gpus=500)
    assert count_series(report, MANY_SIGNS, max_engines) <= 2_500


def test_the_table_bounds_what_is_rendered() -> None:
    report = make_report(engines=5, gpus=3)
    assert count_series(report, EVIDENCE_KEYS) <= series_budget.bound_series(EVIDENCE_KEYS, 5, 3)


def test_default_limits_leave_room_for_64_engines() -> None:
    assert series_budget.limit_engines(MANY_SIGNS, 64) == 64
