"""The HTTP face: it shows the latest frozen report and never waits for anything of ours.

Every request is bounded: few at a time, each with a limit for its answer to be taken; a
connection that asks nothing is closed. Answers never repeat what was asked.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.clock import ClockLike
from sidecar.errors import ConfigError
from sidecar.export.connection import Arrival, Connection, Connections, Refusal
from sidecar.export.face import PLAIN, Face
from sidecar.export.metrics import Exposition
from sidecar.export.pages import Pages, Views, refuse
from sidecar.http_library import web

if TYPE_CHECKING:
    from sidecar.export.web_file import WebFile

MAX_REQUESTS = 40
"""Requests answered at the same time; one more is told to come back."""
RESERVED = 8
"""So many more, for the first request of a connection: old ones cannot lock out a new one."""
LARGE = frozenset({"/api/windows"})
MAX_LARGE = 4
"""Answers of some megabytes at the same time, apart from the others: each is held until taken."""
UNREAD_S = 2.0
"""An answer that nobody took for so long is given up where its place is needed."""
MAX_CONNECTIONS = 256
"""Open connections; for one more, the one that asked nothing for longest is dropped."""
ANSWER_S = 10.0
"""A client must have taken its answer by then: Prometheus' own default for a scrape."""


@dataclass(slots=True, eq=False)
class Taking:
    """An answer that its client is taking since ``since`` (the loop's clock, seconds)."""

    since: float
    transport: asyncio.Transport | None
    large: bool
    first: bool


class Places:
    """The answers that are being taken, oldest first."""

    def __init__(self) -> None:
        self.taken: dict[Taking, None] = {}

    def enter(self, new: Taking) -> bool:
        """Take a place, in place of one that was left unread if need be; False if there is none."""
        alike = [one for one in self.taken if one.large is new.large]
        limit = MAX_LARGE if new.large else MAX_REQUESTS + (RESERVED if new.first else 0)
        if len(alike) >= limit:
            if not alike or new.since - alike[0].since < UNREAD_S:
                return False
            self.leave(alike[0])
            if alike[0].transport is not None:
                alike[0].transport.abort()
        self.taken[new] = None
        return True

    def leave(self, one: Taking) -> None:
        """Give the place back."""
        self.taken.pop(one, None)


def say_reason(exc: Exception) -> str:
    """Why an address cannot be listened on, in the system's words."""
    if isinstance(exc, OSError) and not isinstance(exc, socket.gaierror) and exc.errno:
        return os.strerror(exc.errno).lower()
    return "no such address"


def find_web_file(
    path: Path | None, clock: ClockLike, complain: Callable[..., None]
) -> "WebFile | None":
    """The web configuration in a file, None without one; nothing is read yet."""
    if path is None:
        return None
    # YAML and bcrypt cost memory that nobody without such a file should pay.
    from sidecar.export.web_file import WebFile  # noqa: PLC0415

    return WebFile(path, clock, complain)


class HttpServer:
    """Serves the pages between ``start`` and ``stop``.

    ``web_file``: how clients are met, where that is configured; else plain HTTP for everybody.
    ``complain`` hears of what goes wrong with ourselves.
    """

    def __init__(
        self,
        views: Views,
        exposition: Exposition,
        *,
        web_file: "WebFile | None" = None,
        complain: Callable[..., None] = lambda _event, **_fields: None,
    ) -> None:
        self.pages = Pages(views, exposition)
        self.web_file = web_file
        self.complain = complain
        self.places = Places()
        self.connections = Connections()
        self.tasks = set[asyncio.Task[None]]()
        self.watcher: asyncio.Task[None] | None = None
        self.handlers: web.Server | None = None
        self.listener: asyncio.Server | None = None

    @property
    def requests(self) -> int:
        """How many requests are being answered."""
        return len(self.places.taken)

    @property
    def face(self) -> Face:
        """What new connections and requests get."""
        return PLAIN if self.web_file is None else self.web_file.face

    async def start(self, host: str, port: int) -> int:
        """Listen; the port that was taken, which differs from ``port`` if that is 0.

        Raises:
            ConfigError: the address cannot be listened on, or the web configuration not honoured.
        """
        loop = asyncio.get_running_loop()
        await self.reload()
        if self.handlers is None:
            self.handlers = web.Server(self.handle)
        plain = host.removeprefix("[").removesuffix("]")
        try:
            self.listener = await loop.create_server(self.accept, plain, port, backlog=128)
        except (OSError, OverflowError, UnicodeError) as exc:
            shown = f"[{plain}]:{port}" if ":" in plain else f"{plain}:{port}"
            raise ConfigError(f"cannot listen on {shown}: {say_reason(exc)}") from exc
        if self.web_file is not None:
            self.watcher = self.spawn(self.web_file.watch())
        return int(self.listener.sockets[0].getsockname()[1])

    async def reload(self) -> None:
        """Read the web configuration anew, for new connections and requests.

        Raises:
            ConfigError: it cannot be honoured; what held before holds on.
        """
        if self.web_file is not None:
            await self.web_file.reload()

    async def stop(self, limit_s: float = 2.0) -> None:
        """Take no new requests, let running ones end within the limit, close every connection."""
        listener, handlers = self.listener, self.handlers
        self.listener = self.handlers = None
        if listener is not None:
            listener.close()
        for task in self.tasks:
            task.cancel()
        if handlers is not None:
            handlers.pre_shutdown()
            await handlers.shutdown(limit_s)
            self.connections.drop_all()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if listener is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await listener.wait_closed()
        if self.web_file is not None:
            self.web_file.close()

    def spawn(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        """Do something beside, until it ends or ``stop``."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.forget)
        if self.handlers is None:
            # It came too late: we have stopped.
            task.cancel()
        return task

    def forget(self, task: "asyncio.Task[None]") -> None:
        """It ended; say so if it was by a fault of ours."""
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.complain("http_server_failed", why=type(error).__name__)

    def accept(self) -> asyncio.Protocol:
        """A protocol for a new connection."""
        handlers, face = self.handlers, self.face
        full = len(self.connections) >= MAX_CONNECTIONS
        if handlers is None or (full and not self.connections.make_room()):
            return Refusal()

        def make() -> Connection:
            return Connection(
                handlers,
                self.connections,
                face=lambda: self.face,
                complain=self.complain,
                allowed_sans=face.allowed_sans,
            )

        new = make() if face.tls is None else Arrival(self.connections, face.tls, make, self.spawn)
        self.connections.add(new)
        return new

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; a client that does not take the answer in time is cut off."""
        connection = request.protocol
        if not isinstance(connection, Connection):
            return await self.reply(request, first=False)
        if connection.barred:
            raise ConnectionResetError("the client is not allowed")
        first = connection.begin_request()
        try:
            return await self.reply(request, first=first)
        finally:
            connection.end_request()

    async def reply(self, request: web.BaseRequest, *, first: bool) -> web.StreamResponse:
        """Send the page, or why there is none for this client or at this moment."""
        refusal = await self.refuse(request)
        if refusal is not None:
            return await self.send(request, refusal, UNREAD_S)
        now = asyncio.get_running_loop().time()
        taking = Taking(now, request.transport, request.path in LARGE, first)
        if not self.places.enter(taking):
            busy = refuse(503, "too many requests at once", {"Retry-After": "1"})
            return await self.send(request, busy, UNREAD_S)
        try:
            return await self.send(request, self.pages.find(request), ANSWER_S)
        finally:
            self.places.leave(taking)

    async def refuse(self, request: web.BaseRequest) -> web.Response | None:
        """Why this client gets no page, None if it may have one."""
        face = self.face
        if face.bucket is not None and not face.bucket.take(asyncio.get_running_loop().time()):
            retry = {"Retry-After": str(face.bucket.retry_after_s)}
            return refuse(429, "too many requests", retry)
        if face.users is None:
            return None
        return await face.users.refuse(request.headers.getall("Authorization", []))

    async def send(
        self, request: web.BaseRequest, response: web.Response, limit_s: float
    ) -> web.StreamResponse:
        """Send an answer; who does not take it within the limit is cut off."""
        response.headers.update(self.face.headers)
        try:
            async with asyncio.timeout(limit_s):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the answer was not taken in time") from None
        return response
