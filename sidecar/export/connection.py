"""One connection: it must shake hands and ask soon, and its broken requests are not quoted back."""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import cast

from sidecar.export.face import Face
from sidecar.export.pages import refuse
from sidecar.export.tls import has_allowed_san
from sidecar.http_library import web

FIRST_REQUEST_S = 10.0
"""A new connection must have sent a whole request by then."""
HANDSHAKE_S = 5.0
"""A client must be through with TLS by then."""
SHUTDOWN_S = 2.0
"""A client must have answered the end of TLS by then."""
IDLE_S = 75.0
"""A connection is kept so long for the next request: longer than usual scrape intervals."""

BUFFER_BYTES = 64 * 1024
"""What a connection may hold of an answer that is not taken: asyncio's own default without TLS."""


def silent_logger() -> logging.Logger:
    """A logger that writes nothing: aiohttp's messages quote what clients sent."""
    logger = logging.Logger("sidecar.export.connection")  # noqa: LOG001 - it must not reach the root
    logger.disabled = True
    return logger


class Connections:
    """All open connections, those that were idle for longest first."""

    def __init__(self) -> None:
        self.all: dict[Connection | Arrival, None] = {}

    def __len__(self) -> int:
        return len(self.all)

    def add(self, one: "Connection | Arrival") -> None:
        """Count one more, as the one that was idle for the shortest time."""
        self.all[one] = None

    def forget(self, one: "Connection | Arrival") -> None:
        """It is gone."""
        self.all.pop(one, None)

    def touch(self, one: "Connection | Arrival") -> None:
        """It is idle from now on."""
        if one in self.all:
            del self.all[one]
            self.all[one] = None

    def drop_all(self) -> None:
        """End all of them at once."""
        for one in tuple(self.all):
            one.drop()

    def make_room(self) -> bool:
        """Drop the one that asks nothing for longest; False if all of them ask."""
        victim = next((one for one in self.all if not one.busy), None)
        if victim is not None:
            self.forget(victim)
            victim.drop()
        return victim is not None


class Connection(web.RequestHandler):
    """A connection that must ask soon.

    ``face``: what answers get at this moment. ``allowed_sans``: see ``Face``. ``complain`` hears of
    a page that failed.
    """

    def __init__(
        self,
        handlers: web.Server,
        peers: Connections,
        *,
        face: Callable[[], Face],
        complain: Callable[..., None],
        allowed_sans: frozenset[str] | None = None,
    ) -> None:
        silence = silent_logger()
        super().__init__(
            handlers,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=IDLE_S,
            logger=silence,
            access_log=silence,
            lingering_time=1.0,
        )
        self.peers = peers
        self.face = face
        self.complain = complain
        self.allowed_sans = allowed_sans
        self.first_request: asyncio.TimerHandle | None = None
        self.link: asyncio.Transport | None = None
        """The transport for as long as there is one: aiohttp forgets it before it is closed."""
        self.asking = False
        """Whether a request is being answered."""
        self.barred = False
        """Whether the client's certificate bears no allowed name."""

    @property
    def busy(self) -> bool:
        """Whether a whole request is being answered, or waits to be, or it was accepted just now."""
        return self.asking or bool(self._messages) or self.link is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the limit for the first request."""
        super().connection_made(transport)
        # uvloop's transports are no subclass of asyncio's, so the type cannot be asked.
        self.link = cast(asyncio.Transport, transport)
        self.peers.add(self)
        # TLS would take half a megabyte of an answer that nobody takes from us.
        self.link.set_write_buffer_limits(BUFFER_BYTES)
        if self.allowed_sans is not None:
            certificate = transport.get_extra_info("peercert") or {}
            self.barred = not has_allowed_san(certificate, self.allowed_sans)
        if self.barred:
            self.drop()
            return
        loop = asyncio.get_running_loop()
        self.first_request = loop.call_later(FIRST_REQUEST_S, self.force_close)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the limit."""
        self.forget_limit()
        self.peers.forget(self)
        self.link = None
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
        self.peers.touch(self)

    def drop(self) -> None:
        """End it at once."""
        if self.link is not None:
            self.link.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """A fixed line for whatever went wrong; the connection ends with it."""
        del message
        if request.writer.output_size > 0 or isinstance(exc, ConnectionError):
            raise ConnectionError("there is nobody to answer, or the answer has begun already")
        broken = status < 500  # noqa: PLR2004
        if not broken:
            self.complain("page_failed", why=type(exc).__name__)
        response = refuse(status, "this is no HTTP request" if broken else "internal error")
        response.headers.update(self.face().headers)
        response.force_close()
        return response


class Refusal(asyncio.Protocol):
    """A connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Drop it at once."""
        cast(asyncio.Transport, transport).abort()


class Arrival(asyncio.Protocol):
    """A connection that is still to shake hands: until then it can be dropped for another one.

    The handshake is made on a socket of our own, as an event loop does not tell of one that it
    makes by itself.
    """

    def __init__(
        self,
        peers: Connections,
        tls: ssl.SSLContext,
        make: Callable[[], Connection],
        spawn: Callable[[Coroutine[None, None, None]], "asyncio.Task[None]"],
    ) -> None:
        self.peers = peers
        self.tls = tls
        self.make = make
        self.spawn = spawn
        self.task: asyncio.Task[None] | None = None
        self.own: socket.socket | None = None
        """The socket, until the event loop has it."""

    @property
    def busy(self) -> bool:
        """Whether it was accepted just now."""
        return self.task is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket and begin the handshake."""
        plain = cast(asyncio.Transport, transport)
        try:
            self.own = socket.socket(fileno=os.dup(plain.get_extra_info("socket").fileno()))
        except OSError:
            # We have no descriptor left.
            self.peers.forget(self)
        else:
            self.own.setblocking(False)  # noqa: FBT003  (by position only)
            self.task = self.spawn(self.shake_hands(self.own))
            self.task.add_done_callback(self.end)
        plain.abort()

    async def shake_hands(self, own: socket.socket) -> None:
        """Make the handshake; a client that fails at it, or is too slow, is gone."""
        connection = self.make()
        self.own = None
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                own,
                ssl=self.tls,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )

    def end(self, _task: "asyncio.Task[None]") -> None:
        """The handshake is over, or never began."""
        self.peers.forget(self)
        if self.own is not None:
            self.own.close()

    def drop(self) -> None:
        """End it at once."""
        if self.task is not None:
            self.task.cancel()
