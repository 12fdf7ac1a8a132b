"""A log that never rests is looked at less often; any other one as soon as it says something."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.sources.log_places.channel import Block, Channel
from sidecar.sources.log_places.container_files import Layout, finder
from sidecar.sources.log_places.files import FilesPlace
from sidecar.sources.log_places.pace import BURST_LOOKS, QUICK_S, STEADY_S, Pace
from sidecar.sources.log_places.streams import StreamPlace
from tests.fakes.clock import FakeClock


def looked(pace: Pace, now: float, looks: int) -> float:
    """The moment after so many looks, each as soon as it may be."""
    for _ in range(looks):
        pace.look(now)
        now += pace.gap_s
    return now


def test_what_comes_now_and_then_is_looked_at_soon() -> None:
    pace = Pace()
    for number in range(1000):
        pace.look(number * 1.5 * STEADY_S)
        assert pace.gap_s == QUICK_S


def test_a_failure_that_tells_itself_in_many_lines_is_followed_quickly() -> None:
    pace = Pace()
    assert looked(pace, 100.0, BURST_LOOKS) - 100.0 <= BURST_LOOKS * QUICK_S + STEADY_S


def test_a_log_that_never_rests_is_looked_at_steadily() -> None:
    pace = Pace()
    begun = looked(pace, 100.0, 10 * BURST_LOOKS)
    assert looked(pace, begun, 100) - begun == pytest.approx(100 * STEADY_S)


@pytest.mark.parametrize("rest_s", [BURST_LOOKS * STEADY_S, 1e9])
def test_after_a_rest_it_is_quick_again_and_no_quicker_than_at_first(rest_s: float) -> None:
    first, again = Pace(), Pace()
    now = looked(again, 100.0, 10 * BURST_LOOKS) + rest_s
    assert looked(first, now, 40) == looked(again, now, 40)


def test_a_clock_that_stands_still_earns_nothing() -> None:
    pace = Pace()
    for _ in range(1000):
        pace.look(100.0)
    assert pace.gap_s == STEADY_S


LINES = 300
"""Two for each quick look."""


class Lines:
    """A stream that the test writes to."""

    def __init__(self) -> None:
        self.channel: Channel | None = None

    def run(self, channel: Channel) -> None:
        self.channel = channel
        channel.opened()

    def interrupt(self) -> None:
        return


Write = Callable[[], None]


def a_file(clock: FakeClock, log: Path) -> tuple[FilesPlace, Write]:
    log.touch()

    def write() -> None:
        with log.open("a") as file:
            file.write("line\n")

    return FilesPlace(clock, "log", finder(str(log), Layout.PLAIN), limit_s=10), write


def a_stream(clock: FakeClock, _log: Path) -> tuple[StreamPlace, Write]:
    feed = Lines()

    def write() -> None:
        assert feed.channel is not None
        feed.channel.put(Block(b"line\n"))

    return StreamPlace(clock, "log", feed), write


@pytest.mark.parametrize("kind", [a_file, a_stream])
async def test_every_line_of_a_busy_log_is_read_in_few_looks(
    tmp_path: Path, kind: Callable[[FakeClock, Path], tuple[FilesPlace | StreamPlace, Write]]
) -> None:
    clock = FakeClock()
    place, write = kind(clock, tmp_path / "log")
    got: list[str] = []

    async def look() -> None:
        read = await place.read()
        assert isinstance(read, list)
        got.append("".join(portion.data.decode() for portion in read))

    async def follow() -> None:
        while True:
            await place.wait()
            await look()

    await place.open()
    await place.read()
    following = asyncio.create_task(follow())
    for _ in range(LINES):
        write()
        # Time for the kernel and for the thread that reads.
        await asyncio.sleep(0.003)
        await clock.advance(QUICK_S / 2)
    following.cancel()
    looks = len(got)
    await look()
    await place.close()
    assert "".join(got) == LINES * "line\n"
    assert BURST_LOOKS <= looks <= LINES * QUICK_S / 2 / STEADY_S + BURST_LOOKS
