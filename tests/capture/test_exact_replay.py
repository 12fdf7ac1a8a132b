"""What a live run judged is what its recording gives again, byte for byte."""

import asyncio
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from sidecar.commands import demo
from sidecar.commands.replay import run_replay
from sidecar.recorded_run import Load, RecordedRun
from sidecar.recording.folder import TICKS, WINDOWS, Recording
from sidecar.stand_in import StandIn
from tests.fakes.scaled_clock import ScaledClock

FASTER = 20.0
SCENARIOS = sorted(path.name for path in demo.SCENARIOS.iterdir() if path.is_dir())


@pytest.fixture(autouse=True)
def the_stand_in_may_write(no_blocking_call: BlockBuster) -> None:
    """The stand-in writes short lines to files of its own, on the loop, for nobody's harm."""
    no_blocking_call.deactivate()


async def record(scenario: str, work: Path) -> Path:
    """A scenario, played and recorded live to its end."""
    clock, stop, played = ScaledClock(FASTER), asyncio.Event(), asyncio.Event()
    stand_in = StandIn(Recording(demo.SCENARIOS / scenario), work / "played", clock)
    (work / "played").mkdir()
    await stand_in.open()
    try:
        recording = RecordedRun(
            demo.settle(stand_in, "127.0.0.1:0"), work / "out", clock, Load(seconds=3600.0)
        )
        async with asyncio.TaskGroup() as group:
            player = group.create_task(stand_in.play(played, stop.set))
            recorded = await recording.run(stop, lambda _line: None)
            player.cancel()
    finally:
        await stand_in.close()
    assert recorded.ended == "stopped"
    return work / "out"


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_replay_gives_the_windows_of_the_live_run(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = await record(scenario, tmp_path)
    capsys.readouterr()

    assert run_replay(folder, interval_s=None, window_s=None, tolerance=None, output="json") == 0

    printed = capsys.readouterr()
    live = (folder / WINDOWS).read_text()
    assert printed.out == live
    assert printed.err == ""
    assert live.count("\n") >= 3
    assert (folder / TICKS).stat().st_size > 0
