"""SIGHUP has a real daemon read its settings again, at any moment of its life, and never ends it."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sidecar import cli
from sidecar.commands import exit_codes
from tests.fakes.daemon import COMMAND, Daemon, daemon, environment

QUICK = ("--interval", "200ms", "--window", "400ms", "--cgroup", "off", "--kernel-log", "off")
NOWHERE = ("--target", "http://127.0.0.1:9", "--gpu", "off")
SECRET = "sk-canary-0451"
SUCCESS = "vllm_sidecar_config_last_reload_successful"
SUCCESS_TIME = "vllm_sidecar_config_last_reload_success_timestamp_seconds"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sidecar.toml"
    path.write_text("max_engines = 8\n")
    return path


def told(running: Daemon) -> list[dict[str, Any]]:
    """What was said of reloads so far."""
    return [one for one in running.events if one["event"].startswith("settings_")]


def value(running: Daemon, name: str) -> float:
    return running.metrics()[name, ()]


def hang_up(running: Daemon) -> None:
    running.process.send_signal(signal.SIGHUP)


def test_good_settings_are_taken_bad_ones_leave_the_last_good_in_effect(file: Path) -> None:
    with daemon(*QUICK, *NOWHERE, "--config", str(file)) as running:
        running.samples()
        begun = value(running, SUCCESS_TIME)
        assert abs(time.time() - begun) < 30
        assert value(running, SUCCESS) == 1

        file.write_text(f'target_token_fil = "{SECRET}"\n')
        hang_up(running)
        running.until(lambda: value(running, SUCCESS) == 0)
        assert value(running, SUCCESS_TIME) == begun
        running.until(lambda: len(told(running)) == 1)
        (bad,) = told(running)
        assert (bad["event"], bad["level"]) == ("settings_not_reloaded", "warning")
        assert bad["why"].endswith("did you mean target_token_file?")

        file.write_text(f'max_engines = 3\ntarget_token_file = "{SECRET}"\nwindow = "2s"\n')
        hang_up(running)
        running.until(lambda: value(running, SUCCESS) == 1)
        assert value(running, SUCCESS_TIME) > begun
        running.until(lambda: len(told(running)) == 3)
        assert [one["event"] for one in told(running)[1:]] == [
            "settings_reloaded",
            "settings_need_restart",
        ]
        # The command line wins over the file, also now.
        assert told(running)[-1]["settings"] == "target_token_file"
        assert running.end()[0] == 0
    assert SECRET not in "".join(running.said + running.printed)


def test_a_wrong_web_configuration_is_refused_by_name_and_the_last_good_one_stays(
    tmp_path: Path,
) -> None:
    web = tmp_path / "web.yml"
    web.write_text("http_server_config:\n  headers:\n    X-Frame-Options: sameorigin\n")
    with daemon(*QUICK, *NOWHERE, "--web-config-file", str(web)) as running:
        running.samples()
        web.write_text(f"basic_auth_user:\n  {SECRET}: {SECRET}\n")
        hang_up(running)
        running.until(lambda: value(running, SUCCESS) == 0)
        running.until(lambda: len(told(running)) == 1)
        (bad,) = told(running)
        assert bad["event"] == "settings_not_reloaded"
        assert bad["why"].startswith("web-config-file: ")
        web.write_text("{}\n")
        hang_up(running)
        running.until(lambda: value(running, SUCCESS) == 1)
        assert running.end()[0] == 0
    assert SECRET not in "".join(running.said + running.printed)


def test_a_start_that_is_refused_leaves_signals_as_they_were(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert cli.main(("run", "--interval", "soon")) == exit_codes.USAGE
    assert "interval" in capsys.readouterr().err
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_without_a_file_there_is_nothing_to_read_and_nothing_wrong() -> None:
    with daemon(*QUICK, *NOWHERE) as running:
        running.samples()
        hang_up(running)
        running.until(lambda: len(told(running)) == 1)
        assert told(running)[0]["event"] == "settings_reloaded"
        assert value(running, SUCCESS) == 1
        assert running.end()[0] == 0


def test_many_at_once_are_heeded_and_harm_nothing(file: Path) -> None:
    with daemon(*QUICK, *NOWHERE, "--config", str(file)) as running:
        for _ in range(200):
            hang_up(running)
        file.write_text("max_engines = 0\n")
        hang_up(running)
        # The last one came after the file was changed, so the file is read after that.
        running.until(lambda: "settings_not_reloaded" in {one["event"] for one in told(running)})
        running.samples()
        assert running.end()[0] == 0


def test_one_that_comes_while_it_begins_is_heeded_once_it_runs(file: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BEGINS_SLOWLY, *QUICK, *NOWHERE, "--config", str(file)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "reading\n"
        process.send_signal(signal.SIGHUP)
        events: list[str] = []
        while not events or events[-1] != "settings_reloaded":
            line = process.stderr.readline()
            assert line, events
            events.append(json.loads(line)["event"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_those_that_come_while_it_stops_do_not_end_it(file: Path) -> None:
    with daemon(*QUICK, *NOWHERE, "--config", str(file)) as running:
        running.samples()
        running.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 10
        while running.process.poll() is None:
            assert time.monotonic() < end
            running.process.send_signal(signal.SIGHUP)
        assert running.process.returncode == 0, running.said


def test_a_hangup_ends_a_demo_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with subprocess.Popen(
        # Whoever started the tests may have it ignored.
        ["env", "--default-signal=HUP", *COMMAND, "demo", "--listen", "127.0.0.1:0"],
        env=environment({"TMPDIR": str(tmp_path)}),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any("listening" in line for line in process.stdout)
        process.send_signal(signal.SIGHUP)
        assert process.wait(10) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_was_started_to_survive_a_hangup_does() -> None:
    with subprocess.Popen(
        ["nohup", *COMMAND, "demo", "--listen", "127.0.0.1:0"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any("listening" in line for line in process.stdout)
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_systemd_is_told_of_the_whole_life(file: Path, tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(name)
        ear.settimeout(15)

        def hear() -> dict[str, str]:
            return dict(line.split("=", 1) for line in ear.recv(65536).decode().split("\n"))

        with daemon(
            *QUICK, *NOWHERE, "--config", str(file),
            env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000000"},
        ) as running:  # fmt: skip
            assert hear()["STATUS"] == "waiting for the first sample"
            ready = hear()
            assert running.get("/metrics")[0] == 200
            assert ready["READY"] == ready["WATCHDOG"] == "1"
            assert int(ready["WATCHDOG_USEC"]) > 1_000_000
            assert ready["STATUS"].startswith("verdict unknown; server ")
            assert {one for _ in range(5) for one in hear()} <= {"WATCHDOG", "STATUS"}

            before = time.monotonic()
            hang_up(running)
            while "RELOADING" not in (reload := hear()):
                continue
            assert before <= int(reload["MONOTONIC_USEC"]) / 1e6 <= time.monotonic()
            while "READY" not in (heard := hear()):
                assert "RELOADING" not in heard
            assert running.end()[0] == 0
        ear.settimeout(0)
        last = []
        while True:
            try:
                last.append(hear())
            except BlockingIOError:
                break
        assert last[-1] == {"STOPPING": "1"}


BEGINS_SLOWLY = """
import sys, time
from sidecar import cli, config

read_before = config.load

def load(*arguments, **settings):
    print("reading", flush=True)
    time.sleep(0.5)
    return read_before(*arguments, **settings)

config.load = load
sys.exit(cli.main(["run", "--listen", "127.0.0.1:0", *sys.argv[1:]]))
"""
