"""Answers of a server about itself: numbers of known limits, and nothing that is secret."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.limits import Limits, Origin
from sidecar.parse.server_config import parse_models, parse_server_info

CANARY = "hf_canary_91c2"
CARD = {"id": "tiny", "object": "model", "root": f"/models/{CANARY}", "max_model_len": 2048}
INFO = {
    "vllm_config": {
        "model_config": {
            "model": f"/models/{CANARY}",
            "hf_token": CANARY,
            "max_model_len": 2048,
            "enable_sleep_mode": True,
        },
        "cache_config": {
            "gpu_memory_utilization": 0.92,
            "kv_cache_memory_bytes": None,
            "cache_dtype": "auto",
            "kv_offloading_size": None,
            "block_size": 16,
        },
        "offload_config": {"uva": {"cpu_offload_gb": 4.0, "cpu_offload_params": []}},
        "parallel_config": {
            "tensor_parallel_size": 2,
            "pipeline_parallel_size": 1,
            "data_parallel_size": 1,
        },
        "scheduler_config": {
            "max_num_seqs": 256,
            "max_num_batched_tokens": 8192,
            "max_num_active_seqs": None,
            "watermark": 0.0,
            "policy": "fcfs",
        },
    },
    "vllm_env": {"VLLM_HOST_IP": CANARY, "max_num_seqs": 7},
    "system_env": {"scheduler_config": {"max_num_seqs": 7}, "pip": CANARY},
}


def values(found: Limits, origin: Origin) -> dict[str, float]:
    assert all(known.origin is origin for known in found.values())
    return {limit.value: known.value for limit, known in found.items()}


def models(answer: object) -> dict[str, float]:
    return values(parse_models(json.dumps(answer).encode()), Origin.MODELS)


def test_the_first_card_tells_the_longest_request() -> None:
    adapter = {**CARD, "id": "lora", "parent": "tiny", "max_model_len": None}
    assert models({"object": "list", "data": [CARD, adapter]}) == {"max_model_len": 2048}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"data": None},
        {"data": []},
        {"data": {}},
        {"data": [None]},
        {"data": [{"max_model_len": None}]},
        {"data": [{"max_model_len": -1}]},
        {"data": [{"max_model_len": CANARY}]},
        {"data": [{"id": "a"}, CARD]},
    ],
)
def test_a_card_that_says_nothing_gives_nothing(answer: object) -> None:
    assert models(answer) == {}


def test_the_configuration_gives_its_limits_and_no_secret() -> None:
    found = parse_server_info(json.dumps(INFO).encode())
    assert CANARY not in repr(found)
    assert values(found, Origin.SERVER_INFO) == {
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "max_model_len": 2048,
        "watermark": 0,
        "priority_scheduling": 0,
        "sleep_mode": 1,
        "gpu_memory_utilization": 0.92,
        "kv_cache_low_precision": 0,
        "cpu_offload_bytes": 4 << 30,
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"vllm_config": "model=\'m\', max_num_seqs=9"}',
        b'{"vllm_config": {"scheduler_config": [1], "cache_config": null}}',
        b'{"vllm_config": {"scheduler_config": {"max_num_seqs": ' + b"9" * 5000 + b"}}}",
        b'{"vllm_config": {"scheduler_config": {"max_num_seqs": NaN}}}',
    ],
)
def test_any_other_answer_gives_nothing(body: bytes) -> None:
    assert parse_server_info(body) == {}
    assert parse_models(body) == {}


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "data",
                    "vllm_config",
                    "scheduler_config",
                    "cache_config",
                    "max_num_seqs",
                    "policy",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_gives_numbers_only(answer: object) -> None:
    body = json.dumps(answer).encode()
    for found in (parse_models(body), parse_server_info(body)):
        assert all(type(known.value) is float for known in found.values())
