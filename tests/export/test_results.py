"""Windows and reports as JSON: fixed keys, fixed order, nothing that a user wrote."""

import json
import math
from dataclasses import replace

import pytest

from sidecar.catalog import vllm_metrics as roles
from sidecar.derive import budgets
from sidecar.export.results import encode, evidence_result, report_result, window_result
from sidecar.export.values import number
from sidecar.model.advice import Advice, Lever
from sidecar.model.budget import Budget, GpuBudget
from sidecar.model.evidence import Parties
from sidecar.model.readings import Histogram
from sidecar.model.vocabulary import Cause, LimitOwner, Party, Verdict
from sidecar.model.window import EngineWindow, Spread
from sidecar.telling.plain import plain_text
from tests.export.reports import GIB, START, make_judgement, make_report


def test_a_window_has_the_keys_of_the_interface_in_order() -> None:
    result = window_result(make_judgement(Verdict.PREEMPTION))
    assert list(result)[:8] == [
        "window",
        "verdict",
        "severity",
        "causes",
        "observable",
        "budgets",
        "latency",
        "lever",
    ]
    assert result["window"] == {"start": START, "end": START + 15}
    assert result["verdict"] == "preemption"
    assert result["lever"] == {
        "name": "raise_watermark",
        "because": ["0.3 preemptions per finished request"],
        "cost": "TTFT rises while requests wait to be let in",
        "verify": "preemptions per request fall",
        "step": {"setting": "watermark", "value": 0.05, "now": 0, "words": "--watermark 0.05"},
        "rollback": "--watermark 0",
        "rejected": {"raise_kv_cache_memory": "no free memory is proven"},
        "resting": False,
    }
    assert result["causes"] == [
        {
            "cause": "preemption",
            "kind": "recompute",
            "phase": "runtime",
            "confidence": "confirmed",
            "severity": "critical",
            "evidence": [
                {
                    "source": "vllm_metrics",
                    "signal": "preemptions_counter",
                    "amount": 2,
                    "at": START + 15,
                    "engine": "0",
                }
            ],
        }
    ]


def test_a_quiet_window_has_no_severity_and_no_cause() -> None:
    result = window_result(make_judgement())
    assert result["severity"] is None
    assert result["causes"] == []
    assert result["observable"] == {cause.value: True for cause in Cause}


def test_budgets_latency_and_work_are_told_by_engine() -> None:
    result = window_result(make_judgement(engines=2))
    assert result["budgets"]["1"] == {  # type: ignore[call-overload,index]
        "kv_usage": {"min": 0.5, "mean": 0.75, "max": 0.98, "last": 0.9},
        "running": {"min": 4, "mean": 6, "max": 8, "last": 7},
        "waiting": {"min": 0, "mean": 1, "max": 3, "last": 2},
        "kv_capacity_tokens": 4096,
        "kv_capacity_bytes": 2 * GIB,
        "kv_demand_tokens": 3000,
        "kv_demand_peak_tokens": 3920,
        "kv_headroom_tokens": 80,
        "tokens_per_running_request": 500,
        "safe_concurrency_requests": 8,
        "worst_concurrency_requests": 1.953125,
        "largest_request_ratio": 0.07425,
        "prefill_ratio": 0.4,
        "recomputed_tokens_estimate": 6000,
        "admission_limit_requests": 16,
        "admission_used_ratio": 0.5,
        "admitted_ratio": 2,
        "prompt_tokens": {"mean": 75, "p50": 50, "p95": 95, "p99": 99},
        "output_tokens": {"mean": 112.5, "p50": 100, "p95": 190, "p99": 198},
        "waiting_by_reason": {"capacity": 1, "deferred": 0},
        "binding": "cache",
    }
    assert result["latency"] == {
        "ttft": {"count": 80, "mean": 0.4, "p50": 0.3, "p95": 0.9, "p99": 0.98}
    }
    assert result["preemptions"] == {"0": 12, "1": 12}
    assert result["requests"] == {"aborted": 4, "error": 0, "rejected": 0, "success": 76}
    assert result["throughput"] == {"prompt": 400, "generation": 600}


def test_what_was_not_measured_has_no_key() -> None:
    result = window_result(make_judgement(Verdict.UNKNOWN, up=False))
    assert result["budgets"] == {}
    assert result["latency"] == {}
    assert result["preemptions"] == {}
    assert result["throughput"] == {}
    assert result["limits"] == {}


def test_a_budget_of_which_nothing_is_known_says_so_and_no_figure() -> None:
    judgement = replace(make_judgement(), budgets={"0": Budget()})
    window = replace(judgement.window, engines={"0": EngineWindow()})
    result = window_result(replace(judgement, window=window))
    assert result["budgets"] == {"0": {"binding": "unknown"}}


def test_limits_tell_where_they_were_read() -> None:
    limits = window_result(make_judgement())["limits"]
    assert isinstance(limits, dict)
    assert limits["max_num_seqs"] == {"value": 16, "origin": "log_arguments"}
    assert limits["watermark"] == {"value": 0.05, "origin": "command_line"}
    assert list(limits) == [
        "max_num_seqs",
        "max_num_batched_tokens",
        "max_model_len",
        "watermark",
        "kv_memory_bytes",
    ]


def test_numbers_without_sense_make_no_long_text() -> None:
    judgement = make_judgement()
    wild = Spread(1e300, 1e300, 1e300, 1e300)
    engine = EngineWindow(
        deltas={roles.PREEMPTIONS: 1e300},
        gauges=dict.fromkeys((roles.KV_USAGE, roles.RUNNING, roles.WAITING), wild),
    )
    window = replace(judgement.window, engines={"0": engine})
    text = encode(window_result(replace(judgement, window=window, budgets=budgets.measure(window))))
    assert "0" * 20 not in text
    assert json.loads(text)["budgets"]["0"]["binding"] == "cache"


def test_an_idle_gpu_under_a_server_that_works_is_told_in_a_closed_word() -> None:
    judgement = make_judgement()
    assert window_result(judgement)["placement"] == []
    gpus = tuple(replace(gpu, utilization=0.0) for gpu in judgement.window.gpus)
    idle = replace(judgement, window=replace(judgement.window, gpus=gpus))
    assert window_result(idle)["placement"] == ["idle_while_serving"]


def test_gpus_tell_whose_memory_it_is_and_whether_that_can_be_seen() -> None:
    judgement = make_judgement()
    window = replace(judgement.window, gpus=(judgement.window.gpus[0], GpuBudget(1)))
    gpus = window_result(replace(judgement, window=window))["gpus"]
    assert isinstance(gpus, list)
    known, hidden = gpus
    assert isinstance(known, dict)
    assert (known["vllm"], known["cotenant"], known["sight"]) == (18 * GIB, 2 * GIB, "seen")
    assert known["cotenant_durable"] == 2 * GIB
    assert hidden == {
        "index": 1,
        "sight": "hidden",
        "mig": False,
        "lost": False,
        "expected": False,
    }


def test_no_lever_is_an_object_without_reasons_never_null() -> None:
    nothing: dict[str, object] = {
        "name": "none",
        "because": [],
        "cost": "",
        "verify": "",
        "step": None,
        "rollback": "",
        "rejected": {},
        "resting": False,
    }
    assert window_result(make_judgement())["lever"] == nothing
    assert report_result(make_report())["lever"] == nothing
    assert report_result(replace(make_report(), last_window=None))["lever"] == nothing
    advised = report_result(make_report(Verdict.PREEMPTION))["lever"]
    assert isinstance(advised, dict)
    assert advised["name"] == "raise_watermark"


def test_words_of_a_lever_are_cut_and_printable() -> None:
    hostile = Advice(
        Lever.ADD_PARALLELISM, because=("a\n\x1b[31m" + "b" * 9_000,), cost="c" * 9_000
    )
    result = window_result(replace(make_judgement(), advice=hostile))["lever"]
    assert isinstance(result, dict)
    assert result["because"] == ["a??[31m" + "b" * 493]
    assert result["cost"] == "c" * 500


def test_the_queue_time_of_a_window_with_preemptions_is_marked() -> None:
    judgement = make_judgement(Verdict.PREEMPTION)
    queue = Histogram(((1.0, 5.0), (math.inf, 5.0)), 5, 2)

    def queue_result(preemptions: float) -> object:
        engine = EngineWindow(
            deltas={roles.PREEMPTIONS: preemptions}, histograms={roles.QUEUE: queue}
        )
        window = replace(judgement.window, engines={"0": engine})
        return window_result(replace(judgement, window=window))["latency"]

    marked = {"count": 5, "mean": 0.4, "p50": 0.5, "p95": 0.95, "p99": 0.99}
    assert queue_result(0.0) == {"queue": marked}
    assert queue_result(3.0) == {"queue": {**marked, "without_wait_after_preemption": True}}


def test_engines_stand_in_the_order_of_their_numbers_whatever_order_they_came_in() -> None:
    judgement = make_judgement(engines=12)
    turned = replace(
        judgement.window, engines=dict(reversed(list(judgement.window.engines.items())))
    )
    text = encode(window_result(replace(judgement, window=turned)))
    assert text == encode(window_result(judgement))
    assert list(json.loads(text)["budgets"]) == [str(n) for n in range(12)]


def test_a_histogram_without_observations_is_no_latency() -> None:
    judgement = make_judgement()
    idle = EngineWindow(histograms={roles.TTFT: Histogram(((1.0, 0.0), (math.inf, 0.0)), 0, 0)})
    result = window_result(
        replace(judgement, window=replace(judgement.window, engines={"0": idle}))
    )
    assert result["latency"] == {}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (3.0, "3"),
        (0.1 + 0.2, "0.3"),
        (1_764_480_000.123_456_7, "1764480000.123457"),
        (-0.0, "0"),
        (math.nan, "null"),
        (math.inf, "null"),
        (None, "null"),
        (10**400, "null"),
        (1e300, "1e+300"),
        (2.0**53, "9007199254740992"),
        (1e-9, "0"),
    ],
)
def test_numbers_are_written_shortly_and_always_validly(value: float | None, written: str) -> None:
    assert encode(number(value)) == written


def test_texts_are_cut_and_printable() -> None:
    assert plain_text("a\x1b[31m\n" + "b" * 100) == "a?[31m?" + "b" * 57
    assert plain_text("\ud800") == "?"


def test_a_report_tells_each_source_and_no_path_or_unlisted_fact() -> None:
    report = replace(make_report(), info={"model_name": "m", "token": "sk-secret"})
    text = encode(report_result(report))
    result = json.loads(text)
    assert result["sources"]["nvml"]["up"] is True
    assert result["info"] == {"model_name": "m"}
    assert result["gpus"][0]["memory"]["total"] == 24 * 1024**3
    assert result["host_memory"]["limit"] == 2 * 1024**3
    assert result["last_window"]["verdict"] == "none"
    assert "sk-secret" not in text
    assert "kubepods" not in text


def test_a_kill_names_the_parties_that_are_known_and_no_others() -> None:
    (found,) = make_judgement(Verdict.HOST_OOM).causes
    (evidence,) = found.evidence
    assert not {"victim", "trigger", "limit_owner"} & set(evidence_result(evidence))
    known = Parties(victim=Party.ENGINE, limit_owner=LimitOwner.HOST)
    result = evidence_result(replace(evidence, parties=known))
    assert (result["victim"], result["limit_owner"]) == ("engine", "host")
    assert "trigger" not in result


def test_a_report_tells_how_near_a_kill_is_and_who_lives() -> None:
    result = report_result(make_report())
    host, processes = result["host_memory"], result["processes"]
    assert isinstance(host, dict)
    assert host["headroom"] == {"own": GIB, "above": 2 * GIB, "host": 4 * GIB}
    assert (host["growth_bytes_per_second"], host["time_to_limit_seconds"]) == (1024, GIB // 1024)
    assert processes == {
        "api_server": 1,
        "engine": 1,
        "worker": 2,
        "other": 3,
        "orphaned": 0,
        "pinned_bytes": GIB // 2,
    }
    unknown = report_result(replace(make_report(), outlook=None, processes=None))
    assert unknown["processes"] is None
    assert "headroom" not in dict(unknown["host_memory"])  # type: ignore[arg-type]


def test_a_first_report_has_no_window() -> None:
    result = report_result(
        replace(make_report(), last_window=None, nvml=None, cgroup=None, sources={})
    )
    assert result["last_window"] is None
    assert result["gpus"] == []
    assert result["host_memory"] is None
    assert result["sources"]["cgroup"]["configured"] is False  # type: ignore[call-overload,index]
