"""A counted kill wakes; mere pressure does not."""

import asyncio
from pathlib import Path

from sidecar.clock import Clock
from sidecar.model.readings import CgroupReading
from sidecar.sources.cgroup import CgroupSource
from tests.fakes.cgroup_tree import V2_EVENTS, CgroupTree


async def test_a_kill_wakes_and_reclaim_does_not(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    events = tree.v2("ctr") / "memory.events"
    source = CgroupSource(
        Clock(), limit_s=10, path=events.parent, proc_root=tree.proc, cgroup_root=tree.cgroup
    )
    await source.open()
    waiting = asyncio.ensure_future(source.wait())
    events.write_text(V2_EVENTS.format(max=50, kill=0))
    done, _ = await asyncio.wait({waiting}, timeout=0.3)
    assert not done
    events.write_text(V2_EVENTS.format(max=60, kill=1))
    async with asyncio.timeout(10):
        await waiting
    reading = (await source.sample()).reading
    assert isinstance(reading, CgroupReading)
    assert reading.events["oom_kill"] == 1
    await source.close()


async def test_waiting_goes_on_when_the_cgroup_is_made_anew(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    source = CgroupSource(
        Clock(), limit_s=10, path=tree.cgroup / "ctr", proc_root=tree.proc, cgroup_root=tree.cgroup
    )
    await source.open()
    waiting = asyncio.ensure_future(source.wait())
    events = tree.v2("ctr") / "memory.events"
    await source.sample()
    events.write_text(V2_EVENTS.format(max=1, kill=1))
    async with asyncio.timeout(10):
        await waiting
    await source.close()
