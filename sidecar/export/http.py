"""The HTTP face: it shows the latest frozen report and never waits for anything of ours.

Every request is bounded: few at a time, each with a limit for its answer to be taken; a
connection that asks nothing is closed. Answers never repeat what was asked.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import structlog
from aiohttp import web

from sidecar.errors import ConfigError
from sidecar.export.metrics import Exposition, accepts_gzip, choose_format
from sidecar.export.results import encode, report_result
from sidecar.model.report import Report

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
FIRST_REQUEST_S = 10.0
"""A new connection must have sent a whole request by then."""
ANSWER_S = 10.0
"""A client must have taken its answer by then: Prometheus' own default for a scrape."""
IDLE_S = 75.0
"""A connection is kept so long for the next request: longer than usual scrape intervals."""
DEFAULT_WINDOWS = 100
MAX_WINDOWS = 1_000

HEADERS = {
    "Server": "vllm-sidecar",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>vllm-sidecar</title></head>
<body>
<h1>vllm-sidecar</h1>
<ul>
<li><a href="/metrics">/metrics</a>: for Prometheus</li>
<li><a href="/api/report">/api/report</a>: what is known now</li>
<li><a href="/api/windows">/api/windows</a>: the last windows, newest last (limit=N)</li>
<li><a href="/healthz">/healthz</a>: this process and its clock live</li>
<li><a href="/readyz">/readyz</a>: a first window is closed and the clock is on time</li>
</ul>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Views:
    """What the server may look at; each call returns at once.

    ``report``: the latest, None before the first tick. ``windows``: the last closed ones as
    JSON, newest last. ``alive``: whether the last tick is younger than three intervals.
    """

    report: Callable[[], Report | None]
    windows: Callable[[], Sequence[str]]
    alive: Callable[[], bool]


def answer(
    status: int, body: str | bytes, content_type: str = TEXT, headers: Mapping[str, str] = {}
) -> web.Response:
    """An answer with the headers that all of them carry."""
    payload = body.encode() if isinstance(body, str) else body
    return web.Response(
        status=status, body=payload, headers={**HEADERS, "Content-Type": content_type, **headers}
    )


def refuse(status: int, text: str, headers: Mapping[str, str] = {}) -> web.Response:
    """An answer that says in one line why there is none."""
    return answer(status, f"{text}\n", headers=headers)


def read_limit(given: Sequence[str]) -> int | None:
    """The number of windows asked for, at most ``MAX_WINDOWS``; None if it is no number from 1."""
    if not given:
        return DEFAULT_WINDOWS
    text = given[0]
    if len(given) > 1 or not (text.isascii() and text.isdigit()) or len(text) > 9:  # noqa: PLR2004
        return None
    return min(int(text), MAX_WINDOWS) or None


class Pages:
    """Every path and its answer, from the views alone."""

    def __init__(self, views: Views, exposition: Exposition) -> None:
        self.views = views
        self.exposition = exposition
        self.paths: Mapping[str, Callable[[web.BaseRequest], web.Response]] = {
            "/": self.show_page,
            "/metrics": self.show_metrics,
            "/healthz": self.show_health,
            "/readyz": self.show_readiness,
            "/api/windows": self.show_windows,
            "/api/report": self.show_report,
        }

    def find(self, request: web.BaseRequest) -> web.Response:
        """The answer to a request."""
        if request.method not in {"GET", "HEAD"}:
            return refuse(405, "only GET and HEAD are answered", {"Allow": "GET, HEAD"})
        page = self.paths.get(request.path)
        return refuse(404, "no such page") if page is None else page(request)

    def show_page(self, _request: web.BaseRequest) -> web.Response:
        """Links for people."""
        return answer(200, PAGE, HTML)

    def show_metrics(self, request: web.BaseRequest) -> web.Response:
        """The latest report as an exposition."""
        report = self.views.report()
        if report is None:
            return refuse(503, "nothing was sampled yet")
        payload = self.exposition.payload(
            report,
            choose_format(",".join(request.headers.getall("Accept", []))),
            compressed=accepts_gzip(",".join(request.headers.getall("Accept-Encoding", []))),
        )
        content_type = payload.headers["Content-Type"]
        return answer(200, payload.body, content_type, payload.headers)

    def show_health(self, _request: web.BaseRequest) -> web.Response:
        """Whether this process does its work."""
        if self.views.alive():
            return answer(200, "ok\n")
        return refuse(503, "the clock stands still")

    def show_readiness(self, _request: web.BaseRequest) -> web.Response:
        """Whether the verdict that is shown can be relied on."""
        report = self.views.report()
        if report is None or report.last_window is None:
            return refuse(503, "no window is closed yet")
        if not self.views.alive():
            return refuse(503, "the clock is late")
        return answer(200, "ready\n")

    def show_windows(self, request: web.BaseRequest) -> web.Response:
        """The last closed windows."""
        limit = read_limit(request.query.getall("limit", []))
        if limit is None:
            return refuse(400, "limit must be a whole number from 1")
        return answer(200, f"[{','.join(self.views.windows()[-limit:])}]", JSON)

    def show_report(self, _request: web.BaseRequest) -> web.Response:
        """All that is known now."""
        report = self.views.report()
        if report is None:
            return refuse(503, "nothing was sampled yet")
        return answer(200, encode(report_result(report)), JSON)


def silent_logger() -> logging.Logger:
    """A logger that writes nothing: aiohttp's messages quote what clients sent."""
    logger = logging.Logger("sidecar.export.http")  # noqa: LOG001 - it must not reach the root
    logger.disabled = True
    return logger


class Connection(web.RequestHandler):
    """A connection that must ask soon, and whose broken requests are not quoted back to it."""

    first_request: asyncio.TimerHandle | None = None
    peers: "dict[Connection, None] | None" = None
    """All open connections, of which this is one, those that were idle for longest first."""
    asking = False
    """Whether a request is being answered."""

    @property
    def busy(self) -> bool:
        """Whether a whole request is being answered, or waits to be."""
        return self.asking or bool(self._messages)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the limit for the first request."""
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self.first_request = loop.call_later(FIRST_REQUEST_S, self.force_close)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the limit."""
        self.forget_limit()
        if self.peers is not None:
            self.peers.pop(self, None)
        super().connection_lost(exc)

    def forget_limit(self) -> None:
        """The limit for the first request does not hold any more."""
        if self.first_request is not None:
            self.first_request.cancel()
            self.first_request = None

    def begin_request(self) -> bool:
        """A whole request has come: the limit for idle connections holds; whether it is the first."""
        first = self.first_request is not None
        self.forget_limit()
        self.asking = True
        return first

    def end_request(self) -> None:
        """It was answered: the connection is idle from now on."""
        self.asking = False
        if self.peers is not None and self in self.peers:
            del self.peers[self]
            self.peers[self] = None

    def drop(self) -> None:
        """End it at once."""
        if self.peers is not None:
            self.peers.pop(self, None)
        if self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """A fixed line for whatever went wrong; the connection ends with it."""
        del message
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        broken = status < 500  # noqa: PLR2004
        if not broken:
            with suppress(OSError, ValueError):  # our own output may be lost
                structlog.get_logger().error("page_failed", error=type(exc).__name__)
        response = refuse(status, "this is no HTTP request" if broken else "internal error")
        response.force_close()
        return response


class Refusal(asyncio.Protocol):
    """A connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Drop it at once."""
        # uvloop's transports are no subclass of asyncio's, so the type cannot be asked.
        cast(asyncio.Transport, transport).abort()


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


class HttpServer:
    """Serves the pages between ``start`` and ``stop``."""

    def __init__(self, views: Views, exposition: Exposition) -> None:
        self.pages = Pages(views, exposition)
        self.silence = silent_logger()
        self.places = Places()
        self.connections: dict[Connection, None] = {}
        self.handlers: web.Server | None = None
        self.listener: asyncio.Server | None = None

    @property
    def requests(self) -> int:
        """How many requests are being answered."""
        return len(self.places.taken)

    async def start(self, host: str, port: int) -> int:
        """Listen; the port that was taken, which differs from ``port`` if that is 0.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        if self.handlers is None:
            self.handlers = web.Server(self.handle)
        plain = host.removeprefix("[").removesuffix("]")
        try:
            self.listener = await loop.create_server(self.accept, plain, port, backlog=128)
        except (OSError, OverflowError, UnicodeError) as exc:
            shown = f"[{plain}]:{port}" if ":" in plain else f"{plain}:{port}"
            raise ConfigError(f"cannot listen on {shown}: {say_reason(exc)}") from exc
        return int(self.listener.sockets[0].getsockname()[1])

    async def stop(self, limit_s: float = 2.0) -> None:
        """Take no new requests, let running ones end within the limit, close every connection."""
        listener, handlers = self.listener, self.handlers
        self.listener = self.handlers = None
        if listener is not None:
            listener.close()
        if handlers is not None:
            transports = [connection.transport for connection in handlers.connections]
            handlers.pre_shutdown()
            await handlers.shutdown(limit_s)
            for transport in transports:
                if transport is not None:
                    transport.abort()
        if listener is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await listener.wait_closed()

    def accept(self) -> asyncio.Protocol:
        """A protocol for a new connection."""
        if self.handlers is None or not self.has_room():
            return Refusal()
        connection = Connection(
            self.handlers,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=IDLE_S,
            logger=self.silence,
            access_log=self.silence,
            lingering_time=1.0,
        )
        connection.peers = self.connections
        self.connections[connection] = None
        return connection

    def has_room(self) -> bool:
        """Whether one more may come, made possible by dropping one that asks nothing if need be."""
        if len(self.connections) < MAX_CONNECTIONS:
            return True
        # One without a transport was accepted just now.
        idle = (one for one in self.connections if one.transport is not None and not one.busy)
        victim = next(idle, None)
        if victim is not None:
            victim.drop()
        return victim is not None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; a client that does not take the answer in time is cut off."""
        connection = request.protocol
        if not isinstance(connection, Connection):
            return await self.reply(request, first=False)
        first = connection.begin_request()
        try:
            return await self.reply(request, first=first)
        finally:
            connection.end_request()

    async def reply(self, request: web.BaseRequest, *, first: bool) -> web.StreamResponse:
        """Send the page, or that there are too many requests."""
        now = asyncio.get_running_loop().time()
        taking = Taking(now, request.transport, request.path in LARGE, first)
        if not self.places.enter(taking):
            busy = refuse(503, "too many requests at once", {"Retry-After": "1"})
            return await send(request, busy, UNREAD_S)
        try:
            return await send(request, self.pages.find(request), ANSWER_S)
        finally:
            self.places.leave(taking)


async def send(
    request: web.BaseRequest, response: web.Response, limit_s: float
) -> web.StreamResponse:
    """Send an answer; who does not take it within the limit is cut off."""
    try:
        async with asyncio.timeout(limit_s):
            await response.prepare(request)
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the answer was not taken in time") from None
    return response
