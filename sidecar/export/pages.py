"""The pages: each path and its answer, from what the daemon lets us look at.

They show the latest frozen report and never wait for anything of ours. Answers never repeat what
was asked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from sidecar.export.metrics import Exposition, accepts_gzip, choose_format
from sidecar.export.results import encode, report_result
from sidecar.model.report import Report

DEFAULT_WINDOWS = 100
MAX_WINDOWS = 1_000

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
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>vllm-sidecar</title></head>
<body>
<h1>vllm-sidecar</h1>
<ul>
<li><a href="/metrics">/metrics</a>: for Prometheus</li>
<li><a href="/api/report">/api/report</a>: what is known now</li>
<li><a href="/api/windows">/api/windows</a>: the last windows, newest last (limit=N)</li>
<li><a href="/healthz">/healthz</a>: this process and its clock live</li>
<li><a href="/readyz">/readyz</a>: a first window is closed and the clock is on time</li>
</ul>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Views:
    """What the server may look at; each call returns at once.

    ``report``: the latest, None before the first tick. ``windows``: the last closed ones as
    JSON, newest last. ``alive``: whether the last tick is younger than three intervals.
    """

    report: Callable[[], Report | None]
    windows: Callable[[], Sequence[str]]
    alive: Callable[[], bool]


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


def answer(
    status: int, body: str | bytes, content_type: str = TEXT, headers: Mapping[str, str] = {}
) -> web.Response:
    """An answer with the headers that all of them carry."""
    payload = body.encode() if isinstance(body, str) else body
    return web.Response(
        status=status,
        body=payload if len(payload) <= PIECE_BYTES else Pieces(payload),
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

    def show_page(self, _request: web.BaseRequest) -> web.Response:
        """Links for people."""
        return answer(200, PAGE, HTML)

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
        """The last closed windows."""
        limit = read_limit(request.query.getall("limit", []))
        if limit is None:
            return refuse(400, "limit must be a whole number from 1")
        return answer(200, f"[{','.join(self.views.windows()[-limit:])}]", JSON)

    def show_report(self, _request: web.BaseRequest) -> web.Response:
        """All that is known now."""
        report = self.views.report()
        if report is None:
            return refuse(503, "nothing was sampled yet")
        return answer(200, encode(report_result(report)), JSON)
