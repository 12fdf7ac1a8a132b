"""A day of results is kept in a few megabytes; what must be thinned out keeps the worst."""

import gzip
import itertools
import json
import math
import random
from collections.abc import Iterator

import pytest

from sidecar.history import archive as archives
from sidecar.history.archive import BLOCK_WINDOWS, LARGEST_WINDOW, Archive, unpack
from sidecar.history.past import Past
from sidecar.history.row import read_row
from sidecar.model.vocabulary import Verdict
from tests.history.made import START, WINDOW_S, ends_of, make_line, make_result, make_row

DAY_S = 86_400.0


def fill(
    archive: Archive, count: int, *, engines: int = 1, window_s: float = WINDOW_S, first: int = 0
) -> None:
    """Add so many quiet windows."""
    for number in range(first, first + count):
        row = make_row(number, window_s=window_s)
        archive.add(make_line(number, engines=engines, window_s=window_s), row)


def test_the_last_windows_come_back_as_they_were_newest_last() -> None:
    archive = Archive(DAY_S)
    fill(archive, 600)
    assert len(archive.blocks) == 3
    assert list(archive.last(3)) == [make_line(number) for number in (597, 598, 599)]
    assert ends_of(list(archive.last(1000))) == [START + 15 * (n + 1) for n in range(600)]
    assert archive.last(0) == []


@pytest.mark.parametrize("before", [0, 1, 239, 240, 241, 500, 600, 10_000])
def test_windows_before_a_moment(before: int) -> None:
    archive = Archive(DAY_S)
    fill(archive, 600)
    told = ends_of(list(archive.last(100, START + 15 * before)))
    last = min(before - 1, 600)
    assert told == [START + 15 * n for n in range(max(1, last - 99), last + 1)]


def test_a_day_of_one_engine_is_whole_in_a_few_megabytes() -> None:
    archive = Archive(DAY_S)
    lines = [make_line(number) for number in range(50)]
    draw = random.Random(1)
    for number in range(int(DAY_S / WINDOW_S) + 500):
        # Figures that differ in every window, as those of a real server do.
        told = {**json.loads(lines[0]), "noise": [round(draw.random(), 6) for _ in range(20)]}
        told["window"] = make_result(number)["window"]
        archive.add(json.dumps(told), make_row(number))
    assert archive.size < 3_000_000
    assert sum(block.count for block in archive.blocks) >= DAY_S / WINDOW_S
    assert all(not block.thinned for block in archive.blocks)
    # A block is dropped once all of it is too old.
    assert sum(block.count for block in archive.blocks) <= DAY_S / WINDOW_S + BLOCK_WINDOWS


def test_beyond_its_bytes_the_older_windows_are_thinned_and_the_worst_is_kept() -> None:
    archive = Archive(DAY_S, most_bytes=40_000)
    fill(archive, 1000, first=0)
    archive.add(make_line(1000, Verdict.HOST_OOM), make_row(1000, Verdict.HOST_OOM))
    fill(archive, 3000, first=1001)
    assert archive.size <= 40_000
    rows = [read_row(json.loads(line)) for line in archive.last(10_000)]
    assert sum(row.windows for row in rows) > 3500, "most of them are spoken for"
    assert len(rows) < 3500
    (failure,) = [row for row in rows if row.verdict is Verdict.HOST_OOM]
    assert failure.windows > 1
    assert failure.start <= START + 1000 * WINDOW_S < failure.end
    # Spans follow each other without a gap.
    assert all(abs(one.end - two.start) < 1e-6 for one, two in itertools.pairwise(rows))
    # The last hour is whole.
    assert all(row.windows == 1 for row in rows[-240:])


def test_across_a_gap_no_window_speaks_for_another() -> None:
    archive = Archive(DAY_S, most_bytes=10_000)
    for number in range(0, 4000, 2):
        archive.add(make_line(number), make_row(number))
    rows = [read_row(json.loads(line)) for line in archive.last(10_000)]
    assert archive.size <= 10_000
    assert {row.windows for row in rows} == {1}


def test_a_result_beyond_every_measure_is_left_out() -> None:
    archive = Archive(DAY_S)
    archive.add("x" * (LARGEST_WINDOW + 1), make_row(0))
    assert archive.blocks == []


def test_64_engines_stay_within_the_bytes() -> None:
    archive = Archive(DAY_S, most_bytes=400_000)
    fill(archive, 700, engines=64)
    assert archive.size <= 400_000
    assert len(archive.last(1)) == 1


def test_what_is_kept_can_be_read_with_gzip_and_cut_anywhere() -> None:
    archive = Archive(DAY_S)
    fill(archive, 300)
    closed, grows = archive.blocks
    text = gzip.decompress(bytes(closed.packed)).decode()
    assert text.splitlines() == closed.lines()
    whole = grows.lines()
    for cut in range(0, len(grows.packed), 97):
        lines = list(unpack(bytes(grows.packed[:cut])))
        assert lines == whole[: len(lines)]


def test_a_kept_past_goes_on_as_if_nothing_had_happened() -> None:
    before, after = Past(), Past()
    for number in range(300):
        verdict = Verdict.PREEMPTION if number % 50 == 0 else Verdict.NONE
        before.add(make_result(number, verdict), make_line(number, verdict))
    for block in before.archive.blocks:
        after.restore(block.number, bytes(block.packed))
    after.archive.reopen()
    for past in (before, after):
        past.add(make_result(300), make_line(300))
    assert list(after.archive.last(1000)) == list(before.archive.last(1000))
    assert list(after.timeline.newest_first()) == list(before.timeline.newest_first())
    assert [block.number for block in after.archive.blocks] == [0, 1]
    assert after.unreadable == 0


def test_lines_that_are_no_results_are_counted_and_left_out() -> None:
    good = make_line(0)
    packed = gzip.compress(
        "\n".join([good, "nonsense", '{"window": 1}', "[" * 2000, make_line(1), ""]).encode()
    )
    past = Past()
    past.restore(7, packed)
    assert past.unreadable == 3
    assert list(past.archive.last(10)) == [good, make_line(1)]
    assert past.archive.next_number == 8


@pytest.mark.parametrize("packed", [b"", b"nonsense", gzip.compress(b"")])
def test_a_block_that_is_none_is_empty(packed: bytes) -> None:
    past = Past()
    past.restore(0, packed)
    assert past.archive.blocks == []
    past.add(make_result(0), make_line(0))
    assert past.archive.blocks[0].number == 1


def test_a_packed_bomb_is_read_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    assert list(unpack(bomb)) == []
    told = list(unpack(gzip.compress(b"x\n" * 5_000_000), most=1000))
    assert len(told) == 500
    monkeypatch.setattr(archives, "BLOCK_CHARACTERS", 1)
    archive = Archive(DAY_S)
    fill(archive, 3)
    assert [block.count for block in archive.blocks] == [1, 1, 1]


@pytest.mark.parametrize("harm", ["zeros", "a byte"])
def test_of_a_harmed_block_all_is_read_up_to_the_harm(harm: str) -> None:
    archive = Archive(DAY_S)
    fill(archive, 50)
    packed = bytearray(archive.blocks[0].packed)
    if harm == "zeros":
        # What ext4 and XFS can leave where the power went.
        packed += bytes(500)
    else:
        packed[-20] ^= 0x55
    told = list(unpack(bytes(packed)))
    assert told == [make_line(number) for number in range(len(told))]
    assert len(told) >= 47


def test_what_is_no_json_to_others_is_not_told() -> None:
    odd = make_line(1).replace('"partial": false', '"partial": NaN')
    assert "NaN" in odd
    long = json.dumps({**make_result(2), "x": "y" * archives.LARGEST_WINDOW})
    past = Past()
    past.restore(0, gzip.compress("\n".join([make_line(0), odd, long, ""]).encode()))
    assert list(past.archive.last(10)) == [make_line(0)]
    assert past.unreadable == 2
    # What is left of it grows old as any other.
    assert past.archive.blocks[0].packer is None


def test_a_window_beyond_the_calendar_ends_no_run() -> None:
    past = Past()
    past.add({**make_result(0), "window": {"start": 1e17, "end": 1e17}}, make_line(0))
    assert (past.unreadable, len(past.archive.last(10)), len(past.timeline)) == (1, 0, 0)


def test_an_endless_number_stops_no_thinning() -> None:
    odd = make_line(0).replace('"partial": false', '"partial": 1e999')
    past = Past()
    past.restore(0, gzip.compress("\n".join([odd, make_line(1), ""]).encode()))
    assert archives.thin_out(past.archive.blocks[0])
    (line,) = past.archive.last(10)
    assert math.isfinite(json.loads(line)["partial"])


def test_where_the_clock_stepped_back_windows_before_a_moment_are_those_alone() -> None:
    archive = Archive(DAY_S)
    for number in (10, 11, 3, 4):
        archive.add(make_line(number), make_row(number))
    moment = make_row(10).end
    assert list(archive.last(10, moment)) == [make_line(3), make_line(4)]
    assert list(archive.last(10, make_row(4).end)) == [make_line(3)]
    restored = Past()
    restored.restore(0, bytes(archive.blocks[0].packed))
    assert list(restored.archive.last(10, moment)) == [make_line(3), make_line(4)]


def test_windows_are_unpacked_one_block_after_the_other_and_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = Archive(DAY_S)
    fill(archive, 3 * BLOCK_WINDOWS)
    unpacked: list[int] = []

    def count(packed: bytes) -> Iterator[str]:
        unpacked.append(len(packed))
        return unpack(packed)

    monkeypatch.setattr(archives, "unpack", count)
    told = archive.walk(BLOCK_WINDOWS + 10)
    assert unpacked == []
    archive.blocks.clear()
    first = next(told)
    assert len(unpacked) == 1
    lines = [first, *told]
    assert len(unpacked) == 2
    newest = 3 * BLOCK_WINDOWS
    assert lines == [make_line(number) for number in range(newest - BLOCK_WINDOWS - 10, newest)]


def test_many_restarts_do_not_make_many_blocks() -> None:
    kept: list[tuple[int, bytes]] = []
    past = Past()
    for number in range(50):
        past = Past()
        for name, packed in kept:
            past.restore(name, packed)
        past.archive.reopen()
        past.add(make_result(number), make_line(number))
        kept = [(block.number, bytes(block.packed)) for block in past.archive.blocks]
    assert len(kept) == 1
    assert len(past.archive.last(100)) == 50
