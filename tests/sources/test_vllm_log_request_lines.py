"""A client's line hides nothing below it in a log that is followed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sidecar.model.readings import LogReading
from sidecar.sources.vllm_log import VllmLogSource
from tests.fakes.clock import FakeClock

HEAD = "INFO 11-30 06:00:01 [logger.py:43] Received request "
TAIL = ", params: SamplingParams(n=1, stop=[]), prompt_token_ids: None, lora_request: None."
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
STAMP = "2026-01-01T00:00:00.000000000Z"


async def told(folder: Path, lines: Sequence[str]) -> list[str]:
    log = folder / "log"
    log.touch()
    source = VllmLogSource(FakeClock(), [log])
    await source.open()
    log.write_text("".join(line + "\n" for line in lines))
    reading = (await source.sample()).reading
    await source.close()
    assert isinstance(reading, LogReading)
    return [event.signature for event in reading.events]


@pytest.mark.parametrize("name", ["x", "a: prompt: '", "a'", 'a: prompt: "x', "a: params: ("])
@pytest.mark.parametrize("prompt", ["hi", "it's", 'a"b'])
async def test_a_requests_name_hides_no_line_below(tmp_path: Path, name: str, prompt: str) -> None:
    for tail in (TAIL, ", params: SamplingParams(n=1, stop=['('])"):
        lines = [f"{HEAD}{name}: prompt: {prompt!r}{tail}", OOM]
        assert await told(tmp_path, lines) == ["torch_out_of_memory"]


@pytest.mark.parametrize("length", [5_000, 49_000, 50_000, 60_000, 70_000, 200_000])
async def test_a_long_request_hides_no_line_below(tmp_path: Path, length: int) -> None:
    lines = [f"{HEAD}x: prompt: '{'x' * length}'{TAIL}", OOM]
    assert await told(tmp_path, lines) == ["torch_out_of_memory"]


@pytest.mark.parametrize("name", ["((", "'", "x: '"])
async def test_an_aborted_request_hides_no_line_below(tmp_path: Path, name: str) -> None:
    lines = [f"INFO 11-30 06:00:01 [async_llm.py:429] Request {name} aborted.", OOM]
    assert await told(tmp_path, lines) == ["torch_out_of_memory"]


async def test_a_request_that_just_stops_may_go_on_below(tmp_path: Path) -> None:
    assert await told(tmp_path, [f"{HEAD}x: prompt: 'my job prints", OOM]) == []


async def test_a_request_that_a_runtime_cut_goes_on_below(tmp_path: Path) -> None:
    lines = [f"{STAMP} stdout P {HEAD}x: prompt: 'all is well.", f"{STAMP} stdout F {OOM}'{TAIL}"]
    assert await told(tmp_path, lines) == []
