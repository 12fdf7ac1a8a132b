"""What new connections and new requests get: one frozen value, replaced whole."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sidecar.export.rate_limit import TokenBucket

if TYPE_CHECKING:
    from sidecar.export.basic_auth import Users  # it brings bcrypt, which few need


@dataclass(frozen=True, slots=True)
class Face:
    """How we meet clients; without any of it plain HTTP for everybody.

    ``tls``: for new connections. ``allowed_sans``: a client's certificate must bear one of these
    names. ``headers``: stand in every answer, in place of our own of the same name. ``users``: who
    may ask. ``bucket``: how often anybody may.
    """

    tls: ssl.SSLContext | None = None
    allowed_sans: frozenset[str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: "Users | None" = None
    bucket: TokenBucket | None = None


PLAIN = Face()
