"""Capacity runs of the real program against a server that counts as vLLM does."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
    objectives: str = OBJECTIVES,
    settle: str = 'quiet = "300ms"\nlimit = "4s"\ndrain = "2s"',
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
interval = "100ms"
window = "500ms"
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


def start(path: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """A run that goes on."""
    return subprocess.Popen(
        [*COMMAND, "envelope", "run", str(path), "--out", str(out), *options],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


@dataclass
class Ended:
    """How a run ended."""

    code: int
    out: str
    err: str


def finish(process: subprocess.Popen[str], seconds: float = 50) -> Ended:
    """Wait for the end of a run."""
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
        process.communicate()
    return Ended(process.returncode, out, err)


def run(path: Path, out: Path) -> Ended:
    """A run to its end."""
    return finish(start(path, out))
