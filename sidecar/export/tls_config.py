"""The section ``tls_server_config`` of the web configuration, by Go's names.

What Python's ``ssl`` cannot do exactly as the toolkit says is refused, never left out.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sidecar.export.tls import ClientAuth, TlsRules
from sidecar.export.yaml_reader import Entry

T = TypeVar("T")

PEM_KEYS = ("cert", "key", "client_ca")
TLS_KEYS = (
    *PEM_KEYS,
    *(f"{key}_file" for key in PEM_KEYS),
    "client_auth_type",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "prefer_server_cipher_suites",
    "curve_preferences",
)
CLIENT_AUTH: Mapping[str, ClientAuth | None] = {
    **{auth.value: auth for auth in ClientAuth},
    "RequestClientCert": None,
    "RequireClientCert": None,
    "RequireAnyClientCert": None,
}
"""None: a certificate that nobody verifies, which ``ssl`` cannot take."""
VERSIONS: Mapping[str, ssl.TLSVersion | None] = {
    "TLS10": None,
    "TLS11": None,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
CIPHERS_1_2: Mapping[str, str] = {
    f"TLS_ECDHE_{kind}_WITH_{go}": f"ECDHE-{kind}-{openssl}"
    for kind in ("ECDSA", "RSA")
    for go, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
}
CIPHERS_1_3 = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Neither Go nor ``ssl`` can leave one of these out."""
CURVES: Mapping[str, str] = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}


@dataclass(frozen=True, slots=True, repr=False)
class Pem:
    """Where a certificate or key is: in the file itself, or in a file of its own."""

    entry: Entry
    text: str
    path: Path | None = None


@dataclass(frozen=True, slots=True, repr=False)
class TlsConfig:
    """The TLS of a listener."""

    certificate: Pem
    key: Pem
    client_ca: Pem | None
    rules: TlsRules


def choose(entry: Entry, table: Mapping[str, T | None], why_not: str) -> T:
    """What a word stands for in a table, in which None stands for what cannot be had here."""
    word = entry.text()
    if word not in table:
        raise entry.wrong(f"must be one of {', '.join(table)}")
    meant = table[word]
    if meant is None:
        raise entry.wrong(
            f"{why_not}: {', '.join(name for name in table if table[name])} can be had"
        )
    return meant


def read_tls(section: Entry, folder: Path) -> TlsConfig | None:
    """The TLS of the listener, None if there is to be none."""
    given = section.section(TLS_KEYS)
    if not given:
        return None
    certificate, key, client_ca = (read_pem(given, name, folder) for name in PEM_KEYS)
    if certificate is None:
        raise section.wrong("cert or cert_file is missing")
    if key is None:
        raise section.wrong("key or key_file is missing")
    rules = read_rules(given)
    if rules.client_auth is ClientAuth.NONE and client_ca is not None:
        raise client_ca.entry.wrong("has no effect without client_auth_type")
    if rules.client_auth is not ClientAuth.NONE and client_ca is None:
        raise given["client_auth_type"].wrong("needs client_ca or client_ca_file")
    return TlsConfig(certificate, key, client_ca, rules)


def read_pem(given: Mapping[str, Entry], name: str, folder: Path) -> Pem | None:
    """Where a certificate or key is; nothing but blanks is as good as left out."""
    found = [
        Pem(entry, text, folder / text if is_file else None)
        for entry, is_file in ((given.get(name), False), (given.get(f"{name}_file"), True))
        if entry is not None and (text := entry.text()).strip()
    ]
    if len(found) > 1:
        raise found[1].entry.wrong(f"stands beside {name}: only one of both can hold")
    return found[0] if found else None


def read_rules(given: Mapping[str, Entry]) -> TlsRules:
    """What a handshake may end in."""
    auth = ClientAuth.NONE
    if "client_auth_type" in given and given["client_auth_type"].text():
        unverified = "a certificate that nobody verifies is not taken"
        auth = choose(given["client_auth_type"], CLIENT_AUTH, unverified)
    low, high = (
        choose(given[key], VERSIONS, "too old to be safe") if key in given else default
        for key, default in (
            ("min_version", ssl.TLSVersion.TLSv1_2),
            ("max_version", ssl.TLSVersion.TLSv1_3),
        )
    )
    if low > high:
        raise given["min_version"].wrong("is above max_version")
    ciphers, curves = given.get("cipher_suites"), given.get("curve_preferences")
    sans, prefer = given.get("client_allowed_sans"), given.get("prefer_server_cipher_suites")
    return TlsRules(
        client_auth=auth,
        allowed_sans=None if sans is None else read_sans(sans, auth),
        min_version=low,
        max_version=high,
        ciphers=() if ciphers is None else read_ciphers(ciphers, low),
        prefer_server_ciphers=prefer is None or prefer.flag(),
        curve=None if curves is None else read_curve(curves),
    )


def read_sans(entry: Entry, auth: ClientAuth) -> frozenset[str]:
    """The names of which a client's certificate must bear one."""
    if auth is not ClientAuth.REQUIRED:
        raise entry.wrong(f"needs client_auth_type {ClientAuth.REQUIRED.value}")
    names = frozenset(item.text() for item in entry.items())
    if not names:
        raise entry.wrong("is empty, so that nobody could connect")
    return names


def read_ciphers(entry: Entry, low: ssl.TLSVersion) -> tuple[str, ...]:
    """OpenSSL's names of the cipher suites for TLS 1.2, in their order."""
    names = dict.fromkeys(item.text() for item in entry.items())
    for item in entry.items():
        if item.text() not in CIPHERS_1_2 and item.text() not in CIPHERS_1_3:
            raise item.wrong("not the Go name of a cipher suite that is safe")
    new = CIPHERS_1_3.intersection(names)
    if new and new != CIPHERS_1_3:
        raise entry.wrong("of the cipher suites of TLS 1.3 none can be left out: name all or none")
    old = tuple(CIPHERS_1_2[name] for name in names if name in CIPHERS_1_2)
    if names and not old and low is ssl.TLSVersion.TLSv1_2:
        raise entry.wrong("none is for TLS 1.2: set min_version to TLS13")
    return old


def read_curve(entry: Entry) -> str | None:
    """OpenSSL's name of the only curve."""
    names = [item.text() for item in entry.items()]
    if any(name not in CURVES for name in names):
        raise entry.wrong(f"must be of {', '.join(CURVES)}")
    if len(names) > 1:
        raise entry.wrong("an order of curves cannot be had: name one, or none for all")
    return CURVES[names[0]] if names else None
