"""Of a command line, and of what a log says of arguments, only the numbers of known limits are kept."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.catalog.vllm_settings import ARGUMENTS, ENGINE_FIELDS, NEIGHBOURS, SETTINGS, Setting
from sidecar.model.limits import Limit, Limits, Origin
from sidecar.parse.launch_arguments import limits_of_argv, values_of_dict, values_of_keywords

SERVE = ["/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve", "/models/tiny"]
MODULE = ["python3", "-u", "-m", "vllm.entrypoints.openai.api_server", "--model", "/models/tiny"]
CANARY = "sk-canary-7f3a"
GIB = 1 << 30


def read(*words: str, front: Sequence[str] = SERVE) -> dict[str, float]:
    found = limits_of_argv([*front, *words])
    assert all(known.origin is Origin.COMMAND_LINE for known in found.values())
    return {limit.value: known.value for limit, known in found.items()}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--max-num-seqs", "32"], {"max_num_seqs": 32}),
        (["--max-num-seqs=32"], {"max_num_seqs": 32}),
        (["--max_num_seqs", "32"], {"max_num_seqs": 32}),
        (["--max_num-seqs=32"], {"max_num_seqs": 32}),
        (["--max-num-se", "32"], {"max_num_seqs": 32}),
        (["--max-num-batched", "8K"], {"max_num_batched_tokens": 8192}),
        (["--max-model-len", "25.6k"], {"max_model_len": 25_600}),
        (["--max-model-len", "auto"], {}),
        (["--max-model-len", "-1"], {}),
        (["--max-model-len", "4096", "--max-model-len=auto"], {}),
        (["--max-num-seqs", "8", "--max-num-seqs", "16"], {"max_num_seqs": 16}),
        (["--kv-cache-memory=5905580032"], {"kv_cache_memory_bytes": 5905580032}),
        (["--kv-cache-memory-bytes", "8G"], {"kv_cache_memory_bytes": 8 * GIB}),
        (["--kv-cache-m=7"], {}),
        (["--gpu-mem", "0.8"], {"gpu_memory_utilization": 0.8}),
        (["--gpu-memory-utilization", "0.8"], {"gpu_memory_utilization": 0.8}),
        (["--watermark", "0.05"], {"watermark": 0.05}),
        (["--watermark-config", "9", "--watermark=0"], {"watermark": 0}),
        (
            ["-tp", "4", "-pp=2", "-dp", "3"],
            {"tensor_parallel_size": 4, "pipeline_parallel_size": 2, "data_parallel_size": 3},
        ),
        (["-tp2"], {}),
        (["-dpl", "2", "--data-parallel-size-local", "2"], {}),
        (["--data-parallel-s", "2"], {}),
        (["--data-parallel-size", "2"], {"data_parallel_size": 2}),
        (["--max-num-active-seqs", "9"], {"max_num_active_seqs": 9}),
        (["--max-num-queued-reqs", "9"], {"max_num_queued_reqs": 9}),
        (["--max-num-q", "9"], {}),
        (["--cpu-offload-gb", "4"], {"cpu_offload_bytes": 4 * GIB}),
        (["--kv-offloading-size", "32"], {"kv_offloading_bytes": 32 * GIB}),
        (["--kv-cache-dtype", "fp8"], {"kv_cache_low_precision": 1}),
        (["--kv-cache-dtype=auto"], {"kv_cache_low_precision": 0}),
        (["--scheduling-policy", "priority"], {"priority_scheduling": 1}),
        (["--enable-sleep-mode"], {"sleep_mode": 1}),
        (["--enable-sl"], {"sleep_mode": 1}),
        (["--no-enable-sleep-mode"], {"sleep_mode": 0}),
        (["--enable-sleep-mode", "7", "--max-num-seqs", "2"], {"sleep_mode": 1, "max_num_seqs": 2}),
        (["--no-max-num-seqs", "7"], {}),
        (["--max-num-seqs"], {}),
        (["--max-num-seqs", "--enable-sleep-mode"], {"sleep_mode": 1}),
        (["--", "--max-num-seqs", "7"], {}),
        (["--api-key", "--max-num-seqs=7"], {"max_num_seqs": 7}),
        (["--api-key=--max-num-seqs=7"], {}),
        (["--max-num-seqs", "1" + "0" * 30], {}),
        (["--max-num-seqs", "nan"], {}),
        (["--", "-tp"], {}),
        (["-"], {}),
        (["--="], {}),
        (["--no-"], {}),
        ([""], {}),
    ],
)
def test_every_spelling_of_a_flag_is_read(words: list[str], found: dict[str, float]) -> None:
    assert read(*words) == found
    assert read(*words, front=MODULE) == found


@pytest.mark.parametrize(
    "front",
    [
        ["vllm", "serve"],
        ["/usr/bin/python3.12", "-X", "dev", "/usr/local/bin/vllm", "serve"],
        ["python", "-m", "vllm.entrypoints.cli.main", "serve"],
        ["python", "-m", "vllm.entrypoints.api_server"],
        ["python", "-m", "vllm.entrypoints.grpc_server"],
        ["python", "/src/vllm/entrypoints/openai/api_server.py"],
    ],
)
def test_every_way_to_start_the_server_is_known(front: list[str]) -> None:
    assert read("--max-num-seqs", "32", front=front) == {"max_num_seqs": 32}


@pytest.mark.parametrize(
    "front",
    [
        [],
        ["vllm"],
        ["vllm", "bench", "serve"],
        ["nginx"],
        ["bash", "-c", "vllm serve m --max-num-seqs 4"],
        ["VLLM::EngineCore"],
        ["notvllm", "serve"],
        ["python3", "server.py"],
    ],
)
def test_another_programs_command_line_gives_nothing(front: list[str]) -> None:
    assert read("--max-num-seqs", "32", front=front) == {}


def test_a_real_command_line_gives_its_limits_and_no_word() -> None:
    real = (
        "/opt/venv/bin/python3 /opt/venv/bin/vllm serve /models/tiny --host 127.0.0.1 --port 8220"
        " --served-model-name tiny --max-num-seqs 32 --block-size 16 --enforce-eager"
        " --no-enable-prefix-caching --max-num-batched-tokens 8192 --max-model-len 2048"
        " --num-gpu-blocks-override 257"
    )
    found = limits_of_argv(real.split())
    assert {limit.value: known.value for limit, known in found.items()} == {
        "max_num_seqs": 32,
        "max_num_batched_tokens": 8192,
        "max_model_len": 2048,
    }


def test_no_known_flag_is_its_own_neighbour() -> None:
    assert not {setting.flag for setting in SETTINGS} & set(NEIGHBOURS)
    assert {setting.limit for setting in SETTINGS} == set(Limit) - {
        Limit.KV_CAPACITY_TOKENS,
        Limit.KV_MEMORY_BYTES,
        Limit.KV_MEMORY_ADVICE_BYTES,
    }


def only_numbers(found: Limits) -> bool:
    return all(
        type(limit) is Limit and type(known.value) is float for limit, known in found.items()
    )


flags = st.sampled_from(
    [f"--{setting.flag}" for setting in SETTINGS] + ["--api-key", "-tp", "--no-"]
)
words = st.one_of(
    flags,
    st.builds("{}={}".format, flags, st.text(max_size=12)),
    st.text(max_size=12),
    st.just(CANARY),
    st.just("32"),
)


@given(st.lists(words, max_size=12))
def test_any_command_line_gives_numbers_only(given_words: list[str]) -> None:
    found = limits_of_argv([*SERVE, *given_words])
    assert only_numbers(found)
    assert CANARY not in repr(found)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_secret_in_the_place_of_a_value_is_left_out(setting: Setting) -> None:
    flag = f"--{setting.flag}"
    for argv in ([flag, CANARY], [f"{flag}={CANARY}"], ["--api-key", CANARY, flag]):
        assert CANARY not in repr(limits_of_argv([*SERVE, *argv]))


# --- what the log says --------------------------------------------------------------------------

REAL = (
    "{'model_tag': '/models/tiny', 'host': '127.0.0.1', 'port': 8240, 'model': '/models/tiny',"
    " 'max_model_len': 2048, 'enforce_eager': True, 'served_model_name': ['tiny', 'alias-b'],"
    " 'block_size': 32, 'kv_cache_memory_bytes': 67108864, 'num_gpu_blocks_override': 129,"
    " 'max_num_seqs': 32, 'watermark': 0.05}"
)


def told(text: str) -> dict[str, float]:
    return {limit.value: value for limit, value in values_of_dict(text).items()}


def test_the_dict_of_a_real_log_gives_its_limits() -> None:
    assert told(REAL) == {
        "max_model_len": 2048,
        "kv_cache_memory_bytes": 67108864,
        "max_num_seqs": 32,
        "watermark": 0.05,
    }


@pytest.mark.parametrize("length", range(len(REAL)))
def test_a_cut_dict_tells_nothing(length: int) -> None:
    """Whoever reads that a setting is not there takes it for its default."""
    assert told(REAL[:length]) == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("{}", {}),
        ("not a dict", {}),
        ("{'hf_overrides': {'max_num_seqs': 9}, 'max_num_seqs': 3}", {"max_num_seqs": 3}),
        ("{'a': [{'max_num_seqs': 9}], 'b': (1, 'max_num_seqs', 9)}", {}),
        ("{'a': Config(max_num_seqs=9, b={'max_num_seqs': 9})}", {}),
        ("{'api_key': [\"max_num_seqs': 9\"]}", {}),
        (
            r"{'api_key': '\', \'max_num_seqs\': 9, \'x\': \'', 'max_num_seqs': 3}",
            {"max_num_seqs": 3},
        ),
        ('{"max_num_seqs": 3}', {"max_num_seqs": 3}),
        ("{'max_num_seqs': '3'}", {"max_num_seqs": 3}),
        ("{'max_num_seqs': 3} {'max_num_seqs': 4}", {"max_num_seqs": 3}),
        ("{'max_num_seqs': 3, 'model': 'cut", {}),
        ("{'max_num_seqs': 3, 'model': 'whole',", {}),
        ("{'max_num_seqs': -3}", {}),
        ("{'max_num_seqs': 1" + "0" * 30 + "}", {}),
        ("{'max_num_seqs': __import__('os')}", {}),
        ("{'max_num_seqs': None, 'gpu_memory_utilization': nan}", {}),
        (
            "{'kv_cache_dtype': 'fp8_e5m2', 'scheduling_policy': 'priority'}",
            {"kv_cache_low_precision": 1, "priority_scheduling": 1},
        ),
        (
            "{'enable_sleep_mode': True, 'cpu_offload_gb': 4.0, 'kv_offloading_size': 0.5}",
            {"sleep_mode": 1, "cpu_offload_bytes": 4 * GIB, "kv_offloading_bytes": GIB / 2},
        ),
        ("{'kv_transfer_config': <object at 0x7f>, 'max_num_seqs': 3}", {"max_num_seqs": 3}),
        ("{'model_tag': \"it's\", 'max_num_seqs': 3}", {"max_num_seqs": 3}),
        ("{'x': it's, 'max_num_seqs': 3}", {}),
    ],
)
def test_only_the_dicts_own_items_count(text: str, found: dict[str, float]) -> None:
    assert told(text) == found


def test_a_namespace_and_an_engines_config_are_read() -> None:
    namespace = (
        "subparser='serve', model_tag='ibm/granite', host=None, port=8000, api_key='max_num_seqs=9,',"
        " max_model_len=None, tensor_parallel_size=2, gpu_memory_utilization=0.9, cpu_offload_gb=0,"
        " lora_modules=[LoRA(max_num_seqs=7)], max_num_seqs=256, dispatch_function=<function f at 0x7>)"
    )
    assert {
        limit.value: value for limit, value in values_of_keywords(namespace, ARGUMENTS).items()
    } == {
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.9,
        "cpu_offload_bytes": 0,
        "max_num_seqs": 256,
    }
    config = (
        "model='/m, max_seq_len=9', speculative_config=None, dtype=torch.bfloat16, max_seq_len=2048,"
        " tensor_parallel_size=1, data_parallel_size=1, quantization=None, kv_cache_dtype=fp8,"
        " compilation_config={'max_seq_len': 7}"
    )
    assert {
        limit.value: value for limit, value in values_of_keywords(config, ENGINE_FIELDS).items()
    } == {
        "max_model_len": 2048,
        "tensor_parallel_size": 1,
        "kv_cache_low_precision": 1,
    }


pieces = st.sampled_from(
    ["'max_num_seqs'", ": ", "32", ", ", "{", "}", "[", "]", "(", ")", "'", '"', "\\", CANARY, "\n"]
)
texts = st.one_of(st.text(max_size=80), st.lists(pieces, max_size=40).map("".join))


@given(texts)
@settings(max_examples=300)
def test_any_text_gives_numbers_only(text: str) -> None:
    for values in (
        values_of_dict("{" + text),
        values_of_keywords(text, ARGUMENTS),
        values_of_dict(repr({"api_key": text, "max_num_seqs": 32})),
    ):
        assert all(type(value) is float for value in values.values())
        assert CANARY not in repr(values)


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=6))
def test_nothing_that_a_dict_quotes_is_believed(quoted: dict[str, str]) -> None:
    around = {name: text for name, text in quoted.items() if name not in ARGUMENTS}
    text = repr({**around, "max_num_seqs": 32, "x": around})
    assert values_of_dict(text) == {Limit.MAX_NUM_SEQS: 32}


def test_a_long_text_is_read_in_one_pass() -> None:
    for text in ("'" * 65536, "'a\\" * 20000, "[" * 65536, '"' + "\\" * 65535, "a=" * 32768):
        assert values_of_dict("{" + text) == {}
        assert values_of_keywords(text, ARGUMENTS) == {}
