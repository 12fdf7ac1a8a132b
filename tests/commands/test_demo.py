"""The demo needs nothing: no server, no settings, and none of those that lie around."""

import asyncio
import re
import signal
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from sidecar import cli
from sidecar.commands import demo
from sidecar.errors import ConfigError
from sidecar.model.vocabulary import Source
from sidecar.recording.folder import Recording
from sidecar.stand_in import StandIn
from tests.fakes.daemon import Daemon
from tests.fakes.scaled_clock import ScaledClock


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    recording = Recording(demo.SCENARIOS / "host_oom")
    return StandIn(recording, tmp_path, ScaledClock(1), port=1234)


def test_list_names_every_scenario_with_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--scenario", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == sorted(demo.list_scenarios())
    assert all(line.partition(": ")[2] for line in lines)


def test_an_unknown_scenario_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["demo", "--scenario", "../../etc"]) == 2
    assert "there are cuda_oom, engine_failure" in capsys.readouterr().err


def test_settings_that_lie_around_do_not_touch_it(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_SIDECAR_TARGET", "http://elsewhere:1")
    monkeypatch.setenv("VLLM_SIDECAR_TARGET_TOKEN_FILE", "/nonexistent")
    monkeypatch.setenv("VLLM_SIDECAR_METRICS_PATH", "/elsewhere")
    monkeypatch.setenv("VLLM_SIDECAR_MAX_ENGINES", "1")
    settings = demo.settle(stand_in, "127.0.0.1:0")
    assert settings.target == "http://127.0.0.1:1234"
    assert settings.target_token_file is None
    assert settings.metrics_path == "/metrics"
    assert settings.max_engines == 64
    assert settings.cgroup == str(stand_in.cgroup)


async def test_an_address_in_use_is_refused_and_nothing_is_left_behind(
    tmp_path: Path, no_blocking_call: BlockBuster
) -> None:
    no_blocking_call.deactivate()  # the stand-in writes files, on purpose
    taken = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    async with taken:
        listen = f"127.0.0.1:{taken.sockets[0].getsockname()[1]}"
        recording = Recording(demo.SCENARIOS / "healthy")
        with pytest.raises(ConfigError, match="address already in use"):
            await demo.play(
                recording, tmp_path / "x", listen, asyncio.Event(), ScaledClock(1), once=True
            )


def test_it_prints_its_address_and_ends_with_a_signal_without_a_trace(tmp_path: Path) -> None:
    running = Daemon(
        "demo", "--scenario", "healthy", "--listen", "127.0.0.1:0", env={"TMPDIR": str(tmp_path)}
    )
    try:
        running.until(lambda: any("/metrics" in line for line in running.printed))
        running.port = int(re.findall(r"127\.0\.0\.1:(\d+)/metrics", "".join(running.printed))[0])
        running.samples()
        assert list(tmp_path.iterdir()) != []
        code, took = running.end(signal.SIGINT)
        assert (code, running.said) == (0, [])
        assert took < 2
        assert list(tmp_path.iterdir()) == []
    finally:
        running.close()


def test_every_scenario_has_what_a_source_needs() -> None:
    for name in demo.list_scenarios():
        assert {Source.VLLM_METRICS, Source.VLLM_HEALTH, Source.VLLM_LOG} <= Recording(
            demo.SCENARIOS / name
        ).sources()
