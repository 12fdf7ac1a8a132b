"""A call that never returns costs its own source one thread, and nobody anything else."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from sidecar.model.vocabulary import Fault
from sidecar.thread import CallThread, Crew
from tests.fakes.patience import until


async def test_a_call_gives_its_value_or_its_exception() -> None:
    calls = CallThread("test")
    assert await calls.call(lambda: 7, 5) == 7
    with pytest.raises(ZeroDivisionError):
        await calls.call(lambda: 1 // 0, 5)
    calls.close()


async def test_all_calls_are_made_on_one_thread() -> None:
    calls = CallThread("test")
    made = {await calls.call(threading.get_ident, 5) for _ in range(5)}
    assert len(made) == 1
    assert threading.get_ident() not in made
    calls.close()


async def test_a_stuck_call_times_out_then_is_busy_then_recovers() -> None:
    calls, release = CallThread("test"), threading.Event()
    assert await calls.call(lambda: release.wait(20), 0.05) is Fault.TIMEOUT
    assert await calls.call(lambda: 1, 5) is Fault.BUSY
    assert calls.busy
    release.set()
    await until(lambda: not calls.busy)
    assert await calls.call(lambda: 1, 5) == 1
    calls.close()


async def test_the_loop_goes_on_while_a_call_blocks() -> None:
    calls, release = CallThread("test"), threading.Event()
    asyncio.get_running_loop().call_soon(release.set)
    assert await calls.call(lambda: release.wait(20), 20) is True
    calls.close()


def stand_still(calls: CallThread) -> None:
    """Until the call has returned, and handed its answer over."""
    while calls.busy:
        time.sleep(0.001)
    time.sleep(0.05)


async def test_a_caller_that_gives_up_as_the_answer_comes_has_given_up() -> None:
    calls, release = CallThread("test"), threading.Event()
    waiting = asyncio.ensure_future(calls.call(lambda: release.wait(20), 20))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    release.set()
    # The loop stands still, so that the answer and the cancel wait for it side by side.
    stand_still(calls)
    asyncio.get_running_loop().call_soon(waiting.cancel)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    calls.close()


async def test_a_caller_that_gives_up_leaves_the_thread_usable() -> None:
    calls, release = CallThread("test"), threading.Event()
    waiting = asyncio.ensure_future(calls.call(lambda: release.wait(20), 20))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    await until(lambda: not calls.busy)
    assert await calls.call(lambda: 1, 5) == 1
    calls.close()


def test_a_process_with_a_stuck_call_ends() -> None:
    program = """
import asyncio, time, uvloop
from sidecar.thread import CallThread
async def main():
    calls = CallThread("stuck")
    print(await calls.call(lambda: time.sleep(600), 0.05))
    calls.close()
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "timeout\n"
    assert done.stderr == ""


async def test_those_who_share_a_crew_are_served_by_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine a call may stand still for a moment without a fault of its own.
    monkeypatch.setattr("sidecar.thread.PATIENCE_S", 10.0)
    crew = Crew()
    sharing = [CallThread(str(n), crew) for n in range(5)]
    for _ in range(20):
        made = await asyncio.gather(*(calls.call(threading.get_ident, 5) for calls in sharing))
        assert len(set(made)) == 1
    assert crew.threads == 1
    crew.close()


async def test_a_call_that_stands_still_holds_up_nobody_else() -> None:
    crew, release = Crew(), threading.Event()
    stuck, other, third = (CallThread(name, crew) for name in "abc")
    first = asyncio.ensure_future(other.call(lambda: "before", 20))
    waiting = asyncio.ensure_future(stuck.call(lambda: release.wait(60), 60))
    later = asyncio.ensure_future(third.call(lambda: "behind", 20))
    assert await first == "before"
    assert await later == "behind"
    both = await asyncio.gather(other.call(lambda: 1, 20), third.call(lambda: 2, 20))
    assert tuple(both) == (1, 2)
    assert crew.threads == 2
    release.set()
    assert await waiting is True
    # The thread that came to help goes once it is one too many.
    await until(lambda: crew.threads == 1)
    assert await stuck.call(lambda: 3, 20) == 3
    crew.close()


async def test_a_crew_whose_every_call_stands_still_serves_the_next() -> None:
    crew, release = Crew(), threading.Event()
    stuck = [CallThread(str(n), crew) for n in range(4)]
    waiting = [asyncio.ensure_future(calls.call(release.wait, 60)) for calls in stuck]
    assert await CallThread("next", crew).call(lambda: 7, 20) == 7
    release.set()
    assert await asyncio.gather(*waiting) == [True] * 4
    crew.close()


async def test_many_that_stand_still_hold_up_the_next_no_longer_than_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    relieve, relieved = Crew._relieve, list[Crew]()

    def counted(crew: Crew) -> None:
        relieved.append(crew)
        relieve(crew)

    monkeypatch.setattr(Crew, "_relieve", counted)
    monkeypatch.setattr("sidecar.thread.PATIENCE_S", 0.3)
    crew, release = Crew(), threading.Event()
    stuck = [CallThread(str(n), crew) for n in range(4)]
    waiting = [asyncio.ensure_future(calls.call(release.wait, 60)) for calls in stuck]
    await asyncio.sleep(0)
    assert await CallThread("next", crew).call(lambda: 7, 20) == 7
    assert len(relieved) == 1
    release.set()
    assert await asyncio.gather(*waiting) == [True] * 4
    crew.close()


async def test_a_call_of_one_that_left_holds_up_nobody_else() -> None:
    crew, release = Crew(), threading.Event()
    gone, other = CallThread("gone", crew), CallThread("other", crew)
    waiting = asyncio.ensure_future(gone.call(release.wait, 60))
    await asyncio.sleep(0)
    gone.close()
    assert await other.call(lambda: 1, 20) == 1
    release.set()
    assert await waiting is True
    other.close()


async def test_a_crew_that_was_closed_serves_again() -> None:
    crew, release = Crew("again"), threading.Event()
    calls, stuck = CallThread("one", crew), CallThread("stuck", crew)
    assert await stuck.call(release.wait, 0.01) is Fault.TIMEOUT
    crew.close()
    assert await calls.call(lambda: 1, 20) == 1
    calls.close()
    assert await calls.call(lambda: 2, 20) == 2
    release.set()
    crew.close()
    await until(lambda: not any(one.name == "sidecar-again" for one in threading.enumerate()))
