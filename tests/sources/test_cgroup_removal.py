"""A count that was read just before its cgroup was removed is told before the removal."""

import asyncio
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.readings import CgroupReading
from sidecar.model.vocabulary import Fault, Way
from sidecar.sources.cgroup import CgroupSource
from sidecar.sources.cgroup_places.directory import Directory, look_at
from tests.fakes.cgroup_tree import V1_CONTROL, V2_EVENTS, CgroupTree


def source_of(tree: CgroupTree, path: Path) -> CgroupSource:
    return CgroupSource(
        Clock(), limit_s=10, path=path, proc_root=tree.proc, cgroup_root=tree.cgroup
    )


ROOT = Path(__file__).parents[2]
V1_ROOT = Path("/sys/fs/cgroup/memory")
KILLS = 30
NOBODY = 65534


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def told(source: CgroupSource) -> tuple[bool, int | None]:
    reading = (await source.sample()).reading
    assert isinstance(reading, CgroupReading)
    return reading.gone, reading.events.get("oom_kill")


async def test_v1_tells_the_last_count_once_and_then_the_removal(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    own = tree.v1("ctr")
    source = source_of(tree, own)
    assert await told(source) == (False, 0)
    (own / "memory.oom_control").write_text(V1_CONTROL.format(kill=1))
    shutil.rmtree(own)
    assert [await told(source) for _ in range(3)] == [(False, 1), (True, None), (True, None)]
    await source.close()


async def test_v1_tells_it_also_when_the_cgroup_was_made_anew(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    own = tree.v1("ctr")
    source = source_of(tree, own)
    before = (await source.sample()).reading
    (own / "memory.oom_control").write_text(V1_CONTROL.format(kill=1))
    own.rename(tmp_path / "removed")
    tree.v1("ctr")
    caught = (await source.sample()).reading
    after = (await source.sample()).reading
    await source.close()
    assert isinstance(before, CgroupReading)
    assert isinstance(caught, CgroupReading)
    assert isinstance(after, CgroupReading)
    assert (caught.identity, caught.events["oom_kill"]) == (before.identity, 1)
    assert (after.identity != before.identity, after.events["oom_kill"]) == (True, 0)


async def test_v2_tells_it_only_where_nothing_above_is_seen(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    own = tree.v2("ctr")
    source = source_of(tree, own)
    assert await told(source) == (False, 0)
    (own / "memory.events").write_text(V2_EVENTS.format(max=1, kill=1))
    shutil.rmtree(own)
    assert [await told(source) for _ in range(2)] == [(False, 1), (True, None)]
    await source.close()
    tree.v2("pod")
    own = tree.v2("pod/ctr")
    source = source_of(tree, own)
    assert await told(source) == (False, 0)
    (own / "memory.events").write_text(V2_EVENTS.format(max=1, kill=1))
    shutil.rmtree(own)
    assert await told(source) == (True, None)
    await source.close()


async def test_a_kill_in_another_cgroup_below_the_same_parent_wakes(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path)
    parent = tree.v2("pod")
    source = source_of(tree, tree.v2("pod/ctr"))
    await source.open()
    waiting = asyncio.ensure_future(source.wait())
    (parent / "memory.events").write_text(V2_EVENTS.format(max=1, kill=1))
    async with asyncio.timeout(10):
        await waiting
    await source.close()


@pytest.mark.parametrize("times", [1, 3])
async def test_descriptors_are_given_back(tmp_path: Path, times: int) -> None:
    tree = CgroupTree(tmp_path)
    source = source_of(tree, tree.cgroup / "pod/ctr")
    tree.v2("pod")
    before = open_descriptors()
    for _ in range(times):
        shutil.rmtree(tree.v2("pod/ctr"), ignore_errors=True)
        tree.v2("pod/ctr")
        await source.sample()
    await source.close()
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("procs", "child", "inner"),
    [("", True, True), ("7\n", True, False), ("", False, False), (None, True, False)],
)
def test_a_cgroup_without_processes_but_with_cgroups_below_is_an_inner_one(
    tmp_path: Path, procs: str | None, *, child: bool, inner: bool
) -> None:
    own = CgroupTree(tmp_path).v2("ctr")
    if procs is not None:
        (own / "cgroup.procs").write_text(procs)
    if child:
        (own / "below").mkdir()
    look = look_at(Directory(2, own, "/ctr", Way.PATH))
    assert not isinstance(look, Fault)
    assert look.inner is inner


@pytest.mark.parametrize(
    ("xattrs", "kills"),
    [
        ({"user.oomd_kill": b"3"}, 3),
        ({"trusted.oomd_kill": b"2"}, 2),
        ({"user.oomd_kill": b"3", "trusted.oomd_kill": b"4"}, 4),
        ({}, 0),
        ({"user.oomd_kill": b"many"}, None),
        ({"user.oomd_kill": b"\xff"}, None),
        (None, None),
    ],
)
def test_kills_of_an_oom_daemon_stand_beside_the_cgroup(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    xattrs: Mapping[str, bytes] | None,
    kills: int | None,
) -> None:
    def getxattr(path: Path, name: str) -> bytes:
        if xattrs is None:
            raise OSError(errno.EOPNOTSUPP, "not in this kernel")
        if name not in xattrs:
            raise OSError(errno.ENODATA, "not set")
        return xattrs[name]

    monkeypatch.setattr(os, "getxattr", getxattr)
    look = look_at(Directory(2, CgroupTree(tmp_path).v2("ctr"), "/ctr", Way.PATH))
    assert not isinstance(look, Fault)
    assert look.userspace_kills == kills


def real_kills(late_s: float, uid: int, *, knows: bool) -> list[list[int | None]]:
    """What was told after each of some kills, whose cgroups were removed 10 ms later."""
    name = f"sidecar-removal-{os.getpid()}"
    probe = Path(__file__).with_name("removal_probe.py")
    done = subprocess.run(
        [sys.executable, probe, V1_ROOT, name, *map(str, (KILLS, late_s, uid, int(knows)))],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", "")},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not list(V1_ROOT.glob(f"{name}*"))
    rows: list[list[int | None]] = json.loads(done.stdout)
    # What was caught comes before the removal, and never after it.
    assert all(row == sorted(row, key=lambda count: count is None) for row in rows), rows
    return rows


@pytest.mark.component("root")
@pytest.mark.component("cgroup_v1")
@pytest.mark.parametrize(
    ("late_s", "uid", "knows"),
    [
        pytest.param(0.0, 0, False, id="eventfd"),
        pytest.param(0.1, 0, False, id="eventfd, busy"),
        pytest.param(0.0, NOBODY, True, id="ends"),
        pytest.param(0.1, NOBODY, True, id="ends, busy"),
        pytest.param(0.0, 0, True, id="both"),
    ],
)
def test_real_kills_of_v1_are_read_before_the_removal_10_ms_later(
    late_s: float, uid: int, *, knows: bool
) -> None:
    """Nothing else tells them: no cgroup above counts them. A machine may be busy just then."""
    rows = real_kills(late_s, uid, knows=knows)
    assert len([row for row in rows if row[0] == 1]) >= KILLS - 3, rows


@pytest.mark.component("root")
@pytest.mark.component("cgroup_v1")
def test_without_any_wake_up_the_removal_takes_the_count_along() -> None:
    """So it is the ends of the processes, and no luck, by which another user than root reads them."""
    rows = real_kills(0.0, NOBODY, knows=False)
    assert not [row for row in rows if row[0] == 1], rows
