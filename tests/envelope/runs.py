"""Capacity runs of the real program against a server that counts as vLLM does."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.daemon import COMMAND, environment

HERE = Path(__file__).parent
OBJECTIVES = 'ttft_p95 = "500ms"\ne2e_p95 = "2s"\nagree = 1.0'


@dataclass
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def serving(fits: int = 4, takes_ms: int = 100, port: int = 0) -> Iterator[Server]:
    """A server for ``fits`` requests at once."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "fake_server.py"), str(port), str(fits), str(takes_ms)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield Server(process, int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def stage(name: str, load: int, *, requests: int = 0, word: str = "-", more: str = "") -> str:
    """One stage of a plan, a dozen rounds of requests long."""
    count = str(requests or 12 * load)
    words = [sys.executable, str(HERE / "fake_load.py"), "{url}", "{load}", count]
    words += ["{result}", word, "{stage}", "{repeat}"]
    return f'[[stage]]\nname = "{name}"\nload = {load}\ncommand = {json.dumps(words)}\n{more}\n'


def plan(
    server: Server,
    work: Path,
    stages: Sequence[str],
    *,
    head: str = "",
    interval: str = "100ms",
    objectives: str = OBJECTIVES,
    settle: str = 'quiet = "300ms"\nlimit = "30s"\ndrain = "10s"',
) -> Path:
    """A plan for a server, with a log and a kernel log that say nothing."""
    (work / "vllm.log").touch()
    (work / "kernel.log").touch()
    text = f"""\
name = "fake"
unit = "concurrency"
{head}
[sidecar]
target = "{server.url}"
interval = "{interval}"
window = "1s"
log = ["{work}/vllm.log"]
kernel_log = "{work}/kernel.log"
cgroup = "off"
gpu = "off"

[objectives]
{objectives}

[settle]
{settle}

{"".join(stages)}"""
    path = work / "plan.toml"
    path.write_text(text.replace("{url}", server.url))
    return path


@dataclass
class Ended:
    """How a run ended."""

    code: int
    out: str
    err: str


class Running:
    """A run that goes on."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Return once ``condition`` holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end
            assert self.process.poll() is None, self.finish()
            time.sleep(0.02)

    def loads(self) -> list[int]:
        """The pids of what it started."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(word) for word in children.read_text().split()]

    def begins_load(self) -> list[int]:
        """Wait for a load; its pids."""
        self.until(lambda: self.loads() != [])
        return self.loads()

    def end(self, number: signal.Signals) -> Ended:
        """Send a signal, and wait for the end."""
        self.process.send_signal(number)
        return self.finish()

    def finish(self, seconds: float = 90) -> Ended:
        """Wait for the end."""
        out, err = self.process.communicate(timeout=seconds)
        return Ended(self.process.returncode, out, err)


@contextlib.contextmanager
def running(path: Path, out: Path, env: Mapping[str, str] = {}) -> Iterator[Running]:
    """A run of a plan into a folder, ended whatever happens."""
    process = subprocess.Popen(
        [*COMMAND, "envelope", "run", str(path), "--out", str(out)],
        env=environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield Running(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def run(path: Path, out: Path, env: Mapping[str, str] = {}) -> Ended:
    """A run to its end."""
    with running(path, out, env) as started:
        return started.finish()
