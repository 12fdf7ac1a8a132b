"""Program: a server that is scraped as vLLM is, under load; one process, which writes a log.

Arguments: how many engines, the log to write, how many lines a second, and after how many seconds all
of its labels are new (0: never). Prints its port; ends with its standard input.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable

from tests.benchmarks.made_exposition import TEXT, MadeExposition

LINE = b'(APIServer pid=1) INFO:     127.0.0.1:4 - "POST /v1/completions HTTP/1.1" 200 OK\n'


class Connection(asyncio.Protocol):
    """One kept connection, as uvicorn keeps it."""

    def __init__(self, made: MadeExposition, begun: float, renames_s: float) -> None:
        self.made = made
        self.begun = begun
        self.renames_s = renames_s
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        path = data.split(b" ", 2)[1].decode()
        answers: dict[str, Callable[[], bytes]] = {
            "/metrics": self.scrape,
            "/version": lambda: b'{"version":"0.26.0"}',
            "/health": lambda: b"",
        }
        body = answers[path]() if path in answers else b""
        status = "200 OK" if path in answers else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {TEXT}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)

    def scrape(self) -> bytes:
        """The exposition of this moment."""
        age = time.monotonic() - self.begun
        body = self.made.scrape(int(age * 10))
        if not self.renames_s:
            return body
        return body.replace(b'model_name="', f'model_name="m{age // self.renames_s:.0f}-'.encode())


async def main() -> None:
    """Serve for as long as the caller lives."""
    made, begun = MadeExposition(int(sys.argv[1])), time.monotonic()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(made, begun, float(sys.argv[4])), "127.0.0.1", 0
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sys.stdin.fileno(), ended.cancel)
    log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
    while not ended.done():
        os.write(log, LINE)
        await asyncio.wait([ended], timeout=1 / float(sys.argv[3]))
    os.close(log)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
