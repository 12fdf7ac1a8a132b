"""Blocking calls, one at a time, on a daemon thread that can never hold up exit.

``asyncio.to_thread`` will not do: a call that never returns (a hung driver) keeps its executor,
and so the process, from ending.
"""

import asyncio
import functools
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from sidecar.model.vocabulary import Fault

T = TypeVar("T")


class CallThread:
    """Runs one blocking call at a time.

    A call that outlives its limit is left to itself; until it returns, others are ``BUSY``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[_Call[object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._flying: _Call[object] | None = None

    @property
    def busy(self) -> bool:
        """Whether a call has not returned yet."""
        return self._flying is not None and not self._flying.returned

    async def call(self, function: Callable[[], T], limit_s: float) -> T | Fault:
        """What ``function`` returns within ``limit_s`` seconds, or ``BUSY`` or ``TIMEOUT``."""
        if self.busy:
            return Fault.BUSY
        call = _Call(function, asyncio.get_running_loop())
        self._flying = call  # type: ignore[assignment]
        self._start()
        self._calls.put(call)  # type: ignore[arg-type]
        try:
            # Not ``wait_for``: before Python 3.12 it loses a cancel that comes with the answer.
            async with asyncio.timeout(limit_s):
                return await call.answer
        except TimeoutError:
            # An exception of the call itself is no sign of our limit.
            if call.returned and call.answer.done() and not call.answer.cancelled():
                return call.answer.result()
            return Fault.TIMEOUT

    def close(self) -> None:
        """Let the thread end after the call it is in; does not wait for it."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=_serve, args=(self._calls,), name=f"sidecar-{self._name}", daemon=True
            )
            self._thread.start()


class _Call(Generic[T]):
    """One call and the future that waits for it."""

    def __init__(self, function: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self._function = function
        self._loop = loop
        self.answer: asyncio.Future[T] = loop.create_future()
        self.returned = False

    def run(self) -> None:
        """Call, and hand the outcome over to the loop; whatever it is, the loop decides."""
        try:
            value = self._function()
        except BaseException as error:  # noqa: BLE001  (handed over, not swallowed)
            self._post(functools.partial(self.answer.set_exception, error))
        else:
            self._post(functools.partial(self.answer.set_result, value))

    def _post(self, settle: Callable[[], None]) -> None:
        self.returned = True

        def unless_given_up() -> None:
            if not self.answer.done():
                settle()

        try:
            self._loop.call_soon_threadsafe(unless_given_up)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            return


def _serve(calls: "queue.SimpleQueue[_Call[object] | None]") -> None:
    while (call := calls.get()) is not None:
        call.run()
        del call
