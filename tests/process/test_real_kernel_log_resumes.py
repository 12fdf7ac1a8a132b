"""A kill of the real kernel while nobody looked is told once by the run that follows."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.readings import KernelReading
from sidecar.sources.kernel_log import KernelLogSource
from tests.process.memory_cgroups import await_full_reports
from tests.process.oom_probe import hog, make, remove

V1_ROOT = Path("/sys/fs/cgroup/memory")


async def look(position: Mapping[str, object]) -> KernelReading:
    """One life of the source."""
    source = KernelLogSource(Clock(), resume=position)
    await source.open()
    reading = (await source.sample()).reading
    await source.close()
    assert isinstance(reading, KernelReading)
    return reading


@pytest.mark.component("root")
@pytest.mark.component("cgroup_v1")
def test_a_kill_between_two_runs_is_told_by_the_second_and_not_by_the_third() -> None:
    name = f"sidecar-resume-{os.getpid()}"
    await_full_reports()
    _, place = make(V1_ROOT, name)
    try:
        left = asyncio.run(look({}))
        pid, code = hog(place)
    finally:
        remove(V1_ROOT, name)
    assert code == -9
    found = asyncio.run(look(left.position))
    (kill,) = (kill for kill in found.kills if kill.limit_cgroup == f"/{name}")
    assert (kill.pid, kill.comm, kill.trigger) == (pid, "VLLM::EngineCor", "VLLM::EngineCor")
    again = asyncio.run(look(found.position))
    assert all(kill.limit_cgroup != f"/{name}" for kill in again.kills)
