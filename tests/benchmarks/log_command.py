"""A command that reads a log: what it printed, and what it took."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.row import Row

ROOT = Path(__file__).parents[2]
SCAN = (sys.executable, "-m", "sidecar", "scan", "--format", "json")


@dataclass(frozen=True, slots=True)
class Ran:
    """CPU seconds of the process itself, wall seconds, and the memory it held, in MB, as time went by."""

    printed: str
    cpu_s: float
    wall_s: float
    rss_mb: tuple[float, ...]


def run(command: Sequence[str]) -> Ran:
    """Run a command to its end; ends the program if it fails."""
    with tempfile.TemporaryFile() as out:
        begun = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            stdout=out,
            stderr=subprocess.DEVNULL,
        )
        # What wait4 tells of memory is no less than what we ourselves held at the fork.
        held: list[float] = []
        while (got := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            held.append(rss_kb(process.pid) / 1024)
            time.sleep(0.005)
        _, status, used = got
        wall = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        printed = out.read().decode()
    if process.returncode != 0:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return Ran(printed, used.ru_utime + used.ru_stime, wall, tuple(mb for mb in held if mb))


def best(command: Sequence[str], rounds: int) -> Ran:
    """The round that took the least CPU time."""
    return min((run(command) for _ in range(rounds)), key=lambda ran: ran.cpu_s)


def rss_kb(pid: int) -> int:
    """The memory that a process holds, 0 once it has none."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line), 0)


def table(rows: Sequence[Row]) -> str:
    """Rows for people."""
    lines = []
    for row in rows:
        beside = "" if row.theirs is None else f"  {row.reference}: {row.theirs:.4g}"
        ratio = "" if row.ratio is None else f"  ({row.ratio:.2f}x)"
        met = {None: "", True: ": met", False: ": NOT MET"}[row.met]
        target = f"  [{row.target}{met}]" if row.target else ""
        lines.append(f"{row.what}: {row.ours:.4g} {row.unit}{beside}{ratio}{target}\n")
    return "".join(lines)
