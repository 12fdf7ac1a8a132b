"""The files of a Kubernetes container: restarts, the kubelet's rotation, links to them."""

import gzip
from collections.abc import Sequence
from pathlib import Path

from sidecar.clock import Clock
from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.container_files import Layout, finder
from sidecar.sources.log_places.files import FilesPlace
from sidecar.sources.log_places.portion import Portion
from sidecar.sources.log_places.position import Position

HEAD = "2026-01-31T10:00:00.123456789Z stderr F "


def line(text: str) -> str:
    return f"{HEAD}{text} and so on, so that no two files begin alike\n"


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "pods" / "default_vllm-0_4f8e" / "vllm"
    folder.mkdir(parents=True)
    return folder


def append(path: Path, *texts: str) -> None:
    with path.open("a") as file:
        file.write("".join(map(line, texts)))


def follow(path: object, layout: Layout = Layout.CRI, resume: Position | None = None) -> FilesPlace:
    return FilesPlace(Clock(), "cri", finder(str(path), layout), resume=resume, limit_s=10)


async def told(place: FilesPlace, reads: int = 6) -> list[str]:
    """The texts that were told, in order."""
    got: list[Portion] = []
    for _ in range(reads):
        portions: Sequence[Portion] | Fault = await place.read()
        got += [] if isinstance(portions, Fault) else portions
    text = b"".join(portion.data for portion in got).decode()
    return [each.removeprefix(HEAD).split(" and ")[0] for each in text.splitlines()]


async def test_the_next_run_of_the_container_is_read_after_the_end_of_the_last(
    tmp_path: Path,
) -> None:
    folder = folder_of(tmp_path)
    append(folder / "9.log", "before")
    place = follow(folder)
    await place.open()
    append(folder / "9.log", "last words")
    append(folder / "10.log", "first words")
    assert await told(place) == ["last words", "first words"]
    append(folder / "10.log", "more")
    assert await told(place) == ["more"]
    await place.close()


async def test_two_rotations_between_two_looks_lose_nothing(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    live = folder / "0.log"
    append(live, "before")
    place = follow(folder)
    await place.open()
    append(live, "one")
    first = folder / "0.log.20260131-100000"
    live.rename(first)
    append(live, "two")
    live.rename(folder / "0.log.20260131-100100")
    append(live, "three")
    (folder / f"{first.name}.gz").write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    assert await told(place, 12) == ["one", "two", "three"]
    await place.close()


async def test_what_was_packed_while_nobody_read_is_read_from_the_package(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    live = folder / "0.log"
    append(live, "before")
    place = follow(folder)
    await place.open()
    append(live, "one")
    assert await told(place) == ["one"]
    position = place.position()
    await place.close()
    append(live, "two")
    for at, text in (("100000", "three"), ("100100", "four")):
        rotated = folder / f"0.log.20260131-{at}"
        live.rename(rotated)
        (folder / f"{rotated.name}.gz").write_bytes(gzip.compress(rotated.read_bytes()))
        (folder / f"{rotated.name}.tmp").write_text("half packed")
        rotated.unlink()
        append(live, text)
    append(folder / "1.log", "five")
    later = follow(folder, resume=position)
    await later.open()
    assert await told(later, 12) == ["two", "three", "four", "five"]
    assert later.lookback() is None
    await later.close()


async def test_a_pattern_of_links_leads_to_the_folder_and_so_through_restarts(
    tmp_path: Path,
) -> None:
    folder = folder_of(tmp_path)
    append(folder / "0.log", "before")
    links = tmp_path / "containers"
    links.mkdir()
    (links / "vllm-0_default_vllm-aa.log").symlink_to(folder / "0.log")
    place = follow(links / "vllm-0_default_vllm-*.log", Layout.PLAIN)
    await place.open()
    append(folder / "0.log", "one")
    (links / "vllm-0_default_vllm-aa.log").unlink()
    (links / "vllm-0_default_vllm-bb.log").symlink_to(folder / "1.log")
    append(folder / "1.log", "two")
    assert await told(place) == ["one", "two"]
    await place.close()


async def test_a_pod_that_is_made_anew_is_a_stream_of_its_own(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    append(folder / "0.log", "before")
    place = follow(tmp_path / "pods" / "default_vllm-0_*" / "vllm")
    await place.open()
    assert await told(place) == []
    place._follower._found_at = float("-inf")
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    anew = tmp_path / "pods" / "default_vllm-0_77aa" / "vllm"
    anew.mkdir(parents=True)
    append(anew / "0.log", "anew")
    assert await told(place) == ["anew"]
    await place.close()


async def test_a_folder_that_is_not_there_yet_is_absent_and_read_whole_later(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "pods" / "default_vllm-0_4f8e" / "vllm"
    place = follow(folder)
    await place.open()
    assert await place.read() is Fault.ABSENT
    place._follower._found_at = float("-inf")
    folder.mkdir(parents=True)
    append(folder / "0.log", "first")
    assert await told(place) == ["first"]
    await place.close()
