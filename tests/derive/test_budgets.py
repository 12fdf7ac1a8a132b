"""Budgets follow from what was shown and told; what was not stays unknown."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog import vllm_metrics as roles
from sidecar.derive.budgets import MOST, kv_capacity_tokens, measure, measure_lengths, narrow
from sidecar.model.budget import Binding, Budget, Lengths
from sidecar.model.limits import Known, Limit, Origin
from sidecar.model.readings import Histogram
from sidecar.model.vocabulary import Phase, ServerState
from sidecar.model.window import EngineWindow, Spread, Window

INF = math.inf
GIB = 2.0**30
V1_INFO = {"kv_cache_size_tokens": "4128", "block_size": "32", "num_gpu_blocks": "129"}


def level(value: float, peak: float | None = None) -> Spread:
    return Spread(0.0, value, value if peak is None else peak, value)


def make_engine(**changes: object) -> EngineWindow:
    """An engine with half of its cache held by four requests."""
    given: dict[str, object] = {
        "deltas": {
            roles.PREEMPTIONS: 0.0,
            roles.PROMPT_TOKENS: 300.0,
            roles.GENERATION_TOKENS: 900.0,
        },
        "gauges": {
            roles.KV_USAGE: level(0.5, 0.75),
            roles.RUNNING: level(4.0, 8.0),
            roles.WAITING: level(0.0),
        },
        **changes,
    }
    return EngineWindow(**given)  # type: ignore[arg-type]


def make_window(*engines: EngineWindow, **changes: object) -> Window:
    window = Window(
        start=100.0,
        end=110.0,
        partial=False,
        state=ServerState.SERVING,
        phase=Phase.RUNTIME,
        engines={str(n): engine for n, engine in enumerate(engines)},
        evidence=(),
        sources={},
        found=frozenset(),
        naming_generation="v1",
        info=V1_INFO,
    )
    return replace(window, **changes)  # type: ignore[arg-type]


def told(**limits: float) -> dict[Limit, Known]:
    return {Limit(name): Known(value, Origin.LOG) for name, value in limits.items()}


def budget_of(engine: EngineWindow | None = None, **changes: object) -> Budget:
    return measure(make_window(engine or make_engine(), **changes))["0"]


# Static


@pytest.mark.parametrize(
    ("info", "engines", "expected"),
    [
        ({"kv_cache_size_tokens": "4096", "num_gpu_blocks": "9", "block_size": "16"}, 2, 4096.0),
        ({"num_gpu_blocks": "256", "block_size": "16"}, 1, 4096.0),
        ({"num_gpu_blocks": "256", "block_size": "16"}, 2, None),
        ({"num_gpu_blocks": "None", "block_size": "16"}, 1, None),
        ({"kv_cache_size_tokens": "-1"}, 1, None),
        ({"kv_cache_size_tokens": "0"}, 1, None),
        ({"kv_cache_size_tokens": "9" * 400}, 1, None),
        ({}, 1, None),
    ],
)
def test_capacity_is_read_from_the_configuration_only_when_it_is_certain(
    info: dict[str, str], engines: int, expected: float | None
) -> None:
    assert kv_capacity_tokens(info, engines) == expected


def test_capacity_is_what_vllm_says_and_demand_what_requests_can_get_of_it() -> None:
    found = budget_of()
    assert found.capacity == 4128
    assert found.demand == 0.5 * 4096
    assert found.demand_peak == 0.75 * 4096
    assert found.headroom == 0.25 * 4096


def test_v0_has_no_block_that_nobody_gets() -> None:
    info = {"num_gpu_blocks": "257", "block_size": "16"}
    assert budget_of(info=info, naming_generation=None).demand == 0.5 * 257 * 16
    assert budget_of(info=info, naming_generation="v1").demand == 0.5 * 256 * 16


def test_a_limit_that_was_told_comes_before_the_labels() -> None:
    found = budget_of(limits=told(kv_capacity_tokens=8224.0))
    assert (found.capacity, found.demand) == (8224, 0.5 * 8192)


def test_a_front_end_without_labels_has_a_capacity_only_from_the_log() -> None:
    assert budget_of(info={}).capacity is None
    assert budget_of(info={}, limits=told(kv_capacity_tokens=4128.0)).demand == 0.5 * 4128


def test_the_sum_of_blocks_over_engines_is_no_engines_capacity() -> None:
    info = {"num_gpu_blocks": "258", "block_size": "32"}
    two = measure(make_window(make_engine(), make_engine(), info=info))
    assert [one.capacity for one in two.values()] == [None, None]
    one_shown = budget_of(info=info, limits=told(data_parallel_size=2.0))
    assert one_shown.capacity is None


def test_bytes_are_those_that_were_set_else_those_that_were_found() -> None:
    assert budget_of().capacity_bytes is None
    found = told(kv_memory_bytes=5 * GIB, tensor_parallel_size=4.0)
    assert budget_of(limits=found).capacity_bytes == 5 * GIB
    both = found | told(kv_cache_memory_bytes=4 * GIB)
    assert budget_of(limits=both).capacity_bytes == 4 * GIB


def test_the_worst_case_is_a_request_of_the_greatest_length() -> None:
    assert budget_of().worst_concurrency is None
    assert budget_of(limits=told(max_model_len=2048.0)).worst_concurrency == 2


# Live demand


def test_what_one_request_holds_says_how_many_the_cache_holds() -> None:
    found = budget_of()
    assert found.per_running == 512
    assert found.safe_concurrency == 8


@pytest.mark.parametrize(
    "gauges",
    [
        {roles.KV_USAGE: level(0.5), roles.RUNNING: level(0.4)},
        {roles.KV_USAGE: level(0.0), roles.RUNNING: level(3.0)},
        {roles.KV_USAGE: level(0.5)},
        {roles.RUNNING: level(4.0)},
        {roles.KV_USAGE: level(50.0), roles.RUNNING: level(4.0)},
        {},
    ],
    ids=["idle", "nothing held", "running unknown", "usage unknown", "no share", "nothing"],
)
def test_without_load_or_without_a_gauge_nothing_is_said_of_one_request(
    gauges: dict[str, Spread],
) -> None:
    found = budget_of(make_engine(gauges=gauges), limits=told(max_num_seqs=8.0))
    assert found.per_running is None
    assert found.safe_concurrency is None
    assert found.admitted_ratio is None


def test_recomputed_tokens_are_preemptions_times_what_a_request_held() -> None:
    def recomputed(deltas: dict[str, float], gauges: dict[str, Spread]) -> float | None:
        return budget_of(make_engine(deltas=deltas, gauges=gauges)).recomputed

    busy = make_engine().gauges
    assert recomputed({roles.PREEMPTIONS: 3.0}, dict(busy)) == 3 * 512
    assert recomputed({roles.PREEMPTIONS: 3.0}, {}) is None
    assert recomputed({roles.PREEMPTIONS: 0.0}, {}) == 0
    assert recomputed({}, dict(busy)) is None


def test_the_share_of_prefill_needs_both_counters_and_a_token() -> None:
    assert budget_of().prefill_share == 0.25
    assert budget_of(make_engine(deltas={roles.PROMPT_TOKENS: 5.0})).prefill_share is None
    idle = {roles.PROMPT_TOKENS: 0.0, roles.GENERATION_TOKENS: 0.0}
    assert budget_of(make_engine(deltas=idle)).prefill_share is None


def test_lengths_spread_evenly_over_buckets() -> None:
    seen = Histogram(((100.0, 20.0), (200.0, 40.0), (INF, 40.0)), 40, 4_000)
    assert measure_lengths(seen) == Lengths(mean=100, p50=100, p95=190, p99=198)
    assert measure_lengths(None) == Lengths()
    assert measure_lengths(Histogram(((100.0, 0.0), (INF, 0.0)), 0, 0)) == Lengths()


def test_equal_lengths_in_one_bucket_are_not_spread_over_it() -> None:
    equal = Histogram(((500.0, 0.0), (1000.0, 0.0), (2000.0, 80.0), (INF, 80.0)), 80, 80 * 1200.0)
    found = measure_lengths(equal)
    assert (found.mean, found.p50) == (1200, 1200)
    assert found.p99 == pytest.approx(1396)


@pytest.mark.parametrize(
    "histogram",
    [
        Histogram(((10.0, 5.0), (20.0, 9.0), (INF, 9.0)), 9, 90),
        Histogram(((10.0, 0.0), (20.0, 9.0), (INF, 9.0)), 9, 0),
        Histogram(((10.0, 0.0), (20.0, 9.0), (INF, 9.0)), 9, 9 * 21.0),
        Histogram(((10.0, 0.0), (INF, 9.0)), 9, 9 * 21.0),
        Histogram((), 9, 90),
        Histogram(((10.0, 9.0),), 9, 90),
    ],
    ids=["two buckets", "no sum", "sum beside the bucket", "open bucket", "none", "not open"],
)
def test_only_one_closed_bucket_around_the_mean_is_cut(histogram: Histogram) -> None:
    assert narrow(histogram) == histogram


def test_the_largest_requests_share_is_of_both_parts_and_never_beyond_the_model() -> None:
    histograms = {
        roles.REQUEST_PROMPT_TOKENS: Histogram(((1000.0, 0.0), (2000.0, 9.0), (INF, 9.0)), 9, 0),
        roles.REQUEST_GENERATION_TOKENS: Histogram(((50.0, 0.0), (100.0, 9.0), (INF, 9.0)), 9, 0),
    }
    engine = make_engine(histograms=histograms)
    assert budget_of(engine).largest_share == pytest.approx((1990 + 99.5) / 4096)
    assert budget_of(engine, limits=told(max_model_len=1024.0)).largest_share == 0.25
    del histograms[roles.REQUEST_PROMPT_TOKENS]
    assert budget_of(make_engine(histograms=histograms)).largest_share is None


# Admission


def test_the_lower_limit_lets_in() -> None:
    limits = told(max_num_seqs=32.0, max_num_active_seqs=16.0)
    found = budget_of(limits=limits)
    assert found.admission_limit == 16
    assert found.admission_used == 0.5
    assert found.admitted_ratio == 2
    assert budget_of().admission_limit is None
    assert budget_of().admission_used is None


def test_waiting_is_told_by_reason_where_this_release_does() -> None:
    gauges = {
        roles.WAITING: level(3.0),
        roles.WAITING_CAPACITY: level(2.0),
        roles.WAITING_DEFERRED: level(1.0),
    }
    found = budget_of(make_engine(gauges=gauges))
    assert found.waiting == 3
    assert found.waiting_by_reason == {"capacity": 2, "deferred": 1}
    assert budget_of().waiting_by_reason == {}


# Which budget binds

SEQS = told(max_num_seqs=8.0, max_num_batched_tokens=2048.0)
STEPS = Histogram(((1024.0, 3.0), (2048.0, 5.0), (4096.0, 5.0), (INF, 5.0)), 5, 0)
SMALL_STEPS = Histogram(((1024.0, 5.0), (2048.0, 5.0), (INF, 5.0)), 5, 0)


def binding(
    *,
    preemptions: float | None = 0.0,
    usage: float | None = 0.5,
    running: float = 4.0,
    waiting: float | None = 2.0,
    capacity: float | None = None,
    limits: dict[Limit, Known] | None = None,
    steps: Histogram | None = None,
) -> Binding:
    gauges = {
        roles.KV_USAGE: usage,
        roles.RUNNING: running,
        roles.WAITING: waiting,
        roles.WAITING_CAPACITY: capacity,
    }
    engine = EngineWindow(
        deltas={} if preemptions is None else {roles.PREEMPTIONS: preemptions},
        gauges={role: level(value) for role, value in gauges.items() if value is not None},
        histograms={} if steps is None else {roles.ITERATIONS: steps},
    )
    return budget_of(engine, limits=SEQS if limits is None else limits).binding


def test_preemptions_and_a_full_cache_that_is_waited_for_bind_by_the_cache() -> None:
    assert binding(preemptions=3.0, usage=0.75) is Binding.CACHE
    assert binding(preemptions=3.0, usage=None) is Binding.CACHE
    assert binding(usage=0.95) is Binding.CACHE
    assert binding(usage=0.95, running=8.0) is Binding.CACHE
    assert binding(usage=0.95, capacity=1.0) is Binding.CACHE


def test_preemptions_of_a_cache_that_was_never_half_full_may_not_be_its_own() -> None:
    assert binding(preemptions=3.0, usage=0.2, waiting=0.0) is Binding.UNKNOWN
    assert binding(preemptions=3.0, usage=0.2) is Binding.CACHE, "the full moment lay in between"
    by_priority = told(priority_scheduling=1.0)
    assert binding(preemptions=3.0, usage=0.2, limits=by_priority) is Binding.UNKNOWN
    assert binding(preemptions=3.0, usage=0.8, limits=by_priority) is Binding.CACHE
    first_come = told(priority_scheduling=0.0)
    assert binding(preemptions=3.0, usage=0.2, limits=first_come) is Binding.CACHE


def test_swapped_requests_are_the_caches_too() -> None:
    gauges = {**make_engine().gauges, roles.SWAPPED: level(1.0)}
    assert budget_of(make_engine(gauges=gauges)).binding is Binding.CACHE


def test_requests_that_wait_while_the_limit_is_reached_bind_by_admission() -> None:
    assert binding(running=8.0) is Binding.ADMISSION
    assert binding(running=8.0, capacity=2.0) is Binding.ADMISSION


def test_an_unknown_limit_is_not_guessed() -> None:
    assert binding(running=8.0, capacity=2.0, limits={}) is Binding.UNKNOWN
    assert binding(running=4.0, steps=STEPS, limits={}) is Binding.UNKNOWN


def test_full_steps_below_the_limit_bind_by_batch_tokens() -> None:
    assert binding(steps=STEPS) is Binding.BATCH_TOKENS
    assert binding(steps=SMALL_STEPS) is Binding.UNKNOWN
    assert binding(steps=None) is Binding.UNKNOWN
    assert binding(steps=STEPS, limits=told(max_num_seqs=8.0)) is Binding.UNKNOWN


def test_nothing_binds_where_nothing_waits_and_nothing_was_taken_back() -> None:
    assert binding(waiting=0.0) is Binding.NONE
    assert binding(waiting=0.0, usage=0.98) is Binding.NONE


def test_what_vllm_defers_waits_for_none_of_the_budgets() -> None:
    assert binding(waiting=2.0, capacity=0.0, running=8.0) is Binding.UNKNOWN


@pytest.mark.parametrize(
    "missing", [{"preemptions": None}, {"waiting": None}, {"usage": None}], ids=str
)
def test_absence_is_never_health(missing: dict[str, None]) -> None:
    calm: dict[str, float | None] = {"waiting": 0.0, "usage": 0.5, "running": 8.0}
    if "usage" in missing:
        calm["waiting"] = 2.0
    assert binding(**{**calm, **missing}) is Binding.UNKNOWN  # type: ignore[arg-type]


def test_engines_that_the_parser_added_up_have_no_budget() -> None:
    window = make_window(make_engine())
    folded = replace(window, engines={"0": make_engine(), "other": make_engine()})
    assert set(measure(folded)) == {"0"}


def test_an_engine_of_which_nothing_is_seen_has_a_budget_of_unknowns() -> None:
    assert budget_of(EngineWindow(), info={}) == Budget()


# Whatever comes in

ANY = st.floats() | st.sampled_from([0.0, 1.0, 1e300, -1.0, INF, math.nan, 5e-324])
SPREADS = st.builds(Spread, least=ANY, mean=ANY, greatest=ANY, last=ANY)
HISTOGRAMS = st.builds(
    Histogram,
    buckets=st.lists(st.tuples(ANY, ANY), max_size=4).map(lambda b: (*b, (INF, 9.0))),
    count=ANY,
    total=ANY,
)
ROLES = [*(role.role for role in roles.ROLES), *roles.WAITING_REASONS.values()]
ENGINES = st.builds(
    EngineWindow,
    deltas=st.dictionaries(st.sampled_from(ROLES), ANY),
    gauges=st.dictionaries(st.sampled_from(ROLES), SPREADS),
    histograms=st.dictionaries(st.sampled_from(ROLES), HISTOGRAMS),
)
LIMITS = st.dictionaries(
    st.sampled_from(Limit), st.builds(Known, value=ANY, origin=st.sampled_from(Origin))
)
INFO = st.dictionaries(
    st.sampled_from(["kv_cache_size_tokens", "num_gpu_blocks", "block_size"]),
    st.sampled_from(["1", "16", "4128", "9" * 15, "9" * 400, "-1", "None", "1e9", "\u0664"]),
)


def figures_of(budget: Budget) -> list[float | None]:
    plain = [
        value
        for name in Budget.__slots__
        if not isinstance(value := getattr(budget, name), (Lengths, dict, Binding))
    ]
    lengths = [getattr(part, n) for part in (budget.prompt, budget.output) for n in ("mean", "p99")]
    return [*plain, *lengths, *budget.waiting_by_reason.values()]


@given(
    engine=ENGINES,
    limits=LIMITS,
    info=INFO,
    generation=st.sampled_from(["v1", None]),
)
def test_no_figure_is_ever_negative_endless_or_huge(
    engine: EngineWindow,
    limits: dict[Limit, Known],
    info: dict[str, str],
    generation: str | None,
) -> None:
    found = budget_of(engine, limits=limits, info=info, naming_generation=generation)
    for value in figures_of(found):
        assert value is None or 0 <= value <= MOST


@given(
    usage=st.floats(0, 1),
    running=st.floats(0.5, 1000),
    capacity=st.integers(32, 10**7),
    limit=st.floats(1, 4096),
)
def test_the_figures_of_one_engine_agree(
    usage: float, running: float, capacity: int, limit: float
) -> None:
    engine = make_engine(gauges={roles.KV_USAGE: level(usage), roles.RUNNING: level(running)})
    found = budget_of(
        engine, info={}, limits=told(kv_capacity_tokens=float(capacity), max_num_seqs=limit)
    )
    assert found.demand is not None
    assert found.headroom is not None
    assert found.demand_peak is not None
    assert found.demand_peak + found.headroom == pytest.approx(capacity)
    if found.per_running and found.safe_concurrency and found.admitted_ratio:
        assert found.per_running * running == pytest.approx(found.demand)
        assert found.safe_concurrency * found.per_running == pytest.approx(capacity)
        assert found.admitted_ratio * found.safe_concurrency == pytest.approx(limit)
