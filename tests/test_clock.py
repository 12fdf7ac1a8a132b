"""The real clock never returns early; the fake one moves only by hand."""

import asyncio
import time

import pytest
import uvloop

from sidecar.clock import Clock
from tests.fakes.clock import FakeClock, settle


async def test_the_clock_never_returns_early() -> None:
    clock = Clock()
    for _ in range(20):
        due = clock.now().monotonic + 0.002
        await clock.until(due)
        assert clock.now().monotonic >= due


async def test_a_moment_in_the_past_is_reached_at_once_but_lets_others_run() -> None:
    ran: list[int] = []
    asyncio.get_running_loop().call_soon(ran.append, 1)
    await Clock().until(0)
    assert ran == [1]


async def test_an_event_is_waited_for_no_longer_than_to_a_moment_and_never_given_up_early() -> None:
    clock, event = Clock(), asyncio.Event()
    for _ in range(20):
        due = clock.now().monotonic + 0.002
        assert not await clock.until_set(event, due)
        assert clock.now().monotonic >= due
    asyncio.get_running_loop().call_later(0.01, event.set)
    assert await clock.until_set(event, clock.now().monotonic + 60)
    assert await clock.until_set(event, 0)


async def test_who_only_gives_way_waits_for_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep, slept = asyncio.sleep, list[float]()

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)
    await Clock().pause(0)
    assert slept == [0.0]


def test_no_timer_fires_before_its_moment_so_that_none_is_set_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def wait() -> int:
        clock, timers = Clock(), list[asyncio.Timeout]()
        enter = asyncio.Timeout.__aenter__

        async def counted(running: asyncio.Timeout) -> asyncio.Timeout:
            timers.append(running)
            return await enter(running)

        monkeypatch.setattr(asyncio.Timeout, "__aenter__", counted)
        for number in range(20):
            # Amid a millisecond, which is what timers of libuv count in.
            due = clock.now().monotonic + 0.0011 + 0.00007 * number
            assert not await clock.until_set(asyncio.Event(), due)
        return len(timers)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(wait()) == 20


async def test_who_waits_for_an_event_can_be_cancelled() -> None:
    waiting = asyncio.ensure_future(Clock().until_set(asyncio.Event(), time.monotonic() + 60))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_the_fake_clock_wakes_sleepers_each_at_its_moment() -> None:
    clock, woken = FakeClock(), list[tuple[str, float]]()

    async def sleep(name: str, seconds: float) -> None:
        await clock.pause(seconds)
        woken.append((name, clock.now().monotonic - 1000))

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("b", 2.0), ("a", 1.0), ("c", 5.0)):
            group.create_task(sleep(name, seconds))
        await settle()
        assert clock.sleeping == 3
        await clock.advance(4)
        assert woken == [("a", 1.0), ("b", 2.0)]
        await clock.advance(1)
    assert woken[-1] == ("c", 5.0)


def test_a_stepped_wall_clock_leaves_the_monotonic_one_alone() -> None:
    clock = FakeClock()
    before = clock.now()
    clock.step_unix(-3600)
    assert clock.now().monotonic == before.monotonic
    assert clock.now().unix == before.unix - 3600
