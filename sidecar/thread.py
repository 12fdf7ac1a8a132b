"""Blocking calls, one at a time, on a daemon thread that can never hold up exit.

``asyncio.to_thread`` will not do: a call that never returns (a hung driver) keeps its executor,
and so the process, from ending.
"""

import asyncio
import functools
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from sidecar.model.vocabulary import Fault

T = TypeVar("T")

PATIENCE_S: Final = 0.01
"""Seconds that a call waits for the end of another before it gets a thread of its own."""


class Crew:
    """Threads that several ``CallThread`` of one loop share: one, and another where a call stands still.

    Calls that come together run one after the other and are told together. Threads that run at the
    same time take the interpreter's lock from each other at every read, which costs more than the
    reads do.
    """

    def __init__(self, name: str = "reads") -> None:
        self._name = name
        self._members = 0
        self._shift = _Shift()
        self._fresh: list[_Work] = []
        self._flying = 0
        self._done: deque[_Work] = deque()
        self._patience: asyncio.TimerHandle | None = None

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return self._shift.threads

    def join(self) -> None:
        """One more shares it."""
        self._members += 1

    def leave(self) -> None:
        """One that shared it is closed; the last one lets the threads go."""
        self._members -= 1
        if self._members <= 0:
            self.close()

    def close(self) -> None:
        """Let each thread end after the calls it was given; does not wait for it."""
        self._send()
        shift, self._shift = self._shift, _Shift()
        with shift.lock:
            for _ in range(shift.threads):
                shift.calls.put(None)

    def begin(self, call: "_Work") -> None:
        """Run a call as soon as a thread is free."""
        # Not before the loop has nothing else to begin: a thread that runs beside it takes the
        # interpreter's lock from it.
        if not self._fresh:
            asyncio.get_running_loop().call_soon(self._send)
        self._fresh.append(call)

    def _send(self) -> None:
        """Hand over what was begun."""
        fresh, self._fresh = self._fresh, []
        self._flying += len(fresh)
        for call in fresh:
            self._shift.calls.put(call)
        if fresh and not self._shift.threads:
            self._hire()
        if fresh and self._flying > 1 and self._patience is None:
            self._wait()

    def _wait(self) -> None:
        self._patience = asyncio.get_running_loop().call_later(PATIENCE_S, self._relieve)

    def _relieve(self) -> None:
        """A call takes long: let none wait for it, and tell of those that are done."""
        self._patience = None
        self._settle()
        if waiting := self._shift.calls.qsize():
            for _ in range(waiting):
                self._hire()
            self._wait()

    def _hire(self) -> None:
        shift = self._shift
        with shift.lock:
            shift.threads += 1
        threading.Thread(
            target=self._serve, args=(shift,), name=f"sidecar-{self._name}", daemon=True
        ).start()

    def _serve(self, shift: "_Shift") -> None:
        while (call := shift.calls.get()) is not None:
            shift.enter()
            call.run()
            self._done.append(call)
            # What waits may be taken by another thread and stand still there: then nobody else tells.
            if shift.threads > 1 or shift.calls.empty():
                call.tell(self._settle)
            del call
            if shift.leave():
                return
        with shift.lock:
            shift.threads -= 1

    def _settle(self) -> None:
        while self._done:
            self._done.popleft().settle()
            self._flying -= 1
        if self._patience is not None and not self._flying:
            self._patience.cancel()
            self._patience = None


@dataclass(slots=True)
class _Shift:
    """The threads between two closings, and what waits for them."""

    calls: "queue.SimpleQueue[_Work | None]" = field(default_factory=queue.SimpleQueue)
    lock: threading.Lock = field(default_factory=threading.Lock)
    threads: int = 0
    running: int = 0

    def enter(self) -> None:
        """A thread begins a call."""
        with self.lock:
            self.running += 1

    def leave(self) -> bool:
        """A thread has ended its call; whether it is one too many, and goes."""
        with self.lock:
            self.running -= 1
            is_spare = self.threads - self.running > 1
            self.threads -= is_spare
            return is_spare


class CallThread:
    """Runs one blocking call at a time, on the threads of ``crew``, else on one of its own.

    A call that outlives its limit is left to itself; until it returns, others are ``BUSY``.
    """

    def __init__(self, name: str, crew: Crew | None = None) -> None:
        self._crew = Crew(name) if crew is None else crew
        self._shares = crew is not None
        self._flying: _Work | None = None
        self._crew.join()
        self._is_member = True

    @property
    def busy(self) -> bool:
        """Whether a call has not returned yet."""
        return self._flying is not None and not self._flying.returned

    async def call(self, function: Callable[[], T], limit_s: float) -> T | Fault:
        """What ``function`` returns within ``limit_s`` seconds, or ``BUSY`` or ``TIMEOUT``."""
        if self.busy:
            return Fault.BUSY
        loop = asyncio.get_running_loop()
        call = _Call(function, loop)
        self._flying = call
        self._crew.begin(call)
        # One timer and no more: ``asyncio.timeout`` would be a task's cancel and two exceptions.
        expiry = loop.call_later(limit_s, call.expire)
        try:
            return await call.answer
        finally:
            expiry.cancel()

    def close(self) -> None:
        """Let the thread end after the call it is in, if nobody else needs it; does not wait for it."""
        if self._is_member:
            self._is_member = False
            self._crew.leave()
        elif not self._shares:
            self._crew.close()


class _Work(Protocol):
    """A call, whatever it gives."""

    returned: bool

    def run(self) -> None: ...

    def tell(self, settle: Callable[[], None]) -> None: ...

    def settle(self) -> None: ...


class _Call(Generic[T]):
    """One call and the future that waits for it."""

    def __init__(self, function: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self._function = function
        self._loop = loop
        self._outcome: Callable[[], None] | None = None
        self.answer: asyncio.Future[T | Fault] = loop.create_future()
        self.returned = False

    def run(self) -> None:
        """Call, and keep the outcome; whatever it is, the loop decides."""
        try:
            value = self._function()
        except BaseException as error:  # noqa: BLE001  (handed over, not swallowed)
            self._outcome = functools.partial(self.answer.set_exception, error)
        else:
            self._outcome = functools.partial(self.answer.set_result, value)
        self.returned = True

    def tell(self, settle: Callable[[], None]) -> None:
        """Have the loop settle what is done."""
        try:
            self._loop.call_soon_threadsafe(settle)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            return

    def expire(self) -> None:
        """It has taken too long: nobody waits for it any more."""
        if not self.answer.done():
            self.answer.set_result(Fault.TIMEOUT)

    def settle(self) -> None:
        """Hand the outcome over, unless nobody waits for it any more."""
        if self._outcome is not None and not self.answer.done():
            self._outcome()
