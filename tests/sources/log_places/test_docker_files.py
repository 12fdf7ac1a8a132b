"""Docker's json-file logs: rotation to .1 and .2, also packed; records that were split."""

import gzip
import json
from pathlib import Path

from sidecar.clock import Clock
from sidecar.model.readings import LogReading
from sidecar.sources.log_places.container_files import Layout, finder
from sidecar.sources.log_places.files import FilesPlace
from sidecar.sources.vllm_log import VllmLogSource

OOM = "(EngineCore pid=7) ERROR 10-24 01:26:57 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried"
REQUEST = "INFO 10-01 18:43:28 [logger.py:36] Received request c-1: prompt: '"


def record(text: str, end: str = "\n") -> str:
    fields = {"log": text + end, "stream": "stderr", "time": "2026-01-31T10:00:00.123456789Z"}
    return json.dumps(fields, separators=(",", ":")) + "\n"


def container(tmp_path: Path) -> Path:
    folder = tmp_path / "containers" / "0a1b"
    folder.mkdir(parents=True)
    (folder / "config.v2.json").write_text("{}")
    log = folder / "0a1b-json.log"
    log.write_text(record("before"))
    return log


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def follow(path: Path, layout: Layout) -> VllmLogSource:
    return VllmLogSource(
        Clock(), [FilesPlace(Clock(), "docker", finder(str(path), layout), limit_s=10)]
    )


async def signatures(source: VllmLogSource, looks: int = 6) -> list[str]:
    found = []
    for _ in range(looks):
        reading = (await source.sample()).reading
        assert isinstance(reading, LogReading)
        found += [event.signature for event in reading.events]
    return found


async def test_rotation_to_numbers_with_packing_loses_nothing(tmp_path: Path) -> None:
    log = container(tmp_path)
    source = follow(log.parent, Layout.DOCKER)
    await source.open()
    append(log, record(OOM))
    rotated = log.with_name(log.name + ".1")
    log.rename(rotated)
    log.with_name(log.name + ".2.gz").write_bytes(gzip.compress(rotated.read_bytes()))
    rotated.unlink()
    rotated.write_text(record(OOM))
    log.write_text(record(OOM))
    assert await signatures(source, 10) == ["torch_out_of_memory"] * 3
    await source.close()


async def test_users_text_in_the_second_part_of_a_split_record_is_not_believed(
    tmp_path: Path,
) -> None:
    log = container(tmp_path)
    source = follow(log, Layout.DOCKER)
    await source.open()
    append(log, record(REQUEST + "x" * (16 * 1024 - len(REQUEST)), end=""))
    assert await signatures(source, 1) == []
    append(log, record("torch.OutOfMemoryError: CUDA out of memory. Tried"))
    append(log, record(OOM))
    assert await signatures(source) == ["torch_out_of_memory"]
    await source.close()
