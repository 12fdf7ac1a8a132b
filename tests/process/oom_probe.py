"""Program: cause one real OOM kill in a memory cgroup and tell, as JSON, what the sources saw.

Arguments: the root of a memory hierarchy, the kernel log, a name for the cgroup. Needs root.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from sidecar.clock import Clock
from sidecar.model.readings import CgroupReading, KernelReading
from sidecar.sources.cgroup import CgroupSource
from sidecar.sources.kernel_log import KernelLogSource

LIMIT = 48 << 20
HOG = """
import os, sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
open("/proc/self/comm", "w").write("VLLM::EngineCore")
held = [bytearray(os.urandom(1 << 20)) for _ in range(400)]
"""


def make(root: Path, name: str) -> tuple[int, Path]:
    """A cgroup with a limit; on v2 a container in a pod, as Kubernetes nests them."""
    if (root / "memory.limit_in_bytes").exists():
        place = root / name
        place.mkdir()
        (place / "memory.limit_in_bytes").write_text(str(LIMIT))
        with contextlib.suppress(OSError):  # no swap accounting
            (place / "memory.memsw.limit_in_bytes").write_text(str(LIMIT))
        return 1, place
    place = root / name / "ctr"
    for above in (root, root / name):
        above.mkdir(exist_ok=True)
        (above / "cgroup.subtree_control").write_text("+memory")
    place.mkdir()
    (place / "memory.max").write_text(str(LIMIT))
    with contextlib.suppress(OSError):  # no swap
        (place / "memory.swap.max").write_text("0")
    return 2, place


def hog(place: Path) -> tuple[int, int]:
    """Pid and exit code of a process that wants more than the cgroup may have."""
    process = subprocess.Popen([sys.executable, "-c", HOG, str(place)])
    return process.pid, process.wait()


async def watch(root: Path, kmsg: Path, name: str) -> dict[str, Any]:
    clock = Clock()
    version, place = make(root, name)
    cgroup = CgroupSource(clock, limit_s=5, path=place)
    kernel = KernelLogSource(clock, path=kmsg)
    await cgroup.open()
    await kernel.open()
    before = (await cgroup.sample()).reading
    assert isinstance(before, CgroupReading)
    woken: dict[str, float] = {}

    async def awaken(source: CgroupSource | KernelLogSource) -> None:
        await source.wait()
        woken[source.name] = clock.now().monotonic

    async with asyncio.TaskGroup() as group:
        for source in (cgroup, kernel):
            group.create_task(awaken(source))
        pid, code = await asyncio.get_running_loop().run_in_executor(None, hog, place)
        died = clock.now().monotonic
    after, told = await cgroup.sample(), await kernel.sample()
    assert isinstance(after.reading, CgroupReading)
    assert isinstance(told.reading, KernelReading)
    place.rmdir()
    gone = (await cgroup.sample()).reading
    assert isinstance(gone, CgroupReading)
    await cgroup.close()
    await kernel.close()
    return {
        "version": version,
        "hog": {"pid": pid, "code": code},
        "late_s": {source: at - died for source, at in woken.items()},
        "path": after.reading.path,
        "before": dict(before.events),
        "after": dict(after.reading.events),
        "limit": after.reading.limit,
        "gone": gone.gone,
        "kills": [
            [kill.pid, kill.comm, kill.kind, kill.limit_cgroup, kill.victim_cgroup]
            for kill in told.reading.kills
        ],
    }


def remove(root: Path, name: str) -> None:
    for place in (root / name / "ctr", root / name):
        with contextlib.suppress(FileNotFoundError):
            place.rmdir()


def main() -> None:
    root, kmsg, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    try:
        sys.stdout.write(f"RESULT {json.dumps(asyncio.run(watch(root, kmsg, name)))}\n")
        sys.stdout.flush()
    finally:
        remove(root, name)


if __name__ == "__main__":
    main()
