"""A signal ends the daemon promptly and cleanly, whatever hangs."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.commands.run import SAME_WISH_S
from tests.fakes import nvml
from tests.fakes.daemon import daemon, environment

WITHIN_S = 2.0
STOPS_SLOWLY = """
import asyncio
from sidecar.commands.run import run_until_signal

async def body(stop):
    print("ready", flush=True)
    await stop.wait()
    print("stopping", flush=True)
    await asyncio.sleep(30)

run_until_signal(body)
"""


@pytest.fixture
def hung_target() -> Iterator[str]:
    """It accepts connections (the kernel does) and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def hung_driver(tmp_path: Path) -> dict[str, str]:
    """An NVIDIA library whose first call takes ten minutes."""
    state = tmp_path / "nvml"
    state.write_text("count 1\nhang_ms.nvmlInitWithFlags 600000\n")
    library = nvml.build(tmp_path / "library")
    return {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(state)}


def wait_for_the_middle_of_a_tick(interval_s: float) -> None:
    """A tick gathers for 0.4 intervals from each multiple of the interval on."""
    now = time.time()
    time.sleep(interval_s - now % interval_s + 0.15 * interval_s)


@pytest.mark.component("gcc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_amid_a_tick_ends_it_though_driver_target_and_health_hang(
    number: signal.Signals, hung_target: str, hung_driver: dict[str, str]
) -> None:
    with daemon(
        "--target", hung_target, "--interval", "1s", "--window", "5s", env=hung_driver
    ) as running:
        running.samples()
        wait_for_the_middle_of_a_tick(1.0)
        code, took = running.end(number)
        assert code == 0, running.said
        assert took < WITHIN_S
        assert running.events[-1]["event"] == "stopped"


def test_a_signal_before_the_first_tick_ends_it(hung_target: str) -> None:
    with daemon("--target", hung_target, "--interval", "12h", "--window", "12h") as running:
        code, took = running.end()
        assert code == 0
        assert took < WITHIN_S
        told = [event["event"] for event in running.events]
        assert (told[0], told[-1]) == ("listening", "stopped")
        assert "verdict_changed" not in told


def test_a_client_that_takes_no_answer_does_not_hold_it_up(hung_target: str) -> None:
    with daemon("--target", hung_target, "--interval", "1s", "--window", "1s") as running:
        running.samples()
        with socket.create_connection(("127.0.0.1", running.port)) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50 + b"GET /metrics HTT")
            code, took = running.end()
        assert code == 0
        assert took < WITHIN_S


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_second_signal_ends_it_at_once(first: signal.Signals, second: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STOPS_SLOWLY],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(first)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(second)
        time.sleep(3 * SAME_WISH_S)
        assert process.poll() is None, "one wish, told twice"
        begun = time.monotonic()
        process.send_signal(second)
        code = process.wait(10)
        assert code == -second
        assert time.monotonic() - begun < 1
        assert process.stderr.read() == ""
