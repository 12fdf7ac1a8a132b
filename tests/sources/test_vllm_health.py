"""Every answer of the health endpoint is a reading; only no answer is a fault."""

import pytest

from sidecar.clock import Clock
from sidecar.model.readings import HealthReading
from sidecar.model.vocabulary import Fault, Source
from sidecar.sources.vllm_health import VllmHealthSource
from tests.fakes.vllm_server import fake_vllm


@pytest.mark.parametrize("status", [200, 204, 302, 404, 500, 503])
async def test_every_status_is_a_reading(status: int) -> None:
    async with fake_vllm() as server:
        server.behaviour.status = status
        server.behaviour.headers = {"Location": "/elsewhere"}
        source = VllmHealthSource(Clock(), server.url("/health"), limit_s=5.0)
        sample = await source.sample()
        await source.close()
    assert (sample.source, sample.reading) == (Source.VLLM_HEALTH, HealthReading(status))
    assert len(server.behaviour.seen) == 1


async def test_an_answer_without_end_is_not_read() -> None:
    async with fake_vllm() as server:
        server.behaviour.endless = True
        source = VllmHealthSource(Clock(), server.url("/health"), limit_s=5.0)
        assert (await source.sample()).reading == HealthReading(200)
        await source.close()


async def test_a_hung_server_is_a_timeout_and_a_missing_one_refused() -> None:
    async with fake_vllm() as server:
        server.behaviour.hang = True
        source = VllmHealthSource(Clock(), server.url("/health"), limit_s=0.1)
        assert (await source.sample()).fault is Fault.TIMEOUT
    assert (await source.sample()).fault is Fault.REFUSED
    await source.close()


async def test_the_version_is_asked_once_for_each_time_the_server_comes_up() -> None:
    async with fake_vllm() as server:
        server.behaviour.body = b'{"version":"0.32.0"}'
        url, version_url = server.url("/health"), server.url("/version")
        source = VllmHealthSource(Clock(), url, limit_s=5.0, version_url=version_url)
        found = []
        for status in (503, 200, 200, 503, 200):
            server.behaviour.status = status
            found.append((await source.sample()).reading)
        await source.close()
    versions = [reading.version for reading in found if isinstance(reading, HealthReading)]
    assert versions == [None, "0.32.0", None, None, "0.32.0"]
