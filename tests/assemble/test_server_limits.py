"""The limits of a window: from every source that tells of them, over restarts of the server."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from sidecar.assemble.server import Server
from sidecar.assemble.window import OpenWindow
from sidecar.model.limits import Known, Limit, Limits, Origin
from sidecar.model.readings import (
    EngineReading,
    HealthReading,
    LogEvent,
    LogReading,
    MetricsReading,
    Process,
    ProcessReading,
    Reading,
)
from sidecar.model.samples import Instant, Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.recording.folder import Recording
from sidecar.recording.gridded_ticks import read_ticks

REAL = Path(__file__).parents[1] / "data/recordings"
USUAL: Mapping[str, tuple[float, str]] = {
    "max_model_len": (2048, "log"),
    "tensor_parallel_size": (1, "log"),
    "pipeline_parallel_size": (1, "log"),
    "kv_cache_low_precision": (0, "log"),
    "kv_capacity_tokens": (4128, "log"),
    "max_num_seqs": (32, "log_arguments"),
    "gpu_memory_utilization": (0.92, "metrics"),
    "kv_cache_memory_bytes": (67108864, "metrics"),
}
KNOWN: Mapping[str, Mapping[str, tuple[float, str]]] = {
    "0.10.2_prompt_injection": {
        **{name: USUAL[name] for name in USUAL if name != "kv_cache_memory_bytes"},
        "kv_capacity_tokens": (4112, "log"),
        "max_num_batched_tokens": (8192, "log"),
        "gpu_memory_utilization": (0.9, "metrics"),
    },
    # What was typed did not become what is in effect.
    "0.26.0_watermark0p05_preempt_thrash": {
        **USUAL,
        "kv_cache_memory_bytes": (1073741824, "metrics"),
        "watermark": (0.05, "log_arguments"),
    },
    # The front end in Rust shows no configuration.
    "0.32.0-rust_healthy": {
        **{name: USUAL[name] for name in USUAL if name != "gpu_memory_utilization"},
        "kv_cache_memory_bytes": (67108864, "log_arguments"),
    },
    "0.8.5_preempt_thrash": {
        "gpu_memory_utilization": (0.9, "metrics"),
        "kv_cache_low_precision": (0, "metrics"),
        "kv_capacity_tokens": (4112, "metrics"),
    },
    "a_healthy": USUAL,
    "c_preempt_thrash": {
        "gpu_memory_utilization": (0.92, "metrics"),
        "kv_cache_low_precision": (0, "metrics"),
        "kv_cache_memory_bytes": (67108864, "metrics"),
        "kv_capacity_tokens": (4128, "metrics"),
        "max_model_len": (2048, "metrics"),
    },
    "h_restart": USUAL,
    "j_dp2": {
        **USUAL,
        "data_parallel_size": (2, "log_arguments"),
        "max_num_batched_tokens": (2048, "log"),
    },
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_recorded_server_has_its_limits(name: str) -> None:
    server, window = Server(frozenset()), OpenWindow(0, 1)
    end = Instant(0, 0)
    for tick in read_ticks(Recording(REAL / name), 1.0):
        end = tick.at
        for sample in tick.samples:
            server.see(sample, window)
    limits = server.freeze(window, end, whole=True).limits
    found = {limit.value: (known.value, known.origin.value) for limit, known in limits.items()}
    assert found == KNOWN[name]
    assert server.limits.changes() == {}
    assert (server.limits.former is not None) == (name == "h_restart")


class Story:
    """A server of which the sources tell, second by second."""

    def __init__(self) -> None:
        self.server, self.window = Server(frozenset()), OpenWindow(0, 1)

    def see(self, second: float, source: Source, reading: Reading | Fault) -> None:
        when = Instant(100.0 + second, 1_700_000_000.0 + second)
        sample = (
            Sample(source=source, at=when, fault=reading)
            if isinstance(reading, Fault)
            else Sample(source=source, at=when, reading=reading)
        )
        self.server.see(sample, self.window)

    def logs(self, second: float, *rows: tuple[str, Mapping[str, float]]) -> None:
        events = tuple(LogEvent(row, 100.0 + second, 0, numbers=told) for row, told in rows)
        self.see(second, Source.VLLM_LOG, LogReading(events=events))

    def answers(self, second: float, *, started: float, tokens: float = 0) -> None:
        engine = EngineReading({"generation_tokens": tokens, "requests_running": 0})
        reading = MetricsReading(
            naming="vllm:",
            found=frozenset(engine.values),
            engines={"0": engine},
            epoch={"process_start_time_seconds": started},
        )
        self.see(second, Source.VLLM_METRICS, reading)

    def lists(self, second: float, pid: int, limits: Limits) -> None:
        processes = (Process(pid, "vllm", born=pid),)
        self.see(second, Source.PROCESS, ProcessReading(processes, root=pid, limits=limits))

    def known(self) -> dict[Limit, float]:
        frozen = self.server.freeze(self.window, Instant(1000, 1_700_001_000.0), whole=True)
        return {limit: known.value for limit, known in frozen.limits.items()}


def typed(value: float) -> Limits:
    return {Limit.MAX_NUM_SEQS: Known(value, Origin.COMMAND_LINE)}


def test_the_server_asked_and_its_command_line_tell_of_limits() -> None:
    story = Story()
    story.lists(0, 10, typed(32))
    told = {Limit.MAX_MODEL_LEN: Known(2048, Origin.MODELS)}
    story.see(1, Source.VLLM_HEALTH, HealthReading(200, limits=told))
    story.see(2, Source.VLLM_HEALTH, HealthReading(200))
    assert story.known() == {Limit.MAX_NUM_SEQS: 32, Limit.MAX_MODEL_LEN: 2048}


def test_another_first_process_has_its_own_command_line() -> None:
    story = Story()
    story.lists(0, 10, typed(32))
    story.answers(1, started=1)
    told = {Limit.MAX_MODEL_LEN: Known(2048, Origin.MODELS)}
    story.see(1.5, Source.VLLM_HEALTH, HealthReading(200, limits=told))
    story.answers(2, started=1)
    story.lists(3, 50, typed(64))
    assert story.known() == {Limit.MAX_NUM_SEQS: 64}
    assert story.server.limits.changes() == {}
    story.answers(4, started=3)
    assert story.known() == {Limit.MAX_NUM_SEQS: 64}
    assert story.server.limits.changes() == {Limit.MAX_NUM_SEQS: (32, 64)}


def test_counters_that_begin_anew_begin_a_life() -> None:
    story = Story()
    story.logs(0, ("arguments_told", {"max_num_seqs": 32}))
    story.answers(1, started=1, tokens=5)
    story.logs(2, ("arguments_told", {"max_num_seqs": 64}))
    assert story.known() == {Limit.MAX_NUM_SEQS: 32}
    story.answers(3, started=2)
    assert story.known() == {Limit.MAX_NUM_SEQS: 64}
    assert story.server.limits.changes() == {Limit.MAX_NUM_SEQS: (32, 64)}


def test_a_server_that_died_and_starts_again_begins_a_life() -> None:
    story = Story()
    story.logs(0, ("arguments_told", {"max_num_seqs": 32, "watermark": 0.1}))
    story.answers(1, started=1)
    for second in (2, 5):
        story.see(second, Source.VLLM_METRICS, Fault.REFUSED)
    story.logs(
        6,
        ("arguments_told", {"max_num_seqs": 64}),
        ("engine_initializing", {"tensor_parallel_size": 2}),
    )
    assert story.known() == {Limit.MAX_NUM_SEQS: 64, Limit.TENSOR_PARALLEL_SIZE: 2}
    story.answers(8, started=7)
    assert story.server.limits.changes() == {Limit.MAX_NUM_SEQS: (32, 64)}
