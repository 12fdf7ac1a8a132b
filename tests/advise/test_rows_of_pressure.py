"""Preemption beyond the tolerance: the first lever that is called for and not forbidden."""

from dataclasses import replace

import pytest

from sidecar.advise.choose import choose
from sidecar.advise.facts import Facts, Found, Recalled, parse_release
from sidecar.model.advice import Lever, Step
from sidecar.model.budget import Budget, Lengths, Sight
from sidecar.model.limits import Limit, Origin
from sidecar.model.vocabulary import Cause, Kind
from tests.advise.cases import (
    CARD,
    CROWDED,
    GIB,
    MIX,
    ONE_GPU,
    PREFILLS,
    THRASH,
    failed,
    told,
)

FREE = replace(THRASH, gpus=(CARD,))
LARGE = replace(
    THRASH,
    budget=replace(MIX, largest_share=0.6, output=Lengths(p99=2400.0)),
    limits=told(max_model_len=32768.0, max_num_seqs=32.0),
    recalled=Recalled(lengths=2),
)
LONG_PROMPTS = replace(THRASH, budget=PREFILLS)
MARKED = replace(THRASH, limits={**THRASH.limits, **told(watermark=0.0)})
SEEN_LOW = replace(THRASH, usage=0.3, usage_peak=0.3)
TOLERATED = replace(THRASH, causes=(Found(Cause.PREEMPTION, Kind.RECOMPUTE, beyond=False),))


def without(facts: Facts, limit: Limit) -> Facts:
    return replace(facts, limits={k: v for k, v in facts.limits.items() if k is not limit})


def on_card(**changes: object) -> Facts:
    return replace(FREE, gpus=(replace(CARD, **changes),))  # type: ignore[arg-type]


CASES: dict[str, tuple[Facts, Lever]] = {
    # Nothing to turn
    "within the tolerance": (TOLERATED, Lever.NONE),
    "within the tolerance with memory free": (replace(TOLERATED, gpus=(CARD,)), Lever.NONE),
    "the cache was never near to full": (SEEN_LOW, Lever.NONE),
    "two in one window": (replace(THRASH, preemptions=2.0, lasting=False), Lever.NONE),
    "three in one window": (
        replace(THRASH, preemptions=3.0, lasting=False),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "one in each of several windows": (
        replace(THRASH, preemptions=1.0, lasting=True),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "a full cache without preemption": (replace(THRASH, causes=()), Lever.NONE),
    # More cache
    "memory stays free": (FREE, Lever.RAISE_KV_CACHE_MEMORY),
    "memory stays free on both": (
        replace(FREE, gpus=(CARD, replace(CARD, index=1))),
        Lever.RAISE_KV_CACHE_MEMORY,
    ),
    "memory stays free on one of two": (
        replace(FREE, gpus=(CARD, replace(CROWDED, index=1))),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "another's card is full, ours is not": (
        replace(FREE, gpus=(CARD, replace(CROWDED, index=1, expected=False))),
        Lever.RAISE_KV_CACHE_MEMORY,
    ),
    "free now, not watched for long": (on_card(free_durable=None), Lever.LOWER_MAX_NUM_SEQS),
    "one GiB stays free": (on_card(free_durable=GIB), Lever.LOWER_MAX_NUM_SEQS),
    "a fiftieth stays free": (on_card(free_durable=16 * GIB // 10), Lever.LOWER_MAX_NUM_SEQS),
    "the card is used to 0.95": (on_card(used=76 * GIB), Lever.LOWER_MAX_NUM_SEQS),
    "how much is used is not known": (on_card(used=None), Lever.LOWER_MAX_NUM_SEQS),
    "how large it is is not known": (on_card(total=None), Lever.LOWER_MAX_NUM_SEQS),
    "a co-tenant": (on_card(cotenant=GIB), Lever.LOWER_MAX_NUM_SEQS),
    "a small co-tenant within the horizon": (on_card(cotenant_durable=1), Lever.LOWER_MAX_NUM_SEQS),
    "others were not seen all the time": (
        on_card(cotenant_durable=None),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "others' memory is not known": (on_card(cotenant=None), Lever.LOWER_MAX_NUM_SEQS),
    "pids of another namespace": (on_card(sight=Sight.OTHER_NAMESPACE), Lever.LOWER_MAX_NUM_SEQS),
    "hidden processes": (on_card(sight=Sight.HIDDEN), Lever.LOWER_MAX_NUM_SEQS),
    "no server process": (on_card(sight=Sight.NO_SERVER), Lever.LOWER_MAX_NUM_SEQS),
    "MIG": (on_card(mig=True), Lever.LOWER_MAX_NUM_SEQS),
    "a lost GPU": (on_card(lost=True), Lever.LOWER_MAX_NUM_SEQS),
    "a GPU of somebody else": (on_card(expected=False), Lever.LOWER_MAX_NUM_SEQS),
    "no GPU": (replace(FREE, gpus=()), Lever.LOWER_MAX_NUM_SEQS),
    "an old reading": (replace(FREE, gpus_fresh=False), Lever.LOWER_MAX_NUM_SEQS),
    "fewer GPUs than it spans": (
        replace(FREE, limits={**FREE.limits, **told(tensor_parallel_size=2.0)}),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "how many GPUs tensors span is not known": (
        without(FREE, Limit.TENSOR_PARALLEL_SIZE),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "how many stages there are is not known": (
        without(FREE, Limit.PIPELINE_PARALLEL_SIZE),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "the server's own memory grows": (
        replace(FREE, recalled=Recalled(least_own={0: 59.0 * GIB})),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "the server's own memory moves a little": (
        replace(FREE, recalled=Recalled(least_own={0: 59.5 * GIB})),
        Lever.RAISE_KV_CACHE_MEMORY,
    ),
    "a CUDA OOM is remembered": (
        replace(FREE, recalled=Recalled(cuda_oom=True)),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "a failed start is remembered": (
        replace(FREE, recalled=Recalled(failed_start=True)),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "a co-tenant was there lately": (
        replace(FREE, recalled=Recalled(cotenant=True)),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "start-up says that no more fits": (
        replace(
            FREE,
            limits={
                **ONE_GPU,
                **told(kv_memory_bytes=40.0 * GIB, kv_memory_advice_bytes=39.0 * GIB),
            },
        ),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "the share is 0.95": (
        replace(FREE, limits={**ONE_GPU, **told(gpu_memory_utilization=0.95)}),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    # Shorter requests
    "one request takes most": (LARGE, Lever.LOWER_MAX_MODEL_LEN),
    "one request takes most, length not known": (
        without(LARGE, Limit.MAX_MODEL_LEN),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "one request takes most, and is as long as may be": (
        replace(LARGE, limits=told(max_model_len=2560.0)),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "one request takes most, a longer one came before": (
        replace(LARGE, recalled=Recalled(lengths=2, longest=30_000.0)),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "one request takes most, a longer one is on another engine": (
        replace(LARGE, longest=30_000.0),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "one request takes most, in the second window with any": (
        replace(LARGE, recalled=Recalled(lengths=1)),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "one request takes half": (
        replace(LARGE, budget=replace(LARGE.budget, largest_share=0.5)),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    # Readmission
    "again and again": (MARKED, Lever.RAISE_WATERMARK),
    "again and again, a small watermark": (
        replace(THRASH, limits=told(watermark=0.02)),
        Lever.RAISE_WATERMARK,
    ),
    "again and again, a watermark of 0.05": (
        replace(THRASH, limits=told(watermark=0.05)),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "again and again, no watermark told": (THRASH, Lever.LOWER_MAX_NUM_SEQS),
    "again and again, all arguments read and no watermark among them": (
        replace(THRASH, limits=told(Origin.LOG_ARGUMENTS, max_num_seqs=32.0)),
        Lever.RAISE_WATERMARK,
    ),
    "again and again, all arguments read, release not known": (
        replace(THRASH, limits=told(Origin.LOG_ARGUMENTS, max_num_seqs=32.0), release=None),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "again and again, a release without it": (
        replace(MARKED, release=(0, 20, 2)),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "again and again, a watermark told, release not": (
        replace(MARKED, release=None),
        Lever.RAISE_WATERMARK,
    ),
    "now and then": (
        replace(MARKED, per_request=0.5, lasting=False),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "for several windows": (replace(MARKED, per_request=0.5), Lever.RAISE_WATERMARK),
    "nobody finished": (
        replace(MARKED, per_request=None, lasting=False),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    # Smaller steps
    "large prefills": (LONG_PROMPTS, Lever.LOWER_MAX_NUM_BATCHED_TOKENS),
    "many small prefills": (
        replace(LONG_PROMPTS, budget=replace(PREFILLS, prompt=Lengths(p95=900.0))),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "large prefills, budget not known": (
        without(LONG_PROMPTS, Limit.MAX_NUM_BATCHED_TOKENS),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "large prefills, budget at its floor": (
        replace(LONG_PROMPTS, limits=told(max_num_batched_tokens=2048.0)),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "large prefills of V0, whole prompts": (
        replace(
            LONG_PROMPTS,
            release=(0, 8, 5),
            limits=told(max_num_batched_tokens=8192.0, max_model_len=8192.0),
        ),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    # Fewer at once
    "nothing is known but the preemptions": (
        Facts(causes=THRASH.causes, preemptions=40.0),
        Lever.LOWER_MAX_NUM_SEQS,
    ),
    "one is admitted at a time": (
        replace(THRASH, limits=told(max_num_seqs=1.0)),
        Lever.LOWER_KV_CACHE_PRECISION,
    ),
    "few are admitted already": (
        replace(
            THRASH,
            running_peak=3.0,
            limits=told(max_num_seqs=1.0, max_num_active_seqs=3.0),
        ),
        Lever.LOWER_KV_CACHE_PRECISION,
    ),
    "few are admitted already, a cheap cache": (
        replace(THRASH, limits=told(max_num_seqs=1.0, kv_cache_low_precision=1.0)),
        Lever.ADD_PARALLELISM,
    ),
}


@pytest.mark.parametrize(("facts", "lever"), CASES.values(), ids=CASES)
def test_pressure_gets_its_lever(facts: Facts, lever: Lever) -> None:
    advice = choose(facts)
    assert advice.lever is lever
    if lever is not Lever.NONE:
        assert advice.because
        assert advice.cost
        assert advice.step_words
        assert advice.verify
        assert advice.rollback
        assert advice.rejected
    assert lever not in advice.rejected


def test_every_lever_but_none_has_a_case() -> None:
    from tests.advise.test_rows_of_failures import CASES as FAILURES  # noqa: PLC0415

    assert {lever for _, lever in (*CASES.values(), *FAILURES.values())} == set(Lever)


def test_what_was_rejected_says_why() -> None:
    rejected = choose(THRASH).rejected
    assert "512 MiB" in rejected[Lever.RAISE_KV_CACHE_MEMORY]
    assert "cannot be read" in rejected[Lever.RAISE_WATERMARK]
    assert "comes first" in rejected[Lever.ADD_PARALLELISM]
    assert rejected[Lever.LOWER_GPU_MEMORY_UTILIZATION]


@pytest.mark.parametrize(
    ("limits", "release", "step"),
    [
        # A size that was given, and one that start-up found: half of the 16 GiB that stay free.
        (
            told(kv_cache_memory_bytes=30.0 * GIB),
            None,
            Step(Limit.KV_CACHE_MEMORY_BYTES, 38.0 * GIB, 30.0 * GIB),
        ),
        (
            told(kv_memory_bytes=30.0 * GIB, gpu_memory_utilization=0.8),
            (0, 32, 0),
            Step(Limit.KV_CACHE_MEMORY_BYTES, 38.0 * GIB, 30.0 * GIB),
        ),
        (
            told(kv_memory_bytes=30.0 * GIB, kv_memory_advice_bytes=33.0 * GIB),
            (0, 32, 0),
            Step(Limit.KV_CACHE_MEMORY_BYTES, 33.0 * GIB, 30.0 * GIB),
        ),
        # A release without a byte budget: 8 of 80 GiB are a tenth.
        (
            told(kv_memory_bytes=30.0 * GIB, gpu_memory_utilization=0.8),
            (0, 9, 2),
            Step(Limit.GPU_MEMORY_UTILIZATION, 0.9, 0.8),
        ),
        (
            told(gpu_memory_utilization=0.9),
            (0, 32, 0),
            Step(Limit.GPU_MEMORY_UTILIZATION, 0.95, 0.9),
        ),
        ({}, (0, 32, 0), Step(Limit.GPU_MEMORY_UTILIZATION)),
    ],
)
def test_more_cache_takes_at_most_half_of_what_stays_free(
    limits: dict[Limit, object], release: tuple[int, ...] | None, step: Step
) -> None:
    facts = replace(FREE, limits={**ONE_GPU, **limits}, release=release)  # type: ignore[dict-item]
    assert choose(facts).step == step


def test_more_cache_never_fills_the_card_beyond_its_bound() -> None:
    facts = replace(
        FREE,
        gpus=(CARD, replace(CARD, index=1, used=72 * GIB)),
        limits={**ONE_GPU, **told(kv_cache_memory_bytes=30.0 * GIB)},
    )
    assert choose(facts).step == Step(Limit.KV_CACHE_MEMORY_BYTES, 34.0 * GIB, 30.0 * GIB)


@pytest.mark.parametrize(("now", "value"), [(0.0, 0.02), (0.01, 0.02), (0.02, 0.05), (0.04, 0.05)])
def test_a_watermark_rises_in_two_steps(now: float, value: float) -> None:
    advice = choose(replace(THRASH, limits=told(watermark=now)))
    assert advice.step == Step(Limit.WATERMARK, value, now)
    assert "11.8 s" in advice.cost


def test_a_shorter_context_is_a_change_of_contract() -> None:
    advice = choose(LARGE)
    assert advice.step == Step(Limit.MAX_MODEL_LEN, 3072.0, 32768.0)
    assert "contract" in advice.cost


@pytest.mark.parametrize(
    ("holds", "peak", "limits", "step"),
    [
        (6.8, 12.0, told(max_num_seqs=32.0), Step(Limit.MAX_NUM_SEQS, 6.0, 32.0)),
        (6.8, 12.0, {}, Step(Limit.MAX_NUM_SEQS, 6.0)),
        (0.4, 12.0, {}, Step(Limit.MAX_NUM_SEQS, 1.0)),
        # Few ran of a load that drained: the cache holds more.
        (4.0, 2.0, told(max_num_seqs=32.0), Step(Limit.MAX_NUM_SEQS, 4.0, 32.0)),
        # No more than ran when blocks were taken back, where the mean promises more than is admitted.
        (34.5, 16.0, told(max_num_seqs=32.0), Step(Limit.MAX_NUM_SEQS, 15.0, 32.0)),
        (6.8, 6.0, told(max_num_seqs=6.0), Step(Limit.MAX_NUM_SEQS, 5.0, 6.0)),
        (None, 12.0, told(max_num_seqs=32.0), Step(Limit.MAX_NUM_SEQS, None, 32.0)),
        (
            6.8,
            12.0,
            told(max_num_seqs=256.0, max_num_active_seqs=32.0),
            Step(Limit.MAX_NUM_ACTIVE_SEQS, 6.0, 32.0),
        ),
    ],
)
def test_as_many_are_admitted_as_the_cache_holds(
    holds: float | None, peak: float, limits: dict[Limit, object], step: Step
) -> None:
    facts = replace(
        THRASH,
        budget=replace(MIX, safe_concurrency=holds),
        running_peak=peak,
        limits=limits,  # type: ignore[arg-type]
    )
    assert choose(facts).step == step


def test_one_window_does_not_move_what_the_cache_holds() -> None:
    before = Recalled(holds=(8.2, 7.4, 8.9, 7.9))
    drained = replace(
        THRASH, budget=replace(MIX, safe_concurrency=1.3), running_peak=2.0, recalled=before
    )
    assert choose(drained).step == Step(Limit.MAX_NUM_SEQS, 7.0, 32.0)


def test_a_limit_above_all_that_was_there_is_no_step() -> None:
    growing = replace(
        THRASH, budget=replace(MIX, safe_concurrency=20.0, waiting=0.5), running_peak=8.0
    )
    assert choose(growing).step == Step(Limit.MAX_NUM_SEQS, 7.0, 32.0)
    # Where nobody counted those that wait, nobody knows what was there.
    uncounted = replace(growing, budget=replace(growing.budget, waiting=None))
    assert choose(uncounted).step == Step(Limit.MAX_NUM_SEQS, 20.0, 32.0)
    unlimited = replace(growing, limits={})
    assert choose(unlimited).step == Step(Limit.MAX_NUM_SEQS, 7.0)


def test_more_gpus_for_a_refused_start_are_seen_by_the_start() -> None:
    refused = failed(Cause.CUDA_OOM, Kind.CAPACITY_REJECTION, gpus=())
    advice = choose(refused)
    assert advice.lever is Lever.ADD_PARALLELISM
    assert "preemption" not in advice.verify
    cheap = replace(THRASH, limits=told(max_num_seqs=1.0, kv_cache_low_precision=1.0))
    assert "preemptions per finished request fall" in choose(cheap).verify


def test_an_admission_limit_is_not_lowered_to_an_empty_cache() -> None:
    facts = replace(
        THRASH,
        budget=replace(MIX, safe_concurrency=8.0),
        running_peak=8.0,
        limits=told(max_num_seqs=4.0),
    )
    advice = choose(facts)
    assert advice.lever is Lever.LOWER_KV_CACHE_PRECISION
    assert "half empty" in advice.rejected[Lever.LOWER_MAX_NUM_SEQS]


def test_preemption_without_lack_of_cache_says_so() -> None:
    assert "30% full only" in choose(SEEN_LOW).because[1]
    priority = replace(SEEN_LOW, limits=told(priority_scheduling=1.0))
    assert "priority scheduling preempts" in choose(priority).because[1]


def test_a_peak_shortly_before_explains_a_late_count() -> None:
    assert choose(replace(SEEN_LOW, usage_peak=0.98)).lever is Lever.LOWER_MAX_NUM_SEQS


def test_a_full_cache_without_preemption_is_no_fault() -> None:
    advice = choose(replace(THRASH, causes=(), usage=0.98))
    assert advice.because == (
        "the KV cache was up to 98% full without a preemption: that is no fault",
    )
    assert choose(replace(THRASH, causes=(), usage=0.5)).because == ()


def test_figures_that_are_none_are_not_believed() -> None:
    odd = Budget(
        safe_concurrency=float("inf"),
        largest_share=float("nan"),
        prefill_share=-1.0,
        per_running=float("nan"),
    )
    facts = replace(
        THRASH, budget=odd, running_peak=float("inf"), limits=told(max_num_seqs=2.0**80)
    )
    assert choose(facts).lever is Lever.LOWER_MAX_NUM_SEQS
    assert choose(facts).step == Step(Limit.MAX_NUM_SEQS, None, 2.0**80)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("0.32.0", (0, 32, 0)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("v0.8.5.post1", (0, 8, 5)),
        ("0.11.0rc2.dev5+gabc", (0, 11, 0)),
        ("0.1.dev1+gabc", None),
        ("main", None),
        ("", None),
        (None, None),
    ],
)
def test_a_release_is_read_from_a_version(
    text: str | None, release: tuple[int, ...] | None
) -> None:
    assert parse_release(text) == release
