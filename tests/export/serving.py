"""Our HTTP server with a web configuration, for the length of a block."""

import contextlib
import textwrap
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bcrypt

from sidecar.clock import Clock, ClockLike
from sidecar.export.http import HttpServer
from sidecar.export.metrics import Exposition
from sidecar.export.web_file import LOOK_S, WebFile
from tests.export.made_views import make_views
from tests.export.reports import EVIDENCE_KEYS
from tests.fakes.certificates import Pair
from tests.fakes.clock import FakeClock
from tests.fakes.patience import until


def hashed(password: str, cost: int = 4) -> str:
    """A hash that is quick to check."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


def tls_section(pair: Pair, more: str = "") -> str:
    """``tls_server_config`` with a pair and more lines."""
    lines = f"cert_file: {pair.certificate}\nkey_file: {pair.key}\n{textwrap.dedent(more)}"
    return f"tls_server_config:\n{textwrap.indent(lines, '  ')}\n"


def put(path: Path, text: str | None) -> Path:
    """Write a file in place; None removes it."""
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    return path


def copy(pair: Pair, folder: Path) -> Pair:
    """A pair under the names ``tls.crt`` and ``tls.key``, which can be exchanged."""
    copied = Pair(folder / "tls.crt", folder / "tls.key")
    for ours, theirs in (
        (copied.certificate, pair.certificate),
        (copied.key, pair.key),
    ):
        put(ours, theirs.read_text())
    return copied


@dataclass
class Served:
    """A server that runs, and what it complained of."""

    server: HttpServer
    web_file: WebFile
    port: int = 0
    complaints: list[tuple[str, str]] = field(default_factory=list)


@contextlib.asynccontextmanager
async def serving(
    config: Path, clock: ClockLike | None = None, windows: Sequence[str] = ()
) -> AsyncIterator[Served]:
    """A server on a free port."""
    complaints: list[tuple[str, str]] = []

    def complain(event: str, **fields: str) -> None:
        complaints.append((event, fields["why"]))

    web_file = WebFile(config, clock or Clock(), complain)
    views = make_views(windows)
    server = HttpServer(views, Exposition(EVIDENCE_KEYS), web_file=web_file, complain=complain)
    try:
        port = await server.start("127.0.0.1", 0)
        yield Served(server, web_file, port, complaints)
    finally:
        await server.stop(0.2)


async def advance(clock: FakeClock, looks: int = 1) -> None:
    """Let the server look at its files so many times."""
    for _ in range(looks):
        await until(lambda: clock.sleeping > 0)
        await clock.advance(LOOK_S)
    await until(lambda: clock.sleeping > 0)
