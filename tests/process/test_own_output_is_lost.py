"""Whoever does not take what we print, a full disk or a closed stream, gets no traceback from us."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes.daemon import COMMAND, environment

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "sidecar/scenarios/preemption"
QUIET = ("--interval", "250ms", "--window", "1s", "--cgroup", "off", "--gpu", "off")


def shell(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A line of shell in which ``"$@"`` is our command with its arguments."""
    return subprocess.run(
        ["/bin/bash", "-c", text, "bash", *COMMAND, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
@pytest.mark.parametrize(
    "arguments",
    [("--version",), ("scan", __file__), ("replay", str(RECORDING)), ("demo",)],
    ids=lambda arguments: str(arguments[0]),
)
def test_an_output_that_cannot_be_written_is_one_line_and_code_2(
    where: str, arguments: tuple[str, ...]
) -> None:
    done = shell(f'"$@" {where}', *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("vllm-sidecar: cannot write the output: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_refusal_that_cannot_be_written_is_told_by_the_code(where: str) -> None:
    done = shell(f'"$@" {where}', "scan", "/no/such/file")
    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr


def test_a_closed_standard_input_is_one_line_and_code_2() -> None:
    done = shell('"$@" <&-', "scan", "-")
    assert done.returncode == 2
    assert done.stderr == "vllm-sidecar scan: cannot read -: standard input is closed\n"


def test_the_demo_ends_when_nobody_reads_it_any_more() -> None:
    done = shell('set -o pipefail; "$@" | head -1', "demo", "--listen", "127.0.0.1:0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("scenario preemption")
    assert done.stderr == ""


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&1 | head -1", "<&- >&- 2>&-"])
def test_the_daemon_goes_on_without_its_own_log(where: str) -> None:
    text = f'set -o pipefail; timeout --foreground --preserve-status 4 "$@" {where}'
    begun = time.monotonic()
    done = shell(text, "run", "--listen", "127.0.0.1:0", "--kernel-log", "off", *QUIET)
    assert time.monotonic() - begun > 3.5, "it ended before it was told to"
    assert done.returncode == 0
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_amid_the_imports_ends_it_with_0_and_nothing_said(number: signal.Signals) -> None:
    # An import that never ends stands for a slow disk.
    text = (
        "import sys, time, types\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'aiohttp':\n"
        "            print('importing', flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "sys.argv[1:] = ['run']\n"
        "from sidecar.cli import entry\n"
        "entry()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(number)
        assert process.wait(10) == 0
        assert process.stderr.read() == ""


def test_a_directory_as_the_kernels_log_does_not_hold_up_the_end() -> None:
    text = 'timeout --foreground --preserve-status -k 5 3 "$@"'
    done = shell(text, "run", "--listen", "127.0.0.1:0", "--kernel-log", "/tmp", *QUIET)
    assert done.returncode == 0, done.stderr
    assert '"fault": "unsupported"' in done.stderr
