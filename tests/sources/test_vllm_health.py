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
