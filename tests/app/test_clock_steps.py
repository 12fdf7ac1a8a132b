"""A stepped wall clock: windows go on, none is negative, and none is told twice."""

import asyncio

import pytest

from sidecar.classify.policy import Policy
from sidecar.model.samples import Tick
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Source, Verdict
from sidecar.pipeline import Pipeline
from sidecar.ticker import Ticker
from tests.fakes.clock import FakeClock, settle
from tests.test_ticker import ON_GRID, Quick


@pytest.mark.parametrize("step_s", [-86_400.0, -60.0, -7.0, -0.3, 0.3, 7.0, 60.0, 86_400.0])
async def test_windows_go_on_over_a_step(step_s: float) -> None:
    clock = FakeClock(unix=ON_GRID)
    pipeline = Pipeline(window_s=15.0, policy=Policy(), configured=frozenset({Source.VLLM_HEALTH}))
    closed: list[Judgement] = []
    moments: list[float] = []

    async def consume(tick: Tick) -> None:
        moments.append(tick.at.monotonic)
        closed.extend(pipeline.step(tick).closed)

    stop = asyncio.Event()
    ticker = Ticker(clock=clock, interval_s=5.0, sources=[Quick(clock)], consume=consume, stop=stop)
    task = asyncio.create_task(ticker.run())
    await settle()
    await clock.advance(62)
    before = len(closed)
    clock.step_unix(step_s)
    await clock.advance(120)
    stop.set()
    await task
    windows = [judgement.window for judgement in closed]
    assert moments == sorted(moments)
    assert {window.end - window.start for window in windows} == {15.0}
    assert {window.end % 15 for window in windows} == {0.0}
    assert 7 <= len(closed) - before <= 10 + min(240, max(0, step_s / 15))
    after = [window.end for window in windows[before:]]
    # Set back, the wall clock shows some moments twice: the window that was cut short, too.
    assert len(after) - len(set(after)) <= (step_s < 0)
    assert {judgement.verdict for judgement in closed} == {Verdict.UNKNOWN}
