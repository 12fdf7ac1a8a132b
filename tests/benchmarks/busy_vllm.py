"""Program: a server that is scraped as vLLM is, under load; one process, which writes a log.

Arguments: how many engines, the log to write, and how many lines a second. Prints its port; ends with
its standard input.
"""

import asyncio
import sys
import time
from pathlib import Path

from tests.benchmarks.made_exposition import MadeExposition

TEXT = "text/plain; version=0.0.4; charset=utf-8"
LINE = '(APIServer pid=1) INFO:     127.0.0.1:4 - "POST /v1/completions HTTP/1.1" 200 OK\n'


class Connection(asyncio.Protocol):
    """One kept connection, as uvicorn keeps it."""

    def __init__(self, made: MadeExposition, begun: float) -> None:
        self.made = made
        self.begun = begun
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        path = data.split(b" ", 2)[1].decode()
        answers = {
            "/metrics": lambda: self.made.scrape(int((time.monotonic() - self.begun) * 10)),
            "/version": lambda: b'{"version":"0.26.0"}',
            "/health": lambda: b"",
        }
        answer = answers.get(path)
        body = b"" if answer is None else answer()
        status = "404 Not Found" if answer is None else "200 OK"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {TEXT}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)


async def main() -> None:
    """Serve for as long as the caller lives."""
    made, begun = MadeExposition(int(sys.argv[1])), time.monotonic()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(made, begun), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    ended = loop.create_future()
    loop.add_reader(sys.stdin.fileno(), lambda: ended.done() or ended.set_result(None))
    with Path(sys.argv[2]).open("a") as log:
        while not ended.done():
            log.write(LINE)
            log.flush()
            await asyncio.wait([ended], timeout=1 / float(sys.argv[3]))
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
