"""A changed configuration holds for what comes next; one that is wrong changes nothing."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sidecar.errors import ConfigError
from sidecar.export import web_file
from sidecar.export.face import PLAIN
from sidecar.export.http import HttpServer
from sidecar.export.metrics import Exposition
from sidecar.export.web_file import LOOKS_UNTIL_RETRY, WebFile
from tests.export.made_views import make_views
from tests.export.reports import EVIDENCE_KEYS
from tests.export.serving import Served, advance, copy, hashed, put, serving, tls_section
from tests.fakes.certificates import Authority, Pair
from tests.fakes.clock import FakeClock

NOTICED = 3
"""Looks until a change holds for sure: it must be seen twice alike."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def users(*names: str) -> str:
    lines = "".join(f"  {name}: {hashed('word')}\n" for name in names)
    return f"basic_auth_users:\n{lines}" if names else ""


def frame(value: str) -> str:
    return f"http_server_config:\n  headers: {{X-Frame-Options: {value}}}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "web.yml"
    put(path, frame("deny"))
    return path


@pytest.fixture
async def served(path: Path, clock: FakeClock) -> AsyncIterator[Served]:
    async with serving(path, clock) as one:
        yield one


def replace(path: Path, text: str) -> None:
    """Put a file in the place of one that is as long and as old."""
    other = path.with_suffix(".new")
    put(other, text)
    before = path.stat()
    assert other.stat().st_size == before.st_size
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def shown(served: Served) -> str:
    return served.web_file.face.headers.get("X-Frame-Options", "")


async def common_name(served: Served, authority: Authority) -> str:
    """Whose certificate a new connection is shown."""
    _, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=authority.client())
    subject = writer.get_extra_info("peercert")["subject"]
    writer.transport.abort()
    return str(dict(pair for (pair,) in subject)["commonName"])


async def is_let_in(served: Served, authority: Authority, shown: Pair) -> bool:
    """Whether a client with this certificate gets a page."""
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", served.port, ssl=authority.client(shown)
        )
    except OSError:
        return False
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    try:
        return b" 200 " in await reader.read()
    except OSError:
        return False
    finally:
        writer.transport.abort()


async def test_a_change_holds_once_it_stays(served: Served, path: Path, clock: FakeClock) -> None:
    put(path, frame("sameorigin"))
    await advance(clock, NOTICED)
    assert shown(served) == "sameorigin"
    assert served.complaints == []


async def test_what_is_being_written_does_not_hold(
    served: Served, path: Path, clock: FakeClock
) -> None:
    await advance(clock, NOTICED)
    for size in range(10):
        put(path, f"{'#' * size}\n{frame('sameorigin')}")
        await advance(clock)
        assert shown(served) == "deny"
    await advance(clock, NOTICED)
    assert shown(served) == "sameorigin"


async def test_a_file_that_takes_its_place_is_seen(
    served: Served, path: Path, clock: FakeClock
) -> None:
    put(path, frame("deny") + "# as long\n")
    await advance(clock, NOTICED)
    replace(path, frame("sameorigin") + "#ab\n")
    await advance(clock, NOTICED)
    assert shown(served) == "sameorigin"


async def test_a_folder_that_kubernetes_swaps_is_seen(tmp_path: Path, clock: FakeClock) -> None:
    for name, value in (("..first", "deny"), ("..second", "sameorigin")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "web.yml").write_text(frame(value))
    (tmp_path / "..data").symlink_to("..first")
    (tmp_path / "web.yml").symlink_to("..data/web.yml")
    async with serving(tmp_path / "web.yml", clock) as served:
        assert shown(served) == "deny"
        (tmp_path / "..data_tmp").symlink_to("..second")
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")
        await advance(clock, NOTICED)
        assert shown(served) == "sameorigin"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http_server_config: {SECRET: 1}", "line 1: http_server_config: unknown key"),
        ("a: [", "line 1: not one document of YAML"),
        ("", "it is empty; only a restart makes that hold"),
        (None, "no such file or directory"),
    ],
)
async def test_what_is_wrong_changes_nothing_and_is_said_once(
    served: Served, path: Path, clock: FakeClock, text: str | None, why: str
) -> None:
    put(path, text)
    await advance(clock, LOOKS_UNTIL_RETRY * 3)
    assert shown(served) == "deny"
    assert served.complaints == [("web_config_not_reloaded", f"web-config-file: {why}")]
    put(path, frame("sameorigin"))
    await advance(clock, NOTICED)
    assert shown(served) == "sameorigin"
    assert len(served.complaints) == 1
    put(path, "a: [")
    await advance(clock, NOTICED)
    assert len(served.complaints) == 2


async def test_a_reload_that_is_asked_for_needs_no_second_look(
    served: Served, path: Path, clock: FakeClock
) -> None:
    put(path, frame("sameorigin"))
    await served.server.reload()
    assert shown(served) == "sameorigin"
    put(path, "SECRET: 1")
    with pytest.raises(ConfigError, match=r"^web-config-file: line 1: the file: unknown key$"):
        await served.server.reload()
    assert shown(served) == "sameorigin"
    await advance(clock, LOOKS_UNTIL_RETRY * 2)
    # Who asked has said it.
    assert served.complaints == []


async def test_reloads_at_the_same_time_are_all_done(served: Served, path: Path) -> None:
    put(path, frame("sameorigin"))
    await asyncio.gather(*(served.server.reload() for _ in range(5)), served.web_file.look())
    assert shown(served) == "sameorigin"


async def test_a_server_without_a_file_reloads_nothing() -> None:
    views = make_views()
    server = HttpServer(views, Exposition(EVIDENCE_KEYS))
    await server.reload()
    assert server.face is PLAIN


async def test_a_disk_that_hangs_is_a_fault_and_nothing_waits(
    path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, gate = asyncio.get_running_loop(), asyncio.Event()

    def hang(_path: Path) -> web_file.Loaded:
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(20)
        raise ConfigError("late")

    monkeypatch.setattr(web_file, "load", hang)
    monkeypatch.setattr(web_file, "READ_LIMIT_S", 0.02)
    one = WebFile(path, clock, lambda _event, **_fields: None)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"^web-config-file: it does not answer$"):
            await one.reload()
    await one.look()
    gate.set()
    one.close()


async def test_users_who_were_taken_off_are_out_at_once(path: Path, clock: FakeClock) -> None:
    put(path, users("alice", "bob"))
    async with serving(path, clock) as served:
        before = served.web_file.face.users
        assert before is not None
        before.remember(before.digest(b"bob", b"word"))
        put(path, users("alice"))
        await advance(clock, NOTICED)
        after = served.web_file.face.users
        assert after is not None
        assert list(after.hashes) == [b"alice"]
        assert after.remembered == {}
        put(path, frame("deny"))
        await advance(clock, NOTICED)
        assert served.web_file.face.users is None


@pytest.mark.component("openssl")
async def test_a_new_certificate_is_shown_to_new_connections_while_old_ones_go_on(
    authority: Authority, tmp_path: Path, clock: FakeClock
) -> None:
    old, new = authority.issue("old"), authority.issue("new")
    pair = copy(old, tmp_path)
    path = tmp_path / "web.yml"
    put(path, tls_section(pair))
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    async with serving(path, clock) as served:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", served.port, ssl=authority.client()
        )
        writer.write(request)
        assert await reader.readuntil(b"ok\n")
        assert await common_name(served, authority) == "old"
        # One after the other, with as much time between as it takes to be noticed.
        shutil.copyfile(new.certificate, pair.certificate)
        await advance(clock, NOTICED)
        assert await common_name(served, authority) == "old"
        shutil.copyfile(new.key, pair.key)
        await advance(clock, NOTICED)
        assert await common_name(served, authority) == "new"
        writer.write(request)
        assert await reader.readuntil(b"ok\n")
        writer.transport.abort()
    assert served.complaints == [
        (
            "web_config_not_reloaded",
            "web-config-file: line 2: cert_file: the key does not fit the certificate",
        )
    ]


@pytest.mark.component("openssl")
async def test_a_pair_that_is_exchanged_between_two_looks_is_not_complained_of(
    authority: Authority, tmp_path: Path, clock: FakeClock
) -> None:
    old, new = authority.issue("old"), authority.issue("new")
    pair = copy(old, tmp_path)
    path = tmp_path / "web.yml"
    put(path, tls_section(pair))
    async with serving(path, clock) as served:
        await advance(clock, NOTICED)
        shutil.copyfile(new.certificate, pair.certificate)
        await advance(clock)
        shutil.copyfile(new.key, pair.key)
        await advance(clock, NOTICED)
        assert await common_name(served, authority) == "new"
        assert served.complaints == []


@pytest.mark.component("openssl")
async def test_another_authority_for_clients_is_taken(
    authority: Authority, tmp_path: Path, clock: FakeClock
) -> None:
    stranger = Authority(tmp_path, "stranger")
    known, other = authority.issue("known", "DNS:x"), stranger.issue("other", "DNS:x")
    trusted = tmp_path / "trusted.crt"
    shutil.copyfile(authority.pair.certificate, trusted)
    path = tmp_path / "web.yml"
    more = f"client_auth_type: RequireAndVerifyClientCert\nclient_ca_file: {trusted}\n"
    put(path, tls_section(authority.issue("server"), more))

    async with serving(path, clock) as served:
        assert [await is_let_in(served, authority, pair) for pair in (known, other)] == [
            True,
            False,
        ]
        shutil.copyfile(stranger.pair.certificate, trusted)
        await advance(clock, NOTICED)
        assert [await is_let_in(served, authority, pair) for pair in (known, other)] == [
            False,
            True,
        ]


@pytest.mark.component("openssl")
async def test_a_file_that_comes_late_is_tried_again(
    authority: Authority, tmp_path: Path, clock: FakeClock
) -> None:
    old, new = authority.issue("old"), authority.issue("new")
    late = Pair(tmp_path / "tls.crt", tmp_path / "tls.key")
    path = tmp_path / "web.yml"
    put(path, tls_section(old))
    async with serving(path, clock) as served:
        put(path, tls_section(late))
        await advance(clock, NOTICED)
        copy(new, tmp_path)
        await advance(clock, LOOKS_UNTIL_RETRY + 1)
        assert await common_name(served, authority) == "new"
        assert [why for _, why in served.complaints] == [
            "web-config-file: line 2: cert_file: no such file or directory"
        ]


@pytest.mark.component("openssl")
@pytest.mark.parametrize("begins_with_tls", [True, False])
async def test_tls_is_not_switched_while_we_run(
    authority: Authority, tmp_path: Path, clock: FakeClock, *, begins_with_tls: bool
) -> None:
    texts = [tls_section(authority.issue("server")), frame("deny")]
    if not begins_with_tls:
        texts.reverse()
    path = tmp_path / "web.yml"
    put(path, texts[0])
    async with serving(path, clock) as served:
        put(path, texts[1])
        await advance(clock, NOTICED)
        assert (served.web_file.face.tls is not None) is begins_with_tls
        assert [why for _, why in served.complaints] == [
            "web-config-file: only a restart switches TLS on or off"
        ]
