"""A later run goes on where the log was left: no kill is told twice, and none is lost."""

import asyncio
import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.clock import Clock
from sidecar.model.readings import KernelReading
from sidecar.model.samples import Instant
from sidecar.sources.kernel_log import KernelLogSource
from sidecar.sources.kernel_places import Kmsg, Mark, mark_of, position_of, read_boot
from tests.fakes.scaled_clock import ScaledClock

BOOT = "9ba0124a-7311-4bd8-a51a-c26bf0eae958"
NOISE = "usb 1-1: new device"
Told = tuple[list[int | None], Mapping[str, object]]


def summary(pid: int) -> str:
    return (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
        f"oom_memcg=/vllm,task_memcg=/vllm,task=VLLM::EngineCor,pid={pid},uid=0"
    )


async def look(source: KernelLogSource) -> KernelReading:
    reading = (await source.sample()).reading
    assert isinstance(reading, KernelReading)
    return reading


async def run(path: Path, position: Mapping[str, object]) -> KernelReading:
    """One life of the source: opened at a position, looked at once, closed."""
    source = KernelLogSource(Clock(), path=path, resume=position)
    await source.open()
    reading = await look(source)
    await source.close()
    return reading


def pids(reading: KernelReading) -> list[int | None]:
    return [kill.pid for kill in reading.kills]


def place(reading: KernelReading) -> dict[str, object]:
    """The position without the victims whose verdicts it waits for."""
    return {name: value for name, value in reading.position.items() if name != "told"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kern.log"
    path.write_text(f"{summary(1)}\n")
    return path


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def rotate(path: Path, number: int = 1) -> None:
    path.rename(path.with_suffix(f".log.{number}"))
    path.touch()


# A plain file


async def test_what_was_logged_while_nobody_looked_is_told_once(log: Path) -> None:
    left = await run(log, {})
    assert pids(left) == []
    append(log, f"{summary(2)}\n{NOISE}\n{summary(3)}\n")
    found = await run(log, left.position)
    assert pids(found) == [2, 3]
    assert pids(await run(log, found.position)) == []


async def test_half_a_line_is_read_whole_by_the_next_run(log: Path) -> None:
    append(log, summary(2)[:40])
    half = await run(log, (await run(log, {})).position)
    append(log, summary(2)[40:] + "\n")
    assert pids(half) == []


async def test_a_half_line_behind_the_position_is_told_once_whole(log: Path) -> None:
    left = await run(log, {})
    append(log, summary(2)[:40])
    half = await run(log, left.position)
    append(log, summary(2)[40:] + "\n")
    assert pids(half) == []
    assert pids(await run(log, half.position)) == [2]


async def test_a_log_that_was_rotated_meanwhile_is_read_to_its_end_and_then_the_new_one(
    log: Path,
) -> None:
    left = await run(log, {})
    append(log, f"{summary(2)}\n")
    rotate(log)
    append(log, f"{summary(3)}\n")
    found = await run(log, left.position)
    assert pids(found) == [2, 3]
    assert pids(await run(log, found.position)) == []


async def test_a_new_file_is_read_from_its_beginning_and_a_shorter_one_too(log: Path) -> None:
    left = await run(log, {})
    write_anew(log, f"{summary(4)}\n")
    found = await run(log, left.position)
    assert pids(found) == [4]
    os.truncate(log, 0)
    append(log, "a\n")
    shorter = await run(log, found.position)
    append(log, f"{summary(5)}\n")
    assert pids(await run(log, shorter.position)) == [5]


def write_anew(path: Path, text: str) -> None:
    """Another file in its place, with another inode."""
    path.with_suffix(".other").write_text(text)
    path.with_suffix(".other").rename(path)


@pytest.mark.parametrize(
    "position",
    [
        {"boot": 1, "sequence": 2},
        {"boot": BOOT},
        {"inode": "7", "device": 1, "offset": 0},
        {"inode": -7, "device": 1, "offset": 0},
        {"inode": 7, "device": True, "offset": 0},
        {"inode": 7, "device": 1, "offset": 1.5},
        {"inode": 7, "device": 1, "offset": 1 << 80},
        {"offset": [[]]},
    ],
)
async def test_what_is_no_position_is_not_followed(
    log: Path, position: Mapping[str, object]
) -> None:
    assert mark_of(position, BOOT) == ()
    assert pids(await run(log, position)) == []


@settings(max_examples=100, deadline=None)
@given(
    deeds=st.lists(
        st.sampled_from(("kill", "kill", "cut", "noise", "half", "look", "restart", "rotate")),
        max_size=25,
    )
)
def test_each_kill_is_told_once_whatever_comes_between(deeds: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kern.log"
        path.touch()
        assert asyncio.run(live(path, deeds)) == []


async def live(path: Path, deeds: list[str]) -> list[int]:
    """The pids that were not told exactly once, after these deeds."""
    source = KernelLogSource(Clock(), path=path)
    kept = await look(source)
    written: list[int] = []
    told: list[int | None] = []
    number = 0
    for deed in [*deeds, "end", "look", "restart", "look"]:
        match deed:
            case "kill" | "cut":
                written.append(len(written) + 10)
                text = summary(written[-1])
                verdict = f"Memory cgroup out of memory: Killed process {written[-1]} (a) x"
                append(path, f"{text if deed == 'kill' else text[:50]}\n{verdict}\n")
            case "noise":
                append(path, f"{NOISE}\n")
            case "half" | "end":
                append(path, "half" if deed == "half" else "\n")
            case "look":
                kept = await look(source)
                told += pids(kept)
            case "restart":
                # What was read since the last look was shown to nobody: it is read again.
                await source.close()
                source = KernelLogSource(Clock(), path=path, resume=kept.position)
                await source.open()
            case "rotate":
                append(path, "\n")
                kept = await look(source)
                told += pids(kept)
                number += 1
                rotate(path, number)
            case _:
                raise AssertionError(deed)
    await source.close()
    return [pid for pid in written if told.count(pid) != 1]


# Our restart amid a report


def verdict(pid: int) -> str:
    return f"Memory cgroup out of memory: Killed process {pid} (VLLM::EngineCor) total-vm:1kB"


@pytest.mark.parametrize("stamp", ["", "[ 100.000000] ", "Nov 30 09:00:00 gpu-7 kernel: "])
@pytest.mark.parametrize("lines", [(summary(2), verdict(2)), (verdict(2), summary(2))])
async def test_a_restart_between_the_lines_of_a_report_tells_it_once(
    log: Path, lines: tuple[str, str], stamp: str
) -> None:
    left = await run(log, {})
    append(log, f"{stamp}{lines[0]}\n")
    first = await run(log, left.position)
    append(log, f"{stamp}{lines[1]}\n{stamp}{summary(3)}\n")
    second = await run(log, json.loads(json.dumps(dict(first.position))))
    assert (pids(first), pids(second)) == ([2], [3])
    append(log, f"{stamp}{verdict(3)}\n")
    assert pids(await run(log, second.position)) == []


async def test_a_verdict_read_long_after_its_summary_was_told_is_the_same_kill(log: Path) -> None:
    """Where lines bear no time of their own, they are as old as their reading."""
    clock = ScaledClock(1)
    clock.now = lambda: Instant(1_000.0, 1_000.0)  # type: ignore[method-assign]
    source = KernelLogSource(clock, path=log)
    await source.open()
    append(log, f"{summary(2)}\n")
    first = await look(source)
    await source.close()
    assert pids(first) == [2]
    append(log, f"{verdict(2)}\n")
    assert pids(await run(log, first.position)) == []


async def test_a_kill_of_the_same_pid_much_later_is_another_after_a_restart_too(log: Path) -> None:
    left = await run(log, {})
    append(log, f"[ 100.000000] {summary(2)}\n")
    first = await run(log, left.position)
    append(log, f"[ 9000.000000] {verdict(2)}\n")
    assert pids(await run(log, first.position)) == [2]


async def test_only_the_last_victims_stand_in_a_position(log: Path) -> None:
    left = await run(log, {})
    append(log, "".join(f"{summary(pid)}\n" for pid in range(2, 300)))
    found = await run(log, left.position)
    told = found.position["told"]
    assert isinstance(told, list)
    assert [pid for pid, _, _ in told] == list(range(284, 300))


@pytest.mark.parametrize(
    "told",
    [
        None, 7, "2", {}, [2], [[2]], [[2, None]], [["2", None, False]], [[True, None, False]],
        [[-2, None, False]], [[2, "x", False]], [[2, -1, False]], [[2, 1e400, False]],
        [[2, None, None]], [[2, None, False, 1]], [[1 << 70, None, False]], [[0, 1 << 70, False]],
    ],
)  # fmt: skip
async def test_told_victims_that_do_not_read_as_such_are_none(log: Path, told: object) -> None:
    left = await run(log, {})
    append(log, f"{verdict(2)}\n")
    assert pids(await run(log, {**left.position, "told": told})) == [2]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_report_cut_anywhere_and_a_restart_anywhere_tell_it_once(data: st.DataObject) -> None:
    text = f"[  100.000000] {summary(77)}\n[  100.000090] {verdict(77)}\n"
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=4)))
    restarts = data.draw(st.lists(st.booleans(), min_size=5, max_size=5))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kern.log"
        path.write_text(f"{NOISE}\n")
        assert asyncio.run(written_in_pieces(path, text, [*cuts, len(text)], restarts)) == [77]


async def written_in_pieces(
    path: Path, text: str, cuts: list[int], restarts: list[bool]
) -> list[int | None]:
    """What is told of a text that is written up to each cut, with restarts after some of them."""
    source = KernelLogSource(Clock(), path=path)
    kept = await look(source)
    told: list[int | None] = []
    for begin, cut, is_restarted in zip([0, *cuts], cuts, restarts, strict=False):
        append(path, text[begin:cut])
        kept = await look(source)
        told += pids(kept)
        if is_restarted:
            await source.close()
            source = KernelLogSource(Clock(), path=path, resume=kept.position)
            await source.open()
    told += pids(await look(source))
    await source.close()
    return told


# The kernel's ring


class Ring:
    """The kernel's records, of which only the last ``room`` are kept."""

    def __init__(self, room: int = 100) -> None:
        self.room = room
        self.records: list[tuple[int, str]] = []
        self.next = 0

    def log(self, text: str) -> None:
        self.records = [*self.records, (self.next, text)][-self.room :]
        self.next += 1

    def reader(self) -> Iterator[bytes | None]:
        """One reader, from the oldest record on; None: nothing more at present."""
        at = self.records[0][0] if self.records else self.next
        while True:
            if self.records and at < self.records[0][0]:
                at = self.records[0][0]
                yield b"overtaken"
                continue
            text = dict(self.records).get(at)
            if text is None:
                yield None
                continue
            yield f"6,{at},{at * 1000},-;{text}\n".encode()
            at += 1

    def open(self, _path: Path, mark: Mark) -> Kmsg:
        reader = self.reader()

        def read(_descriptor: int, _size: int) -> bytes:
            record = next(reader)
            if record is None:
                raise BlockingIOError(errno.EAGAIN, "nothing left")
            if record == b"overtaken":
                raise OSError(errno.EPIPE, "overtaken")
            return record

        descriptor, other = os.pipe()
        os.close(other)
        device = Kmsg(descriptor, read, mark if len(mark) == 1 else ())
        if not device.mark:
            device.skip()
        return device


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Ring:
    made = Ring()
    monkeypatch.setattr("sidecar.sources.kernel_log.open_log", made.open)
    monkeypatch.setattr("sidecar.sources.kernel_log.read_boot", lambda: BOOT)
    return made


KMSG = Path("/dev/kmsg")


async def test_records_behind_the_position_are_told_in_the_same_boot(ring: Ring) -> None:
    ring.log(summary(1))
    left = await run(KMSG, {})
    assert (pids(left), left.position) == ([], {"boot": BOOT, "sequence": 0})
    ring.log(NOISE)
    ring.log(summary(2))
    found = await run(KMSG, left.position)
    assert (pids(found), place(found)) == ([2], {"boot": BOOT, "sequence": 2})
    again = await run(KMSG, found.position)
    assert (pids(again), again.position, again.lost) == ([], found.position, 0)


@pytest.mark.parametrize("sequence", [2, 10**18, (1 << 64) - 1])
async def test_a_place_beyond_the_end_of_the_ring_is_its_end(ring: Ring, sequence: int) -> None:
    ring.log(summary(1))
    ring.log(NOISE)
    source = KernelLogSource(Clock(), path=KMSG, resume={"boot": BOOT, "sequence": sequence})
    await source.open()
    end = await look(source)
    assert (pids(end), end.lost, place(end)) == ([], 0, {"boot": BOOT, "sequence": 1})
    ring.log(summary(2))
    found = await look(source)
    await source.close()
    assert (pids(found), found.lost, place(found)) == ([2], 0, {"boot": BOOT, "sequence": 2})


async def test_a_place_in_a_ring_that_holds_nothing_is_none(ring: Ring) -> None:
    source = KernelLogSource(Clock(), path=KMSG, resume={"boot": BOOT, "sequence": 10**18})
    await source.open()
    assert (await look(source)).position == {}
    ring.log(summary(2))
    assert pids(await look(source)) == [2]
    await source.close()


async def test_another_boot_begins_at_the_end(ring: Ring) -> None:
    ring.log(summary(1))
    assert pids(await run(KMSG, {"boot": BOOT.replace("9", "8"), "sequence": 0})) == []
    ring.log(summary(2))
    assert pids(await run(KMSG, {"boot": BOOT, "sequence": 0})) == [2]


async def test_records_that_the_ring_lost_meanwhile_are_counted(ring: Ring) -> None:
    ring.log(NOISE)
    left = await run(KMSG, {})
    for _ in range(250):
        ring.log(NOISE)
    ring.log(summary(2))
    found = await run(KMSG, left.position)
    assert pids(found) == [2]
    assert found.lost == 251 - ring.room


async def test_an_empty_ring_has_no_place_and_is_read_from_its_first_record(ring: Ring) -> None:
    source = KernelLogSource(Clock(), path=KMSG)
    await source.open()
    assert (await look(source)).position == {}
    ring.log(summary(1))
    first = await look(source)
    assert (pids(first), place(first)) == ([1], {"boot": BOOT, "sequence": 0})
    await source.close()


async def test_the_position_stays_before_a_kill_that_is_not_told_yet(ring: Ring) -> None:
    ring.log(NOISE)
    source = KernelLogSource(Clock(), path=KMSG)
    await source.open()
    ring.log(NOISE)
    ring.log(summary(2)[:50])
    ring.log(NOISE)
    cut = await look(source)
    assert (pids(cut), cut.position) == ([], {"boot": BOOT, "sequence": 1})
    ring.log("Memory cgroup out of memory: Killed process 2 (VLLM::EngineCor) total-vm:1kB")
    whole = await look(source)
    assert (pids(whole), whole.position) == ([2], {"boot": BOOT, "sequence": 4})
    await source.close()
    assert pids(await run(KMSG, cut.position)) == [2]
    assert pids(await run(KMSG, whole.position)) == []


def test_this_boot_has_an_id_and_a_text_that_is_none_is_refused(tmp_path: Path) -> None:
    boot = read_boot()
    assert boot is not None
    assert read_boot(tmp_path / "absent") is None
    (tmp_path / "boot").write_text("x\n")
    assert read_boot(tmp_path / "boot") is None
    assert position_of((7,), None) == {}
    assert mark_of(position_of((7,), boot), boot) == (7,)
