"""Each page says what it should, and only that."""

import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace

import aiohttp
import pytest

from sidecar.export.http import HttpServer
from sidecar.export.metrics import Exposition
from sidecar.export.pages import PIECE_BYTES, Views
from sidecar.export.results import encode, window_result
from sidecar.model.report import Report
from sidecar.model.vocabulary import Verdict
from sidecar.page.policy import POLICY
from tests.export.made_views import make_views
from tests.export.reports import EVIDENCE_KEYS, make_judgement, make_report


@dataclass
class Stage:
    """What the server is shown."""

    report: Report | None = field(default_factory=make_report)
    windows: list[str] = field(default_factory=list)
    alive: bool = True

    def views(self) -> Views:
        return replace(
            make_views(report=lambda: self.report, alive=lambda: self.alive),
            windows=lambda limit, before: self.windows[-limit:] if before is None else [],
        )


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


Ask = Callable[..., Awaitable[Answer]]


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
async def ask(stage: Stage) -> AsyncIterator[Ask]:
    server = HttpServer(stage.views(), Exposition(EVIDENCE_KEYS))
    port = await server.start("127.0.0.1", 0)
    plain = {"Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(auto_decompress=False, headers=plain) as session:

        async def ask(path: str, method: str = "GET", **headers: str) -> Answer:
            url = f"http://127.0.0.1:{port}{path}"
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            async with session.request(method, url, headers=sent) as response:
                return Answer(response.status, dict(response.headers), await response.read())

        yield ask
    await server.stop()


async def test_metrics_are_text_by_default(ask: Ask) -> None:
    answer = await ask("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b'vllm_sidecar_verdict{verdict="none"} 1.0' in answer.body


async def test_metrics_are_openmetrics_and_gzip_where_asked(ask: Ask) -> None:
    answer = await ask(
        "/metrics", Accept="application/openmetrics-text;version=1.0.0", Accept_Encoding="gzip"
    )
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(answer.body).endswith(b"# EOF\n")


async def test_the_latest_report_is_shown(ask: Ask, stage: Stage) -> None:
    await ask("/metrics")
    stage.report = make_report(Verdict.STALLED)
    assert b'vllm_sidecar_verdict{verdict="stalled"} 1.0' in (await ask("/metrics")).body


@pytest.mark.parametrize("path", ["/metrics", "/api/report", "/readyz"])
async def test_before_the_first_tick_there_is_no_answer_yet(
    ask: Ask, stage: Stage, path: str
) -> None:
    stage.report = None
    assert (await ask(path)).status == 503


async def test_health_is_the_clock(ask: Ask, stage: Stage) -> None:
    assert (await ask("/healthz")).status == 200
    stage.alive = False
    assert (await ask("/healthz")).status == 503


async def test_ready_needs_a_closed_window_and_the_clock(ask: Ask, stage: Stage) -> None:
    assert (await ask("/readyz")).status == 200
    stage.alive = False
    assert (await ask("/readyz")).body == b"the clock is late\n"
    stage.alive = True
    stage.report = replace(make_report(), last_window=None)
    assert (await ask("/readyz")).body == b"no window is closed yet\n"


async def test_windows_come_newest_last_and_limited(ask: Ask, stage: Stage) -> None:
    stage.windows = [encode(window_result(make_judgement(v))) for v in Verdict] * 20
    windows = json.loads((await ask("/api/windows")).body)
    assert len(windows) == 100
    two = json.loads((await ask("/api/windows?limit=2")).body)
    assert [window["verdict"] for window in two] == ["stalled", "unknown"]
    assert json.loads((await ask("/api/windows?limit=999999999")).body)[0]["verdict"] == "none"


async def test_no_windows_are_an_empty_array(ask: Ask) -> None:
    answer = await ask("/api/windows")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.body == b"[]"


@pytest.mark.parametrize("limit", ["0", "-1", "x", "", "1.5", "9999999999", "2&limit=3", "%D9%A3"])
async def test_a_bad_limit_is_refused_in_one_line(ask: Ask, limit: str) -> None:
    answer = await ask(f"/api/windows?limit={limit}")
    assert answer.status == 400
    assert answer.body == b"limit must be a whole number from 1\n"


async def test_the_report_is_json(ask: Ask) -> None:
    assert json.loads((await ask("/api/report")).body)["state"] == "serving"


@pytest.mark.parametrize(
    ("before", "count"), [("", 2), ("?before=1", 0), ("?limit=1&before=1764500000.5", 0)]
)
async def test_windows_before_a_moment_are_asked_for(
    ask: Ask, stage: Stage, before: str, count: int
) -> None:
    stage.windows = [encode(window_result(make_judgement()))] * 2
    assert len(json.loads((await ask(f"/api/windows{before}")).body)) == count


@pytest.mark.parametrize("before", ["", "x", "-1", "1e9", "1&before=2", "9" * 13, "nan"])
async def test_a_bad_moment_is_refused_in_one_line(ask: Ask, before: str) -> None:
    answer = await ask(f"/api/windows?before={before}")
    assert answer.status == 400
    assert answer.body == b"before must be unix seconds\n"


@pytest.mark.parametrize(
    ("query", "span"),
    [("", "fits"), ("?span=15m", "15m"), ("?span=6h", "6h"), ("?span=24h", "24h")],
)
async def test_the_page_is_of_the_span_that_is_asked_for(ask: Ask, query: str, span: str) -> None:
    answer = await ask(f"/{query}")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.body == f"<p>{span}</p>".encode()


@pytest.mark.parametrize("span", ["", "2h", "1h&span=6h", "<script>"])
async def test_a_bad_span_is_refused_in_one_line(ask: Ask, span: str) -> None:
    answer = await ask(f"/?span={span}")
    assert answer.status == 400
    assert answer.body == b"span must be one of 15m, 1h, 6h, 24h\n"


async def test_head_has_the_headers_without_the_body(ask: Ask) -> None:
    answer = await ask("/api/report", "HEAD")
    assert answer.status == 200
    assert int(answer.headers["Content-Length"]) > 100
    assert answer.body == b""


async def test_a_large_answer_comes_whole_and_its_head_alone_without_it(
    ask: Ask, stage: Stage
) -> None:
    stage.windows = [encode(window_result(make_judgement(engines=20)))] * 100
    body = f"[{','.join(stage.windows)}]".encode()
    whole, head = [await ask("/api/windows", method) for method in ("GET", "HEAD")]
    assert len(body) > 4 * PIECE_BYTES
    assert (whole.body, head.body) == (body, b"")
    for answer in (whole, head):
        assert int(answer.headers["Content-Length"]) == len(body)
        assert answer.headers["Content-Type"] == "application/json"
        assert "Transfer-Encoding" not in answer.headers


async def test_an_array_beyond_megabytes_is_made_while_it_is_sent(
    ask: Ask, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.windows = [encode(window_result(make_judgement(engines=20)))] * 100
    monkeypatch.setattr("sidecar.export.pages.HELD_BYTES", 100_000)
    whole, head = [await ask("/api/windows", method) for method in ("GET", "HEAD")]
    assert whole.body == f"[{','.join(stage.windows)}]".encode()
    assert head.body == b""
    assert "Content-Length" not in whole.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_other_methods_are_refused(ask: Ask, method: str) -> None:
    answer = await ask("/metrics", method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/metrics", "/nothing", "/api/windows?limit=x"])
async def test_every_answer_has_the_security_headers_and_no_version(ask: Ask, path: str) -> None:
    headers = (await ask(path)).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert headers["Server"] == "vllm-sidecar"


async def test_nothing_that_was_asked_is_said_back(ask: Ask) -> None:
    for path in ("/<script>evil</script>", "/api/windows?limit=evil", "/metrics?name[]=evil"):
        answer = await ask(path, X_Evil="evil")
        assert b"evil" not in answer.body
        assert "evil" not in str(answer.headers)
