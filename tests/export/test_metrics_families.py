"""What the exposition says about a report, and what it leaves unsaid."""

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.catalog import exported
from sidecar.catalog.family import PREFIX, Family
from sidecar.export.metrics import ROWS, Exposition, Format
from sidecar.model.advice import Lever
from sidecar.model.budget import GpuBudget
from sidecar.model.readings import CgroupReading
from sidecar.model.report import HostOutlook, ProcessCount, ReloadStatus, Report, SourceStatus
from sidecar.model.vocabulary import (
    Cause,
    Fault,
    LimitOwner,
    Party,
    Severity,
    Source,
    Verdict,
)
from tests.export.reports import EVIDENCE_KEYS, GIB, make_report

Found = dict[str, dict[tuple[str, ...], float]]


def read(report: Report) -> Found:
    payload = Exposition(EVIDENCE_KEYS).payload(report, Format.TEXT, compressed=False)
    found: Found = {}
    for family in text_string_to_metric_families(payload.body.decode()):
        for sample in family.samples:
            rows = found.setdefault(sample.name.removeprefix("vllm_sidecar_"), {})
            rows[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


def make_first_report() -> Report:
    """Before anything was read."""
    return replace(
        make_report(up=False, gpus=0),
        last_window=None,
        windows_total={},
        evidence_total={},
        last_evidence={},
        alerts={},
        observable={},
        sources={},
        found=frozenset(),
        info={},
        cgroup=None,
        outlook=None,
        processes=None,
        kernel_lost=None,
    )


def test_every_family_of_the_table_is_rendered_once_and_in_order() -> None:
    assert tuple(family for family, _ in ROWS) == exported.FAMILIES


def test_a_full_report_shows_every_family_of_the_table() -> None:
    found = read(make_report(Verdict.PREEMPTION))
    names = {family.name.removeprefix(PREFIX) for family in exported.FAMILIES}
    assert names <= set(found)


@pytest.mark.parametrize(
    "family", [family for family in exported.FAMILIES if family.complete], ids=lambda f: str(f.name)
)
def test_complete_sets_are_there_from_the_first_scrape(family: Family) -> None:
    rows = read(make_first_report())[family.name.removeprefix(PREFIX)]
    if family is exported.EVIDENCE:
        assert len(rows) == len(EVIDENCE_KEYS)
    else:
        assert len(rows) == family.series
    assert set(rows.values()) <= {0.0, 1.0}


def test_exactly_the_verdict_of_the_report_is_one() -> None:
    for verdict in Verdict:
        rows = read(make_report(verdict))["verdict"]
        assert [labels for labels, value in rows.items() if value] == [(verdict.value,)]


def test_an_episode_raises_its_cause_and_severity_only() -> None:
    report = replace(make_report(), alerts={Cause.PREEMPTION: Severity.WARNING})
    rows = read(report)["alert"]
    assert len(rows) == len(Cause) * len(Severity)
    assert [labels for labels, value in rows.items() if value] == [("preemption", "warning")]


def test_what_nobody_measured_is_absent_not_zero() -> None:
    found = read(make_first_report())
    for name in (
        "window_end_timestamp_seconds",
        "last_evidence_timestamp_seconds",
        "window_preemptions",
        "window_requests",
        "window_recomputed_tokens_estimate",
        "kv_capacity_tokens",
        "kv_capacity_bytes",
        "kv_demand_tokens",
        "kv_headroom_tokens",
        "tokens_per_running_request",
        "safe_concurrency_requests",
        "admission_limit",
        "admission_used_ratio",
        "gpu_free_durable_bytes",
        "kv_usage_ratio",
        "requests",
        "latency_seconds",
        "throughput_tokens_per_second",
        "gpu_memory_bytes",
        "host_memory_bytes",
        "host_memory_events_total",
        "host_memory_headroom_bytes",
        "host_memory_growth_bytes_per_second",
        "host_memory_time_to_limit_seconds",
        "server_processes",
        "orphaned_processes",
        "kernel_log_lost_records_total",
        "target_info",
        "source_duration_seconds",
    ):
        assert name not in found
    assert found["source_up"][("nvml",)] == 0


def test_a_server_that_is_down_shows_no_old_requests() -> None:
    found = read(make_report(Verdict.ENGINE_FAILURE, up=False))
    assert "requests" not in found
    assert "kv_usage_ratio" not in found


def test_no_limit_and_a_vanished_group_are_absent() -> None:
    bare = replace(make_report(), processes=None)
    found = read(replace(bare, cgroup=CgroupReading(2, "/x", current=5)))
    assert found["host_memory_bytes"] == {("current",): 5.0}
    assert "host_memory_events_total" not in found
    gone = replace(bare, cgroup=CgroupReading(2, "/x", gone=True, current=5))
    assert "host_memory_bytes" not in read(gone)


def test_host_memory_is_told_by_what_could_kill_and_what_cannot_be_moved() -> None:
    found = read(make_report())
    assert found["host_memory_bytes"] == {
        ("current",): GIB,
        ("limit",): 2 * GIB,
        ("peak",): GIB,
        ("reclaimable",): GIB / 4,
        ("shmem",): GIB / 8,
        ("unevictable",): GIB / 16,
        ("pinned",): GIB / 2,
    }
    assert found["host_memory_headroom_bytes"] == {
        ("own",): GIB,
        ("above",): 2 * GIB,
        ("host",): 4 * GIB,
    }
    assert found["host_memory_growth_bytes_per_second"] == {(): 1024}
    assert found["host_memory_time_to_limit_seconds"] == {(): GIB / 1024}


def test_only_the_limits_that_are_known_have_a_headroom() -> None:
    outlook = HostOutlook(headroom={LimitOwner.HOST: 7})
    found = read(replace(make_report(), outlook=outlook))
    assert found["host_memory_headroom_bytes"] == {("host",): 7}
    assert "host_memory_growth_bytes_per_second" not in found
    assert "host_memory_time_to_limit_seconds" not in found


def test_every_role_of_a_process_is_there_once_processes_can_be_seen() -> None:
    found = read(replace(make_report(), processes=ProcessCount({Party.WORKER: 2}, orphaned=2)))
    assert found["server_processes"] == {
        ("api_server",): 0,
        ("engine",): 0,
        ("worker",): 2,
        ("other",): 0,
    }
    assert found["orphaned_processes"] == {(): 2}
    assert ("pinned",) not in found["host_memory_bytes"]


def test_budgets_are_told_by_engine() -> None:
    found = read(make_report(engines=2))
    for name, value in (
        ("kv_capacity_tokens", 4096),
        ("kv_capacity_bytes", 2 * GIB),
        ("kv_demand_tokens", 3000),
        ("kv_headroom_tokens", 80),
        ("tokens_per_running_request", 500),
        ("safe_concurrency_requests", 8),
        ("admission_used_ratio", 0.5),
        ("window_recomputed_tokens_estimate", 6000),
    ):
        assert found[name] == {("0",): value, ("1",): value}


def test_only_limits_that_were_told_are_shown() -> None:
    assert read(make_report())["admission_limit"] == {
        ("max_num_seqs",): 16,
        ("max_num_batched_tokens",): 2048,
        ("max_model_len",): 2048,
        ("watermark",): 0.05,
    }


@pytest.mark.parametrize("lever", Lever)
def test_exactly_one_lever_is_one(lever: Lever) -> None:
    report = make_report()
    rows = read(replace(report, advice=replace(report.advice, lever=lever)))["lever"]
    assert len(rows) == len(Lever)
    assert [labels for labels, value in rows.items() if value] == [(lever.value,)]


def test_before_the_first_window_the_lever_is_none() -> None:
    rows = read(make_first_report())["lever"]
    assert [labels for labels, value in rows.items() if value] == [("none",)]


def test_a_gpus_memory_is_told_by_owner_only_where_it_can_be_seen() -> None:
    found = read(make_report())
    assert found["gpu_memory_bytes"]["0", "vllm"] == 18 * GIB
    assert found["gpu_memory_bytes"]["0", "cotenant"] == 2 * GIB
    assert found["gpu_free_durable_bytes"] == {("0",): 3 * GIB}
    report = make_report()
    assert report.last_window is not None
    for gpus in ((), (GpuBudget(0),), (GpuBudget(5, vllm=1, cotenant=1, free_durable=1),)):
        window = replace(report.last_window.window, gpus=gpus)
        hidden = read(replace(report, last_window=replace(report.last_window, window=window)))
        assert {kind for _, kind in hidden["gpu_memory_bytes"]} == {
            "total",
            "used",
            "free",
            "reserved",
        }
        assert "gpu_free_durable_bytes" not in hidden


def test_records_that_were_lost_are_counted() -> None:
    assert read(replace(make_report(), kernel_lost=3))["kernel_log_lost_records_total"] == {(): 3}


def test_a_reload_that_failed_shows_beside_the_time_of_the_last_that_did_not() -> None:
    found = read(replace(make_report(), reload=ReloadStatus(successful=False, success_unix=7.5)))
    assert found["config_last_reload_successful"] == {(): 0}
    assert found["config_last_reload_success_timestamp_seconds"] == {(): 7.5}


def test_where_no_settings_are_read_again_nothing_is_told_of_reloads() -> None:
    assert not any("reload" in name for name in read(replace(make_report(), reload=None)))


def test_a_fault_a_source_should_not_have_counts_as_io_error() -> None:
    status = SourceStatus(errors={Fault.NO_DRIVER: 2, Fault.IO_ERROR: 1, Fault.DENIED: 4})
    rows = read(replace(make_report(), sources={Source.CGROUP: status}))["source_errors_total"]
    assert rows["io_error", "cgroup"] == 3
    assert rows["denied", "cgroup"] == 4


def test_a_call_that_still_hangs_counts_as_a_time_out() -> None:
    status = SourceStatus(errors={Fault.TIMEOUT: 2, Fault.BUSY: 7})
    rows = read(replace(make_report(), sources={Source.NVML: status}))["source_errors_total"]
    assert rows["timeout", "nvml"] == 9
    assert ("busy", "nvml") not in rows


def test_an_unknown_reason_for_dropped_lines_counts_as_other() -> None:
    report = make_report()
    log = replace(report.log, dropped={"a user's text": 5, "too_long": 2})
    rows = read(replace(report, log=log))["log_dropped_total"]
    assert rows[("other",)] == 5
    assert rows[("too_long",)] == 2


def test_evidence_outside_the_closed_set_makes_no_series() -> None:
    payload = Exposition(EVIDENCE_KEYS[:1]).payload(make_report(), Format.TEXT, compressed=False)
    assert payload.body.count(b"\nvllm_sidecar_evidence_total{") == 1


def test_the_model_name_is_cut_and_printable() -> None:
    info = {"model_name": "m\n" + "x" * 100, "api_key": "sk-secret"}
    (labels,) = read(replace(make_report(), info=info))["target_info"]
    assert labels == ("m?" + "x" * 62,)


def test_our_own_process_is_told() -> None:
    found = read(make_report())
    assert found["process_resident_memory_bytes"][()] > 1_000_000
    assert found["process_cpu_seconds_total"][()] > 0
    assert found["process_start_time_seconds"][()] > 1_000_000_000


def test_a_report_is_rendered_once_per_form() -> None:
    exposition = Exposition(EVIDENCE_KEYS)
    report = make_report()
    first = exposition.payload(report, Format.TEXT, compressed=True)
    assert exposition.payload(report, Format.TEXT, compressed=True) is first
    assert exposition.payload(make_report(), Format.TEXT, compressed=True) is not first
