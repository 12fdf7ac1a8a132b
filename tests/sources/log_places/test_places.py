"""Every form of ``--log`` has its place; several places are one log; positions are told by name."""

import os
from collections.abc import Sequence
from pathlib import Path

from sidecar.clock import Clock
from sidecar.model.readings import LogReading
from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.base import LogPlace
from sidecar.sources.log_places.files import FilesPlace
from sidecar.sources.log_places.places import Surroundings, places_of
from sidecar.sources.log_places.position import FilesPosition, from_json
from sidecar.sources.log_places.streams import StreamPlace
from sidecar.sources.vllm_log import VllmLogSource

READY = "(APIServer pid=1) INFO:     Application startup complete.\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def sampled(places: Sequence[LogPlace]) -> VllmLogSource:
    source = VllmLogSource(Clock(), places)
    await source.open()
    return source


def test_each_form_has_its_place_and_one_named_twice_is_read_once() -> None:
    specs = ["/a", "cri:/b", "docker:/c", "journald:vllm", "kubernetes:vllm", "stdin", "/a"]
    places = places_of(specs, Clock())
    assert [place.name for place in places] == specs[:-1]
    kinds = [FilesPlace] * 3 + [StreamPlace] * 3
    assert [type(place) for place in places] == kinds


async def test_a_fault_of_one_place_is_not_one_of_the_source_while_another_speaks(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    log.touch()
    source = await sampled(places_of([str(log), str(tmp_path / "none")], Clock()))
    append(log, READY)
    reading = (await source.sample()).reading
    assert isinstance(reading, LogReading)
    assert len(reading.events) == 1
    assert (await source.sample()).fault is Fault.ABSENT
    await source.close()


async def test_a_later_run_goes_on_where_the_positions_say(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, "before, and long enough to be known again by its begin .....\n")
    spec = str(log)
    source = await sampled(places_of([spec], Clock()))
    told = (await source.sample()).reading
    assert isinstance(told, LogReading)
    positions = {name: from_json(at) for name, at in told.positions.items()}
    place = positions[spec]
    assert isinstance(place, FilesPosition)
    await source.close()
    append(log, READY)
    later = await sampled(places_of([spec], Clock(), positions={spec: place}))
    reading = (await later.sample()).reading
    assert isinstance(reading, LogReading)
    assert len(reading.events) == 1
    assert reading.past == ()
    await later.close()


async def test_stdin_and_a_file_are_read_side_by_side(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    reading_end, writing_end = os.pipe()
    around = Surroundings(stdin=reading_end)
    source = await sampled(places_of([str(log), "stdin"], Clock(), surroundings=around))
    append(log, READY)
    os.write(writing_end, READY.encode())
    found = 0
    while found < 2:
        reading = (await source.sample()).reading
        if isinstance(reading, LogReading):
            found += len(reading.events)
    assert found == 2
    await source.close()
    os.close(writing_end)
