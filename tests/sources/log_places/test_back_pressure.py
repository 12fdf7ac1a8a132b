"""A log that outruns us: memory stays bounded, the lag is told, and all is read in the end."""

import tracemalloc
from pathlib import Path

from sidecar.clock import Clock
from sidecar.model.readings import LogReading
from sidecar.sources.vllm_log import VllmLogSource

LINE = b"INFO 05-12 08:01:39 [loggers.py:271] Engine 000: nothing that matters here at all\n"
LINES = 400_000


async def test_the_lag_falls_to_nothing_and_no_line_is_missing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    source = VllmLogSource(Clock(), [log])
    await source.open()
    log.write_bytes(LINE * LINES)
    lines = 0
    lags: list[int] = []
    tracemalloc.start()
    while not lags or lags[-1]:
        reading = (await source.sample()).reading
        assert isinstance(reading, LogReading)
        assert reading.dropped == {}
        lines += reading.lines
        lags.append(reading.lag_bytes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines == LINES
    assert lags == sorted(lags, reverse=True)
    assert lags[0] > 30_000_000
    assert peak < 16 * 1024 * 1024
    await source.close()
