"""The web configuration and the files it names, read at start and again whenever they change.

A change counts once it was seen twice alike: half a file can be a valid one that lacks its users.
What is wrong changes nothing, is said once, and is tried again.
"""

import asyncio
import errno
import os
import ssl
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sidecar.clock import ClockLike
from sidecar.errors import ConfigError
from sidecar.export.basic_auth import Checker, Users
from sidecar.export.face import PLAIN, Face
from sidecar.export.rate_limit import TokenBucket
from sidecar.export.tls import TlsError, make_context, trust
from sidecar.export.tls_config import Pem, TlsConfig
from sidecar.export.web_config import WebConfig, parse_web_config
from sidecar.model.vocabulary import Fault
from sidecar.thread import CallThread

LARGEST = 256 * 1024
"""Bytes of one file."""
READ_LIMIT_S = 5.0
LOOK_S = 2.0
"""Seconds between looks: the stat of up to four files, on a thread."""
LOOKS_UNTIL_RETRY = 5
"""After so many looks without a change what is wrong is tried again: a file may be there by now."""

MAX_SESSIONS = 1_000
"""OpenSSL keeps 1 KiB for each session of TLS 1.2 without a ticket; beyond so many it begins anew."""

Stamp = tuple[int, ...]
"""What differs as soon as a file is replaced or written to; the errno of one that cannot be seen."""


@dataclass(frozen=True, slots=True, repr=False)
class Loaded:
    """A configuration, and the stamps of the files that it was read from."""

    config: WebConfig
    tls: ssl.SSLContext | None
    stamps: Mapping[Path, Stamp]


def load(path: Path) -> Loaded:
    """Read the configuration and all that it names; blocks.

    Raises:
        ConfigError: it cannot be honoured; one line says where and why, and quotes nothing.
    """
    stamps: dict[Path, Stamp] = {}
    try:
        content = read(path, stamps)
    except OSError as error:
        raise ConfigError(f"web-config-file: {say_reason(error)}") from None
    config = parse_web_config(content, path.parent)
    tls = None if config.tls is None else load_tls(config.tls, stamps)
    return Loaded(config, tls, stamps)


def load_tls(tls: TlsConfig, stamps: dict[Path, Stamp]) -> ssl.SSLContext:
    """The context for a listener."""
    certificate, key = read_pem(tls.certificate, stamps), read_pem(tls.key, stamps)
    try:
        context = make_context(tls.rules, certificate=certificate, key=key)
    except TlsError as error:
        raise tls.certificate.entry.wrong(str(error)) from None
    if tls.client_ca is not None:
        try:
            trust(context, read_pem(tls.client_ca, stamps))
        except TlsError as error:
            raise tls.client_ca.entry.wrong(str(error)) from None
    return context


def read_pem(pem: Pem, stamps: dict[Path, Stamp]) -> bytes:
    """A certificate or key, wherever it is."""
    if pem.path is None:
        return pem.text.encode()
    try:
        return read(pem.path, stamps)
    except OSError as error:
        raise pem.entry.wrong(say_reason(error)) from None


def read(path: Path, stamps: dict[Path, Stamp]) -> bytes:
    """The content of a file, with its stamp put into ``stamps``.

    Raises:
        OSError: it cannot be read, or is none that can be read whole.
    """
    try:
        # A pipe without a writer would hold us for ever, hence the flag.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        stamps[path] = stamp_of(status)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, f"larger than {LARGEST} bytes")
    return content


def say_reason(error: OSError) -> str:
    """Why a file cannot be read, in the system's words."""
    return (error.strerror or "it cannot be read").lower()


def stamp_of(status: os.stat_result) -> Stamp:
    """What differs as soon as the file is replaced or written to."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def stamp(paths: Iterable[Path]) -> Mapping[Path, Stamp]:
    """The stamps of files as they are now; blocks."""
    stamps: dict[Path, Stamp] = {}
    for path in paths:
        try:
            stamps[path] = stamp_of(path.stat())
        except OSError as error:
            stamps[path] = (error.errno or 0,)
    return stamps


class WebFile:
    """The configuration in a file, kept up to date.

    ``face`` is what holds now. ``complain`` hears of a change that cannot be honoured.
    """

    def __init__(self, path: Path, clock: ClockLike, complain: Callable[..., None]) -> None:
        self.path = path
        self.clock = clock
        self.complain = complain
        self.thread = CallThread("web-config")
        self.checker = Checker()
        self.lock = asyncio.Lock()
        self.face = PLAIN
        self.loaded: Loaded | None = None
        self.seen: Mapping[Path, Stamp] = {}
        self.tried: Mapping[Path, Stamp] = {}
        self.looks_since_failure: int | None = None
        """None while what the file says is what holds."""
        self.said = set[str]()

    async def reload(self) -> None:
        """Read the file anew, now.

        Raises:
            ConfigError: it cannot be honoured; what held before holds on.
        """
        async with self.lock:
            try:
                await self.take()
            except ConfigError as error:
                # Whoever asked says it.
                self.said.add(str(error))
                raise

    async def watch(self) -> None:
        """Take every change; never returns."""
        while True:
            await self.clock.pause(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Take what changed before the last look and stayed as it is."""
        async with self.lock:
            paths = tuple(self.tried)
            found = await self.thread.call(lambda: stamp(paths), READ_LIMIT_S)
            if isinstance(found, Fault):
                return
            steady, self.seen = found == self.seen, found
            if not steady or not self.is_due(found):
                return
            self.tried = found
            try:
                await self.take()
            except ConfigError as error:
                self.say(str(error))

    def is_due(self, found: Mapping[Path, Stamp]) -> bool:
        """Whether the files are others than those tried last, or are to be read again all the same."""
        if self.looks_since_failure is not None:
            self.looks_since_failure += 1
            if self.looks_since_failure >= LOOKS_UNTIL_RETRY:
                return True
        tls = self.face.tls
        is_full = tls is not None and tls.session_stats()["number"] > MAX_SESSIONS
        return is_full or found != self.tried

    def say(self, text: str) -> None:
        """Say what is wrong, once."""
        if text not in self.said:
            self.said.add(text)
            self.complain("web_config_not_reloaded", why=text)

    async def take(self) -> None:
        """Let what the file says hold from now on."""
        self.looks_since_failure = 0
        loaded = await self.thread.call(lambda: load(self.path), READ_LIMIT_S)
        if isinstance(loaded, Fault):
            raise ConfigError("web-config-file: it does not answer")
        self.refuse_to_switch(loaded)
        config = loaded.config
        self.face = Face(
            tls=loaded.tls,
            allowed_sans=None if config.tls is None else config.tls.rules.allowed_sans,
            headers=config.headers,
            users=Users(config.users, self.checker) if config.users else None,
            bucket=None if config.rate_limit is None else TokenBucket(config.rate_limit),
        )
        self.loaded = loaded
        self.tried = loaded.stamps
        self.looks_since_failure = None
        self.said.clear()

    def refuse_to_switch(self, loaded: Loaded) -> None:
        """Refuse what must not happen by mistake: a disk that is full leaves an empty file."""
        before = self.loaded
        if before is None:
            return
        if loaded.config.empty and not before.config.empty:
            raise ConfigError("web-config-file: it is empty; only a restart makes that hold")
        if (loaded.tls is None) is not (before.tls is None):
            raise ConfigError("web-config-file: only a restart switches TLS on or off")

    def close(self) -> None:
        """Let the threads go."""
        self.thread.close()
        self.checker.close()
