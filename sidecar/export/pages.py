"""The pages: each path and its answer, from what the daemon lets us look at.

They show the latest frozen report and never wait for anything of ours. Answers never repeat what
was asked.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from sidecar.export.metrics import Exposition, accepts_gzip, choose_format
from sidecar.export.results import encode, report_result
from sidecar.http_library import AbstractStreamWriter, Payload, web
from sidecar.model.report import Report
from sidecar.page.policy import POLICY
from sidecar.page.shown import SPANS, Span

DEFAULT_WINDOWS = 100
MAX_WINDOWS = 1_000
MOMENT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?", re.ASCII)

HEADERS = {
    "Server": "vllm-sidecar",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
PIECE_BYTES = 64 * 1024
"""An answer is sent in such pieces: with TLS all that is sent at once counts as taken."""
HELD_BYTES = 4 * 1024 * 1024
"""A longer array is made while it is sent, and its length is not told before."""
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Views:
    """What the server may look at; each call returns at once.

    ``report``: the latest, None before the first tick. ``windows``: so many of the last closed ones
    that ended before a moment, as JSON, newest last. ``alive``: whether the last tick is younger than
    three intervals. ``page``: what people look at, so far back; None: as far as
    fits what is known.
    """

    report: Callable[[], Report | None]
    windows: Callable[[int, float | None], Iterable[str]]
    alive: Callable[[], bool]
    page: Callable[[Span | None], str]


class Pieces(Payload):
    """A body that is sent bit by bit, as the client takes it."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._size = len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text."""
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send it; waits wherever the client is slow."""
        for at in range(0, len(self._value), PIECE_BYTES):
            await writer.write(self._value[at : at + PIECE_BYTES])


class Stream(Payload):
    """An array of JSON that is made piece by piece, as the client takes it."""

    def __init__(self, items: Iterator[str]) -> None:
        super().__init__(items)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002
        """Its text is never there as a whole."""
        raise TypeError("a stream is no text")

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send it; waits wherever the client is slow."""
        piece = bytearray(b"[")
        for number, item in enumerate(self._value):
            piece += f",{item}".encode() if number else item.encode()
            if len(piece) >= PIECE_BYTES:
                await writer.write(bytes(piece))
                piece.clear()
        await writer.write(bytes(piece + b"]"))


def answer_array(items: Iterable[str]) -> web.Response:
    """An array of JSON of its items."""
    rest = iter(items)
    held: list[str] = []
    size = 0
    for item in rest:
        held.append(item)
        size += len(item)
        if size > HELD_BYTES:
            return answer(200, Stream(chain(held, rest)), JSON)
    return answer(200, f"[{','.join(held)}]", JSON)


def answer(
    status: int,
    body: str | bytes | Stream,
    content_type: str = TEXT,
    headers: Mapping[str, str] = {},
) -> web.Response:
    """An answer with the headers that all of them carry."""
    payload: Payload | bytes | str = body
    if isinstance(payload, str):
        payload = payload.encode()
    if isinstance(payload, bytes) and len(payload) > PIECE_BYTES:
        payload = Pieces(payload)
    return web.Response(
        status=status,
        body=payload,
        headers={**HEADERS, "Content-Type": content_type, **headers},
    )


def refuse(status: int, text: str, headers: Mapping[str, str] = {}) -> web.Response:
    """An answer that says in one line why there is none."""
    return answer(status, f"{text}\n", headers=headers)


def read_limit(given: Sequence[str]) -> int | None:
    """The number of windows asked for, at most ``MAX_WINDOWS``; None if it is no number from 1."""
    if not given:
        return DEFAULT_WINDOWS
    text = given[0]
    if len(given) > 1 or not (text.isascii() and text.isdigit()) or len(text) > 9:  # noqa: PLR2004
        return None
    return min(int(text), MAX_WINDOWS) or None


def read_moment(given: Sequence[str]) -> float | None:
    """Unix seconds, with a fraction or without; None if it is no such number."""
    if len(given) != 1 or MOMENT.fullmatch(given[0]) is None:
        return None
    return float(given[0])


class Pages:
    """Every path and its answer, from the views alone."""

    def __init__(self, views: Views, exposition: Exposition) -> None:
        self.views = views
        self.exposition = exposition
        self.paths: Mapping[str, Callable[[web.BaseRequest], web.Response]] = {
            "/": self.show_page,
            "/metrics": self.show_metrics,
            "/healthz": self.show_health,
            "/readyz": self.show_readiness,
            "/api/windows": self.show_windows,
            "/api/report": self.show_report,
        }

    def find(self, request: web.BaseRequest) -> web.Response:
        """The answer to a request."""
        if request.method not in {"GET", "HEAD"}:
            return refuse(405, "only GET and HEAD are answered", {"Allow": "GET, HEAD"})
        page = self.paths.get(request.path)
        return refuse(404, "no such page") if page is None else page(request)

    def show_page(self, request: web.BaseRequest) -> web.Response:
        """What people look at."""
        given = request.query.getall("span", [])
        span = next((one for one in SPANS if [one.word] == given), None)
        if given and span is None:
            return refuse(400, f"span must be one of {', '.join(one.word for one in SPANS)}")
        return answer(200, self.views.page(span), HTML, {"Content-Security-Policy": POLICY})

    def show_metrics(self, request: web.BaseRequest) -> web.Response:
        """The latest report as an exposition."""
        report = self.views.report()
        if report is None:
            return refuse(503, "nothing was sampled yet")
        payload = self.exposition.payload(
            report,
            choose_format(",".join(request.headers.getall("Accept", []))),
            compressed=accepts_gzip(",".join(request.headers.getall("Accept-Encoding", []))),
        )
        content_type = payload.headers["Content-Type"]
        return answer(200, payload.body, content_type, payload.headers)

    def show_health(self, _request: web.BaseRequest) -> web.Response:
        """Whether this process does its work."""
        if self.views.alive():
            return answer(200, "ok\n")
        return refuse(503, "the clock stands still")

    def show_readiness(self, _request: web.BaseRequest) -> web.Response:
        """Whether the verdict that is shown can be relied on."""
        report = self.views.report()
        if report is None or report.last_window is None:
            return refuse(503, "no window is closed yet")
        if not self.views.alive():
            return refuse(503, "the clock is late")
        return answer(200, "ready\n")

    def show_windows(self, request: web.BaseRequest) -> web.Response:
        """The last closed windows, or the last ones before a moment."""
        limit = read_limit(request.query.getall("limit", []))
        if limit is None:
            return refuse(400, "limit must be a whole number from 1")
        given = request.query.getall("before", [])
        before = read_moment(given)
        if given and before is None:
            return refuse(400, "before must be unix seconds")
        return answer_array(self.views.windows(limit, before))

    def show_report(self, _request: web.BaseRequest) -> web.Response:
        """All that is known now."""
        report = self.views.report()
        if report is None:
            return refuse(503, "nothing was sampled yet")
        return answer(200, encode(report_result(report)), JSON)
