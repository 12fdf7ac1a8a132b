"""What was written before we came is told apart, once, whole lines only, and of bounded size."""

from pathlib import Path

from sidecar.clock import Clock
from sidecar.model.readings import LogReading
from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.base import LOOKBACK_BYTES
from sidecar.sources.log_places.container_files import Layout, finder
from sidecar.sources.log_places.files import FilesPlace
from sidecar.sources.vllm_log import VllmLogSource

OOM = "(EngineCore pid=7) ERROR 10-24 01:26:57 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried\n"
BARE_OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried\n"


async def opened(log: Path) -> FilesPlace:
    place = FilesPlace(Clock(), "log", finder(str(log), Layout.PLAIN), limit_s=10)
    await place.open()
    return place


async def test_the_last_whole_lines_are_told_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\ntwo\nhalf")
    place = await opened(log)
    assert place.lookback() == b"one\ntwo\n"
    assert place.lookback() is None
    await place.close()


async def test_a_long_log_is_looked_back_on_for_a_bounded_part(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"123456789\n" * 100_000)
    place = await opened(log)
    text = place.lookback()
    assert text is not None
    assert LOOKBACK_BYTES - 10 <= len(text) <= LOOKBACK_BYTES
    assert text == b"123456789\n" * (len(text) // 10)
    await place.close()


async def test_a_log_that_is_empty_or_appears_later_has_no_past(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("empty", "late"):
        place = await opened(tmp_path / name)
        (tmp_path / name).write_text("new\n")
        assert not isinstance(await place.read(), Fault)
        assert place.lookback() is None
        await place.close()


async def test_the_source_tells_the_past_apart_from_what_happens(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(BARE_OOM + OOM)
    source = VllmLogSource(Clock(), [log, tmp_path / "none"])
    await source.open()
    reading = (await source.sample()).reading
    assert isinstance(reading, LogReading)
    assert [event.signature for event in reading.past] == ["torch_out_of_memory"]
    assert reading.past[0].stamp is not None
    assert (reading.events, reading.lines) == ((), 0)
    assert (await source.sample()).fault is Fault.ABSENT
    await source.close()
