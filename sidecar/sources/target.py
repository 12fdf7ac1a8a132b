"""One GET to the watched server, bounded in time and size, whose every failure is a fault."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sidecar.http_library import AbstractResolver, ResolveResult, aiohttp
from sidecar.model.vocabulary import Fault
from sidecar.thread import CallThread, Crew

HTTP_OK = 200
KEEP_S = 4.0
_CHUNK_BYTES = 65536
_TOKEN_BYTES = 65536
_CLOSE_LIMIT_S = 1.0


_FIRST: tuple[tuple[type[Exception], Fault], ...] = (
    (aiohttp.ClientConnectorDNSError, Fault.ABSENT),
    (aiohttp.ClientSSLError, Fault.DENIED),
)
_BY_ERRNO: Mapping[int | None, Fault] = {
    errno.ECONNREFUSED: Fault.REFUSED,
    errno.EHOSTUNREACH: Fault.REFUSED,
    errno.ENETUNREACH: Fault.REFUSED,
    errno.EACCES: Fault.DENIED,
    errno.EPERM: Fault.DENIED,
    errno.ENOENT: Fault.ABSENT,
}
_REST: tuple[tuple[type[Exception], Fault], ...] = (
    (aiohttp.ClientConnectorError, Fault.IO_ERROR),
    (aiohttp.ServerConnectionError, Fault.DISCONNECTED),
    (aiohttp.ClientPayloadError, Fault.DISCONNECTED),
    (aiohttp.ClientOSError, Fault.DISCONNECTED),
    (ConnectionError, Fault.DISCONNECTED),
    (aiohttp.ClientResponseError, Fault.MALFORMED),  # what came is no HTTP
)


_Address = tuple[
    socket.AddressFamily,
    socket.SocketKind,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]
"""What ``socket.getaddrinfo`` gives."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered; the body is read for status 200 only."""

    status: int
    content_type: str = ""
    body: bytes = b""


class Target:
    """The door to one URL. Redirects are not followed, and no proxy or cookie is used.

    ``limit_s`` bounds a whole ``get``; ``body_cap`` is in bytes, 0 for who wants the status only.
    The bearer token's file is read again when it changes; neither token nor URL is ever shown.
    """

    def __init__(
        self,
        url: str,
        *,
        limit_s: float,
        body_cap: int,
        accept: str = "*/*",
        token_file: Path | None = None,
        ca_file: Path | None = None,
        crew: Crew | None = None,
    ) -> None:
        self._url = url
        self._limit_s = limit_s
        self._body_cap = body_cap
        self._accept = accept
        self._token = None if token_file is None else _TokenFile(token_file)
        self._ca_file = ca_file
        self._files = CallThread("target-files", crew)
        self._names = CallThread("target-names", crew)
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def close(self) -> None:
        """Drop the connection at once, also while an answer is awaited."""
        session, self._session = self._session, None
        self._files.close()
        self._names.close()
        self._is_closed = True
        connector = None if session is None else session.connector
        if session is None or connector is None:
            return
        # Both are closed with these calls; what is awaited is only the last of the connections. Who has
        # no time for that leaves nothing open.
        closing = connector.close()
        session.detach()
        try:
            async with asyncio.timeout(_CLOSE_LIMIT_S):
                await closing
        except TimeoutError:
            return

    async def get(self) -> Answer | Fault:
        """The answer, or why there is none."""
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._get()
        except TimeoutError:
            return Fault.TIMEOUT
        except (aiohttp.ClientError, OSError) as error:
            return fault_of(error)
        except UnicodeError:
            return Fault.ABSENT  # a host's name that cannot be one
        except (AssertionError, RuntimeError):
            # aiohttp tries once more what broke off, also with a session that was closed meanwhile.
            if self._is_closed:
                return Fault.DISCONNECTED
            raise

    async def _get(self) -> Answer | Fault:
        headers = {"Accept": self._accept, "Accept-Encoding": "identity"}
        if self._token is not None:
            token = await self._files.call(self._token.read, self._limit_s)
            if isinstance(token, Fault):
                return token
            headers["Authorization"] = f"Bearer {token.value}"
        session = await self._opened()
        if isinstance(session, Fault):
            return session
        async with session.get(self._url, headers=headers, allow_redirects=False) as response:
            if response.status != HTTP_OK or not self._body_cap:
                return Answer(status=response.status)
            body = await _body(response, self._body_cap)
            if isinstance(body, Fault):
                return body
            return Answer(response.status, response.headers.get("Content-Type", ""), body)

    async def _opened(self) -> aiohttp.ClientSession | Fault:
        if self._session is not None:
            return self._session
        tls = await self._files.call(self._tls, self._limit_s)
        if isinstance(tls, Fault):
            return tls
        if self._is_closed:
            return Fault.BUSY
        # A connection is kept for the next sample, which at a 1 s clock is a third of all our CPU.
        # One that died meanwhile is begun anew by aiohttp, so a server that is gone still refuses.
        # uvicorn closes idle connections after 5 s: we are to be the first to let go.
        connector = aiohttp.TCPConnector(
            keepalive_timeout=KEEP_S, ssl=tls, resolver=_ThreadResolver(self._names, self._limit_s)
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            # The limit is ours, around all of it: each one of theirs would be a timer more.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        )
        return self._session

    def _tls(self) -> ssl.SSLContext | bool | Fault:
        if not self._url.lower().startswith("https:"):
            return True
        try:
            return ssl.create_default_context(cafile=self._ca_file)
        except ssl.SSLError:
            return Fault.MALFORMED
        except OSError as error:
            return fault_of(error)


def fault_of(error: aiohttp.ClientError | OSError) -> Fault:
    """The fault that names ``error``."""
    code = error.errno if isinstance(error, OSError) else None
    for kind, fault in _FIRST:
        if isinstance(error, kind):
            return fault
    if code in _BY_ERRNO:
        return _BY_ERRNO[code]
    for kind, fault in _REST:
        if isinstance(error, kind):
            return fault
    return Fault.IO_ERROR


async def _body(response: aiohttp.ClientResponse, cap: int) -> bytes | Fault:
    if (response.content_length or 0) > cap:
        return Fault.TOO_LARGE
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > cap:
            return Fault.TOO_LARGE
    return bytes(body)


class _Token:
    """A secret with no ``repr``."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value


class _TokenFile:
    """The token in a file; Kubernetes replaces such files while we run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._token = _Token("")

    def read(self) -> _Token | Fault:
        try:
            stat = self._path.stat()
            seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if seen != self._seen:
                with self._path.open("rb") as file:
                    text = file.read(_TOKEN_BYTES).decode("ascii", "replace").strip()
                self._token, self._seen = _Token(text), seen
        except OSError:
            return Fault.DENIED
        usable = self._token.value.isascii() and self._token.value.isprintable()
        return self._token if self._token.value and usable else Fault.DENIED


def _addresses(host: str, port: int, family: socket.AddressFamily) -> Sequence[_Address]:
    """The addresses of ``host``; an empty or overlong label is a name that nobody has."""
    try:
        return socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "no host name") from None


class _ThreadResolver(AbstractResolver):
    """Resolves names on a thread that cannot hold up exit; aiohttp's own uses the executor."""

    def __init__(self, thread: CallThread, limit_s: float) -> None:
        self._thread = thread
        self._limit_s = limit_s

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._thread.call(
            lambda: _addresses(host, port, family),
            self._limit_s,
        )
        if isinstance(found, Fault):
            raise TimeoutError
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        return
