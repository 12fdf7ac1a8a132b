"""Engines and GPUs beyond the limits are folded, and said to be."""

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from sidecar.catalog import vllm_metrics as roles
from sidecar.export.bounded import fold_engines
from sidecar.export.metrics import Exposition, Format
from sidecar.model.report import Report
from sidecar.model.window import EngineWindow, Spread
from tests.export.reports import EVIDENCE_KEYS, make_engine, make_judgement, make_report


def read(report: Report, max_engines: int = 64) -> dict[tuple[str, str], float]:
    payload = Exposition(EVIDENCE_KEYS, max_engines=max_engines).payload(
        report, Format.TEXT, compressed=False
    )
    return {
        (sample.name, "/".join(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(payload.body.decode())
        for sample in family.samples
    }


def test_engines_beyond_the_limit_add_up_in_other() -> None:
    found = read(make_report(engines=5), max_engines=2)
    assert found["vllm_sidecar_window_preemptions", "0"] == 12
    assert found["vllm_sidecar_window_preemptions", "1"] == 12
    assert ("vllm_sidecar_window_preemptions", "2") not in found
    assert found["vllm_sidecar_window_preemptions", "other"] == 36
    assert found["vllm_sidecar_requests", "other/running"] == 21
    assert found["vllm_sidecar_window_preemptions_per_request", "other"] == 0.3
    assert found["vllm_sidecar_engines_folded", ""] == 3
    assert found["vllm_sidecar_kv_demand_tokens", "1"] == 3000
    assert ("vllm_sidecar_kv_demand_tokens", "other") not in found


def test_of_folded_ratios_the_fullest_speaks() -> None:
    calm = EngineWindow(gauges={roles.KV_USAGE: Spread(0.1, 0.2, 0.3, 0.2)})
    folded = fold_engines([make_engine(), calm])
    assert folded.gauges[roles.KV_USAGE] == Spread(0.5, 0.75, 0.98, 0.9)


def test_engines_are_kept_by_number_not_by_spelling() -> None:
    found = read(make_report(engines=12), max_engines=3)
    names = {labels for name, labels in found if name == "vllm_sidecar_window_preemptions"}
    assert names == {"0", "1", "2", "other"}


def test_an_engine_with_an_unprintable_name_is_folded() -> None:
    report = make_report()
    judgement = make_judgement()
    engines = {"0": make_engine(), 'x"}\n evil 1': make_engine()}
    hostile = replace(judgement, window=replace(judgement.window, engines=engines))
    found = read(replace(report, last_window=hostile))
    assert found["vllm_sidecar_window_preemptions", "other"] == 12
    assert found["vllm_sidecar_engines_folded", ""] == 1


def test_gpus_beyond_64_are_counted() -> None:
    found = read(make_report(gpus=70))
    assert ("vllm_sidecar_gpu_utilization_ratio", "63") in found
    assert ("vllm_sidecar_gpu_utilization_ratio", "64") not in found
    assert found["vllm_sidecar_gpus_hidden", ""] == 6
