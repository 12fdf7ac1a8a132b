"""vLLM's log is followed line by line; only what a line means is kept."""

import asyncio
import dataclasses
from collections.abc import Mapping
from pathlib import Path

from sidecar.clock import Clock
from sidecar.model.readings import LogReading
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Fault, Source
from sidecar.parse.recorded_log import read_log_row
from sidecar.sources.vllm_log import INBOX_EVENTS, VllmLogSource
from tests.fakes.clock import FakeClock

OOM = "(EngineCore pid=7) ERROR 10-24 01:26:57 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried sk-secret\n"
READY = "(APIServer pid=1) INFO:     Application startup complete.\n"
KERNEL = "[ 9.1] Memory cgroup out of memory: Killed process 7 (VLLM::EngineCor) total-vm:1kB\n"
PREEMPTED = "WARNING 05-01 10:00:00 [scheduler.py:1768] Sequence group c-0 is preempted by PreemptionMode.RECOMPUTE mode because. total_num_cumulative_preemption=51\n"
REQUEST = "INFO 10-01 18:43:28 [logger.py:36] Received request c-1: prompt: 'x', params: SamplingParams(n=1)\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def reading_of(source: VllmLogSource) -> LogReading:
    got = (await source.sample()).reading
    assert isinstance(got, LogReading)
    return got


async def test_a_line_becomes_its_signature_at_its_arrival(tmp_path: Path) -> None:
    clock, log = FakeClock(), tmp_path / "log"
    append(log, OOM)
    source = VllmLogSource(clock, [log])
    await source.open()
    await clock.advance(3)
    append(log, READY + OOM + PREEMPTED)
    reading = await reading_of(source)
    assert [event.signature for event in reading.events] == [
        "application_startup_complete",
        "torch_out_of_memory",
        "v0_preempted_recompute",
    ]
    event = reading.events[1]
    assert (event.origin, event.at_monotonic) == ("engine", clock.now().monotonic)
    assert reading.events[2].numbers == {"total": 51.0}
    assert (reading.lines, reading.bytes) == (3, len(READY + OOM + PREEMPTED))
    assert (await reading_of(source)).lines == 0
    await source.close()


async def test_nothing_of_the_text_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    source = VllmLogSource(FakeClock(), [log])
    await source.open()
    append(log, OOM)
    assert "secret" not in repr(dataclasses.asdict(await reading_of(source)))
    await source.close()


async def test_a_kernel_line_in_the_log_is_a_quotation(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    source = VllmLogSource(FakeClock(), [log])
    await source.open()
    append(log, KERNEL)
    assert (await reading_of(source)).events == ()
    await source.close()


async def test_text_that_goes_on_from_the_portion_before_is_not_believed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    source = VllmLogSource(FakeClock(), [log])
    await source.open()
    append(log, "2026-01-01T00:00:00.000000000Z stdout P INFO 10-01 18:43:28 [logger.py:36] Rec\n")
    await source.sample()
    append(
        log, "2026-01-01T00:00:00.000000001Z stdout F torch.OutOfMemoryError: CUDA out of memory.\n"
    )
    assert (await reading_of(source)).events == ()
    await source.close()


async def test_several_files_are_one_log(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.touch()
    second.touch()
    source = VllmLogSource(FakeClock(), [first, second])
    await source.open()
    append(first, READY)
    append(second, OOM)
    assert len((await reading_of(source)).events) == 2
    await source.close()


async def test_a_missing_file_is_a_fault_until_it_is_there(tmp_path: Path) -> None:
    log = tmp_path / "log"
    source = VllmLogSource(FakeClock(), [log])
    await source.open()
    sample = await source.sample()
    assert (sample.source, sample.fault) == (Source.VLLM_LOG, Fault.ABSENT)
    append(log, READY)
    assert len((await reading_of(source)).events) == 1
    await source.close()


async def test_a_storm_of_lines_is_bounded_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    source = VllmLogSource(FakeClock(), [log])
    await source.open()
    storm = 2 * INBOX_EVENTS
    append(log, READY * storm)
    reading = await reading_of(source)
    told = [len(reading.events)]
    while sum(told) < storm:
        assert 0 < told[-1] <= INBOX_EVENTS
        assert not reading.dropped
        reading = await reading_of(source)
        told.append(len(reading.events))
    assert sum(told) == storm
    assert reading.lag_bytes == 0
    await source.close()


async def test_a_failure_wakes_and_a_preemption_does_not(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    source = VllmLogSource(Clock(), [log])
    await source.open()
    waiting = asyncio.ensure_future(source.wait())
    append(log, READY + PREEMPTED)
    done, _ = await asyncio.wait({waiting}, timeout=0.3)
    assert not done
    append(log, OOM)
    async with asyncio.timeout(10):
        await waiting
    assert len((await reading_of(source)).events) == 3
    await source.close()


async def test_a_recording_gets_vllms_own_lines_and_of_others_what_was_read(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    log.touch()
    rows: list[Mapping[str, object]] = []
    source = VllmLogSource(FakeClock(), [log], tap=lambda _at, row: rows.append(row))
    await source.open()
    stats = "(APIServer pid=7) INFO 05-12 08:01:39 [loggers.py:271] Engine 000: Running: 1 reqs"
    append(log, f"{stats}\n{REQUEST}{OOM}")
    reading = await reading_of(source)
    assert rows[0] == {"line": stats}
    assert [set(row) for row in rows[1:]] == [{"read"}]
    read = [event for row in rows for event in read_log_row(row, Instant(0.0, 0.0))]
    assert [(one.signature, one.origin, one.numbers) for one in read] == [
        (one.signature, one.origin, one.numbers) for one in reading.events
    ]
    assert len(read) == 1
    assert reading.dropped == {"users_text": 2}
    await source.close()


async def test_a_place_that_is_missing_hides_something_whatever_the_others_tell(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    log.touch()
    source = VllmLogSource(FakeClock(), [log, tmp_path / "missing"])
    await source.open()
    append(log, OOM)
    reading = await reading_of(source)
    assert reading.events
    assert reading.hidden is Fault.ABSENT
    await source.close()
