"""Latency, throughput and outcomes of a window from what rose in it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog import vllm_metrics as roles
from sidecar.catalog.exported import Outcome
from sidecar.derive.latency import (
    count_outcomes,
    measure_latency,
    measure_throughput,
    merge,
    preemptions_per_request,
    quantiles,
)
from sidecar.model.readings import Histogram
from sidecar.model.vocabulary import Phase, ServerState
from sidecar.model.window import EngineWindow, Window

INF = math.inf


def make_histogram(*buckets: tuple[float, float]) -> Histogram:
    return Histogram(buckets, count=buckets[-1][1] if buckets else 0, total=0.0)


def quantile(histogram: Histogram, share: float) -> float | None:
    return quantiles(histogram, (share,)).get(share)


def make_window(*engines: EngineWindow, length: float = 10.0) -> Window:
    return Window(
        start=100.0,
        end=100.0 + length,
        partial=False,
        state=ServerState.SERVING,
        phase=Phase.RUNTIME,
        engines={str(n): engine for n, engine in enumerate(engines)},
        evidence=(),
        sources={},
        found=frozenset(),
    )


FOUR = ((0.1, 10.0), (0.5, 30.0), (1.0, 40.0), (INF, 40.0))


@pytest.mark.parametrize(
    ("buckets", "share", "expected"),
    [
        # Values that Prometheus 2.42 gives for histogram_quantile over the same buckets.
        (FOUR, 0.5, 0.3),
        (FOUR, 0.25, 0.1),
        (FOUR, 0.1, 0.04),
        (FOUR, 0.95, 0.9),
        (FOUR, 1.0, 1.0),
        (((1.0, 0.0), (2.0, 0.0), (INF, 8.0)), 0.5, 2.0),
        (((1.0, 4.0), (2.0, 4.0), (INF, 8.0)), 0.99, 2.0),
        (((0.0, 2.0), (1.0, 4.0), (INF, 4.0)), 0.25, 0.0),
        (((1.0, 0.0), (2.0, 0.0), (4.0, 10.0), (INF, 10.0)), 0.5, 3.0),
    ],
)
def test_quantiles_are_linear_within_a_bucket(
    buckets: tuple[tuple[float, float], ...], share: float, expected: float
) -> None:
    assert quantile(make_histogram(*buckets), share) == pytest.approx(expected)


@pytest.mark.parametrize(
    "buckets",
    [
        (),
        ((INF, 5.0),),
        ((1.0, 0.0), (INF, 0.0)),
        ((1.0, 3.0), (2.0, 5.0)),
        ((1.0, math.nan), (INF, 5.0)),
        ((math.nan, 1.0), (INF, 5.0)),
        ((1.0, -5.0), (INF, -5.0)),
    ],
)
def test_buckets_that_tell_nothing_give_no_quantile(
    buckets: tuple[tuple[float, float], ...],
) -> None:
    assert quantile(make_histogram(*buckets), 0.5) is None


def test_a_bucket_read_an_observation_too_early_is_levelled() -> None:
    uneven = make_histogram((1.0, 5.0), (2.0, 4.0), (INF, 6.0))
    assert quantile(uneven, 0.99) == 2.0
    assert quantile(uneven, 0.5) == pytest.approx(0.6)


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 50)), min_size=1, max_size=8),
    st.integers(0, 50),
)
def test_quantiles_rise_and_stay_within_the_finite_edges(
    steps: list[tuple[float, int]], beyond: int
) -> None:
    total = 0.0
    buckets: dict[float, float] = {}
    for edge, rise in sorted(steps):
        total += rise
        buckets[edge] = total
    histogram = make_histogram(*buckets.items(), (INF, total + beyond))
    values = [quantile(histogram, share) for share in (0.5, 0.95, 0.99)]
    if total + beyond == 0:
        assert values == [None, None, None]
        return
    known = [value for value in values if value is not None]
    assert len(known) == 3
    assert known == sorted(known)
    assert 0 <= known[0] <= known[-1] <= max(buckets) * (1 + 1e-9)


def test_engines_are_summed_at_the_edges_that_all_of_them_have() -> None:
    coarse = make_histogram((1.0, 4.0), (INF, 4.0))
    merged = merge([make_histogram(*FOUR), coarse])
    assert merged is not None
    assert merged.buckets == ((1.0, 44.0), (INF, 44.0))
    assert merge([]) is None


def test_latency_covers_all_engines_and_skips_what_is_not_shown() -> None:
    engine = EngineWindow(histograms={roles.TTFT: Histogram(FOUR, 40, 16.0)})
    measured = measure_latency(make_window(engine, engine, EngineWindow()))
    assert set(measured) == {roles.TTFT}
    assert measured[roles.TTFT].count == 80
    assert measured[roles.TTFT].mean == pytest.approx(0.4)
    assert measured[roles.TTFT].quantiles[0.5] == pytest.approx(0.3)


def test_no_observation_is_no_latency_rather_than_zero() -> None:
    idle = EngineWindow(histograms={roles.E2E: Histogram(((1.0, 0.0), (INF, 0.0)), 0, 0.0)})
    measured = measure_latency(make_window(idle))[roles.E2E]
    assert measured.mean is None
    assert measured.quantiles == {}


def test_throughput_is_the_rise_through_the_length() -> None:
    engine = EngineWindow(deltas={roles.GENERATION_TOKENS: 500.0})
    assert measure_throughput(make_window(engine, engine)) == {"generation": 100.0}
    assert measure_throughput(make_window(EngineWindow())) == {}
    assert measure_throughput(make_window(engine, length=0.0)) == {}


def test_outcomes_follow_the_finish_reasons() -> None:
    engine = EngineWindow(
        deltas={roles.FINISHED: 9.0, roles.REJECTED: 4.0},
        outcomes={"stop": 3.0, "length": 2.0, "repetition": 1.0, "abort": 1.0, "error": 2.0},
    )
    assert count_outcomes(make_window(engine)) == {
        Outcome.SUCCESS: 6.0,
        Outcome.ABORTED: 1.0,
        Outcome.ERROR: 2.0,
        Outcome.REJECTED: 4.0,
    }


def test_an_outcome_this_release_does_not_tell_is_absent() -> None:
    old = EngineWindow(deltas={roles.FINISHED: 9.0}, outcomes={"stop": 9.0, "abort": 0.0})
    assert set(count_outcomes(make_window(old))) == {Outcome.SUCCESS, Outcome.ABORTED}
    assert count_outcomes(make_window(EngineWindow())) == {}


def test_preemptions_per_request_need_a_finished_request() -> None:
    deltas = {roles.PREEMPTIONS: 3.0, roles.FINISHED: 0.0}
    assert preemptions_per_request(EngineWindow(deltas=deltas)) is None
    deltas[roles.FINISHED] = 60.0
    assert preemptions_per_request(EngineWindow(deltas=deltas)) == 0.05
    assert preemptions_per_request(EngineWindow(deltas={roles.FINISHED: 1.0})) is None
