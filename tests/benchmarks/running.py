"""A whole daemon with every source beside a busy server, and what its process has used."""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fakes import nvml
from tests.fakes.daemon import ROOT, Daemon, daemon, environment

GPU = """count 1
driver 550.1
gpu0.total 85899345920
gpu0.used 80000000000
gpu0.util 90
gpu0.procs 1:70000000000
"""
QUIET_LINES_A_S, BUSY_LINES_A_S = 1.0, 50.0
"""Lines of the server's log in a second: of one that says little, and of one that logs every request."""


def cpu_s(pid: int) -> float:
    """Seconds of CPU of a process, to the nanosecond: its clock as ``clock_getcpuclockid(3)`` has it."""
    return time.clock_gettime(~pid << 3 | 2)


def memory_mb(pid: int) -> float:
    """Resident memory in MB (10**6 bytes)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ValueError("no Rss")


@contextlib.contextmanager
def busy_server(engines: int, log: Path, renames_s: float, lines_a_s: float) -> Iterator[str]:
    """The address of a busy server, which writes a log."""
    log.touch()
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.benchmarks.busy_vllm",
            str(engines),
            str(log),
            str(lines_a_s),
            str(renames_s),
        ],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    finally:
        server.terminate()
        server.communicate()


@contextlib.contextmanager
def surroundings(
    engines: int, renames_s: float = 0.0, lines_a_s: float = QUIET_LINES_A_S
) -> Iterator[tuple[str, Path, dict[str, str]]]:
    """Address and folder of a busy server, whose log is in ``log``, and the environment with one GPU."""
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        library = nvml.build(work / "nvml", steady=True)
        (work / "gpus").write_text(GPU)
        env = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(work / "gpus")}
        with busy_server(engines, work / "log", renames_s, lines_a_s) as target:
            yield target, work, env


@contextlib.contextmanager
def daemon_beside(
    engines: int, interval: str, *, renames_s: float = 0.0, lines_a_s: float = QUIET_LINES_A_S
) -> Iterator[Daemon]:
    """The daemon with every source: exposition, health, processes, cgroup, log, kernel log, GPU, state.

    ``renames_s``: after so many seconds each, all labels of the server are new; 0: never.
    """
    with (
        surroundings(engines, renames_s, lines_a_s) as (target, work, env),
        daemon(
            *("--target", target, "--log", str(work / "log"), "--interval", interval),
            *("--state-dir", str(work / "state")),
            env=env,
        ) as running,
    ):
        running.samples()
        yield running


@contextlib.contextmanager
def part_beside(part: str, engines: int) -> Iterator[int]:
    """The pid of a part of the daemon that does nothing with what it gets (``bare``)."""
    with surroundings(engines) as (target, work, env):
        logs = [str(work / "log")] if part == "sources" else []
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.bare", part, target, *logs],
            env=environment(env),
            cwd=ROOT,
        )
        try:
            yield process.pid
            if process.poll() is not None:
                raise RuntimeError(f"{part} has ended")
        finally:
            process.kill()
            process.wait()
