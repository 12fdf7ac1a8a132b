"""Whatever a source hangs on, the daemon starts, answers, and ends when it is told to."""

import asyncio

import pytest

from sidecar import app
from sidecar.clock import Clock
from sidecar.errors import ConfigError
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Source
from sidecar.wiring import local_port
from tests.app.running import Running, running, settings_for
from tests.fakes.patience import until


class Hanging:
    """It hangs on everything it is asked to do."""

    name = Source.CGROUP

    async def open(self) -> None:
        await asyncio.sleep(3600)

    async def close(self) -> None:
        await asyncio.sleep(3600)

    async def sample(self) -> Sample:
        await asyncio.sleep(3600)
        raise AssertionError


class Broken:
    """A source with a bug."""

    name = Source.CGROUP

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    async def sample(self) -> Sample:
        raise ZeroDivisionError


async def test_a_stop_while_sources_are_opened_ends_it_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "build_sources", lambda *_: (Hanging(),))
    stop = asyncio.Event()
    begun = asyncio.get_running_loop().time()
    listens = asyncio.Event()
    settings = settings_for("http://127.0.0.1:9")
    task = asyncio.create_task(app.run(settings, Clock(), stop, listening=lambda *_: listens.set()))
    await listens.wait()
    stop.set()
    await task
    assert asyncio.get_running_loop().time() - begun < app.OPEN_LIMIT_S


async def test_pages_are_answered_while_a_source_hangs_in_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "build_sources", lambda *_: (Hanging(),))
    async with running(settings_for("http://127.0.0.1:9")) as seen:
        assert await seen.get("/readyz") == (503, "no window is closed yet\n")
        assert await seen.get("/healthz") == (503, "the clock stands still\n")
        await until(lambda: len(seen.steps) > 2)
        assert await seen.get("/healthz") == (200, "ok\n")


async def test_a_source_with_a_bug_ends_the_daemon_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "build_sources", lambda *_: (Broken(),))
    with pytest.raises(ExceptionGroup) as failed:
        async with asyncio.timeout(10):
            await app.run(settings_for("http://127.0.0.1:9"), Clock(), asyncio.Event())
    assert failed.group_contains(ZeroDivisionError)


async def test_the_address_is_refused_before_anything_is_opened() -> None:
    async with running(settings_for("http://127.0.0.1:9")) as seen:
        settings = settings_for("http://127.0.0.1:9", listen=f"127.0.0.1:{seen.port}")
        with pytest.raises(ConfigError, match="address already in use"):
            await app.run(settings, Clock(), asyncio.Event())


async def test_it_is_ready_with_the_first_window_that_closes() -> None:
    async def is_ready(seen: Running) -> bool:
        return (await seen.get("/readyz"))[0] == 200

    async with running(settings_for("http://127.0.0.1:9")) as seen:
        await until(lambda: is_ready(seen))
        assert seen.verdicts()


@pytest.mark.parametrize(
    ("target", "port"),
    [
        ("http://127.0.0.1:8000", 8000),
        ("http://127.1.2.3:8000", 8000),
        ("http://localhost", 80),
        ("https://localhost", 443),
        ("http://[::1]:8000", 8000),
        ("http://0.0.0.0:8000", 8000),
        ("http://vllm.example:8000", None),
        ("http://203.0.113.1:8000", None),
    ],
)
def test_only_the_port_of_a_target_on_this_host_tells_its_process(
    target: str, port: int | None
) -> None:
    assert local_port(target) == port
