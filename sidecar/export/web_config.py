"""The file for ``--web-config-file``: the Prometheus exporter-toolkit's web configuration, read strictly.

https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sidecar.errors import ConfigError
from sidecar.export.rate_limit import RateLimit
from sidecar.export.tls_config import TlsConfig, read_tls
from sidecar.export.yaml_reader import Entry, read_document

SECTIONS = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
HEADER_VALUES: Mapping[str, frozenset[str]] = {
    "Content-Security-Policy": frozenset(),
    "Strict-Transport-Security": frozenset(),
    "X-Content-Type-Options": frozenset({"nosniff"}),
    "X-Frame-Options": frozenset({"deny", "sameorigin"}),
    "X-XSS-Protection": frozenset(),
}
"""The headers that may be set, and to what; an empty set is anything."""
DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ns|us|µs|ms|s|m|h))+")
DURATION_PART = re.compile(r"([0-9.]+)([a-zµ]+)")
SECONDS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
BCRYPT = re.compile(r"\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
"""Cost, 128 bits of salt, 184 bits of hash, in bcrypt's own base64."""
COSTS = range(4, 17)
"""With a cost of 16 a password takes 3 s to check; a client waits 10 s."""


@dataclass(frozen=True, slots=True, repr=False)
class WebConfig:
    """All that the file says; ``users``: bcrypt hashes by name, both as bytes."""

    tls: TlsConfig | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[bytes, bytes] = field(default_factory=dict)
    rate_limit: RateLimit | None = None
    empty: bool = False
    """Whether nothing stands in the file."""


def parse_web_config(content: bytes, folder: Path) -> WebConfig:
    """The configuration in a file; relative paths in it start at ``folder``.

    Raises:
        ConfigError: it cannot be honoured; one line says where and why, and quotes nothing.
    """
    try:
        document = read_document(content.decode())
    except UnicodeDecodeError:
        raise ConfigError("web-config-file: not UTF-8 text") from None
    if document is None:
        return WebConfig(empty=True)
    sections = document.section(SECTIONS)
    http = sections.get("http_server_config")
    users = sections.get("basic_auth_users")
    limit = sections.get("rate_limit")
    tls = sections.get("tls_server_config")
    return WebConfig(
        tls=None if tls is None else read_tls(tls, folder),
        headers={} if http is None else read_http(http),
        users={} if users is None else dict(read_users(users)),
        rate_limit=None if limit is None else read_rate_limit(limit),
    )


def read_http(section: Entry) -> Mapping[str, str]:
    """The headers to set; HTTP/2 may be allowed, but is not spoken."""
    given = section.section(("http2", "headers"))
    if "http2" in given:
        given["http2"].flag()
    if "headers" not in given:
        return {}
    headers = given["headers"].section(HEADER_VALUES)
    return {name: read_header(entry) for name, entry in headers.items() if entry.text()}


def read_header(entry: Entry) -> str:
    """The value of a header."""
    value, allowed = entry.text(), HEADER_VALUES[entry.name]
    if allowed and value not in allowed:
        raise entry.wrong(f"must be {' or '.join(sorted(allowed))}")
    if not (value.isascii() and value.isprintable()):
        raise entry.wrong("must be one line of plain ASCII")
    return value


def read_users(section: Entry) -> Iterable[tuple[bytes, bytes]]:
    """Names and hashes of those who may ask."""
    for name, password in section.pairs():
        if ":" in name.text():
            raise name.wrong("with a colon in the name nobody could log in")
        hashed = BCRYPT.fullmatch(password.text())
        if hashed is None:
            raise password.wrong("a password is not hashed by bcrypt ($2a$, $2b$ or $2y$)")
        if int(hashed[1]) not in COSTS:
            raise password.wrong(f"bcrypt's cost must be {COSTS[0]} to {COSTS[-1]}")
        yield name.text().encode(), hashed[0].encode()


def read_rate_limit(section: Entry) -> RateLimit | None:
    """How often requests are answered, None for always."""
    given = section.section(("interval", "burst"))
    if "interval" not in given:
        if given:
            raise section.wrong("interval is missing")
        return None
    interval_s = read_duration(given["interval"])
    burst = given["burst"].number() if "burst" in given else 0
    if interval_s and not burst:
        raise section.wrong("burst must be at least 1, or nothing would be answered")
    return RateLimit(interval_s, burst) if interval_s else None


def read_duration(entry: Entry) -> float:
    """Seconds of a duration as Go writes it; 0 needs no unit."""
    text = entry.text()
    if text == "0":
        return 0.0
    if not DURATION.fullmatch(text):
        raise entry.wrong("not a duration such as 250ms, 5s or 1m30s")
    return sum(float(number) * SECONDS[unit] for number, unit in DURATION_PART.findall(text))
