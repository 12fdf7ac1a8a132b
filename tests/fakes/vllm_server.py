"""A server that answers, lags, breaks off or hangs exactly as a test says, on raw sockets."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.fakes.patience import until


@dataclass
class Behaviour:
    """What the next requests meet; a test changes it while the server runs."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; version=0.0.4; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    hang: bool = False
    hang_in_body: bool = False
    cut_after: int | None = None
    endless: bool = False
    seen: list[str] = field(default_factory=list)
    open_connections: int = 0


@dataclass
class FakeVllm:
    """A running stand-in: where it listens, and what it does."""

    port: int
    behaviour: Behaviour
    scheme: str = "http"

    def url(self, path: str) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"


@contextlib.asynccontextmanager
async def fake_vllm(tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeVllm]:
    behaviour = Behaviour()
    stop = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behaviour.open_connections += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            behaviour.seen.append(head.decode("latin-1"))
            await _answer(writer, behaviour, stop, reader)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            behaviour.open_connections -= 1
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield FakeVllm(port, behaviour, "http" if tls is None else "https")
    finally:
        stop.set()
        server.close()
        await until(lambda: not behaviour.open_connections)


async def _answer(
    writer: asyncio.StreamWriter,
    what: Behaviour,
    stop: asyncio.Event,
    reader: asyncio.StreamReader,
) -> None:
    if what.hang:
        await _until_gone(reader, stop)
        return
    if what.raw is not None:
        writer.write(what.raw)
        await writer.drain()
        return
    length = {} if what.endless else {"Content-Length": str(len(what.body))}
    headers = {"Content-Type": what.content_type, **length, **what.headers}
    lines = [f"HTTP/1.1 {what.status} Word", *(f"{k}: {v}" for k, v in headers.items())]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    writer.write(what.body if what.cut_after is None else what.body[: what.cut_after])
    await writer.drain()
    if what.hang_in_body:
        await _until_gone(reader, stop)
    while what.endless and not stop.is_set():
        writer.write(b"x" * 65536)
        await writer.drain()


async def _until_gone(reader: asyncio.StreamReader, stop: asyncio.Event) -> None:
    """Until the client hangs up or the test ends."""
    gone = asyncio.ensure_future(reader.read())
    ended = asyncio.ensure_future(stop.wait())
    await asyncio.wait({gone, ended}, return_when=asyncio.FIRST_COMPLETED)
    for task in (gone, ended):
        task.cancel()
    await asyncio.gather(gone, ended, return_exceptions=True)
