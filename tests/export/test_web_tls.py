"""A TLS handshake ends as the configuration says, with real clients on a real listener."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from sidecar.export import web_file
from sidecar.export.connection import Connection
from sidecar.export.tls_config import CIPHERS_1_2, CURVES
from tests.export.serving import advance, put, serving, tls_section
from tests.fakes.certificates import RSA, Authority, Pair, openssl
from tests.fakes.clock import FakeClock
from tests.fakes.patience import until

pytestmark = pytest.mark.component("openssl")

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
REQUIRED = "client_auth_type: RequireAndVerifyClientCert\nclient_ca_file: ca.crt\n"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Pair]:
    """Pairs by name: two for servers, some for clients of our authority, and a stranger."""
    folder = tmp_path_factory.mktemp("keys")
    authority, stranger = Authority(folder), Authority(folder, "stranger")
    return {
        "ca": authority.pair,
        "ec": authority.issue("ec"),
        "rsa": authority.issue("rsa", kind=RSA),
        "client": authority.issue("client", "DNS:prometheus.example,email:a@b.example"),
        "address": authority.issue("address", "IP:2001:db8::1,IP:10.0.0.1"),
        "uri": authority.issue("uri", "URI:spiffe://lab/prometheus"),
        "nameless": authority.issue("nameless", ""),
        "stranger": stranger.issue("strange", "DNS:prometheus.example"),
    }


@pytest.fixture
def folder(keys: Mapping[str, Pair]) -> Path:
    return keys["ca"].certificate.parent


def client_of(keys: Mapping[str, Pair], shown: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=keys["ca"].certificate)
    if shown is not None:
        context.load_cert_chain(keys[shown].certificate, keys[shown].key)
    return context


async def ask(port: int, context: ssl.SSLContext) -> tuple[bytes, ssl.SSLObject | None]:
    """The whole answer to a request, empty if there is none, and the session it came by."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except OSError:
        return b"", None
    session = writer.get_extra_info("ssl_object")
    answer = b""
    with suppress(OSError):
        writer.write(REQUEST)
        answer = await reader.read()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return answer, session


def is_served(answer: bytes) -> bool:
    return answer.startswith(b"HTTP/1.1 200 ")


async def talk(
    folder: Path, text: str, *clients: ssl.SSLContext
) -> list[tuple[bytes, ssl.SSLObject | None]]:
    """What each client gets from a server with this configuration."""
    async with serving(put(folder / "web.yml", text)) as served:
        answers = [await ask(served.port, client) for client in clients]
        await until(lambda: len(served.server.connections) == 0)
        assert served.complaints == []
    return answers


@pytest.mark.parametrize("kind", ["ec", "rsa"])
async def test_a_page_is_served_over_tls(folder: Path, keys: Mapping[str, Pair], kind: str) -> None:
    ((answer, session),) = await talk(folder, tls_section(keys[kind]), client_of(keys))
    assert is_served(answer)
    assert session is not None
    assert session.version() == "TLSv1.3"


async def test_a_pair_can_stand_in_the_configuration(
    folder: Path, keys: Mapping[str, Pair]
) -> None:
    def indented(path: Path) -> str:
        return "".join(f"    {line}\n" for line in path.read_text().splitlines())

    pair = keys["ec"]
    text = (
        f"tls_server_config:\n  cert: |\n{indented(pair.certificate)}"
        f"  key: |\n{indented(pair.key)}  client_auth_type: RequireAndVerifyClientCert\n"
        f"  client_ca: |\n{indented(keys['ca'].certificate)}"
    )
    (known, _), (unknown, _) = await talk(folder, text, client_of(keys, "client"), client_of(keys))
    assert is_served(known)
    assert unknown == b""


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        ("", "TLSv1.2", "TLSv1.3"),
        ("min_version: TLS12\nmax_version: TLS13\n", "TLSv1.2", "TLSv1.3"),
        ("min_version: TLS13\n", None, "TLSv1.3"),
        ("max_version: TLS12\n", "TLSv1.2", None),
    ],
)
async def test_versions_are_those_allowed(
    folder: Path, keys: Mapping[str, Pair], rule: str, old: str | None, new: str | None
) -> None:
    only_old, only_new = client_of(keys), client_of(keys)
    only_old.maximum_version = ssl.TLSVersion.TLSv1_2
    only_new.minimum_version = ssl.TLSVersion.TLSv1_3
    answers = await talk(folder, tls_section(keys["ec"], rule), only_old, only_new)
    for (answer, session), version in zip(answers, (old, new), strict=True):
        assert is_served(answer) is (version is not None)
        assert (session and session.version()) == version


@pytest.mark.parametrize("old", ["TLSv1", "TLSv1.1"])
async def test_versions_that_are_not_safe_any_more_are_not_spoken(
    folder: Path, keys: Mapping[str, Pair], old: str
) -> None:
    client = client_of(keys)
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        client.minimum_version = client.maximum_version = {
            "TLSv1": ssl.TLSVersion.TLSv1,
            "TLSv1.1": ssl.TLSVersion.TLSv1_1,
        }[old]
    client.set_ciphers("DEFAULT@SECLEVEL=0")
    assert await talk(folder, tls_section(keys["ec"]), client) == [(b"", None)]


@pytest.mark.parametrize("name", CIPHERS_1_2)
async def test_only_the_named_cipher_suite_is_spoken(
    folder: Path, keys: Mapping[str, Pair], name: str
) -> None:
    pair = keys["ec" if "_ECDSA_" in name else "rsa"]
    able, unable = client_of(keys), client_of(keys)
    able.maximum_version = unable.maximum_version = ssl.TLSVersion.TLSv1_2
    others = [openssl for go, openssl in CIPHERS_1_2.items() if go != name]
    able.set_ciphers(":".join(CIPHERS_1_2.values()))
    unable.set_ciphers(":".join(others))
    (answer, session), (none, _) = await talk(
        folder, tls_section(pair, f"cipher_suites: [{name}]\n"), able, unable
    )
    assert is_served(answer)
    assert session is not None
    assert (session.cipher() or [""])[0] == CIPHERS_1_2[name]
    assert none == b""


@pytest.mark.parametrize(("prefer", "taken"), [("true", "AES256"), ("false", "AES128")])
async def test_the_order_of_cipher_suites_is_the_preferred_sides(
    folder: Path, keys: Mapping[str, Pair], prefer: str, taken: str
) -> None:
    rule = (
        "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,"
        " TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]\n"
        f"prefer_server_cipher_suites: {prefer}\n"
    )
    client = client_of(keys)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384")
    ((_, session),) = await talk(folder, tls_section(keys["ec"], rule), client)
    assert session is not None
    assert taken in (session.cipher() or [""])[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", CURVES)
async def test_only_the_named_curve_is_spoken(
    folder: Path, keys: Mapping[str, Pair], name: str, version: ssl.TLSVersion
) -> None:
    clients = []
    for curve in CURVES.values():
        client = client_of(keys)
        client.minimum_version = client.maximum_version = version
        client.set_ecdh_curve(curve)
        clients.append(client)
    answers = await talk(
        folder, tls_section(keys["rsa"], f"curve_preferences: [{name}]\n"), *clients
    )
    assert [is_served(answer) for answer, _ in answers] == [curve == name for curve in CURVES]


@pytest.mark.parametrize(
    ("auth", "nobody", "known", "stranger"),
    [
        ("NoClientCert", True, True, True),
        ("VerifyClientCertIfGiven", True, True, False),
        ("RequireAndVerifyClientCert", False, True, False),
    ],
)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_clients_are_verified_as_asked(
    folder: Path,
    keys: Mapping[str, Pair],
    auth: str,
    version: ssl.TLSVersion,
    *,
    nobody: bool,
    known: bool,
    stranger: bool,
) -> None:
    authority = "" if auth == "NoClientCert" else "client_ca_file: ca.crt\n"
    clients = [client_of(keys, shown) for shown in (None, "client", "stranger")]
    for client in clients:
        client.minimum_version = client.maximum_version = version
    text = tls_section(keys["ec"], f"client_auth_type: {auth}\n{authority}")
    answers = await talk(folder, text, *clients)
    assert [is_served(answer) for answer, _ in answers] == [nobody, known, stranger]


@pytest.mark.parametrize(
    ("allowed", "shown"),
    [
        ("prometheus.example", "client"),
        ("a@b.example", "client"),
        ("2001:db8::1", "address"),
        ("10.0.0.1", "address"),
        ("spiffe://lab/prometheus", "uri"),
    ],
)
async def test_a_client_must_bear_an_allowed_name(
    folder: Path, keys: Mapping[str, Pair], allowed: str, shown: str
) -> None:
    text = tls_section(keys["ec"], f"{REQUIRED}client_allowed_sans: ['{allowed}', other]\n")
    names = ("client", "address", "uri", "nameless", "stranger")
    answers = await talk(folder, text, *(client_of(keys, name) for name in names))
    assert [is_served(answer) for answer, _ in answers] == [name == shown for name in names]


async def test_who_bears_no_allowed_name_gets_nothing_though_the_connection_lives_on(
    folder: Path, keys: Mapping[str, Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "drop", lambda _connection: None)
    text = tls_section(keys["ec"], f"{REQUIRED}client_allowed_sans: [other]\n")
    ((answer, session),) = await talk(folder, text, client_of(keys, "client"))
    assert session is not None
    assert answer == b""


async def test_part_of_a_name_or_the_subjects_own_is_none(
    folder: Path, keys: Mapping[str, Pair]
) -> None:
    rule = f"{REQUIRED}client_allowed_sans: ['*.example', prometheus, client, PROMETHEUS.example]\n"
    ((answer, _),) = await talk(folder, tls_section(keys["ec"], rule), client_of(keys, "client"))
    assert answer == b""


async def test_an_authority_is_trusted_though_another_one_signed_it(tmp_path: Path) -> None:
    root = Authority(tmp_path)
    root.issue("middle", "", ca=True)
    openssl(tmp_path, "version")
    middle = Authority.__new__(Authority)
    middle.folder, middle.pair = tmp_path, Pair(tmp_path / "middle.crt", tmp_path / "middle.key")
    shown = middle.issue("leaf", "DNS:leaf")
    text = tls_section(
        root.issue("server"),
        "client_auth_type: RequireAndVerifyClientCert\nclient_ca_file: middle.crt\n",
    )
    (leaf, _), (other, _) = await talk(
        tmp_path, text, root.client(shown), root.client(root.issue("other", "DNS:o"))
    )
    assert is_served(leaf)
    assert other == b""


def take_up(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool]:
    """Ask once, with an earlier session if there is one; the session, and whether it was that one."""
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as wrapped,
    ):
        wrapped.sendall(REQUEST)
        while wrapped.recv(4096):
            continue
        return wrapped.session, bool(wrapped.session_reused)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("more", [0, ssl.OP_NO_TICKET])
async def test_no_session_outlives_its_configuration(
    folder: Path, keys: Mapping[str, Pair], version: ssl.TLSVersion, more: int
) -> None:
    client = client_of(keys)
    client.minimum_version = client.maximum_version = version
    client.options |= more
    async with serving(put(folder / "web.yml", tls_section(keys["ec"]))) as served:
        ask_again = asyncio.get_running_loop().run_in_executor
        first, _ = await ask_again(None, take_up, served.port, client, None)
        second, reused = await ask_again(None, take_up, served.port, client, first)
        assert reused is (version is ssl.TLSVersion.TLSv1_2)
        await served.server.reload()
        _, reused = await ask_again(None, take_up, served.port, client, second)
        assert reused is False


async def test_sessions_do_not_pile_up(
    folder: Path, keys: Mapping[str, Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_file, "MAX_SESSIONS", 3)
    client = client_of(keys)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.options |= ssl.OP_NO_TICKET
    clock = FakeClock()
    async with serving(put(folder / "web.yml", tls_section(keys["ec"])), clock) as served:
        for _ in range(4):
            assert is_served((await ask(served.port, client))[0])
        before = served.web_file.face.tls
        assert before is not None
        assert before.session_stats()["number"] == 4
        await advance(clock, 3)
        assert served.web_file.face.tls is not before


@pytest.mark.parametrize(("offered", "spoken"), [(["h2", "http/1.1"], "http/1.1"), (["h2"], None)])
async def test_http_1_is_spoken_though_2_is_allowed(
    folder: Path, keys: Mapping[str, Pair], offered: list[str], spoken: str | None
) -> None:
    client = client_of(keys)
    client.set_alpn_protocols(offered)
    text = f"{tls_section(keys['ec'])}http_server_config: {{http2: true}}\n"
    ((answer, session),) = await talk(folder, text, client)
    assert is_served(answer)
    assert session is not None
    assert session.selected_alpn_protocol() == spoken
