"""Program: real OOM kills in cgroups of v1 that are removed 10 ms later; tells how many were read.

Arguments: the root of the memory hierarchy, a name for the cgroups, how many kills, and the seconds
from a wake-up to the sample (a daemon may be busy). Needs root.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

import uvloop

from sidecar.clock import Clock
from sidecar.model.readings import CgroupReading
from sidecar.sources.cgroup import CgroupSource

LIMIT = 16 << 20
REMOVED_AFTER_S = 0.01
HOG = """
import os, sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
held = [bytearray(os.urandom(1 << 20)) for _ in range(100)]
"""


def make(place: Path) -> None:
    place.mkdir()
    for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
        with contextlib.suppress(OSError):  # no swap accounting
            (place / name).write_text(str(LIMIT))


def kill_and_remove(place: Path) -> int:
    """The exit code of the victim, whose cgroup is removed as a container runtime does it."""
    code = subprocess.run([sys.executable, "-S", "-c", HOG, str(place)], check=False).returncode
    time.sleep(REMOVED_AFTER_S)
    for _ in range(1000):
        with contextlib.suppress(OSError):
            place.rmdir()
            return code
        time.sleep(0.001)
    raise RuntimeError("the cgroup stays busy")


async def one(place: Path, late_s: float) -> list[int | None]:
    """What the samples told after one kill: the count, and None for a cgroup that is gone."""
    make(place)
    source = CgroupSource(Clock(), limit_s=5, path=place)
    await source.open()
    told: list[int | None] = []
    sampling = asyncio.Lock()

    async def watch() -> None:
        while True:
            await source.wait()
            await asyncio.sleep(late_s)
            await tell()

    async def tell() -> None:
        async with sampling:
            sample = await source.sample()
        assert isinstance(sample.reading, CgroupReading), sample.fault
        told.append(sample.reading.events.get("oom_kill"))

    watching = asyncio.get_running_loop().create_task(watch())
    code = await asyncio.get_running_loop().run_in_executor(None, kill_and_remove, place)
    assert code == -9, code
    async with sampling:
        watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    for _ in range(2):
        await tell()
    await source.close()
    return told


async def all_of(root: Path, name: str, times: int, late_s: float) -> list[list[int | None]]:
    return [await one(root / f"{name}-{number}", late_s) for number in range(times)]


def main() -> None:
    root, name, times, late_s = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            sys.stdout.write(f"{json.dumps(runner.run(all_of(root, name, times, late_s)))}\n")
    finally:
        for number in range(times):
            with contextlib.suppress(OSError):
                (root / f"{name}-{number}").rmdir()


if __name__ == "__main__":
    main()
