"""Whatever the server does, a sample is one reading or one named fault, in time."""

import asyncio
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.readings import MetricsReading
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Fault, Source
from sidecar.sources.vllm_metrics import AT_ONCE, BODY_CAP, VllmMetricsSource
from tests.fakes.patience import until
from tests.fakes.vllm_server import FakeVllm, fake_vllm

BODY = b"vllm:num_requests_running 1\n"


def count(body: bytes, content_type: str) -> MetricsReading:
    if not body.startswith(b"vllm:"):
        raise ValueError("no exposition")
    return MetricsReading(
        naming="vllm:", found=frozenset(), engines={}, samples=len(body), info={"ct": content_type}
    )


@pytest.fixture
async def server() -> AsyncIterator[FakeVllm]:
    async with fake_vllm() as running:
        running.behaviour.body = BODY
        yield running


@pytest.fixture
async def source(server: FakeVllm) -> AsyncIterator[VllmMetricsSource]:
    made = VllmMetricsSource(Clock(), server.url("/metrics"), count, limit_s=2.0)
    await made.open()
    yield made
    await made.close()


async def test_the_body_and_its_type_reach_the_reader(
    server: FakeVllm, source: VllmMetricsSource
) -> None:
    sample = await source.sample()
    assert sample.source is Source.VLLM_METRICS
    assert isinstance(sample.reading, MetricsReading)
    assert sample.reading.samples == len(BODY)
    assert sample.reading.info == {"ct": server.behaviour.content_type}
    (request,) = server.behaviour.seen
    assert request.startswith("GET /metrics HTTP/1.1\r\n")
    assert "Accept: text/plain;version=0.0.4\r\n" in request
    assert "Authorization" not in request


@pytest.mark.parametrize("status", [301, 302, 401, 404, 500, 503])
async def test_another_status_is_a_fault_and_no_redirect_is_followed(
    server: FakeVllm, source: VllmMetricsSource, status: int
) -> None:
    server.behaviour.status = status
    server.behaviour.headers = {"Location": server.url("/elsewhere")}
    assert (await source.sample()).fault is Fault.HTTP_STATUS
    assert len(server.behaviour.seen) == 1


async def test_nobody_listening_is_refused() -> None:
    async with fake_vllm() as gone:
        url = gone.url("/metrics")
    source = VllmMetricsSource(Clock(), url, count, limit_s=2.0)
    assert (await source.sample()).fault is Fault.REFUSED
    await source.close()


async def test_half_a_body_is_disconnected(server: FakeVllm, source: VllmMetricsSource) -> None:
    server.behaviour.cut_after = 5
    assert (await source.sample()).fault is Fault.DISCONNECTED


async def test_no_answer_at_all_is_disconnected(
    server: FakeVllm, source: VllmMetricsSource
) -> None:
    server.behaviour.raw = b""
    assert (await source.sample()).fault is Fault.DISCONNECTED


async def test_what_is_no_http_is_malformed(server: FakeVllm, source: VllmMetricsSource) -> None:
    server.behaviour.raw = b"220 smtp.example ESMTP\r\n\r\n"
    assert (await source.sample()).fault is Fault.MALFORMED


async def test_what_is_no_exposition_is_malformed(
    server: FakeVllm, source: VllmMetricsSource
) -> None:
    server.behaviour.body = b"<html>login</html>"
    assert (await source.sample()).fault is Fault.MALFORMED


async def test_a_stated_length_above_the_cap_is_too_large(
    server: FakeVllm, source: VllmMetricsSource
) -> None:
    server.behaviour.headers = {"Content-Length": str(BODY_CAP + 1)}
    assert (await source.sample()).fault is Fault.TOO_LARGE


async def test_a_body_without_end_is_too_large(server: FakeVllm) -> None:
    server.behaviour.endless = True
    source = VllmMetricsSource(Clock(), server.url("/metrics"), count, limit_s=20.0)
    assert (await source.sample()).fault is Fault.TOO_LARGE
    await source.close()


@pytest.mark.parametrize("where", ["hang", "hang_in_body"])
async def test_a_hung_server_is_a_timeout(server: FakeVllm, where: str) -> None:
    setattr(server.behaviour, where, True)
    server.behaviour.headers = {"Content-Length": "1000"}
    source = VllmMetricsSource(Clock(), server.url("/metrics"), count, limit_s=0.1)
    sample = await source.sample()
    assert sample.fault is Fault.TIMEOUT
    assert 0.05 < sample.duration_s < 2
    await source.close()


async def test_closing_does_not_wait_for_a_hung_server(server: FakeVllm) -> None:
    server.behaviour.hang = True
    source = VllmMetricsSource(Clock(), server.url("/metrics"), count, limit_s=60.0)
    hanging = asyncio.ensure_future(source.sample())
    await until(lambda: bool(server.behaviour.seen))
    async with asyncio.timeout(10):
        await source.close()
        await source.close()
        assert (await hanging).fault is not None


async def test_the_server_is_seen_again_once_it_is_back(
    server: FakeVllm, source: VllmMetricsSource
) -> None:
    server.behaviour.raw = b""
    assert (await source.sample()).fault is Fault.DISCONNECTED
    server.behaviour.raw = None
    assert (await source.sample()).reading is not None


async def test_an_unknown_host_is_absent() -> None:
    source = VllmMetricsSource(Clock(), "http://vllm.invalid:1/metrics", count, limit_s=10.0)
    assert (await source.sample()).fault in {Fault.ABSENT, Fault.TIMEOUT}
    await source.close()


@pytest.mark.parametrize(
    "url", ["http://vllm..svc:1/metrics", "http://.:1/metrics", f"http://{'a' * 70}:1/metrics"]
)
async def test_a_name_that_no_host_can_have_is_absent(url: str) -> None:
    source = VllmMetricsSource(Clock(), url, count, limit_s=10.0)
    assert (await source.sample()).fault is Fault.ABSENT
    await source.close()


async def test_a_large_body_that_takes_long_to_read_does_not_stop_the_loop(
    server: FakeVllm,
) -> None:
    server.behaviour.body = BODY * (AT_ONCE // len(BODY) + 1)
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(body: bytes, content_type: str) -> MetricsReading:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(10)
        return count(body, content_type)

    source = VllmMetricsSource(Clock(), server.url("/metrics"), slow, limit_s=0.2)
    assert (await source.sample()).fault is Fault.TIMEOUT
    assert (await source.sample()).fault is Fault.BUSY
    release.set()

    async def answers() -> bool:
        return (await source.sample()).reading is not None

    await until(answers)
    await source.close()


async def test_the_token_is_sent_and_read_again_when_its_file_changes(
    server: FakeVllm, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    source = VllmMetricsSource(
        Clock(), server.url("/metrics"), count, limit_s=5.0, token_file=token
    )
    await source.sample()
    renewed = tmp_path / "renewed"
    renewed.write_text("second")
    renewed.replace(token)
    await source.sample()
    first, second = server.behaviour.seen
    assert "Authorization: Bearer first\r\n" in first
    assert "Authorization: Bearer second\r\n" in second
    token.unlink()
    assert (await source.sample()).fault is Fault.DENIED
    await source.close()


@pytest.mark.parametrize("text", ["", "two\r\nlines: x", "caf\u00e9"])
async def test_a_token_that_cannot_be_sent_is_not_sent(
    server: FakeVllm, tmp_path: Path, text: str
) -> None:
    (tmp_path / "token").write_text(text, newline="")
    source = VllmMetricsSource(
        Clock(), server.url("/metrics"), count, limit_s=5.0, token_file=tmp_path / "token"
    )
    assert (await source.sample()).fault is Fault.DENIED
    assert server.behaviour.seen == []
    await source.close()


async def test_a_recording_gets_the_raw_text_and_the_failures(server: FakeVllm) -> None:
    rows: list[Mapping[str, object]] = []

    def keep(at: Instant, row: Mapping[str, object]) -> None:
        rows.append(row)

    source = VllmMetricsSource(Clock(), server.url("/metrics"), count, limit_s=5.0, tap=keep)
    await source.sample()
    server.behaviour.status = 503
    await source.sample()
    server.behaviour.raw = b""
    await source.sample()
    await source.close()
    assert rows == [
        {"status": 200, "content_type": server.behaviour.content_type, "body": BODY.decode()},
        {"status": 503},
        {"status": None, "error": "disconnected"},
    ]


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
@pytest.mark.parametrize(
    ("known", "fault"), [("given", None), ("the_systems", None), ("nowhere", Fault.DENIED)]
)
async def test_only_a_known_authority_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, known: str, fault: Fault | None
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = await asyncio.create_subprocess_exec(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "2", "-subj", "/CN=vllm", "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", str(key), "-out", str(certificate),
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert await made.wait() == 0
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    if known == "the_systems":
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with fake_vllm(tls) as server:
        server.behaviour.body = BODY
        source = VllmMetricsSource(
            Clock(),
            server.url("/metrics").replace("https", scheme),
            count,
            limit_s=10.0,
            ca_file=certificate if known == "given" else None,
        )
        assert (await source.sample()).fault is fault
        await source.close()


async def test_an_authority_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for name, fault in (("ca.pem", Fault.MALFORMED), ("none.pem", Fault.ABSENT)):
        source = VllmMetricsSource(
            Clock(), "https://127.0.0.1:1/metrics", count, limit_s=5.0, ca_file=tmp_path / name
        )
        assert (await source.sample()).fault is fault
        await source.close()


async def test_a_body_of_the_common_size_is_read_where_it_arrives(server: FakeVllm) -> None:
    threads = set()

    def note(body: bytes, content_type: str) -> MetricsReading:
        threads.add(threading.get_ident())
        return count(body, content_type)

    source = VllmMetricsSource(Clock(), server.url("/metrics"), note, limit_s=10.0)
    assert (await source.sample()).fault is None
    assert threads == {threading.get_ident()}
    server.behaviour.body = BODY * (AT_ONCE // len(BODY) + 1)
    assert (await source.sample()).fault is None
    assert len(threads) == 2
    await source.close()
