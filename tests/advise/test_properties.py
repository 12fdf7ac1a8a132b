"""What must hold whatever the facts are."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.advise.choose import choose
from sidecar.advise.facts import Facts, Found, Recalled
from sidecar.advise.hold import HOLD_WINDOWS, HORIZON_WINDOWS
from sidecar.advise.memory import Advisor
from sidecar.model.advice import Advice, Lever
from sidecar.model.budget import Budget, GpuBudget, Lengths, Sight
from sidecar.model.limits import Known, Limit, Origin
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Cause, Kind, Phase, Severity
from tests.advise.cases import (
    CARD,
    CROWDED,
    GIB,
    MIX,
    ONE_GPU,
    PREFILLS,
    make_judgement,
    thrash,
    told,
)

SIGNALS = (
    "free_memory_below_wanted",
    "no_memory_for_cache_blocks",
    "request_exceeds_cache",
    "orphans_left",
    "gpu_out_of_memory",
)
NUMBERS = st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.floats(0, 4000)
BYTES = st.none() | st.integers(-1, 2**1100) | st.sampled_from([0, GIB, 16 * GIB, 80 * GIB])
LENGTHS = st.builds(Lengths, mean=NUMBERS, p50=NUMBERS, p95=NUMBERS, p99=NUMBERS)
BUDGETS = st.builds(
    Budget,
    capacity=NUMBERS,
    per_running=NUMBERS,
    safe_concurrency=NUMBERS,
    largest_share=NUMBERS,
    prefill_share=NUMBERS,
    prompt=LENGTHS,
    output=LENGTHS,
    running=NUMBERS,
    admission_limit=NUMBERS,
)
GPUS = st.builds(
    GpuBudget,
    index=st.integers(0, 8),
    total=BYTES,
    used=BYTES,
    cotenant=BYTES,
    orphans=BYTES,
    free_durable=BYTES,
    cotenant_durable=BYTES,
    sight=st.sampled_from(Sight),
    mig=st.booleans(),
    lost=st.booleans(),
    expected=st.booleans(),
) | st.sampled_from([CARD, CROWDED])
FOUND = st.builds(
    Found,
    cause=st.sampled_from(Cause),
    kind=st.sampled_from(Kind),
    phase=st.sampled_from(Phase),
    beyond=st.booleans(),
    count=st.floats(0, 1e9),
)
LIMITS = st.dictionaries(
    st.sampled_from(Limit),
    st.builds(Known, value=st.floats(), origin=st.sampled_from(Origin)),
    max_size=8,
)
FACTS = st.builds(
    Facts,
    causes=st.lists(FOUND, max_size=3).map(tuple),
    signals=st.frozensets(st.sampled_from(SIGNALS), max_size=3),
    budget=BUDGETS,
    preemptions=NUMBERS,
    per_request=st.none() | st.floats(0, 100),
    lasting=st.booleans(),
    usage=NUMBERS,
    usage_peak=NUMBERS,
    waiting=st.none() | st.booleans(),
    running_peak=NUMBERS,
    serving=st.booleans(),
    limits=LIMITS,
    gpus=st.lists(GPUS, max_size=3).map(tuple),
    gpus_fresh=st.booleans(),
    release=st.none() | st.sampled_from([(0, 8, 5), (0, 10, 2), (0, 26, 0), (0, 32, 0)]),
    recalled=st.builds(
        Recalled,
        cuda_oom=st.booleans(),
        failed_start=st.booleans(),
        cotenant=st.booleans(),
        placed=st.frozensets(st.integers(0, 3), max_size=2),
        holds=st.lists(st.floats(0, 4000), max_size=3).map(tuple),
        longest=NUMBERS,
        lengths=st.integers(0, 30),
        least_own=st.dictionaries(st.integers(0, 3), st.floats(0, 2.0**40), max_size=2),
    ),
)


def is_free(gpu: GpuBudget) -> bool:
    return (
        gpu.sight is Sight.SEEN
        and gpu.cotenant == 0
        and gpu.cotenant_durable == 0
        and not gpu.mig
        and not gpu.lost
        and gpu.total is not None
        and gpu.free_durable is not None
        and gpu.free_durable > GIB
        and gpu.free_durable > gpu.total * 2 // 100
    )


@settings(max_examples=1000)
@given(FACTS)
def test_more_cache_is_never_advised_without_proven_headroom(facts: Facts) -> None:
    advice = choose(facts)
    if advice.lever is not Lever.RAISE_KV_CACHE_MEMORY:
        return
    own = [gpu for gpu in facts.gpus if gpu.expected]
    assert facts.gpus_fresh
    assert own
    assert all(is_free(gpu) for gpu in own)
    assert not facts.recalled.cuda_oom
    assert not facts.recalled.cotenant
    assert facts.limit(Limit.TENSOR_PARALLEL_SIZE)
    assert facts.limit(Limit.PIPELINE_PARALLEL_SIZE)
    step = advice.step
    assert step is not None
    if step.value is None or step.now is None:
        return
    assert step.value > step.now
    if step.setting is Limit.GPU_MEMORY_UTILIZATION:
        assert step.value <= 0.95
    else:
        least = min(gpu.free_durable for gpu in own if gpu.free_durable is not None)
        assert step.value - step.now <= max(1, least // 2) * 1.001 or step.now > 2**50


@settings(max_examples=500)
@given(FACTS)
def test_more_cache_is_found_among_facts_that_prove_it(facts: Facts) -> None:
    proven = replace(
        facts,
        causes=(Found(Cause.PREEMPTION, Kind.RECOMPUTE),),
        preemptions=40.0,
        usage_peak=1.0,
        gpus=(CARD,),
        gpus_fresh=True,
        recalled=Recalled(),
        limits=ONE_GPU,
    )
    assert choose(proven).lever is Lever.RAISE_KV_CACHE_MEMORY


@settings(max_examples=500)
@given(FACTS)
def test_there_is_exactly_one_lever_with_everything_a_person_needs(facts: Facts) -> None:
    advice = choose(facts)
    assert advice.lever in Lever
    assert advice.lever not in advice.rejected
    assert Lever.NONE not in advice.rejected
    assert all(advice.rejected.values())
    if advice.lever is not Lever.NONE:
        assert all((advice.because, advice.cost, advice.step_words, advice.verify, advice.rollback))
    first = facts.first
    if (
        first is not None
        and first.cause is not Cause.PREEMPTION
        and first.kind in KINDS[first.cause]
    ):
        assert advice.lever is not Lever.NONE


OPPOSITE = {
    Kind.ALLOCATION_FAILURE: Lever.RAISE_KV_CACHE_MEMORY,
    Kind.CAPACITY_REJECTION: Lever.LOWER_GPU_MEMORY_UTILIZATION,
}
KINDS = {
    Cause.HOST_OOM: set(Kind),
    Cause.CUDA_OOM: {Kind.ALLOCATION_FAILURE, Kind.CAPACITY_REJECTION},
    Cause.ENGINE_FAILURE: set(Kind),
    Cause.STALLED: set(Kind),
}


@settings(max_examples=500)
@given(FACTS, st.sampled_from(sorted(OPPOSITE)))
def test_no_kind_of_out_of_memory_ever_gets_the_opposite_lever(facts: Facts, kind: Kind) -> None:
    opposite = OPPOSITE[kind]
    mixed = replace(facts, causes=(Found(Cause.CUDA_OOM, kind), *facts.causes))
    assert choose(mixed).lever is not opposite
    behind = [f for f in facts.causes if f.cause is Cause.CUDA_OOM]
    mixed = replace(facts, causes=(*behind, Found(Cause.CUDA_OOM, kind)))
    assert choose(mixed).lever is not opposite


@given(FACTS)
def test_failures_of_the_engine_turn_no_memory(facts: Facts) -> None:
    for cause in (Cause.ENGINE_FAILURE, Cause.STALLED):
        failed = replace(facts, causes=(Found(cause, Kind.CRASHED), *facts.causes))
        assert choose(failed).lever is Lever.INSPECT_ENGINE_FAILURE


# Advice over windows

NOISE = st.lists(
    st.fixed_dictionaries(
        {
            "budget": st.sampled_from(
                [
                    MIX,
                    PREFILLS,
                    replace(MIX, safe_concurrency=20.0),
                    replace(MIX, largest_share=0.8),
                    Budget(),
                ]
            ),
            "finished": st.sampled_from([0.0, 5.0, 200.0]),
            "limits": st.sampled_from(
                [
                    told(max_num_seqs=1.0),
                    told(max_num_seqs=32.0, max_model_len=32768.0),
                    told(max_num_seqs=32.0, watermark=0.0),
                    {**told(max_num_seqs=32.0, max_num_batched_tokens=8192.0), **ONE_GPU},
                ]
            ),
            "gpus": st.sampled_from([(), (CARD,), (CROWDED,)]),
            "preempts": st.sampled_from([True, True, True, False]),
            "tolerated": st.sampled_from([False, False, False, True]),
            "waiting": st.sampled_from([0.0, 5.0]),
            "usage": st.sampled_from([0.2, 0.8, 1.0]),
        }
    ),
    max_size=40,
)


def run(windows: Sequence[dict[str, object]]) -> list[Advice]:
    advisor = Advisor()
    return [advisor.advise(as_judgement(index, seen)) for index, seen in enumerate(windows)]


def as_judgement(index: int, seen: dict[str, object]) -> Judgement:
    rest = {k: v for k, v in seen.items() if k not in {"preempts", "tolerated"}}
    if not seen["preempts"]:
        return make_judgement(index, **rest)  # type: ignore[arg-type]
    severity = Severity.INFO if seen["tolerated"] else Severity.WARNING
    return make_judgement(
        index,
        preemptions=40.0,
        cause=(Cause.PREEMPTION, Kind.RECOMPUTE, severity),
        **rest,  # type: ignore[arg-type]
    )


@settings(max_examples=400, deadline=None)
@given(NOISE)
def test_a_lever_that_gave_way_does_not_come_back_within_the_horizon(
    windows: list[dict[str, object]],
) -> None:
    shown = [advice.lever for advice in run(windows)]
    levers = [(i, lever) for i, lever in enumerate(shown) if lever is not Lever.NONE]
    for (at, lever), (then, other) in itertools.pairwise(levers):
        if other is lever or lever is Lever.RAISE_KV_CACHE_MEMORY:
            continue
        # What made more cache safe may vanish at once: that alone may bring a lever back early.
        until = next(
            (i for i, one in enumerate(shown) if i >= then and one is Lever.RAISE_KV_CACHE_MEMORY),
            len(shown),
        )
        assert lever not in shown[then : min(then + HORIZON_WINDOWS, until)], (at, then)


@settings(max_examples=300, deadline=None)
@given(NOISE)
def test_levers_change_rarely(windows: list[dict[str, object]]) -> None:
    shown = [a.lever for a in run(windows) if a.lever is not Lever.NONE]
    changes = sum(one is not other for one, other in itertools.pairwise(shown))
    assert changes <= 1 + len(windows) / HOLD_WINDOWS


@settings(max_examples=300, deadline=None)
@given(NOISE)
def test_more_cache_is_not_shown_a_window_longer_than_it_is_safe(
    windows: list[dict[str, object]],
) -> None:
    for seen, advice in zip(windows, run(windows), strict=True):
        if advice.lever is Lever.RAISE_KV_CACHE_MEMORY:
            assert seen["gpus"] == (CARD,)


@settings(max_examples=100, deadline=None)
@given(NOISE)
def test_the_same_windows_give_the_same_advice(windows: list[dict[str, object]]) -> None:
    assert run(windows) == run(windows)


def test_a_window_of_noise_changes_nothing() -> None:
    advisor = Advisor()
    for index in range(30):
        budget = replace(MIX, largest_share=0.9) if index % 3 == 2 else MIX
        limits = told(max_num_seqs=32.0, max_model_len=32768.0)
        advice = advisor.advise(thrash(index, budget=budget, limits=limits))
        assert advice.lever is Lever.LOWER_MAX_NUM_SEQS
