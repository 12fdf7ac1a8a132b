"""Program: real OOM kills in cgroups of v1 that are removed 10 ms later; tells how many were read.

Arguments: the root of the memory hierarchy, a name for the cgroups, how many kills, the seconds from
a wake-up to the sample (a daemon may be busy), the user that looks (only root may ask for the
eventfd), and whether it knows the server's processes (1) or not (0). Needs root.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
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
print(flush=True)
sys.stdin.readline()
held = [bytearray(os.urandom(1 << 20)) for _ in range(100)]
"""


@cache
def victim(place: Path) -> subprocess.Popen[bytes]:
    """The process in a cgroup, that waits for the order to take memory."""
    return subprocess.Popen(
        [sys.executable, "-S", "-c", HOG, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def make(place: Path) -> int:
    """A cgroup with a process in it, whose pid is returned."""
    place.mkdir()
    for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
        with contextlib.suppress(OSError):  # no swap accounting
            (place / name).write_text(str(LIMIT))
    begun = victim(place)
    assert begun.stdout is not None
    begun.stdout.readline()
    return begun.pid


def kill_and_remove(place: Path) -> int:
    """The exit code of the victim, whose cgroup is removed as a container runtime does it."""
    victim(place).communicate(b"\n")
    time.sleep(REMOVED_AFTER_S)
    for _ in range(1000):
        with contextlib.suppress(OSError):
            place.rmdir()
            return victim(place).returncode
        time.sleep(0.001)
    raise RuntimeError("the cgroup stays busy")


@dataclass(frozen=True, slots=True)
class Probe:
    runtime: ProcessPoolExecutor
    late_s: float
    knows: bool

    async def one(self, place: Path) -> list[int | None]:
        """What the samples told after one kill: the count, and None for a cgroup that is gone."""
        loop = asyncio.get_running_loop()
        pid = await loop.run_in_executor(self.runtime, make, place)
        pids = (pid,) if self.knows else ()
        source = CgroupSource(Clock(), limit_s=5, path=place, pids=lambda: pids)
        await source.open()
        told: list[int | None] = []
        sampling = asyncio.Lock()

        async def watch() -> None:
            while True:
                await source.wait()
                await asyncio.sleep(self.late_s)
                await tell()

        async def tell() -> None:
            async with sampling:
                sample = await source.sample()
            assert isinstance(sample.reading, CgroupReading), sample.fault
            told.append(sample.reading.events.get("oom_kill"))

        watching = loop.create_task(watch())
        code = await loop.run_in_executor(self.runtime, kill_and_remove, place)
        assert code == -9, code
        async with sampling:
            watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        for _ in range(2):
            await tell()
        await source.close()
        return told

    async def all_of(self, places: list[Path]) -> list[list[int | None]]:
        return [await self.one(place) for place in places]


def main() -> None:
    root, name, times, late_s, uid, knows = sys.argv[1:]
    places = [Path(root) / f"{name}-{number}" for number in range(int(times))]
    try:
        with ProcessPoolExecutor(1) as runtime:
            # It is root for good; we are not.
            assert runtime.submit(os.geteuid).result() == 0
            os.seteuid(int(uid))
            probe = Probe(runtime, float(late_s), knows == "1")
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                sys.stdout.write(f"{json.dumps(runner.run(probe.all_of(places)))}\n")
    finally:
        os.seteuid(0)
        for place in places:
            with contextlib.suppress(OSError):
                place.rmdir()


if __name__ == "__main__":
    main()
