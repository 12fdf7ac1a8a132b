"""A record that stands amid a line is believed only behind a progress bar at the line's start."""

import json

import pytest

from sidecar.catalog.signatures import Scope
from sidecar.parse.log_match import read_line

EVERYWHERE = frozenset(Scope)
BAR = "Capturing CUDA graph shapes:  60%|██████    | 21/35 [00:10<00:05,  2.40it/s]"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB."
FATAL = "EngineCore encountered a fatal error."
API = "(APIServer pid=12) INFO 11-30 06:00:01 [async_llm.py:429] "
FAILURES = [
    f"ERROR 11-30 06:00:00 [core.py:70] {OOM}",
    f"ERROR 11-30 06:00:00 [core.py:70] {FATAL}",
    f"(EngineCore_DP0 pid=9) ERROR 11-30 06:00:00 [core.py:70] {OOM}",
    f"{BAR}(EngineCore_DP0 pid=9) ERROR 11-30 06:00:00 [core.py:70] {OOM}",
    f"{BAR}(raylet) {OOM}",
    "INFO 11-30 06:00:00 [launcher.py:70] Shutting down FastAPI HTTP server.",
    "WARNING 11-30 06:00:00 [scheduler.py:70] Sequence group 1 is preempted by PreemptionMode.RECOMPUTE mode because",
]
SAYING = {
    "aborted": API + "Request chatcmpl-{} aborted.",
    "failed": API + "Request chatcmpl-{} failed (engine dead).",
    "aborted by name": API + "Aborted request(s) chatcmpl-{}.",
    "added": API + "Added request {}.",
    "adapter": "INFO 11-30 06:00:01 [serving_models.py:160] Removed LoRA adapter: name {}",
    "content": "ERROR 11-30 06:00:01 [serving_chat.py:195] ValueError: Unknown part type: x {}",
    "any logger": "INFO 11-30 06:00:01 [new_file.py:1] of a client: {}",
    "any error": "ERROR 11-30 06:00:01 [new_file.py:1] of a client: {}",
    "forwarded for": 'INFO:     {}:0 - "GET /health HTTP/1.1" 200 OK',
    "bar as an address": 'INFO:     100%| {}:0 - "GET /health HTTP/1.1" 200 OK',
    "basic format": "INFO:vllm.v1.engine.async_llm:Request chatcmpl-{} aborted.",
    "dashed format": "2026-11-30 06:00:01,123 - vllm.engine - INFO - Request chatcmpl-{} aborted.",
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("form", SAYING)
def test_no_name_that_a_client_chose_is_believed(form: str, failure: str) -> None:
    assert read_line(SAYING[form].format(failure), EVERYWHERE) == ()


@pytest.mark.parametrize("failure", FAILURES)
def test_no_name_that_a_client_chose_is_believed_in_a_json_record(failure: str) -> None:
    for text in (f"Request chatcmpl-{failure} aborted.", f'{failure}:0 - "GET / HTTP/1.1" 200'):
        for fields in (
            {"levelname": "INFO", "name": "vllm.v1.engine.async_llm"},
            {"level": "info"},
        ):
            assert read_line(json.dumps({**fields, "message": text}), EVERYWHERE) == ()


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
@pytest.mark.parametrize("failure", FAILURES)
def test_no_line_end_but_a_newline_begins_another_record(failure: str, end: str) -> None:
    line = f"{API}Request chatcmpl-{end}{failure} aborted."
    assert read_line(line, EVERYWHERE) == ()
    assert read_line(json.dumps({"log": line + "\n", "stream": "stdout"}), EVERYWHERE) == ()


@pytest.mark.parametrize("front", ["", "2026-01-01T00:00:00.000000000Z stderr F ", "vllm-1  | "])
@pytest.mark.parametrize(
    "bar",
    [
        BAR,
        f"{BAR}\r{BAR}",
        "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00,  1.13it/s]",
        "Processed prompts:  12%|█▏        | 118/1000 [00:41<04:11,  3.51it/s, est. speed input: 9 toks/s]",
        "  0%|          | 0/11 [00:00<?, ?it/s]",
    ],
)
def test_a_record_behind_a_progress_bar_is_believed(front: str, bar: str) -> None:
    (said,) = read_line(f"{front}{bar}{FAILURES[2]}")
    assert (said.signature.id, said.origin) == ("torch_out_of_memory", "engine")


def test_a_record_that_is_drawn_over_a_progress_bar_is_believed() -> None:
    (said,) = read_line(f"{BAR}\r{BAR}\r{FAILURES[0]}\r")
    assert said.signature.id == "torch_out_of_memory"
