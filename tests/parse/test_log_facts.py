"""What real servers logged while they started gives their limits, by value."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from sidecar.catalog.signatures import SIGNATURES
from sidecar.parse.log_match import Match, read_line

REAL = Path(__file__).parents[1] / "data/recordings"
CORPUS = Path(__file__).parents[1] / "data/logs.jsonl"
CANARY = "sk-canary-7f3a"
GIB = 1 << 30

Told = dict[str, float]

ENGINE: Told = {
    "max_model_len": 2048,
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "kv_cache_low_precision": 0,
}
TYPED: Told = {"max_model_len": 2048, "max_num_seqs": 32}
SMALL: Told = {**TYPED, "kv_cache_memory_bytes": 67108864}
CAPACITY: Told = {"kv_capacity_tokens": 4128, "max_model_len": 2048}
LENGTH: Told = {"max_model_len": 2048}
BUDGET: Told = {"max_num_batched_tokens": 2048}
USUAL: Mapping[str, list[Told]] = {
    "arguments_told": [SMALL],
    "using_max_model_len": [LENGTH],
    "engine_initializing": [ENGINE],
    "kv_cache_size": [CAPACITY],
}
LONG: Told = {**ENGINE, "max_model_len": 4096}
REFUSED: Mapping[str, list[Told]] = {
    "using_max_model_len": [{"max_model_len": 4096}],
    "engine_initializing": [LONG],
}
HUGE: Told = {"max_model_len": 3000000}

FACTS: dict[str, Mapping[str, list[Told]]] = {
    "0.10.2_prompt_injection": {
        "arguments_told": [{**TYPED, "max_num_batched_tokens": 8192}],
        "using_max_model_len": [LENGTH],
        "chunked_prefill_enabled": [{"max_num_batched_tokens": 8192}],
        "engine_initializing": [ENGINE],
        "kv_cache_size": [{"kv_capacity_tokens": 4112}],
        "maximum_concurrency": [LENGTH],
    },
    "0.14.1_startup_reject_max_model_len_gt_cache": {
        "arguments_told": [{**HUGE, "max_num_seqs": 32}],
        "using_max_model_len": [HUGE],
        "chunked_prefill_enabled": [BUDGET],
        "engine_initializing": [{**ENGINE, **HUGE}],
    },
    "0.26.0_watermark0p05_preempt_thrash": {
        "arguments_told": [{**SMALL, "watermark": 0.05}],
        "using_max_model_len": [LENGTH],
        "engine_initializing": [ENGINE],
        "kv_cache_size": [{"kv_capacity_tokens": 4128}],
        "maximum_concurrency": [LENGTH],
    },
    "0.32.0-rust_healthy": USUAL,
    "0.8.5_preempt_thrash": {},  # recorded from a moment after the start on
    "a_healthy": USUAL,
    "c_preempt_thrash": {},  # the same
    "e_prompt_injection_info": USUAL,
    "f1_host_oom_enginecore": USUAL,
    "g_kv_len_gt_cache_bytes": {
        "arguments_told": [{"max_model_len": 4096, "kv_cache_memory_bytes": 1048576}],
        **REFUSED,
    },
    "g_negative_bad_block_size": {
        **USUAL,
        "kv_cache_size": [{"kv_capacity_tokens": 4112, "max_model_len": 2048}],
    },
    "g_no_memory_for_cache_blocks": {
        "arguments_told": [{"max_model_len": 4096, "kv_cache_memory_bytes": 100}],
        **REFUSED,
    },
    "h_restart": {name: [*told, *told] for name, told in USUAL.items()},
    "i_enginecore_sigkill": USUAL,
    "j_dp2": {
        "arguments_told": [{**SMALL, "data_parallel_size": 2}],
        "using_max_model_len": [LENGTH, LENGTH, LENGTH],
        "chunked_prefill_enabled": [BUDGET, BUDGET],
        "engine_initializing": [ENGINE],
        "kv_cache_size": [CAPACITY, CAPACITY],
    },
    "j_two_names_disable_log_stats": USUAL,
    "m_capacity_stages_vllm_bench": USUAL,
    "v2_host_oom": USUAL,
}


def lines(folder: Path) -> Iterator[str]:
    with gzip.open(folder / "log.jsonl.gz", "rt", encoding="utf-8") as file:
        for row in file:
            yield json.loads(row)["line"]


def facts(found: Iterable[Match]) -> dict[str, list[Told]]:
    told: dict[str, list[Told]] = {}
    for one in found:
        if one.signature.facts is not None:
            told.setdefault(one.signature.id, []).append(dict(one.numbers))
    return told


def test_every_recording_is_here() -> None:
    assert set(FACTS) == {folder.name for folder in REAL.iterdir()}


@pytest.mark.parametrize("name", FACTS)
def test_the_log_of_a_real_server_tells_its_limits(name: str) -> None:
    found = facts(said for line in lines(REAL / name) for said in read_line(line))
    assert found == FACTS[name]


def numbers(line: str) -> list[Told]:
    return [dict(one.numbers) for one in read_line(line) if one.signature.facts is not None]


PUBLIC: dict[str, Told] = {
    "c006": {"max_model_len": 4096, "tensor_parallel_size": 1},
    "c097": {"kv_memory_bytes": 20218558546, "kv_capacity_tokens": 176240, "max_model_len": 8192},
    "c098": {"kv_memory_bytes": 20046759854, "kv_capacity_tokens": 174800, "max_model_len": 8192},
    "c138": {"max_model_len": 40000},
    "c190": {"cpu_offload_bytes": 0, "gpu_memory_utilization": 0.9},
}
"""Of the corpus, what the lines of each report tell together."""


def test_the_lines_of_public_reports_tell_their_limits() -> None:
    found: dict[str, Told] = {}
    for row in map(json.loads, CORPUS.read_text().splitlines()):
        for told in (told for line in row["lines"] for told in numbers(line)):
            found.setdefault(row["id"], {}).update(told)
    assert found == PUBLIC


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "[kv_cache_utils.py:833] GPU KV cache size: 176,240 tokens",
            {"kv_capacity_tokens": 176240},
        ),
        (
            (
                "[kv_cache_utils.py:9] GPU + host KV cache size: 9,001 tokens, Maximum concurrency for"
                " 2,048 tokens per request: 4.39x"
            ),
            {"kv_capacity_tokens": 9001, "max_model_len": 2048},
        ),
        (
            "[kv_cache_utils.py:9] XPU KV cache size: 169,123 tokens",
            {"kv_capacity_tokens": 169123},
        ),
        (
            "distributed_gpu_executor.py:61] Maximum concurrency for 40000 tokens per request: 1.54x",
            {"max_model_len": 40000},
        ),
        (
            "[gpu_worker.py:245] Available KV cache memory: 18.5 GiB",
            {"kv_memory_bytes": 18.5 * GIB},
        ),
        ("[gpu_worker.py:245] Available KV cache memory: 0.0 GiB", {"kv_memory_bytes": 0}),
        (
            (
                "[gpu_worker.py:9] Initial free memory 47.03 GiB, reserved 8.00 GiB memory for KV Cache as"
                " specified by kv_cache_memory_bytes config and skipped memory profiling."
            ),
            {"kv_memory_bytes": 8 * GIB},
        ),
        (
            (
                "[gpu_worker.py:9] Free memory on device (47.03/47.37 GiB) on startup. Replace"
                " gpu_memory_utilization config with `--kv-cache-memory=22976439705` (21.4 GiB) to fit"
                " into requested memory, or `--kv-cache-memory=27692338176` (25.79 GiB) to fully utilize"
            ),
            {"kv_memory_advice_bytes": 27692338176},
        ),
        (
            (
                "[xpu_worker.py:9] Free memory on device (22/22.7 GiB) on startup. Replace"
                " gpu_memory_utilization config with `--kv-cache-memory=8603448832` (8.01 GiB) to fully"
            ),
            {"kv_memory_advice_bytes": 8603448832},
        ),
        (
            (
                "[kv_cache_utils.py:9] Auto-fit max_model_len: reduced from 262144 to 172032 to fit in"
                " available GPU memory (3.01 GiB available for KV cache)"
            ),
            {"max_model_len": 172032},
        ),
        (
            (
                "[kv_cache_utils.py:9] Auto-fit max_model_len: full model context length 1048576 fits in"
                " available GPU memory"
            ),
            {"max_model_len": 1048576},
        ),
        (
            (
                "llm_engine.py:72] Initializing an LLM engine (v0.5.4) with config: model='/m',"
                " speculative_config=None, max_seq_len=4096, tensor_parallel_size=2,"
                " kv_cache_dtype=fp8_e4m3, served_model_name=m, use_v2_block_manager=False)"
            ),
            {"max_model_len": 4096, "tensor_parallel_size": 2, "kv_cache_low_precision": 1},
        ),
        (
            (
                "api_server.py:626] args: Namespace(host=None, port=8000, api_key=None, model='m',"
                " max_model_len=None, kv_cache_dtype='auto', tensor_parallel_size=1, max_num_seqs=256)"
            ),
            {"kv_cache_low_precision": 0, "tensor_parallel_size": 1, "max_num_seqs": 256},
        ),
        ("[cli_args.py:300] non-default args: {'max_num_seqs': 8}", {"max_num_seqs": 8}),
    ],
)
def test_every_releases_wording_is_read(message: str, told: Told) -> None:
    line = f"INFO 11-29 20:49:58 {message}"
    tag = "(EngineCore_DP0 pid=7) "
    assert numbers(line) == [told]
    assert numbers(tag + line) == [told]
    assert numbers(f"\x1b[1;36m{tag[:-1]}\x1b[0;0m {line}") == [told]
    assert numbers(json.dumps({"log": tag + line + "\n", "stream": "stdout", "time": "t"})) == [
        told
    ]


ARGUMENTS = "non-default args: {'max_num_seqs': 8}"
SIZE = "GPU KV cache size: 4,128 tokens"


@pytest.mark.parametrize(
    "line",
    [
        f"INFO 11-29 20:49:58 [protocol.py:286] {ARGUMENTS}",
        f"INFO 11-29 20:49:58 [logger.py:286] {ARGUMENTS}",
        f"INFO 11-29 20:49:58 [serving_chat.py:286] {ARGUMENTS}",
        f"WARNING 11-29 20:49:58 [api_utils.py:286] {ARGUMENTS}",
        f"INFO 11-29 20:49:58 [api_utils.py:286] Request {ARGUMENTS}",
        f"INFO:     {ARGUMENTS}",
        ARGUMENTS,
        f"(APIServer pid=9) {ARGUMENTS}",
        f"INFO 11-29 20:49:58 [async_llm.py:4] Added request cmpl-{SIZE}.",
        f"INFO 11-29 20:49:58 [serving_chat.py:4] {SIZE}",
        f"ERROR 11-29 20:49:58 [kv_cache_utils.py:4] {SIZE}",
        f"INFO:     {SIZE}",
        SIZE,
        f"INFO 11-29 20:49:58 [kv_cache_utils.py:4] Note: {SIZE}",
    ],
)
def test_only_vllms_own_logger_is_believed(line: str) -> None:
    assert numbers(line) == []


def test_no_word_of_a_line_is_kept() -> None:
    for line in (
        (
            f"INFO 11-29 20:49:58 [api_utils.py:2] non-default args: {{'api_key': ['{CANARY}'],"
            f" 'max_num_seqs': '{CANARY}', 'kv_cache_dtype': '{CANARY}', 'max_model_len': 7}}"
        ),
        (
            f"INFO 11-29 20:49:58 api_server.py:2] args: Namespace(api_key='{CANARY}',"
            f" max_num_seqs={CANARY}, max_model_len=7, x=1)"
        ),
        (
            f"INFO 11-29 20:49:58 [core.py:2] Initializing a V1 LLM engine (v{CANARY}) with config:"
            f" model='{CANARY}', max_seq_len=7, kv_cache_dtype={CANARY}, x=1"
        ),
    ):
        (said,) = read_line(line)
        assert said.numbers == {"max_model_len": 7}
        kept = (said.origin, said.amount, said.numbers, said.stamp)
        assert CANARY not in repr(kept)


def test_the_version_alone_still_tells_that_an_engine_starts() -> None:
    (said,) = read_line("Initializing a V1 LLM engine (v0.32.0) with config: max_seq_len=7, x=1")
    assert said.signature is SIGNATURES["engine_initializing"]
    assert said.numbers == {}
