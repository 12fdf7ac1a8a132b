"""Each failure calls for its own lever, and never for that of its look-alike."""

from dataclasses import replace

import pytest

from sidecar.advise.choose import choose
from sidecar.advise.facts import Facts, Found, Recalled
from sidecar.model.advice import Lever, Step
from sidecar.model.budget import Sight
from sidecar.model.limits import Limit
from sidecar.model.vocabulary import Cause, Kind, Phase
from tests.advise.cases import CARD, GIB, failed, told

ALLOCATION = Kind.ALLOCATION_FAILURE
REJECTION = Kind.CAPACITY_REJECTION
COTENANT = replace(CARD, cotenant=20 * GIB, free_durable=None)
OOM = failed(Cause.CUDA_OOM, ALLOCATION, signals=("gpu_out_of_memory",))
REFUSED = failed(Cause.CUDA_OOM, REJECTION, signals=("no_memory_for_cache_blocks",))
TOO_LONG = failed(Cause.CUDA_OOM, REJECTION, signals=("request_exceeds_cache",))

CASES: dict[str, tuple[Facts, Lever]] = {
    "a kill at a limit": (failed(Cause.HOST_OOM, Kind.CGROUP), Lever.RAISE_HOST_MEMORY_LIMIT),
    "a kill of the host": (failed(Cause.HOST_OOM, Kind.SYSTEM), Lever.RAISE_HOST_MEMORY_LIMIT),
    "a kill by a monitor": (failed(Cause.HOST_OOM, Kind.USERSPACE), Lever.RAISE_HOST_MEMORY_LIMIT),
    "a host allocation": (failed(Cause.HOST_OOM, ALLOCATION), Lever.RAISE_HOST_MEMORY_LIMIT),
    "a GPU allocation alone on the card": (OOM, Lever.LOWER_GPU_MEMORY_UTILIZATION),
    "a GPU allocation, no GPU seen": (
        replace(OOM, gpus=(), gpus_fresh=False),
        Lever.LOWER_GPU_MEMORY_UTILIZATION,
    ),
    "a GPU allocation beside a co-tenant": (
        replace(OOM, gpus=(COTENANT,)),
        Lever.FREE_COTENANT_MEMORY,
    ),
    "a GPU allocation, a co-tenant of an old reading": (
        replace(OOM, gpus=(COTENANT,), gpus_fresh=False),
        Lever.LOWER_GPU_MEMORY_UTILIZATION,
    ),
    "a GPU allocation, a co-tenant was there lately": (
        replace(OOM, recalled=Recalled(cotenant=True)),
        Lever.FREE_COTENANT_MEMORY,
    ),
    "a GPU allocation, a co-tenant on a card that is not ours": (
        replace(OOM, gpus=(CARD, replace(COTENANT, index=1, expected=False))),
        Lever.LOWER_GPU_MEMORY_UTILIZATION,
    ),
    "a GPU allocation, a context of a few MiB beside ours": (
        replace(OOM, gpus=(replace(CARD, cotenant=4 * 1024**2),)),
        Lever.LOWER_GPU_MEMORY_UTILIZATION,
    ),
    "a GPU allocation, orphans are left": (
        failed(Cause.CUDA_OOM, ALLOCATION, signals=("orphans_left",)),
        Lever.FREE_COTENANT_MEMORY,
    ),
    "a refusal, nothing known": (REFUSED, Lever.ADD_PARALLELISM),
    "a refusal, large steps": (
        replace(REFUSED, limits=told(max_num_batched_tokens=16384.0)),
        Lever.LOWER_MAX_NUM_BATCHED_TOKENS,
    ),
    "a refusal, small steps": (
        replace(REFUSED, limits=told(max_num_batched_tokens=2048.0)),
        Lever.ADD_PARALLELISM,
    ),
    "a refusal of a cache with a size": (
        replace(REFUSED, limits=told(max_num_batched_tokens=16384.0, kv_cache_memory_bytes=100.0)),
        Lever.ADD_PARALLELISM,
    ),
    "a refusal beside a co-tenant": (
        replace(REFUSED, gpus=(COTENANT,)),
        Lever.FREE_COTENANT_MEMORY,
    ),
    "a refusal for what is free on the device": (
        failed(Cause.CUDA_OOM, REJECTION, signals=("free_memory_below_wanted",)),
        Lever.FREE_COTENANT_MEMORY,
    ),
    "a refusal with memory proven to be free": (
        replace(REFUSED, gpus=(CARD,)),
        Lever.RAISE_KV_CACHE_MEMORY,
    ),
    "a refusal of one request": (TOO_LONG, Lever.LOWER_MAX_MODEL_LEN),
    "a refusal of one request by V0": (
        failed(Cause.CUDA_OOM, REJECTION, signals=("max_len_exceeds_cache",)),
        Lever.LOWER_MAX_MODEL_LEN,
    ),
    "a refusal of one request, memory proven to be free": (
        replace(TOO_LONG, gpus=(CARD,)),
        Lever.RAISE_KV_CACHE_MEMORY,
    ),
    "both kinds at once, nothing known": (
        failed(Cause.CUDA_OOM, ALLOCATION, REJECTION),
        Lever.ADD_PARALLELISM,
    ),
    "both kinds at once, memory seems free": (
        failed(Cause.CUDA_OOM, REJECTION, ALLOCATION, gpus=(CARD,)),
        Lever.ADD_PARALLELISM,
    ),
    "an engine was killed": (
        failed(Cause.ENGINE_FAILURE, Kind.KILLED),
        Lever.INSPECT_ENGINE_FAILURE,
    ),
    "an engine crashed beside a co-tenant": (
        failed(Cause.ENGINE_FAILURE, Kind.CRASHED, gpus=(COTENANT,)),
        Lever.INSPECT_ENGINE_FAILURE,
    ),
    "a start failed": (
        failed(Cause.ENGINE_FAILURE, Kind.START_FAILED),
        Lever.INSPECT_ENGINE_FAILURE,
    ),
    "a stall": (failed(Cause.STALLED, Kind.UNSPECIFIED), Lever.INSPECT_ENGINE_FAILURE),
}


@pytest.mark.parametrize(("facts", "lever"), CASES.values(), ids=CASES)
def test_a_failure_gets_its_lever(facts: Facts, lever: Lever) -> None:
    advice = choose(facts)
    assert advice.lever is lever
    assert advice.because
    assert advice.cost
    assert advice.step_words
    assert advice.verify
    assert advice.rollback
    assert lever not in advice.rejected


@pytest.mark.parametrize(
    ("facts", "opposite"),
    [
        (OOM, Lever.RAISE_KV_CACHE_MEMORY),
        (replace(OOM, gpus=(CARD,)), Lever.RAISE_KV_CACHE_MEMORY),
        (REFUSED, Lever.LOWER_GPU_MEMORY_UTILIZATION),
        (TOO_LONG, Lever.LOWER_GPU_MEMORY_UTILIZATION),
    ],
)
def test_the_opposite_lever_is_rejected_in_words(facts: Facts, opposite: Lever) -> None:
    assert choose(facts).rejected[opposite]


def test_the_first_cause_decides() -> None:
    both = failed(Cause.HOST_OOM, Kind.CGROUP)
    both = replace(both, causes=(*both.causes, Found(Cause.CUDA_OOM, ALLOCATION)))
    assert choose(both).lever is Lever.RAISE_HOST_MEMORY_LIMIT


def test_a_failed_allocation_lowers_the_share_by_a_twentieth() -> None:
    advice = choose(replace(OOM, limits=told(gpu_memory_utilization=0.92)))
    assert advice.step == Step(Limit.GPU_MEMORY_UTILIZATION, value=0.87, now=0.92)
    assert advice.step_words.startswith("--gpu-memory-utilization from 0.92 to 0.87")


def test_a_cache_with_a_size_loses_a_twentieth_of_the_card() -> None:
    limits = told(gpu_memory_utilization=0.92, kv_cache_memory_bytes=20.0 * GIB)
    step = choose(replace(OOM, limits=limits)).step
    assert step == Step(Limit.KV_CACHE_MEMORY_BYTES, value=16.0 * GIB, now=20.0 * GIB)


def test_no_figure_is_made_up_where_the_share_is_not_known() -> None:
    step = choose(OOM).step
    assert step == Step(Limit.GPU_MEMORY_UTILIZATION)


def test_large_steps_are_halved_but_hold_a_token_of_each_sequence() -> None:
    limits = told(max_num_batched_tokens=3000.0, max_num_seqs=2500.0)
    step = choose(replace(REFUSED, limits=limits)).step
    assert step == Step(Limit.MAX_NUM_BATCHED_TOKENS, value=2500.0, now=3000.0)


def test_a_refused_length_becomes_what_the_cache_holds_where_that_was_told() -> None:
    limits = told(max_model_len=4096.0, kv_capacity_tokens=2016.0)
    assert choose(replace(TOO_LONG, limits=limits)).step == Step(
        Limit.MAX_MODEL_LEN, value=2016.0, now=4096.0
    )
    without = choose(replace(TOO_LONG, limits=told(max_model_len=4096.0)))
    assert without.step == Step(Limit.MAX_MODEL_LEN, now=4096.0)
    assert "estimated maximum" in without.step_words


def test_the_host_and_a_limit_of_it_get_different_words() -> None:
    limit = choose(failed(Cause.HOST_OOM, Kind.CGROUP))
    host = choose(failed(Cause.HOST_OOM, Kind.SYSTEM))
    assert "raise the memory limit" in limit.step_words
    assert "neighbour" in host.step_words
    assert "raise the memory limit" not in host.step_words


def test_suspects_are_named_only_where_they_are_known() -> None:
    plain = choose(failed(Cause.HOST_OOM, Kind.CGROUP))
    assert len(plain.because) == 1
    limits = told(sleep_mode=1.0, cpu_offload_bytes=8.0 * GIB, kv_offloading_bytes=16.0 * GIB)
    told_of = " ".join(choose(failed(Cause.HOST_OOM, Kind.CGROUP, limits=limits)).because)
    assert "sleep mode" in told_of
    assert "8.0 GiB" in told_of
    assert "16.0 GiB" in told_of
    off = told(sleep_mode=0.0, cpu_offload_bytes=0.0, kv_offloading_bytes=0.0)
    assert len(choose(failed(Cause.HOST_OOM, Kind.CGROUP, limits=off)).because) == 1


def test_whether_others_were_there_is_said_as_it_was_seen() -> None:
    hidden = replace(CARD, sight=Sight.OTHER_NAMESPACE, vllm=None, cotenant=None)
    assert "cannot be seen" in choose(replace(OOM, gpus=(hidden,))).because[-1]
    assert "nobody else" in choose(OOM).because[-1]


def test_orphans_are_named() -> None:
    left = replace(COTENANT, orphans=15 * GIB)
    assert "15.0 GiB of it left by a dead server" in choose(replace(OOM, gpus=(left,))).because[0]


def test_where_the_server_was_tells_whose_card_it_is_after_its_death() -> None:
    gone = replace(CARD, expected=False, vllm=0)
    others = replace(COTENANT, index=1, expected=False)
    facts = replace(OOM, gpus=(gone, others), recalled=Recalled(placed=frozenset({0})))
    assert choose(facts).lever is Lever.LOWER_GPU_MEMORY_UTILIZATION
    facts = replace(facts, recalled=Recalled(placed=frozenset({1})))
    assert choose(facts).lever is Lever.FREE_COTENANT_MEMORY


def test_a_sign_beside_a_failed_start_is_explained() -> None:
    facts = failed(Cause.ENGINE_FAILURE, Kind.START_FAILED, signals=("memory_profiling_disturbed",))
    assert "while vLLM measured" in " ".join(choose(facts).because)


def test_no_cause_is_no_lever() -> None:
    assert choose(Facts()).lever is Lever.NONE
    assert choose(Facts()).because == ()
    assert choose(Facts(gpus=(COTENANT,), gpus_fresh=True)).lever is Lever.NONE


def test_a_phase_that_is_not_known_is_not_said() -> None:
    facts = replace(OOM, causes=(Found(Cause.CUDA_OOM, ALLOCATION, Phase.UNKNOWN),))
    assert choose(facts).because[0] == "a GPU allocation failed"


@pytest.mark.parametrize(
    ("kind", "said", "unsaid"),
    [
        (Kind.USERSPACE, "the node more memory, or move one of the two", "limit"),
        (Kind.SYSTEM, "the host more memory, or move a neighbour", "raise"),
        (Kind.CGROUP, "raise the memory limit", "node"),
    ],
)
def test_host_words_fit_whoever_killed(kind: Kind, said: str, unsaid: str) -> None:
    words = choose(failed(Cause.HOST_OOM, kind)).step_words
    assert said in words
    assert unsaid not in words


def test_what_a_log_says_of_a_device_need_not_be_a_gpu() -> None:
    refused = failed(
        Cause.CUDA_OOM, Kind.CAPACITY_REJECTION, signals=("free_memory_below_wanted",), gpus=()
    )
    advice = choose(refused)
    assert advice.lever is Lever.FREE_COTENANT_MEMORY
    told = " ".join((*advice.because, advice.step_words, advice.verify, advice.cost))
    assert "GPU" not in told
    assert "nvidia" not in told
    assert "nvidia-smi" in choose(replace(refused, gpus=(CARD,), gpus_fresh=True)).verify
