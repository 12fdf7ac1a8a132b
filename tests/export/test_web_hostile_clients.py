"""Clients that are slow, broken or too many at the handshake cannot hold the server either."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvloop

from sidecar.export import connection, http
from sidecar.export.results import encode, window_result
from tests.export.reports import make_judgement
from tests.export.serving import Served, serving, tls_section
from tests.fakes.certificates import Authority
from tests.fakes.clock import settle
from tests.fakes.patience import until

pytestmark = pytest.mark.component("openssl")

WINDOWS = [encode(window_result(make_judgement(engines=20)))] * 1000
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
MUCH = b"GET /api/windows?limit=1000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
"""As JSON some megabytes: more than the system's buffers take from a client that does not read."""


@dataclass
class Secure:
    """A server with TLS, and a client's side of it."""

    served: Served
    client: ssl.SSLContext
    opened: list[Callable[[], None]] = field(default_factory=list)

    async def ask(self, raw: bytes = HEALTH) -> bytes:
        """Send bytes over TLS, read to the end."""
        reader, writer = await self.open()
        writer.write(raw)
        async with asyncio.timeout(20):
            answer = await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return answer

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client that is through with the handshake."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.served.port, ssl=self.client
        )

        def leave() -> None:
            writer.transport.abort()

        self.opened.append(leave)
        return reader, writer

    async def open_silent(self, sent: bytes = b"") -> socket.socket:
        """A client that never goes on with the handshake."""
        loop = asyncio.get_running_loop()
        silent = socket.socket()
        self.opened.append(silent.close)
        silent.settimeout(0.0)
        await loop.sock_connect(silent, ("127.0.0.1", self.served.port))
        await loop.sock_sendall(silent, sent)
        return silent

    async def open_deaf(self, raw: bytes = b"") -> socket.socket:
        """A client that reads nothing once the handshake is made."""
        loop = asyncio.get_running_loop()
        deaf = socket.socket()
        self.opened.append(deaf.close)
        deaf.settimeout(0.0)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(deaf, ("127.0.0.1", self.served.port))
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = self.client.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                await loop.sock_sendall(deaf, outgoing.read())
                incoming.write(await loop.sock_recv(deaf, 65536))
        if raw:
            session.write(raw)
        await loop.sock_sendall(deaf, outgoing.read())
        return deaf

    async def close(self) -> None:
        """All clients leave."""
        for leave in self.opened:
            leave()
        await settle()

    async def ask_and_stay(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client that has had one answer, and keeps its connection."""
        reader, writer = await self.open()
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        return reader, writer


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def config(authority: Authority) -> Path:
    path = authority.folder / "web.yml"
    path.write_text(tls_section(authority.issue("server")))
    return path


@pytest.fixture
async def secure(config: Path, authority: Authority) -> AsyncIterator[Secure]:
    async with serving(config, windows=WINDOWS) as served:
        one = Secure(served, authority.client())
        yield one
        await one.close()


async def is_dropped(client: socket.socket) -> bool:
    try:
        async with asyncio.timeout(0.2):
            return await asyncio.get_running_loop().sock_recv(client, 1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


async def read_all(client: socket.socket) -> bytes:
    """What comes until the connection ends."""
    read = b""
    with suppress(ConnectionError):
        while more := await asyncio.get_running_loop().sock_recv(client, 65536):
            read += more
    return read


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00"])
async def test_a_client_that_is_slow_at_the_handshake_is_cut_off(
    secure: Secure, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "HANDSHAKE_S", 0.05)
    silent = await secure.open_silent(sent)
    await until(lambda: len(secure.served.server.connections) == 1)
    await until(lambda: len(secure.served.server.connections) == 0)
    assert await is_dropped(silent)


async def test_hundreds_of_silent_clients_do_not_lock_a_scrape_out(secure: Secure) -> None:
    silent = [await secure.open_silent() for _ in range(http.MAX_CONNECTIONS + 20)]
    await until(lambda: len(secure.served.server.connections) == http.MAX_CONNECTIONS)
    for _ in range(3):
        assert b" 200 " in await secure.ask()
    assert len(secure.served.server.connections) <= http.MAX_CONNECTIONS
    assert len(secure.served.server.tasks) <= http.MAX_CONNECTIONS + 1
    assert await is_dropped(silent[0])


async def test_hundreds_of_idle_connections_do_not_lock_a_scrape_out(secure: Secure) -> None:
    for _ in range(http.MAX_CONNECTIONS + 5):
        await secure.ask_and_stay()
    for _ in range(3):
        assert b" 200 " in await secure.ask()
    assert len(secure.served.server.connections) <= http.MAX_CONNECTIONS


async def test_of_too_many_the_one_idle_for_longest_is_dropped_shaken_or_not(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)
    first, second = await secure.ask_and_stay(), await secure.ask_and_stay()
    silent = await secure.open_silent()
    await until(lambda: len(secure.served.server.connections) == 3)
    first[1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    await first[0].readuntil(b"ok\n")
    assert b" 200 " in await secure.ask()
    assert second[0].at_eof() or await second[0].read() == b""
    assert not await is_dropped(silent)
    assert b" 200 " in await secure.ask()
    for _ in range(2):
        await secure.ask_and_stay()
    assert await is_dropped(silent)


@pytest.mark.parametrize("sent", [HEALTH, b"\x16\x03\x01\x00\x05secret", b"\0" * 2000])
async def test_what_is_no_handshake_is_closed_without_a_word(
    secure: Secure, capfd: pytest.CaptureFixture[str], sent: bytes
) -> None:
    silent = await secure.open_silent(sent)
    answer = await read_all(silent)
    assert b"HTTP" not in answer
    assert len(answer) < 20
    await until(lambda: len(secure.served.server.connections) == 0)
    assert b" 200 " in await secure.ask()
    assert (capfd.readouterr(), secure.served.complaints) == (("", ""), [])


async def test_a_client_that_asks_nothing_is_closed(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FIRST_REQUEST_S", 0.05)
    assert await secure.ask(b"GET /metrics HTTP/1.1\r\nHost:") == b""
    assert b" 200 " in await secure.ask()


async def test_a_client_that_does_not_end_tls_is_cut_off(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FIRST_REQUEST_S", 0.05)
    monkeypatch.setattr(connection, "SHUTDOWN_S", 0.05)
    await secure.open_deaf()
    await until(lambda: len(secure.served.server.connections) == 1)
    await until(lambda: len(secure.served.server.connections) == 0)


async def test_a_client_that_does_not_read_is_cut_off(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ANSWER_S", 0.2)
    await secure.open_deaf(MUCH)
    await until(lambda: secure.served.server.requests == 1)
    await until(lambda: secure.served.server.requests == 0)
    assert b" 200 " in await secure.ask()


def join_chunks(body: bytes) -> bytes:
    """What came in chunks; fails where the last one is missing."""
    joined = bytearray()
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        joined += body[:length]
        assert body[length : length + 2] == b"\r\n"
        body = body[length + 2 :]
        if not length:
            return bytes(joined)


async def test_large_answers_come_whole(secure: Secure) -> None:
    answer = await secure.ask(MUCH)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head
    told = join_chunks(body)
    assert len(told) > 5_000_000
    assert told == f"[{','.join(WINDOWS[-1000:])}]".encode()
    # A client that knows no chunks reads up to the end of the connection.
    answer = await secure.ask(MUCH.replace(b"HTTP/1.1", b"HTTP/1.0"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head
    assert body == told


async def test_stop_waits_for_no_client(secure: Secure) -> None:
    silent = await secure.open_silent()
    await secure.ask_and_stay()
    await until(lambda: len(secure.served.server.connections) == 2)
    async with asyncio.timeout(10):
        await secure.served.server.stop(0.1)
    assert await is_dropped(silent)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", secure.served.port)


async def test_a_client_that_is_accepted_as_we_stop_is_not_met(secure: Secure) -> None:
    arrival = secure.served.server.accept()
    await secure.served.server.stop(0.1)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)  # noqa: FBT003
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: arrival, sock=ours
        )
        await settle()
        assert transport.is_closing()
        assert theirs.recv(1) == b""
    assert secure.served.server.tasks == set()


async def test_a_handshake_without_a_descriptor_left_is_given_up(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> int:
        raise OSError(24, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "dup", fail)
        silent = await secure.open_silent()
        assert await is_dropped(silent)
        assert len(secure.served.server.connections) == 0
    assert b" 200 " in await secure.ask()


async def test_a_fault_of_ours_in_a_handshake_is_said(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("secret")

    with monkeypatch.context() as patch:
        patch.setattr(http, "Connection", fail)
        silent = await secure.open_silent()
        assert await is_dropped(silent)
    assert secure.served.complaints == [("http_server_failed", "RuntimeError")]
    assert b" 200 " in await secure.ask()


@pytest.mark.parametrize(
    "make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_both_event_loops_serve_and_refuse_alike(
    config: Path,
    authority: Authority,
    make_loop: Callable[[], asyncio.AbstractEventLoop],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(connection, "HANDSHAKE_S", 0.3)
    monkeypatch.setattr(http, "ANSWER_S", 0.3)
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 5)

    async def try_all() -> list[object]:
        async with serving(config, windows=WINDOWS) as served:
            secure = Secure(served, authority.client())
            found: list[object] = [(await secure.ask())[:15]]
            silent = [await secure.open_silent() for _ in range(8)]
            found.append((await secure.ask())[:15])
            found.append(await is_dropped(silent[0]))
            silent.append(await secure.open_silent(HEALTH))
            await until(lambda: len(served.server.connections) == 0)
            found.append(all([await is_dropped(client) for client in silent]))
            deaf = await secure.open_deaf(MUCH)
            await until(lambda: served.server.requests == 1)
            await until(lambda: len(served.server.connections) == 0)
            found.append(served.server.requests)
            found.append(len(await read_all(deaf)) < len(WINDOWS[0]) * len(WINDOWS))
            silent.append(await secure.open_silent())
            stay = await secure.ask_and_stay()
            stay[1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            found.append((await stay[0].readuntil(b"ok\n"))[:15])
        found.append(await stay[0].read())
        await secure.close()
        await until(lambda: len(asyncio.all_tasks()) == 1)
        return found

    with asyncio.Runner(loop_factory=make_loop) as runner:
        ok = b"HTTP/1.1 200 OK"
        assert runner.run(try_all()) == [ok, ok, True, True, 0, True, ok, b""]
    assert capfd.readouterr() == ("", "")
