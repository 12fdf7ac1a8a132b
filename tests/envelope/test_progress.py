"""How a run is told: a bar on a terminal, plain lines elsewhere, and nothing where nobody can be told."""

import io
from pathlib import Path

from sidecar.commands.envelope_progress import CLEAR, Progress, say_run
from sidecar.envelope.plan import PlannedStage
from sidecar.envelope_folder import Place, Repeat
from sidecar.model.envelope import Disagreement, Identity, ServerView, StageRun
from tests.fakes.clock import FakeClock

VIEW = ServerView(seconds=12.34, completed=32.0, aborted=1.0, preemptions=9.0, cache_peak=0.977)
PLACE = Place(PlannedStage("c8", 8.0, ("x",)), 2, Path("/nowhere"))
RUN = StageRun(2, VIEW, exit_code=0)


async def told(*, is_terminal: bool) -> str:
    stream, clock = io.StringIO(), FakeClock()
    progress = Progress(stream, clock, is_terminal=is_terminal)
    progress.begin(PLACE, 3, 4)
    progress.load()
    await clock.advance(7.0)
    progress.draw(", last window none")
    progress.end(Repeat(PLACE, RUN, Identity(), 0.0), kept=False)
    progress.close()
    return stream.getvalue()


async def test_a_file_gets_plain_lines() -> None:
    assert await told(is_terminal=False) == (
        "3 of 4: c8 repeat 2 waits until the server is quiet\n"
        "3 of 4: c8 repeat 2 load runs\n"
        "c8 repeat 2: 32 requests completed in 12.3 s; 1 did not; 9 preemptions; cache up to 98%\n"
    )


async def test_a_terminal_gets_a_bar_that_leaves_no_trace() -> None:
    text = await told(is_terminal=True)
    assert f"{CLEAR}[==========          ] 3/4 c8 repeat 2 load runs, 7 s, last window none" in text
    # What stays: each bar is cleared by what follows it.
    stays = [part for part in text.split(CLEAR) if part.endswith("\n")]
    assert stays == [
        "c8 repeat 2: 32 requests completed in 12.3 s; 1 did not; 9 preemptions; cache up to 98%\n"
    ]
    assert text.endswith(CLEAR)


async def test_a_bar_is_never_broken_into_two_lines() -> None:
    stream = io.StringIO()
    progress = Progress(stream, FakeClock(), is_terminal=True, columns=lambda: 40)
    progress.begin(PLACE, 3, 4)
    assert stream.getvalue().removeprefix(CLEAR) == "[==========          ] 3/4 c8 repeat 2 "


class Closed(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError


async def test_nobody_to_be_told_is_no_reason_to_stop() -> None:
    progress = Progress(Closed(), FakeClock(), is_terminal=False)
    progress.begin(PLACE, 1, 1)
    progress.end(Repeat(PLACE, RUN, Identity(), 0.0), kept=True)


def test_what_was_wrong_with_a_repeat_is_told_with_it() -> None:
    run = StageRun(
        1,
        ServerView(seconds=0.0),
        disagreements=(Disagreement("e2e_mean", 1.0, 2.5),),
        exit_code=3,
        client_fault="no result was written",
    )
    assert say_run(run) == (
        "uncounted requests completed in 0.0 s; uncounted preemptions; the load's command ended "
        "with 3; no result was written; client and server differ in e2e_mean (2.5 and 1)"
    )
