"""Certificates and rules as an ``ssl.SSLContext``, and whose certificate a client shows."""

import ipaddress
import os
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ClientAuth(StrEnum):
    """What is asked of a client, in the words of the file."""

    NONE = "NoClientCert"
    IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRED = "RequireAndVerifyClientCert"


VERIFY: Mapping[ClientAuth, ssl.VerifyMode] = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
SAN_KINDS = frozenset({"DNS", "email", "URI"})
REASONS: Mapping[str, str] = {
    "KEY_VALUES_MISMATCH": "the key does not fit the certificate",
    "NO_CERTIFICATE_ASSIGNED": "the key does not fit the certificate",
    "EE_KEY_TOO_SMALL": "the key is too short to be safe",
    "CA_MD_TOO_WEAK": "the certificate is signed in a way that is not safe any more",
}


@dataclass(frozen=True, slots=True, repr=False)
class TlsRules:
    """What a handshake may end in.

    ``ciphers``: OpenSSL's names for TLS 1.2, the best one first; empty for the library's own
    choice. ``curve``: the only group for the key exchange, by OpenSSL's name; None for the
    library's own choice.
    """

    client_auth: ClientAuth = ClientAuth.NONE
    allowed_sans: frozenset[str] | None = None
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: tuple[str, ...] = ()
    prefer_server_ciphers: bool = True
    curve: str | None = None


class TlsError(Exception):
    """Why there can be no context, in one line that quotes nothing."""


def make_context(rules: TlsRules, *, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """The context for a listener, which trusts nobody yet; certificate and key are PEM.

    Raises:
        TlsError: the texts are no PEM, do not fit each other, or a rule cannot be had here.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client may not have us do costly work again and again. A scrape's connection is kept, so that
    # sessions need not be taken up; with TLS 1.2 they can be, until the next context.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    context.minimum_version = rules.min_version
    context.maximum_version = rules.max_version
    if not rules.prefer_server_ciphers:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        if rules.ciphers:
            context.set_ciphers(":".join(rules.ciphers))
        if rules.curve is not None:
            context.set_ecdh_curve(rules.curve)
    except (ssl.SSLError, ValueError):
        raise TlsError("cipher_suites or curve_preferences are not had by this OpenSSL") from None
    load_pair(context, certificate, key)
    context.verify_mode = VERIFY[rules.client_auth]
    return context


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Give a context its certificate and key; they are read from memory, never from a copy on disk."""
    if b"ENCRYPTED" in key:
        raise TlsError("the key is encrypted, and there is nobody to ask for its password")
    try:
        with in_memory(certificate) as certificate_path, in_memory(key) as key_path:
            # Without a password OpenSSL would ask for one on the terminal, and wait.
            context.load_cert_chain(certificate_path, key_path, password=b"")
    except (ssl.SSLError, ValueError) as error:
        reason = REASONS.get(getattr(error, "reason", None) or "")
        raise TlsError(reason or "certificate or key are no PEM, or no such pair") from None


@contextmanager
def in_memory(content: bytes) -> Iterator[str]:
    """A path at which ``content`` can be read as a file."""
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def trust(context: ssl.SSLContext, authorities: bytes) -> None:
    """Let a context verify clients by these authorities, given as PEM, and no others.

    Raises:
        TlsError: they are none.
    """
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise TlsError("no PEM certificate of an authority") from None
    # An authority that is listed is trusted, whether or not it signed itself.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def has_allowed_san(certificate: Mapping[str, Any], allowed: Iterable[str]) -> bool:
    """Whether one of the subject's alternative names is allowed; ``certificate`` as ``ssl`` shows it."""
    return not frozenset(allowed).isdisjoint(read_sans(certificate))


def read_sans(certificate: Mapping[str, Any]) -> Iterable[str]:
    """The names of a certificate; addresses in their canonical form."""
    for kind, name in certificate.get("subjectAltName", ()):
        if kind in SAN_KINDS:
            yield name
        elif kind == "IP Address":
            with suppress(ValueError):
                yield str(ipaddress.ip_address(name))
