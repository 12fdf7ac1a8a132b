"""Clients that are slow, broken or too many cannot hold the server."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest
import uvloop

from sidecar.errors import ConfigError
from sidecar.export import connection, http
from sidecar.export.http import HttpServer
from sidecar.export.metrics import Exposition
from sidecar.export.results import encode, window_result
from tests.export.made_views import make_views
from tests.export.reports import EVIDENCE_KEYS, make_judgement

WINDOWS = [encode(window_result(make_judgement(engines=20)))] * 1000
"""As JSON some megabytes: more than the system's buffers take from a client that does not read."""


@dataclass
class Served:
    server: HttpServer
    port: int

    async def ask(self, raw: bytes) -> bytes:
        """Send bytes, read to the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(raw)
        async with asyncio.timeout(20):
            answer = await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        return answer

    async def ask_health(self) -> bytes:
        return await self.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    views = make_views(WINDOWS)
    server = HttpServer(views, Exposition(EVIDENCE_KEYS))
    yield Served(server, await server.start("127.0.0.1", 0))
    await server.stop(0.2)


async def open_deaf(port: int) -> socket.socket:
    """A client that asks for much and reads nothing."""
    loop = asyncio.get_running_loop()
    deaf = socket.socket()
    deaf.settimeout(0.0)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await loop.sock_connect(deaf, ("127.0.0.1", port))
    await loop.sock_sendall(deaf, b"GET /api/windows?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n")
    return deaf


async def wait_for_requests(server: HttpServer, count: int) -> None:
    async with asyncio.timeout(20):
        while server.requests != count:
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01secret",
        b"secret\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\nsecret\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nsecret header\r\n\r\n",
        b"GET /" + b"secret" * 4000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"secret" * 4000 + b"\r\n\r\n",
    ],
)
async def test_broken_requests_get_one_line_that_quotes_nothing(served: Served, raw: bytes) -> None:
    answer = await served.ask(raw)
    assert answer.startswith(b"HTTP/1.")
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert b"secret" not in answer
    assert b"aiohttp" not in answer
    assert answer.endswith(b"this is no HTTP request\n")


async def test_a_client_that_asks_nothing_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FIRST_REQUEST_S", 0.05)
    assert await served.ask(b"GET /metrics HTTP/1.1\r\nHost:") == b""
    assert await served.ask(b"") == b""
    assert b" 200 " in await served.ask_health()


async def test_a_client_that_falls_silent_after_an_answer_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "IDLE_S", 0.05)
    answer = await served.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /metr")
    assert answer.count(b"HTTP/1.1 200") == 1


async def test_a_client_that_does_not_read_is_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ANSWER_S", 0.2)
    deaf = await open_deaf(served.port)
    await wait_for_requests(served.server, 1)
    await wait_for_requests(served.server, 0)
    assert b" 200 " in await served.ask_health()
    deaf.close()


async def test_one_request_too_many_is_told_to_come_back(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_REQUESTS", 2)
    monkeypatch.setattr(http, "RESERVED", 0)
    monkeypatch.setattr(http, "LARGE", frozenset[str]())
    deaf = [await open_deaf(served.port) for _ in range(2)]
    await wait_for_requests(served.server, 2)
    answer = await served.ask_health()
    assert b" 503 " in answer
    assert b"Retry-After: 1" in answer
    for client in deaf:
        client.close()
    await wait_for_requests(served.server, 0)
    assert b" 200 " in await served.ask_health()


async def test_a_new_connection_is_answered_though_old_ones_leave_theirs_unread(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_REQUESTS", 2)
    monkeypatch.setattr(http, "LARGE", frozenset[str]())
    deaf = [await open_deaf(served.port) for _ in range(2)]
    await wait_for_requests(served.server, 2)
    assert b" 200 " in await served.ask_health()
    for client in deaf:
        client.close()


async def test_what_is_left_unread_is_given_up_where_its_place_is_needed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_REQUESTS", 2)
    monkeypatch.setattr(http, "RESERVED", 0)
    monkeypatch.setattr(http, "UNREAD_S", 0.0)
    monkeypatch.setattr(http, "LARGE", frozenset[str]())
    deaf = [await open_deaf(served.port) for _ in range(2)]
    await wait_for_requests(served.server, 2)
    assert b" 200 " in await served.ask_health()
    await wait_for_requests(served.server, 1)
    for client in deaf:
        client.close()


async def test_few_large_answers_are_held_at_once_and_small_ones_go_on(served: Served) -> None:
    deaf = [await open_deaf(served.port) for _ in range(http.MAX_LARGE)]
    await wait_for_requests(served.server, http.MAX_LARGE)
    large = b"GET /api/windows HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert b" 503 " in (await served.ask(large)).split(b"\r\n")[0]
    assert b" 200 " in await served.ask_health()
    for client in deaf:
        client.close()
    await wait_for_requests(served.server, 0)
    assert b" 200 " in (await served.ask(large)).split(b"\r\n")[0]


async def ask_and_stay(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that has had one answer, and keeps its connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
    return reader, writer


async def is_dropped(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(0.2):
            return await reader.read() == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


async def test_of_too_many_connections_the_one_idle_for_longest_is_dropped(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)
    first, second, third = [await ask_and_stay(served.port) for _ in range(3)]
    first[1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    await first[0].readuntil(b"ok\n")
    assert b" 200 " in await served.ask_health()
    assert [await is_dropped(one[0]) for one in (first, second, third)] == [False, True, False]
    for _, writer in (first, second, third):
        writer.close()


async def test_a_connection_that_is_being_answered_is_not_the_one_that_is_dropped(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)
    deaf = await open_deaf(served.port)
    await wait_for_requests(served.server, 1)
    half, idle = [await ask_and_stay(served.port) for _ in range(2)]
    half[1].write(b"GET /healthz HT")
    assert b" 200 " in await served.ask_health()
    assert served.server.requests == 1
    assert [await is_dropped(one[0]) for one in (half, idle)] == [True, False]
    half[1].close()
    idle[1].close()
    deaf.close()


async def test_hundreds_of_idle_connections_do_not_lock_a_scrape_out(served: Served) -> None:
    idle = [await ask_and_stay(served.port) for _ in range(http.MAX_CONNECTIONS + 20)]
    for _ in range(3):
        assert b" 200 " in await served.ask_health()
    assert len(served.server.connections) <= http.MAX_CONNECTIONS
    for _, writer in idle:
        writer.close()


@pytest.mark.parametrize(
    "make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_both_event_loops_refuse_a_connection_without_room_and_a_silent_one(
    make_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask_twice() -> tuple[bytes, bytes]:
        server = HttpServer(make_views(), Exposition(EVIDENCE_KEYS))
        port = await server.start("127.0.0.1", 0)
        silent = await Served(server, port).ask(b"GET /metrics HTTP/1.1\r\nHost:")
        monkeypatch.setattr(http, "MAX_CONNECTIONS", 0)
        refused = b""
        with suppress(ConnectionError):
            refused = await Served(server, port).ask_health()
        await server.stop()
        return silent, refused

    monkeypatch.setattr(connection, "FIRST_REQUEST_S", 0.05)
    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(ask_twice()) == (b"", b"")


async def test_stop_does_not_wait_for_clients_that_do_not_read(served: Served) -> None:
    deaf = await open_deaf(served.port)
    await wait_for_requests(served.server, 1)
    async with asyncio.timeout(10):
        await served.server.stop(0.1)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", served.port)
    deaf.close()


async def test_a_page_that_fails_says_only_that(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> bool:
        raise RuntimeError("secret")

    broken = make_views(WINDOWS, alive=fail)
    monkeypatch.setattr(served.server.pages, "views", broken)
    heard: list[tuple[str, dict[str, str]]] = []
    served.server.complain = lambda event, **why: heard.append((event, why))
    answer = await served.ask_health()
    assert b" 500 " in answer
    assert answer.endswith(b"internal error\n")
    assert b"secret" not in answer
    assert heard == [("page_failed", {"why": "RuntimeError"})]


async def test_a_taken_port_is_one_clear_line(served: Served) -> None:
    other = HttpServer(served.server.pages.views, Exposition(EVIDENCE_KEYS))
    with pytest.raises(
        ConfigError, match=rf"^cannot listen on 127\.0\.0\.1:{served.port}: [a-z ]+$"
    ):
        await other.start("127.0.0.1", served.port)
    await other.stop()


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 99_999), ("203.0.113.1", 0), ("::zz", 1)])
async def test_an_address_that_is_not_ours_is_one_clear_line(host: str, port: int) -> None:
    views = make_views()
    with pytest.raises(ConfigError, match=r"^cannot listen on [^\n]+$"):
        await HttpServer(views, Exposition(EVIDENCE_KEYS)).start(host, port)


@pytest.mark.component("ipv6")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
async def test_ipv6_is_served(host: str) -> None:
    server = HttpServer(make_views(), Exposition(EVIDENCE_KEYS))
    port = await server.start(host, 0)
    reader, writer = await asyncio.open_connection("::1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()
    await writer.wait_closed()
    await server.stop()
