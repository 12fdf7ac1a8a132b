"""Configured headers stand in every answer, and requests are answered as often as configured."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from sidecar.export import http
from sidecar.export.rate_limit import RateLimit, TokenBucket
from tests.export.serving import Served, hashed, put, serving

HEADERS = """
http_server_config:
  headers:
    Content-Security-Policy: default-src 'self'
    X-Frame-Options: sameorigin
    X-Content-Type-Options: nosniff
    X-XSS-Protection: 1; mode=block
    Strict-Transport-Security: max-age=31536000
"""
WANTED = {
    "Content-Security-Policy": ["default-src 'self'"],
    "X-Frame-Options": ["sameorigin"],
    "X-Content-Type-Options": ["nosniff"],
    "X-XSS-Protection": ["1; mode=block"],
    "Strict-Transport-Security": ["max-age=31536000"],
    "Referrer-Policy": ["no-referrer"],
    "Server": ["vllm-sidecar"],
}


async def ask(served: Served, path: str, method: str = "GET") -> tuple[int, dict[str, list[str]]]:
    url = f"http://127.0.0.1:{served.port}{path}"
    async with aiohttp.ClientSession() as session, session.request(method, url) as answer:
        return answer.status, {name: answer.headers.getall(name) for name in answer.headers}


async def ask_raw(served: Served, raw: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(raw)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "GET", 200),
        ("/metrics", "GET", 200),
        ("/api/report", "HEAD", 200),
        ("/nothing", "GET", 404),
        ("/metrics", "POST", 405),
        ("/api/windows?limit=x", "GET", 400),
    ],
)
async def test_headers_stand_once_in_every_answer(
    tmp_path: Path, path: str, method: str, status: int
) -> None:
    async with serving(put(tmp_path / "web.yml", HEADERS)) as served:
        given, headers = await ask(served, path, method)
    assert given == status
    assert {name: headers[name] for name in WANTED} == WANTED


async def test_headers_stand_in_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = f"{HEADERS}\nbasic_auth_users: {{a: {hashed('x')}}}\n"
    async with serving(put(tmp_path / "web.yml", users)) as served:
        status, headers = await ask(served, "/metrics")
        assert (status, headers["X-Frame-Options"]) == (401, ["sameorigin"])
        broken = await ask_raw(served, b"nonsense\r\n\r\n")
        assert broken.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
        assert broken.count(b"X-Frame-Options: sameorigin\r\n") == 1
        assert b"DENY" not in broken
    monkeypatch.setattr(http, "MAX_REQUESTS", 0)
    monkeypatch.setattr(http, "RESERVED", 0)
    async with serving(put(tmp_path / "web.yml", HEADERS)) as served:
        status, headers = await ask(served, "/metrics")
        assert (status, headers["X-Frame-Options"]) == (503, ["sameorigin"])


async def test_a_header_left_blank_leaves_our_own(tmp_path: Path) -> None:
    blank = "http_server_config: {headers: {X-Frame-Options: '', Content-Security-Policy: }}"
    async with serving(put(tmp_path / "web.yml", blank)) as served:
        _, headers = await ask(served, "/")
    assert headers["X-Frame-Options"] == ["DENY"]
    assert headers["Content-Security-Policy"][0].startswith("default-src 'none'")


async def test_more_than_a_burst_of_requests_is_refused(tmp_path: Path) -> None:
    limit = f"{HEADERS}\nrate_limit: {{interval: 1h, burst: 2}}"
    async with serving(put(tmp_path / "web.yml", limit)) as served:
        answers = [await ask(served, path) for path in ("/healthz", "/nothing", "/", "/metrics")]
        assert [status for status, _ in answers] == [200, 404, 429, 429]
        assert answers[-1][1]["Retry-After"] == ["3600"]
        assert answers[-1][1]["X-Frame-Options"] == ["sameorigin"]


def test_tokens_grow_with_time_up_to_a_burst() -> None:
    bucket = TokenBucket(RateLimit(interval_s=0.5, burst=3))
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(at) for at in (100.4, 100.5, 100.9, 101.0)] == [False, True, False, True]
    assert [bucket.take(1_000.0) for _ in range(4)] == [True, True, True, False]
    assert bucket.retry_after_s == 1
