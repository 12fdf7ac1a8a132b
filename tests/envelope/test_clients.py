"""Results that load generators really wrote, in base units; and files that are none."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.envelope import clients
from sidecar.envelope.clients import read_result
from sidecar.model.envelope import Client, ClientView, Quantiles

DATA = Path(__file__).parents[1] / "data"
CLIENTS = DATA / "clients"
STAGES = DATA / "recordings/m_capacity_stages_vllm_bench"


def text_of(name: str) -> str:
    return (CLIENTS / name).read_text()


def test_vllm_bench_without_e2e_percentiles_has_them_from_the_single_latencies() -> None:
    view = read_result(text_of("vllm_bench_0.32.0.json"))
    assert view == ClientView(
        client=Client.VLLM_BENCH,
        seconds=4.635286020000194,
        completed=24.0,
        failed=0.0,
        ttft=Quantiles(p50=0.1572457629999917, p99=0.1715951363300542, mean=0.10505160641667051),
        inter_token=Quantiles(
            p50=0.00164212899994709, p99=0.011956768819895835, mean=0.0027218217391719816
        ),
        e2e=Quantiles(1.8334419069999512, 2.769409016100053, 2.947426033630072, 2.0034088602499955),
        output_tokens_per_second=3624.371813845329,
    )


@pytest.mark.parametrize(
    ("name", "completed", "p95", "tokens"),
    [("stage_c1.json", 5, 1.5196, 511.3), ("stage_c16.json", 48, 5.5848, 2401.2)],
)
def test_vllm_bench_with_e2e_percentiles(
    name: str, completed: float, p95: float, tokens: float
) -> None:
    view = read_result((STAGES / name).read_text(), Client.VLLM_BENCH)
    assert view.completed == completed
    assert view.e2e.p95 == pytest.approx(p95, abs=1e-4)
    assert view.output_tokens_per_second == pytest.approx(tokens, abs=0.1)


def test_single_latencies_give_the_percentiles_that_the_client_computes() -> None:
    told = json.loads((STAGES / "stage_c16.json").read_text())
    ours = clients.measure(told["latencies"])
    assert ours.p50 == pytest.approx(told["median_e2el_ms"] / 1000)
    assert ours.p95 == pytest.approx(told["p95_e2el_ms"] / 1000)
    assert ours.p99 == pytest.approx(told["p99_e2el_ms"] / 1000)
    assert ours.mean == pytest.approx(told["mean_e2el_ms"] / 1000)


def test_an_older_vllm_bench_does_not_count_what_failed() -> None:
    told = json.loads(text_of("vllm_bench_0.32.0.json"))
    del told["failed"], told["latencies"]
    told["num_prompts"] = 30
    view = read_result(json.dumps(told))
    assert (view.completed, view.failed) == (24.0, 6.0)
    assert view.e2e == Quantiles()


def test_a_failed_request_has_no_latency() -> None:
    told = json.loads(text_of("vllm_bench_0.32.0.json"))
    told["latencies"] = [0.0, 1.0, 3.0]
    assert read_result(json.dumps(told)).e2e.mean == 2.0


GUIDELLM = {
    "guidellm_0.3.1.json": (2.7449, 0.352793, 0.002297, 0.811648, 1165.4),
    "guidellm_0.8.1.json": (2.8379, 0.835995, 0.001158, 0.873713, 1127.6),
}


@pytest.mark.parametrize("name", GUIDELLM)
def test_guidellm_then_and_now(name: str) -> None:
    seconds, ttft_p95, inter_token, e2e_p95, tokens = GUIDELLM[name]
    view = read_result(text_of(name))
    assert view.client is Client.GUIDELLM
    assert (view.completed, view.failed) == (16.0, 0.0)
    assert view.seconds == pytest.approx(seconds, abs=1e-4)
    assert view.ttft.p95 == pytest.approx(ttft_p95, abs=1e-5)
    assert view.inter_token.mean == pytest.approx(inter_token, abs=1e-6)
    assert view.e2e.p95 == pytest.approx(e2e_p95, abs=1e-5)
    assert view.output_tokens_per_second == pytest.approx(tokens, abs=0.1)


def test_requests_that_guidellm_cut_off_did_not_complete() -> None:
    told = json.loads(text_of("guidellm_0.8.1.json"))
    totals = told["benchmarks"][0]["metrics"]["request_totals"]
    totals.update(successful=10, errored=2, incomplete=4)
    view = read_result(json.dumps(told))
    assert (view.completed, view.failed) == (10.0, 6.0)


def test_zeros_of_a_guidellm_run_in_which_nothing_completed_are_no_latencies() -> None:
    told = json.loads(text_of("guidellm_0.8.1.json"))
    metrics = told["benchmarks"][0]["metrics"]
    metrics["time_to_first_token_ms"]["successful"] = metrics["time_to_first_token_ms"]["errored"]
    assert read_result(json.dumps(told)).ttft == Quantiles()


def test_a_sweep_of_guidellm_is_not_one_stage() -> None:
    told = json.loads(text_of("guidellm_0.8.1.json"))
    told["benchmarks"] *= 2
    with pytest.raises(ValueError, match="a stage is one load, not a sweep"):
        read_result(json.dumps(told))


def test_inference_perf_of_requests_that_streamed() -> None:
    view = read_result(text_of("inference_perf_2025_streaming.json"))
    assert view == ClientView(
        client=Client.INFERENCE_PERF,
        seconds=1854.0 / 29.934200613094053,
        completed=1854.0,
        failed=0.0,
        ttft=Quantiles(0.044576351065188646, 0.05791133157908916, 0.06417253694380634, 0.04501489933311162),
        inter_token=Quantiles(3.919098526239395e-05, 0.020128659089095887, 0.025794499082257973, 0.008319452786127406),
        e2e=Quantiles(1.2269518745015375, 2.638805159239564, 3.052290108911693, 1.271510320013912),
        output_tokens_per_second=3499.6697162304213,
    )  # fmt: skip


def test_inference_perf_of_requests_that_did_not_stream() -> None:
    view = read_result(text_of("inference_perf_2025.json"))
    assert view.ttft == view.inter_token == Quantiles()
    assert view.e2e.p95 == 12.777906836985494


def test_inference_perf_now_tells_its_time_and_its_failures() -> None:
    told = json.loads(text_of("inference_perf_2025.json"))
    told["benchmark_time_seconds"] = 207.0
    told["failures"] = {"count": 3, "by_label": {"503 - Service Unavailable": {"count": 3}}}
    told["successes"]["latency"]["request_latency"] = {"mean": 1.0, "p50": 0.9}
    view = read_result(json.dumps(told))
    assert (view.seconds, view.failed) == (207.0, 3.0)
    assert view.e2e == Quantiles(p50=0.9, mean=1.0)


VLLM: dict[str, Any] = {"completed": 1, "request_throughput": 1.0}


@pytest.mark.parametrize(
    ("text", "wanted", "said"),
    [
        ("", None, "it is no JSON, or was cut"),
        ('{"completed": 1, "requ', None, "it is no JSON, or was cut"),
        ("[" * 100_000, None, "it is no JSON, or was cut"),
        ("[]", None, "not the result of a load generator"),
        ("{}", None, "no load generator that is known writes such a result"),
        ("{}", Client.VLLM_BENCH, "not a result of vllm_bench: it counts no completed requests"),
        ('{"benchmarks": 1}', None, "not one benchmark of guidellm"),
        ('{"benchmarks": [[]]}', None, "not a result of guidellm"),
        ('{"benchmarks": [{"metrics": {}}]}', None, "it counts no completed requests"),
        ('{"successes": [], "failures": {}}', None, "not a result of inference_perf"),
        (json.dumps(VLLM), Client.GUIDELLM, "not a result of guidellm"),
        (json.dumps({**VLLM, "completed": "canary"}), None, "counts no completed requests"),
        (json.dumps({**VLLM, "completed": -1}), None, "counts no completed requests"),
        (json.dumps({**VLLM, "completed": True}), None, "counts no completed requests"),
    ],
)
def test_what_is_no_result_is_one_clear_fault(text: str, wanted: Client | None, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        read_result(text, wanted)
    assert "canary" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_result_beyond_the_bound_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_CHARACTERS", 1 << 20)
    with pytest.raises(ValueError, match="larger than 1 MiB"):
        read_result(" " * (1 << 20) + json.dumps(VLLM))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1, "1", True, None, [], 10**400])
def test_what_is_no_figure_is_not_known(bad: object) -> None:
    told = {**VLLM, "duration": bad, "median_ttft_ms": bad, "latencies": [bad, 2.0]}
    view = read_result(json.dumps(told))
    assert view.seconds is None
    assert view.ttft.p50 is None
    assert view.e2e.p50 == 2.0


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def places(told: Any) -> list[tuple[Any, Any]]:
    """Every part of a JSON value, as what holds it and where."""
    found = []
    if isinstance(told, dict | list):
        for key in told if isinstance(told, dict) else range(len(told)):
            found += [(told, key), *places(told[key])]
    return found


@given(st.sampled_from(sorted(CLIENTS.glob("*.json"))), st.data())
def test_a_result_of_which_any_part_is_replaced_is_read_or_refused(
    path: Path, data: st.DataObject
) -> None:
    told = json.loads(path.read_text())
    holder, key = data.draw(st.sampled_from(places(told)))
    holder[key] = data.draw(anything)
    try:
        view = read_result(json.dumps(told))
    except ValueError as error:
        refused = str(error)
    else:
        refused = "" if view.completed is None else "read"
    assert refused
    assert "\n" not in refused
