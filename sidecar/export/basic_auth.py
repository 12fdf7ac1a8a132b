"""Who may ask: user names and passwords by HTTP basic authentication, against bcrypt hashes.

Checking a password is slow on purpose. So one is checked at a time, few wait, and who was right is
remembered; and a name that nobody bears costs as much as one that somebody does.
"""

import asyncio
import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import blake2b

import bcrypt

from sidecar.export.pages import refuse
from sidecar.http_library import web
from sidecar.model.vocabulary import Fault
from sidecar.thread import CallThread

MAX_WAITING = 8
"""Passwords that wait to be checked; who brings one more is told to come back."""
CHECK_LIMIT_S = 10.0
"""Prometheus' own default for a scrape."""
MAX_REMEMBERED = 256
BCRYPT_BYTES = 72
"""bcrypt looks at no more of a password; the toolkit cuts it off too."""
CHALLENGE = {"WWW-Authenticate": 'Basic realm="vllm-sidecar", charset="UTF-8"'}


class Admission(Enum):
    """What becomes of a request."""

    ALLOWED = auto()
    REFUSED = auto()
    BUSY = auto()


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What a client says of itself."""

    user: bytes
    password: bytes


def read_credentials(given: Sequence[str]) -> Credentials | None:
    """The credentials in the values of ``Authorization``; None without exactly one that is readable."""
    if len(given) != 1:
        return None
    scheme, _, encoded = given[0].strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    user, colon, password = decoded.partition(b":")
    return Credentials(user, password) if colon else None


class Checker:
    """Checks passwords, one at a time whoever asks, on a thread."""

    def __init__(self) -> None:
        self.thread = CallThread("passwords")
        self.turn = asyncio.Lock()
        self.waiting = 0

    async def fits(self, password: bytes, hashed: bytes) -> bool | None:
        """Whether a password has this hash; None if too many others are being checked."""
        if self.waiting >= MAX_WAITING:
            return None
        self.waiting += 1
        try:
            async with self.turn:
                outcome = await self.thread.call(lambda: matches(password, hashed), CHECK_LIMIT_S)
        finally:
            self.waiting -= 1
        return None if isinstance(outcome, Fault) else outcome

    def close(self) -> None:
        """Let the thread go."""
        self.thread.close()


def matches(password: bytes, hashed: bytes) -> bool:
    """Whether a password has this hash; takes up to seconds."""
    return bcrypt.checkpw(password[:BCRYPT_BYTES], hashed)


class Users:
    """Those who may ask, for as long as one configuration holds; ``hashes`` by name, not empty."""

    def __init__(self, hashes: Mapping[bytes, bytes], checker: Checker) -> None:
        self.hashes = hashes
        self.decoys = tuple(hashes.values())
        self.checker = checker
        self.key = os.urandom(32)
        self.remembered: dict[bytes, None] = {}
        """Of credentials that were right a keyed hash, those used last at the end."""

    async def admit(self, authorization: Sequence[str]) -> Admission:
        """Whether who sent these values of ``Authorization`` may ask."""
        given = read_credentials(authorization)
        if given is None:
            return Admission.REFUSED
        token = self.digest(given.user, given.password)
        if token in self.remembered:
            self.remember(token)
            return Admission.ALLOWED
        # The hash that a name nobody bears is compared with is one of those there are, and always
        # the same one: so it takes as long as the name of some user.
        decoy = self.decoys[int.from_bytes(self.digest(given.user), "big") % len(self.decoys)]
        fits = await self.checker.fits(given.password, self.hashes.get(given.user, decoy))
        if fits is None:
            return Admission.BUSY
        if not fits or given.user not in self.hashes:
            return Admission.REFUSED
        self.remember(token)
        return Admission.ALLOWED

    async def refuse(self, authorization: Sequence[str]) -> web.Response | None:
        """The answer to who may not ask, or not now; None for who may."""
        match await self.admit(authorization):
            case Admission.ALLOWED:
                return None
            case Admission.REFUSED:
                return refuse(401, "a user name and its password are needed", CHALLENGE)
            case Admission.BUSY:
                return refuse(503, "too many passwords to check", {"Retry-After": "1"})

    def remember(self, token: bytes) -> None:
        """Remember credentials that were right, and forget those that were used longest ago."""
        self.remembered.pop(token, None)
        self.remembered[token] = None
        while len(self.remembered) > MAX_REMEMBERED:
            del self.remembered[next(iter(self.remembered))]

    def digest(self, *parts: bytes) -> bytes:
        """A keyed hash that tells nothing of its parts."""
        hashed = blake2b(key=self.key)
        for part in parts:
            hashed.update(len(part).to_bytes(8, "big") + part)
        return hashed.digest()
