"""What the installed program does when it starts, well or badly: codes and the one line."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.daemon import daemon, run_command


@pytest.fixture
def taken() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("command", ["run", "demo"])
def test_a_port_in_use_is_one_line_and_code_2(command: str, taken: str) -> None:
    done = run_command(command, "--listen", taken)
    assert done.returncode == 2
    assert done.stderr == f"vllm-sidecar: cannot listen on {taken}: address already in use\n"


def test_an_unknown_option_is_one_line_and_code_2() -> None:
    done = run_command("run", "--token", "sk-canary-0451")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "vllm-sidecar: unknown option --token (see vllm-sidecar --help)\n"


def test_an_unknown_name_in_the_environment_is_one_line_and_code_2() -> None:
    done = run_command("run", env={"VLLM_SIDECAR_X": "sk-canary-0451"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "vllm-sidecar: environment: VLLM_SIDECAR_X: unknown setting\n"


def test_an_unreadable_file_is_one_line_and_code_2(tmp_path: Path) -> None:
    path = tmp_path / "sidecar\ntoml"
    path.write_text("interval = ")
    done = run_command("run", "--config", str(path))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_it_starts_with_nothing_but_defaults_and_no_server() -> None:
    with daemon() as running:
        assert running.get("/readyz") == (503, "no window is closed yet\n")
        assert running.end()[0] == 0
        told = [event["event"] for event in running.events]
        assert (told[0], told[-1]) == ("listening", "stopped")
        assert "verdict_changed" not in told, "no window was closed"
