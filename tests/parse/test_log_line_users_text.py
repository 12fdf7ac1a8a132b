"""What users write is never believed, wherever it is printed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog.signatures import Scope
from sidecar.parse.log_cuts import holds_users_text, is_continued
from sidecar.parse.log_match import read_line
from tests.catalog.test_log_signatures import EXAMPLES

EVERYWHERE = frozenset(Scope)
QUOTED = [line for line, _ in EXAMPLES.values()]
CARRIERS = {
    "V0 request log": "INFO 10-01 18:43:28 logger.py:36] Received request cmpl-1-0: prompt: {!r}, params: SamplingParams(n=1), prompt_token_ids: [1], lora_request: None.",
    "V1 request log": "(APIServer pid=9) INFO 10-01 18:43:28 [logger.py:41] Received request cmpl-1: prompt: {!r}, params: SamplingParams(n=1)",
    "request details": "(APIServer pid=9) DEBUG 10-01 18:43:28 [request_logger.py:55] Request cmpl-1 details: prompt: {!r}, prompt_token_ids: [1]",
    "body": "(APIServer pid=9) DEBUG 10-01 18:43:28 [utils.py:55] Request cmpl-1 JSON body: {{'prompt': {!r}}}",
    "request id": "(APIServer pid=9) INFO 02-13 11:33:33 [async_llm.py:382] Added request cmpl-{}-0-a46e5eed.",
    "output": "(APIServer pid=9) INFO 02-13 11:33:33 [request_logger.py:99] Generated response chatcmpl-1: output: {!r}",
    "access log": '(APIServer pid=9) INFO:     10.0.0.1:1 - "GET /?q={} HTTP/1.1" 404 Not Found',
    "validation": "(APIServer pid=9) ERROR 02-13 11:33:33 [validation.py:151] {}",
    "crash dump": "(EngineCore pid=7) ERROR 11-29 22:32:53 [dump_input.py:79] Dumping scheduler output for model execution: SchedulerOutput(stop=[{!r}])",
    "arguments": "(APIServer pid=9) INFO 11-29 20:51:09 [api_utils.py:286] non-default args: {{'served_model_name': [{!r}]}}",
    "prose": "The user says: {}",
    "repr": "{!r}",
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_no_carrier_is_believed(carrier: str) -> None:
    for quoted in QUOTED:
        line = CARRIERS[carrier].format(quoted)
        log = json.dumps({"log": line + "\n", "stream": "stdout", "time": "t"})
        for text in (line, log):
            said = read_line(text, EVERYWHERE)
            if carrier == "arguments":
                # That the server told of its arguments is true; no number of them is a quotation.
                assert [one.signature.id for one in said] == ["arguments_told"], quoted
                said = tuple(one for one in said if one.numbers)
            assert said == (), quoted


@given(st.text(max_size=60), st.sampled_from(QUOTED), st.sampled_from(sorted(CARRIERS)))
def test_no_text_around_it_makes_a_quotation_believed(text: str, quoted: str, carrier: str) -> None:
    said = read_line(CARRIERS[carrier].format(f"{text!r} {quoted}"), EVERYWHERE)
    assert all(match.signature.cause is None for match in said)


def test_a_prompt_that_the_runtime_cut_in_parts_is_not_believed() -> None:
    part = (
        b"2026-01-01T00:00:00.0000000Z stdout P INFO 10-01 18:43:28 logger.py:36] Received request"
    )
    other = b"2026-01-01T00:00:00.0000000Z stderr F something between"
    rest = b"2026-01-01T00:00:00.0000000Z stdout F torch.OutOfMemoryError: CUDA out of memory."
    assert is_continued([part, other, rest], 2)
    assert not is_continued([other, rest], 1)


def test_a_prompt_that_docker_cut_in_parts_is_not_believed() -> None:
    part = b'{"log":"INFO 10-01 18:43:28 logger.py:36] Received","stream":"stdout","time":"t"}'
    rest = b'{"log":"torch.OutOfMemoryError: CUDA out of memory.\\n","stream":"stdout","time":"t"}'
    assert is_continued([part, rest], 1)
    assert not is_continued([rest, rest], 1)


def test_a_prompt_that_a_terminal_wrapped_is_not_believed() -> None:
    head = b"INFO 10-01 18:43:28 logger.py:36] Received request cmpl-1-0: prompt: 'My job prints"
    whole = head + b" x', params: SamplingParams(n=1), lora_request: None."
    rest = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    assert is_continued([head, b"and then", rest], 2)
    assert not is_continued([whole, rest], 1)


def test_lines_that_may_hold_users_text_are_known_for_recordings() -> None:
    assert holds_users_text(CARRIERS["V0 request log"].format("x").encode())
    assert not holds_users_text(b"INFO 05-12 08:01:39 [loggers.py:271] Engine 000: fine")
