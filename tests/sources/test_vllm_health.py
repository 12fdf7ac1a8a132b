"""Every answer of the health endpoint is a reading; only no answer is a fault."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sidecar.clock import Clock
from sidecar.model.limits import Known, Limit, Origin
from sidecar.model.readings import HealthReading
from sidecar.model.vocabulary import Fault, Source
from sidecar.sources.vllm_health import CONFIG_CAP, MOST_TRIES, Asked, VllmHealthSource
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
        url, asked = server.url("/health"), Asked(version=server.url("/version"))
        source = VllmHealthSource(Clock(), url, limit_s=5.0, asked=asked)
        found = []
        for status in (503, 200, 200, 503, 200):
            server.behaviour.status = status
            found.append((await source.sample()).reading)
        await source.close()
    versions = [reading.version for reading in found if isinstance(reading, HealthReading)]
    assert versions == [None, "0.32.0", None, None, "0.32.0"]


MODELS = b'{"data":[{"id":"tiny","root":"/models/canary","max_model_len":2048}]}'
INFO = b'{"vllm_config":{"scheduler_config":{"max_num_seqs":32},"hf_token":"canary"}}'


class Answers:
    """What each path of a stand-in answers: a status and a body; who asked, in order."""

    def __init__(self, **paths: tuple[int, bytes]) -> None:
        self.paths = {"health": (200, b""), **paths}
        self.asked: list[str] = []
        self.tokens: list[str | None] = []

    async def serve(self, request: web.Request) -> web.Response:
        name = request.path.strip("/").replace("/", "_")
        self.asked.append(name)
        self.tokens.append(request.headers.get("Authorization"))
        status, body = self.paths[name]
        if not status:
            assert request.transport is not None
            request.transport.close()
        return web.Response(status=status or 500, body=body)


@contextlib.asynccontextmanager
async def watched(answers: Answers, **options: Any) -> AsyncIterator[VllmHealthSource]:
    app = web.Application()
    app.router.add_get("/{path:.*}", answers.serve)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    target = "http://{}:{}".format(*runner.addresses[0][:2])
    source = VllmHealthSource(
        Clock(), f"{target}/health", limit_s=5.0, asked=Asked.of(target), **options
    )
    yield source
    await source.close()
    await runner.cleanup()


async def readings(source: VllmHealthSource, count: int) -> list[HealthReading]:
    found = [(await source.sample()).reading for _ in range(count)]
    assert all(isinstance(one, HealthReading) for one in found)
    return [one for one in found if isinstance(one, HealthReading)]


ALL = {"version": (200, b"{}"), "v1_models": (200, MODELS), "server_info": (200, INFO)}


async def test_the_limits_are_asked_once_and_only_their_numbers_kept() -> None:
    answers = Answers(**ALL)
    async with watched(answers) as source:
        first, second = await readings(source, 2)
    assert first.limits == {
        Limit.MAX_MODEL_LEN: Known(2048, Origin.MODELS),
        Limit.MAX_NUM_SEQS: Known(32, Origin.SERVER_INFO),
    }
    assert "canary" not in repr(first)
    assert second.limits == {}
    assert sorted(answers.asked) == ["health", "health", "server_info", "v1_models", "version"]


async def test_what_the_configuration_says_beats_the_card() -> None:
    info = b'{"vllm_config":{"model_config":{"max_model_len":1024}}}'
    async with watched(Answers(**{**ALL, "server_info": (200, info)})) as source:
        (first,) = await readings(source, 1)
    assert first.limits == {Limit.MAX_MODEL_LEN: Known(1024, Origin.SERVER_INFO)}


@pytest.mark.parametrize("status", [401, 403, 404, 302])
async def test_a_refusal_is_final_until_the_server_begins_to_answer_again(status: int) -> None:
    answers = Answers(**{**ALL, "v1_models": (status, b""), "server_info": (status, b"")})
    async with watched(answers) as source:
        await readings(source, 3)
        assert answers.asked.count("v1_models") == 1
        answers.paths["health"] = (503, b"")
        await readings(source, 1)
        answers.paths |= {"health": (200, b""), "v1_models": (200, MODELS)}
        (after,) = await readings(source, 1)
    assert after.limits == {Limit.MAX_MODEL_LEN: Known(2048, Origin.MODELS)}


@pytest.mark.parametrize("status", [0, 500, 503])
async def test_a_fault_of_the_servers_is_asked_again_a_few_times(status: int) -> None:
    answers = Answers(**{**ALL, "v1_models": (status, b""), "server_info": (404, b"")})
    async with watched(answers) as source:
        await readings(source, MOST_TRIES + 3)
        once = answers.asked.count("server_info")
    assert once == 1
    assert answers.asked.count("v1_models") >= MOST_TRIES
    assert answers.asked[-3:] == ["health"] * 3


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[" * 9999, b"x" * (CONFIG_CAP + 1)])
async def test_an_answer_of_no_use_is_no_fault_and_not_asked_again(body: bytes) -> None:
    answers = Answers(**{**ALL, "v1_models": (200, body), "server_info": (200, body)})
    async with watched(answers) as source:
        found = await readings(source, 3)
    assert [one.limits for one in found] == [{}, {}, {}]
    assert answers.asked.count("v1_models") == 1


async def test_the_token_goes_with_every_question(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    answers = Answers(**ALL)
    async with watched(answers, token_file=tmp_path / "token") as source:
        await readings(source, 1)
    assert answers.tokens == ["Bearer secret"] * 4


async def test_a_server_that_was_gone_is_asked_anew() -> None:
    async with fake_vllm() as server:
        server.behaviour.body = MODELS
        url = server.url("/health")
        source = VllmHealthSource(
            Clock(), url, limit_s=5.0, asked=Asked(models=server.url("/v1/models"))
        )
        (first,) = await readings(source, 1)
        server.behaviour.raw = b""
        assert (await source.sample()).fault is Fault.DISCONNECTED
        server.behaviour.raw = None
        (again,) = await readings(source, 1)
        await source.close()
    assert first.limits == again.limits == {Limit.MAX_MODEL_LEN: Known(2048, Origin.MODELS)}
