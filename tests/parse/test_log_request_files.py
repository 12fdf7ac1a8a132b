"""A client's text may begin a line of a file that handles requests: nothing is believed of it."""

import json

import pytest

from sidecar.parse.log_match import read_line

MEANINGS = [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB.",
    "EngineCore encountered a fatal error.",
    "MemoryError: ",
    "Engine 000: Avg prompt throughput: 1.0 tokens/s, Preemptions: 7",
]
HANDLING = [
    "serving_chat.py",
    "serving.py",
    "serving_completion.py",
    "validation.py",
    "protocol.py",
    "exception.py",
    "api_router.py",
    "chat_utils.py",
    "hermes_tool_parser.py",
    "qwen3_reasoning_parser.py",
]
WORKING = ["core.py", "multiproc_executor.py", "gpu_worker.py", "async_llm_engine.py"]


@pytest.mark.parametrize("file", HANDLING)
def test_a_file_that_handles_requests_is_not_believed(file: str) -> None:
    for meaning in MEANINGS:
        assert read_line(f"(APIServer pid=1) ERROR 11-30 06:00:01 [{file}:195] {meaning}") == ()
        assert read_line(f"INFO 11-30 06:00:01 [openai/{file}:195] {meaning}") == ()
        name = f"vllm.entrypoints.openai.{file.removesuffix('.py')}"
        fields = {"levelname": "ERROR", "name": name, "message": meaning}
        assert read_line(json.dumps(fields)) == ()


@pytest.mark.parametrize("file", WORKING)
def test_a_file_that_uses_the_gpu_is_believed(file: str) -> None:
    (said,) = read_line(f"ERROR 11-30 06:00:01 [{file}:195] {MEANINGS[0]}")
    assert said.signature.id == "torch_out_of_memory"
