"""The web configuration is read as its format says, and what is wrong in it is refused, unquoted."""

import ssl
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.errors import ConfigError
from sidecar.export.basic_auth import matches
from sidecar.export.rate_limit import RateLimit
from sidecar.export.tls import ClientAuth
from sidecar.export.web_config import BCRYPT, WebConfig, parse_web_config

FOLDER = Path("/etc/web")
HASH = "$2y$10$Y01Iv.kuT303TU4EH4bZsO5vngr0mZP1ad.4EBYcpKfaerbIXiD82"
TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: /keys/server.key\n"
CLIENTS = f"{TLS}  client_ca_file: ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n"


def parse(text: str) -> WebConfig:
    return parse_web_config(text.encode(), FOLDER)


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    return str(refused.value)


def test_the_full_format_is_read() -> None:
    config = parse(f"""
tls_server_config:
  cert_file: server.crt
  key_file: /keys/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: sub/ca.crt
  client_allowed_sans: [prometheus.example, 10.0.0.1]
  min_version: TLS12
  max_version: TLS13
  cipher_suites:
    - TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
    - TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA
  prefer_server_cipher_suites: false
  curve_preferences: [X25519]
http_server_config:
  http2: true
  headers:
    Content-Security-Policy: default-src 'self'
    X-Frame-Options: sameorigin
    X-Content-Type-Options: nosniff
    X-XSS-Protection: "0"
    Strict-Transport-Security: max-age=3600
basic_auth_users:
  alice: {HASH}
  bob: '{HASH}'
rate_limit:
  interval: 1m0.5s
  burst: 20
""")
    assert config.tls is not None
    assert config.tls.certificate.path == FOLDER / "server.crt"
    assert config.tls.key.path == Path("/keys/server.key")
    assert config.tls.client_ca is not None
    assert config.tls.client_ca.path == FOLDER / "sub/ca.crt"
    rules = config.tls.rules
    assert rules.client_auth is ClientAuth.REQUIRED
    assert rules.allowed_sans == frozenset({"prometheus.example", "10.0.0.1"})
    assert (rules.min_version, rules.max_version) == (
        ssl.TLSVersion.TLSv1_2,
        ssl.TLSVersion.TLSv1_3,
    )
    assert rules.ciphers == ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA")
    assert (rules.prefer_server_ciphers, rules.curve) == (False, "X25519")
    assert config.headers == {
        "Content-Security-Policy": "default-src 'self'",
        "X-Frame-Options": "sameorigin",
        "X-Content-Type-Options": "nosniff",
        "X-XSS-Protection": "0",
        "Strict-Transport-Security": "max-age=3600",
    }
    assert config.users == {b"alice": HASH.encode(), b"bob": HASH.encode()}
    assert config.rate_limit == RateLimit(60.5, 20)


def test_the_defaults_are_those_of_the_format() -> None:
    config = parse(TLS)
    assert config.tls is not None
    rules = config.tls.rules
    assert (rules.client_auth, rules.allowed_sans) == (ClientAuth.NONE, None)
    assert rules.min_version is ssl.TLSVersion.TLSv1_2
    assert rules.max_version is ssl.TLSVersion.TLSv1_3
    assert (rules.ciphers, rules.curve, rules.prefer_server_ciphers) == ((), None, True)
    assert (config.headers, config.users, config.rate_limit) == ({}, {}, None)


@pytest.mark.parametrize("text", ["", "\n", "# only words\n", "---\n", "null\n"])
def test_a_file_that_says_nothing_is_plain_http_for_everybody(text: str) -> None:
    assert parse(text) == WebConfig(empty=True)


@pytest.mark.parametrize(
    "text",
    [
        "tls_server_config:\n",
        "tls_server_config: {}\nbasic_auth_users:\nhttp_server_config:\nrate_limit:\n",
        "basic_auth_users: {}\nhttp_server_config: {headers: {}}\n",
        "http_server_config: {http2: false}\n",
        "http_server_config: {headers: {X-Frame-Options: '', Content-Security-Policy: }}\n",
        "rate_limit: {interval: 0, burst: 3}\n",
        "rate_limit: {interval: 0s}\n",
        "rate_limit: {}\n",
        "tls_server_config: {cert_file: , key_file: }\n",
    ],
)
def test_what_is_left_blank_is_as_good_as_left_out(text: str) -> None:
    assert parse(text) == WebConfig()


def test_certificates_can_stand_in_the_file() -> None:
    config = parse(
        "tls_server_config:\n  cert: |\n    one\n    two\n  key: |\n    three\n  cert_file: ''\n"
    )
    assert config.tls is not None
    assert (config.tls.certificate.text, config.tls.certificate.path) == ("one\ntwo\n", None)
    assert config.tls.key.text == "three\n"


def test_names_are_text_whatever_else_yaml_takes_them_for() -> None:
    users = parse(f"basic_auth_users: {{1234: {HASH}, yes: {HASH}, 1.5: {HASH}, é: {HASH}}}").users
    assert list(users) == [b"1234", b"yes", b"1.5", "é".encode()]


def test_an_anchor_is_only_another_way_to_write() -> None:
    users = parse(f"basic_auth_users: {{a: &one {HASH}, b: *one}}").users
    assert users == {b"a": HASH.encode(), b"b": HASH.encode()}


@pytest.mark.parametrize("kind", ["2a", "2b", "2y"])
def test_hashes_of_each_generation_are_taken(kind: str) -> None:
    assert parse(f"basic_auth_users: {{a: {HASH.replace('2y', kind)}}}").users


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("1s", 1), ("250ms", 0.25), ("1h1m1s", 3661), ("1.5h", 5400), ("10us", 1e-5), ("5µs", 5e-6)],
)
def test_durations_are_those_of_go(written: str, seconds: float) -> None:
    limit = parse(f"rate_limit: {{interval: {written}, burst: 1}}").rate_limit
    assert limit is not None
    assert limit.interval_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [", "line 1: not one document of YAML"),
        ("a: b\n\tc: d\n", "line 2: not one document of YAML"),
        ("{}\n---\n{}\n", "line 2: not one document of YAML"),
        ("SECRET", "line 1: the file: must be a mapping"),
        ("- SECRET", "line 1: the file: must be a mapping"),
        ("tls: {}", "line 1: the file: unknown key"),
        ("SECRET: 1", "line 1: the file: unknown key"),
        (
            "tls_server_confg: {}",
            "line 1: the file: unknown key; did you mean tls_server_config?",
        ),
        ("<<: {}", "line 1: the file: must be text"),
        ("? [SECRET]\n: 1", "line 1: the file: must be text"),
        ("auth_excluded_paths: [/SECRET]", "line 1: the file: unknown key"),
        (
            "basic_auth_users: {}\nbasic_auth_users: {}",
            "line 2: the file: a key is given twice",
        ),
        ("http_server_config: 7", "line 1: http_server_config: must be a mapping"),
        (f"{TLS}  certfile: x", "line 4: tls_server_config: unknown key; did you mean cert_file?"),
        (f"{TLS}  cert: SECRET", "line 2: cert_file: stands beside cert: only one of both can hold"),
        ("tls_server_config:\n  key_file: x", "line 2: tls_server_config: cert or cert_file is missing"),
        ("tls_server_config:\n  cert_file: x", "line 2: tls_server_config: key or key_file is missing"),
        ("tls_server_config:\n  min_version: TLS12", "line 2: tls_server_config: cert or cert_file is missing"),
        ("tls_server_config: {cert_file: [SECRET]}", "line 1: cert_file: must be text"),
        ("tls_server_config: {cert: !!binary SECRET}", "line 1: cert: must be text"),
        (
            f"{TLS}  min_version: TLS11",
            "line 4: min_version: too old to be safe: TLS12, TLS13 can be had",
        ),
        (
            f"{TLS}  max_version: SECRET",
            "line 4: max_version: must be one of TLS10, TLS11, TLS12, TLS13",
        ),
        (
            f"{TLS}  max_version: TLS12\n  min_version: TLS13",
            "line 5: min_version: is above max_version",
        ),
        (
            f"{TLS}  client_auth_type: RequireAnyClientCert",
            "line 4: client_auth_type: a certificate that nobody verifies is not taken: NoClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert can be had",
        ),
        (
            f"{TLS}  client_auth_type: SECRET",
            "line 4: client_auth_type: must be one of NoClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert, RequestClientCert, RequireClientCert, RequireAnyClientCert",
        ),
        (
            f"{TLS}  client_auth_type: VerifyClientCertIfGiven",
            "line 4: client_auth_type: needs client_ca or client_ca_file",
        ),
        (
            f"{TLS}  client_ca_file: x",
            "line 4: client_ca_file: has no effect without client_auth_type",
        ),
        (
            f"{TLS}  client_allowed_sans: [SECRET]",
            "line 4: client_allowed_sans: needs client_auth_type RequireAndVerifyClientCert",
        ),
        (
            f"{CLIENTS}  client_allowed_sans: []",
            "line 6: client_allowed_sans: is empty, so that nobody could connect",
        ),
        (f"{CLIENTS}  client_allowed_sans: SECRET", "line 6: client_allowed_sans: must be a list"),
        (
            f"{TLS}  cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]",
            "line 4: cipher_suites: not the Go name of a cipher suite that is safe",
        ),
        (
            f"{TLS}  cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]",
            "line 4: cipher_suites: of the cipher suites of TLS 1.3 none can be left out: name all or none",
        ),
        (
            f"{TLS}  cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256]",
            "line 4: cipher_suites: none is for TLS 1.2: set min_version to TLS13",
        ),
        (
            f"{TLS}  curve_preferences: [SECRET]",
            "line 4: curve_preferences: must be of CurveP256, CurveP384, CurveP521, X25519",
        ),
        (
            f"{TLS}  curve_preferences: [X25519, CurveP256]",
            "line 4: curve_preferences: an order of curves cannot be had: name one, or none for all",
        ),
        (
            f"{TLS}  prefer_server_cipher_suites: 'true'",
            "line 4: prefer_server_cipher_suites: must be true or false",
        ),
        ("http_server_config: {http2: maybe}", "line 1: http2: must be true or false"),
        (
            "http_server_config: {headers: {Set-Cookie: SECRET}}",
            "line 1: headers: unknown key",
        ),
        (
            "http_server_config: {headers: {x-frame-options: deny}}",
            "line 1: headers: unknown key; did you mean X-Frame-Options?",
        ),
        (
            "http_server_config: {headers: {X-Frame-Options: SECRET}}",
            "line 1: X-Frame-Options: must be deny or sameorigin",
        ),
        (
            "http_server_config: {headers: {X-XSS-Protection: \"1\\r\\nSECRET: 1\"}}",
            "line 1: X-XSS-Protection: must be one line of plain ASCII",
        ),
        (
            "basic_auth_users: {SECRET: SECRET}",
            "line 1: basic_auth_users: a password is not hashed by bcrypt ($2a$, $2b$ or $2y$)",
        ),
        (
            f"basic_auth_users: {{SECRET: '{HASH}='}}",
            "line 1: basic_auth_users: a password is not hashed by bcrypt ($2a$, $2b$ or $2y$)",
        ),
        (
            f"basic_auth_users: {{SECRET: '{HASH[:28]}v{HASH[29:]}'}}",
            "line 1: basic_auth_users: a password is not hashed by bcrypt ($2a$, $2b$ or $2y$)",
        ),
        (
            f"basic_auth_users: {{SECRET: '{HASH.replace('$10$', '$17$')}'}}",
            "line 1: basic_auth_users: bcrypt's cost must be 4 to 16",
        ),
        ("basic_auth_users: {SECRET: }", "line 1: basic_auth_users: must be text"),
        (
            f"basic_auth_users: {{'SECRET:SECRET': {HASH}}}",
            "line 1: basic_auth_users: with a colon in the name nobody could log in",
        ),
        (
            f"basic_auth_users:\n  SECRET: {HASH}\n  SECRET: {HASH}",
            "line 3: basic_auth_users: a key is given twice",
        ),
        ("rate_limit: {burst: 3}", "line 1: rate_limit: interval is missing"),
        (
            "rate_limit: {interval: 1s}",
            "line 1: rate_limit: burst must be at least 1, or nothing would be answered",
        ),
        ("rate_limit: {interval: 5, burst: 1}", "line 1: interval: not a duration such as 250ms, 5s or 1m30s"),
        ("rate_limit: {interval: 1s, burst: -1}", "line 1: burst: must be a whole number from 0"),
        ("rate_limit: {interval: 1s, burst: '1'}", "line 1: burst: must be a whole number from 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_with_its_place(text: str, line: str) -> None:
    assert refusal(text) == f"web-config-file: {line}"
    assert "SECRET" not in refusal(text)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^web-config-file: not UTF-8 text$"):
        parse_web_config(b"\xff\xfe", FOLDER)
    assert refusal("a: \x01SECRET") == "web-config-file: not text that YAML allows"


def test_what_would_exhaust_a_reader_is_refused() -> None:
    assert refusal("[" * 100_000) == "web-config-file: nested too deeply"
    lists = "".join(f"  - &l{n + 1} [{','.join([f'*l{n}'] * 10)}]\n" for n in range(30))
    assert refusal(f"x:\n  - &l0 [SECRET]\n{lists}") == (
        "web-config-file: line 1: the file: unknown key"
    )
    assert refusal("tls_server_config: &a {cert: *a}") == (
        "web-config-file: line 1: cert: must be text"
    )


@given(st.from_regex(BCRYPT, fullmatch=True).map(lambda text: f"$2b$04${text[7:]}"))
def test_every_hash_that_is_taken_can_be_checked(text: str) -> None:
    hashed = parse(f"basic_auth_users: {{a: '{text}'}}").users[b"a"]
    assert matches(b"guess", hashed) is False


KEYS = st.sampled_from(
    ["tls_server_config", "cert_file", "min_version", "headers", "basic_auth_users", "burst", "x"]
)
YAML = st.recursive(
    st.text(max_size=5) | st.sampled_from(["TLS12", "true", "5s", "7", HASH]),
    lambda inner: (
        st.dictionaries(KEYS, inner, max_size=4).map(
            lambda d: "{" + ", ".join(f"{k}: {v}" for k, v in d.items()) + "}"
        )
        | st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
    ),
    max_leaves=8,
)


@given(st.text() | YAML)
@example("? : :")
@example("&a [*a]")
@example("!!python/object:os.system {}")
def test_any_text_is_a_configuration_or_one_line(text: str) -> None:
    try:
        assert isinstance(parse(text), WebConfig)
    except ConfigError as refused:
        said = str(refused)
    else:
        return
    assert said.startswith("web-config-file: ")
    assert said.isprintable()
