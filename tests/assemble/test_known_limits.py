"""What is known of limits belongs to one life of the server; of the next it is told anew."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.assemble.known_limits import LAG_S, KnownLimits, limits_of_config
from sidecar.model.limits import Known, Limit, Origin
from sidecar.model.readings import LogEvent, MetricsReading
from sidecar.model.samples import Instant
from sidecar.parse.exposition_reader import ExpositionReader

EXPOSITIONS = Path(__file__).parents[1] / "data/expositions"
CONFIG = {"kv_cache_size_tokens": "4128", "kv_cache_max_concurrency": "2.015625"}


def at(second: float) -> Instant:
    return Instant(100.0 + second, 1_700_000_000.0 + second)


def metrics(**info: str) -> MetricsReading:
    return MetricsReading(
        naming="vllm:", found=frozenset(), engines={}, generation="v1", info=info or CONFIG
    )


class Story:
    """What is told of a server, second by second."""

    def __init__(self) -> None:
        self.limits = KnownLimits()

    def logs(self, second: float, signature: str, **numbers: float) -> None:
        when = at(second)
        self.limits.see_event(LogEvent(signature, when.monotonic, when.unix, numbers=numbers))

    def starts(self, second: float, *, seqs: float = 32, tokens: float = 4128) -> None:
        self.logs(second, "api_server_version")
        self.logs(second, "arguments_told", max_num_seqs=seqs)
        self.logs(second, "using_max_model_len", max_model_len=2048)
        self.logs(second, "engine_initializing", max_model_len=2048, tensor_parallel_size=1)
        self.logs(second, "kv_cache_size", kv_capacity_tokens=tokens, max_model_len=2048)

    def answers(self, second: float, **info: str) -> None:
        self.limits.see_metrics(metrics(**info), at(second))

    def tells(self, second: float, origin: Origin, limit: Limit, value: float) -> None:
        self.limits.see_answers({limit: Known(value, origin)}, at(second))

    def known(self) -> dict[str, float]:
        return {limit.value: known.value for limit, known in self.limits.known().items()}

    def origin(self, limit: Limit) -> Origin:
        return self.limits.known()[limit].origin

    def changes(self) -> Mapping[Limit, tuple[float, float]]:
        return self.limits.changes()


def served() -> Story:
    story = Story()
    story.starts(0)
    for second in (10, 11, 12):
        story.answers(second)
    return story


FIRST = {
    "max_num_seqs": 32,
    "max_model_len": 2048,
    "tensor_parallel_size": 1,
    "kv_capacity_tokens": 4128,
}


def test_a_limit_that_nobody_told_is_absent() -> None:
    assert Story().known() == {}
    assert served().known() == FIRST
    assert Limit.WATERMARK not in served().limits.known()


def test_the_surest_origin_counts() -> None:
    story = Story()
    for second, origin in enumerate(reversed(Origin)):
        if origin is Origin.LOG:
            story.logs(second, "chunked_prefill_enabled", max_num_batched_tokens=2048)
        elif origin is Origin.LOG_ARGUMENTS:
            story.logs(second, "arguments_told", max_num_batched_tokens=4096)
        else:
            story.tells(second, origin, Limit.MAX_NUM_BATCHED_TOKENS, 1000 + second)
        assert story.origin(Limit.MAX_NUM_BATCHED_TOKENS) is origin
    assert story.known() == {"max_num_batched_tokens": 1005}


def test_the_labels_of_the_configuration_are_limits() -> None:
    reading = metrics(
        **CONFIG,
        gpu_memory_utilization="0.92",
        kv_cache_memory_bytes="67108864",
        cache_dtype="fp8_e4m3",
        block_size="32",
        num_gpu_blocks="129",
    )
    assert limits_of_config(reading) == {
        Limit.GPU_MEMORY_UTILIZATION: 0.92,
        Limit.KV_CACHE_MEMORY_BYTES: 67108864,
        Limit.KV_CACHE_LOW_PRECISION: 1,
        Limit.KV_CAPACITY_TOKENS: 4128,
        Limit.MAX_MODEL_LEN: 2048,
    }


@pytest.mark.parametrize("concurrency", ["", "nan", "inf", "0", "-2", "1e-300", "a" * 60, "1e99"])
def test_a_concurrency_that_cannot_be_gives_no_length(concurrency: str) -> None:
    reading = metrics(kv_cache_size_tokens="4128", kv_cache_max_concurrency=concurrency)
    assert limits_of_config(reading) == {Limit.KV_CAPACITY_TOKENS: 4128}


@pytest.mark.parametrize(
    ("release", "found"),
    [
        ("0.8.5", {Limit.KV_CAPACITY_TOKENS: 4112}),
        ("0.8.5_v0_idle_before_first_request", {Limit.KV_CAPACITY_TOKENS: 4112}),
        ("0.10.2", {}),
        ("0.26.0", {Limit.KV_CAPACITY_TOKENS: 4128, Limit.MAX_MODEL_LEN: 2048}),
        ("0.32.0-rust", {}),
    ],
)
def test_blocks_are_a_capacity_in_v0_only(release: str, found: dict[Limit, float]) -> None:
    body = (EXPOSITIONS / f"{release}.txt").read_bytes()
    values = limits_of_config(ExpositionReader().read(body, "text/plain"))
    kept = {Limit.KV_CAPACITY_TOKENS, Limit.MAX_MODEL_LEN}
    assert {limit: value for limit, value in values.items() if limit in kept} == found


def test_of_several_engines_and_workers_the_smallest_cache_counts() -> None:
    story = Story()
    for second, tokens in enumerate((5000, 4000, 4500)):
        story.logs(second, "kv_cache_size", kv_capacity_tokens=tokens)
        story.logs(second, "kv_cache_memory", kv_memory_bytes=tokens * 10)
        story.logs(second, "kv_cache_memory_advice", kv_memory_advice_bytes=tokens * 20)
    assert story.known() == {
        "kv_capacity_tokens": 4000,
        "kv_memory_bytes": 40_000,
        "kv_memory_advice_bytes": 80_000,
    }


def test_a_draft_models_length_is_not_the_servers() -> None:
    story = Story()
    story.logs(0, "using_max_model_len", max_model_len=8192)
    story.logs(0, "using_max_model_len", max_model_len=2048)
    assert story.known() == {"max_model_len": 8192}
    story.logs(1, "max_model_len_fitted", max_model_len=4096)
    story.logs(2, "using_max_model_len", max_model_len=8192)
    assert story.known() == {"max_model_len": 4096}


def test_a_restart_forgets_what_was_told_of_the_server_before() -> None:
    story = served()
    story.tells(11, Origin.MODELS, Limit.MAX_MODEL_LEN, 2048)
    story.tells(11, Origin.COMMAND_LINE, Limit.WATERMARK, 0.05)
    story.limits.begin_anew()
    assert story.known() == {}
    assert story.changes() == {}


def test_what_the_new_start_told_before_its_restart_was_noticed_is_kept() -> None:
    story = served()
    story.starts(20, seqs=64, tokens=9000)
    assert story.known() == FIRST, "the server that answers may be another one than starts"
    story.limits.begin_anew()
    story.limits.begin_anew()
    assert story.known() == {**FIRST, "max_num_seqs": 64, "kv_capacity_tokens": 9000}


def test_a_start_in_pieces_belongs_to_one_life() -> None:
    story = served()
    story.logs(20, "api_server_version")
    story.logs(20, "arguments_told", max_num_seqs=64)
    story.limits.begin_anew()
    story.logs(21, "kv_cache_size", kv_capacity_tokens=9000)
    assert story.known() == {"max_num_seqs": 64, "kv_capacity_tokens": 9000}


def test_a_start_without_its_first_lines_is_one_too() -> None:
    story = served()
    story.logs(12 + LAG_S, "engine_initializing", max_model_len=1024)
    story.logs(12 + LAG_S, "kv_cache_size", kv_capacity_tokens=9000)
    story.limits.begin_anew()
    assert story.known() == {"max_model_len": 1024, "kv_capacity_tokens": 9000}


def test_the_start_of_a_server_that_was_met_alive_is_the_next_ones() -> None:
    story = Story()
    story.answers(0)
    story.starts(50, seqs=64)
    story.limits.begin_anew()
    assert story.known() == {**FIRST, "max_num_seqs": 64}


def test_lines_of_the_start_may_be_read_after_the_first_answer() -> None:
    story = Story()
    story.answers(0)
    story.starts(1)
    assert story.known() == FIRST
    assert story.origin(Limit.KV_CAPACITY_TOKENS) is Origin.LOG


def test_a_start_that_failed_is_followed_by_the_next() -> None:
    story = Story()
    story.logs(0, "arguments_told", max_num_seqs=999, watermark=0.5)
    story.logs(0, "kv_cache_size", kv_capacity_tokens=1)
    story.starts(10)
    assert story.known() == FIRST
    story.answers(20)
    assert story.known() == FIRST


def test_another_servers_start_in_the_same_log_is_not_this_ones() -> None:
    story = served()
    story.starts(20, seqs=999, tokens=1)
    story.answers(30)
    assert story.known() == FIRST
    assert story.changes() == {}


def test_what_the_log_had_said_before_is_known_of_its_last_start_only() -> None:
    def event(signature: str, **numbers: float) -> LogEvent:
        return LogEvent(signature, 101.0, 1_700_000_001.0, numbers=numbers)

    past = (
        event("api_server_version"),
        event("arguments_told", max_num_seqs=999, watermark=0.5),
        event("kv_cache_size", kv_capacity_tokens=1),
        event("api_server_version"),
        event("arguments_told", max_num_seqs=32),
        event("kv_cache_size", kv_capacity_tokens=4128),
    )
    story = Story()
    story.answers(0.5)
    story.limits.see_past(past)
    assert story.known() == {"max_num_seqs": 32, "kv_capacity_tokens": 4128, "max_model_len": 2048}
    story.limits.see_past(past[:3])
    assert story.known()["max_num_seqs"] == 32


def test_an_event_of_a_failure_or_of_another_program_tells_nothing() -> None:
    story = Story()
    story.logs(0, "engine_dead_error", max_num_seqs=1)
    story.logs(0, "no such row", max_num_seqs=1)
    assert story.known() == {}


# --- changes ------------------------------------------------------------------------------------


def test_no_change_is_told_of_the_first_life() -> None:
    assert served().changes() == {}


def test_the_limits_that_are_others_are_told_from_the_first_answer_on() -> None:
    story = served()
    story.starts(20, seqs=64, tokens=9000)
    story.limits.begin_anew()
    assert story.changes() == {}
    story.answers(30, kv_cache_size_tokens="9000", kv_cache_max_concurrency="4.39453125")
    assert story.changes() == {
        Limit.MAX_NUM_SEQS: (32, 64),
        Limit.KV_CAPACITY_TOKENS: (4128, 9000),
    }
    story.limits.begin_anew()
    story.starts(40, seqs=64, tokens=9000)
    story.answers(50, kv_cache_size_tokens="9000", kv_cache_max_concurrency="4.39453125")
    assert story.changes() == {}


def test_what_start_up_measures_may_differ_a_little() -> None:
    story = served()
    story.starts(20, tokens=4128 * 1.005)
    story.limits.begin_anew()
    story.answers(30)
    assert story.changes() == {}


def test_what_one_life_alone_told_is_no_change() -> None:
    story = Story()
    story.answers(0)
    story.starts(50, seqs=64)
    story.limits.begin_anew()
    story.answers(60)
    assert story.changes() == {}


def test_two_origins_are_not_compared() -> None:
    story = Story()
    story.tells(0, Origin.MODELS, Limit.MAX_MODEL_LEN, 4096)
    story.answers(1, gpu_memory_utilization="0.9")
    story.limits.begin_anew()
    story.tells(2, Origin.COMMAND_LINE, Limit.MAX_MODEL_LEN, 8192)
    story.answers(3, gpu_memory_utilization="0.9")
    assert story.changes() == {}
    story.tells(4, Origin.MODELS, Limit.MAX_MODEL_LEN, 8192)
    assert story.changes() == {Limit.MAX_MODEL_LEN: (4096, 8192)}


def test_advice_is_no_limit_that_changes() -> None:
    story = Story()
    story.logs(0, "kv_cache_memory_advice", kv_memory_advice_bytes=1)
    story.answers(1)
    story.limits.begin_anew()
    story.logs(2, "kv_cache_memory_advice", kv_memory_advice_bytes=9)
    story.answers(3)
    assert story.changes() == {}


def test_metrics_without_a_name_of_vllms_are_no_answer() -> None:
    story = Story()
    story.limits.see_metrics(replace(metrics(), naming=None), at(0))
    assert (story.limits.answer, story.known()) == (None, {})
