"""The command that puts a server's output into a file as well, run by a real shell."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.deploy.kubernetes_files import server_for, with_component
from tests.fakes.manifests import workload_of

pytestmark = pytest.mark.component("kubectl")

LOG = "/var/log/vllm/vllm.log"
LINES = 1000
TALKS = f"""
import time
for n in range({LINES}):
    print(n, "x" * 90, flush=True)
    time.sleep(0.001)
"""


def command(name: str) -> list[str]:
    """What the component makes of the server's command, with its arguments."""
    container = workload_of(with_component(name))["spec"]["template"]["spec"]["containers"][0]
    return [*container["command"], *container["args"]]


@dataclass(frozen=True, slots=True)
class Server:
    """The command at work with another server: its process, its file, and where its output goes."""

    process: "subprocess.Popen[bytes]"
    log: Path
    output: Path


@contextlib.contextmanager
def started(folder: Path, program: str) -> Iterator[Server]:
    """The command with a shorter measure; what outlives a server outside of a container is ended."""
    *shell, script, path = command("log-shared-volume")[:4]
    assert (shell, path) == (["bash", "-c"], LOG)
    for old, new in (("sleep 60", "sleep 0.05"), ("+65536k", "+8k")):
        assert script.count(old) == 1
        script = script.replace(old, new)
    log, output = folder / "vllm.log", folder / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*shell, script, str(log), sys.executable, "-c", program],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Server(process, log, output)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_stands_in_front_of_the_command_and_its_arguments() -> None:
    with_command = server_for("log-shared-volume")["spec"]["template"]["spec"]["containers"][0]

    assert command("log-shared-volume")[4:] == [*with_command["command"], *with_command["args"]]
    assert command("log-shared-volume")[:6] == command("log-shared-volume-entrypoint")[:6]


def test_all_output_goes_where_it_went_and_into_the_file(tmp_path: Path) -> None:
    program = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    with started(tmp_path, program) as server:
        assert server.process.wait(timeout=20) == 3

        until(lambda: server.output.read_bytes() == b"out\nerr\n")
        until(lambda: server.log.read_bytes() == b"out\nerr\n")


def test_the_server_is_the_one_that_is_told_to_stop(tmp_path: Path) -> None:
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(0)))\n"
        "print('up', flush=True)\n"
        "time.sleep(60)"
    )
    with started(tmp_path, program) as server:
        until(lambda: server.output.read_bytes() == b"up\n")

        server.process.terminate()

        assert server.process.wait(timeout=20) == 0
        until(lambda: server.log.read_bytes() == b"up\nbye\n")


def test_the_file_is_emptied_and_nothing_of_the_output_is_lost(tmp_path: Path) -> None:
    sizes: list[int] = []
    with started(tmp_path, TALKS) as server:

        def is_over() -> bool:
            sizes.append(server.log.stat().st_size if server.log.exists() else 0)
            return len(server.output.read_bytes().splitlines()) == LINES

        until(is_over)
        written = server.output.read_bytes().splitlines()

    assert [int(line.split()[0]) for line in written] == list(range(LINES))
    assert any(later < earlier for earlier, later in pairwise(sizes))
