"""The real bindings against a library that does what a state file says, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("fake_nvml.c")
ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, json, os, sys, uvloop
from dataclasses import asdict
from pathlib import Path
from sidecar.clock import Clock
from sidecar.sources.nvml import NvmlSource

async def main():
    clock = Clock()
    rows = []
    indexes, limit_s, states = json.loads(sys.argv[1])
    source = NvmlSource(
        clock,
        limit_s=limit_s,
        indexes=None if indexes is None else tuple(indexes),
        tap=lambda at, row: rows.append(row),
    )
    await source.open()
    for state in states:
        if isinstance(state, float):
            await clock.pause(state)
            continue
        Path(os.environ["FAKE_NVML_STATE"]).write_text(state)
        sample = await source.sample()
        reading = None if sample.reading is None else asdict(sample.reading)
        print(json.dumps({"fault": sample.fault, "reading": reading, "row": rows[-1]}))
    await source.close()

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""


def build(directory: Path, *, driver: int = 550, steady: bool = False) -> Path:
    """The directory that holds the library; the name inside it is what the bindings load.

    ``driver``: the release whose functions it has. ``steady``: what it answers never changes, and
    costs next to nothing.
    """
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-DDRIVER={driver}",
         *(["-DSTEADY"] if steady else []),
         "-Wl,-soname,libnvidia-ml.so.1", "-o", directory / "libnvidia-ml.so.1", SOURCE],
        check=True,
    )  # fmt: skip
    return directory


def samples(
    library: Path | None,
    state_file: Path,
    states: list[str | float],
    *,
    indexes: list[int] | None = None,
    limit_s: float = 10.0,
) -> list[dict[str, Any]]:
    """One sample after each state; a number waits so many seconds instead.

    Each is told as its fault, its reading, and its row in a recording.
    """
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": str(ROOT),
        "FAKE_NVML_STATE": str(state_file),
        "LD_LIBRARY_PATH": str(library or state_file.parent),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([indexes, limit_s, states])],
        env=environment,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]
