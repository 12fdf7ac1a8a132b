"""The right directory is read, however the host lays its hierarchies out."""

import shutil
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.readings import CgroupReading
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault
from sidecar.sources.cgroup import CgroupSource
from tests.fakes.cgroup_tree import HYBRID_MOUNTS, V2_MOUNT, CgroupTree


@pytest.fixture
def tree(tmp_path: Path) -> CgroupTree:
    return CgroupTree(tmp_path)


def of_pid(tree: CgroupTree, pid: int | None = 7) -> CgroupSource:
    return CgroupSource(
        Clock(), limit_s=10, pid=lambda: pid, proc_root=tree.proc, cgroup_root=tree.cgroup
    )


def at_path(tree: CgroupTree, path: str | Path) -> CgroupSource:
    return CgroupSource(
        Clock(), limit_s=10, path=Path(path), proc_root=tree.proc, cgroup_root=tree.cgroup
    )


async def once(source: CgroupSource) -> Sample:
    await source.open()
    sample = await source.sample()
    await source.close()
    return sample


async def reading(source: CgroupSource) -> CgroupReading:
    sample = await once(source)
    assert isinstance(sample.reading, CgroupReading), sample.fault
    return sample.reading


async def test_v2_by_pid(tree: CgroupTree) -> None:
    tree.v2("system.slice/vllm.service", kill=2, limit="5000")
    tree.process(7, "0::/system.slice/vllm.service\n")
    found = await reading(of_pid(tree))
    assert (found.version, found.path) == (2, "/system.slice/vllm.service")
    assert (found.events["oom_kill"], found.limit, found.peak) == (2, 5000, 2000)
    assert found.pressure == {"some": 0.01}
    assert found.identity is not None


async def test_a_hybrid_host_counts_memory_on_v1(tree: CgroupTree) -> None:
    tree.mounts(HYBRID_MOUNTS)
    tree.v1("docker/abc", kill=1)
    tree.process(7, "9:name=systemd:/\n4:memory:/docker/abc\n1:cpu,cpuacct:/x\n0::/\n")
    found = await reading(of_pid(tree))
    assert (found.version, found.path, found.limit) == (1, "/docker/abc", None)
    assert found.events == {"oom_kill": 1, "max": 12}


async def test_a_container_that_sees_only_its_own_part_of_the_tree(tree: CgroupTree) -> None:
    tree.mounts(V2_MOUNT, root="/kubepods/pod1")
    tree.v2("ctr", kill=1)
    tree.process(7, "0::/kubepods/pod1/ctr\n")
    assert (await reading(of_pid(tree))).path == "/kubepods/pod1/ctr"


async def test_a_neighbour_container_is_reached_through_its_own_root(tree: CgroupTree) -> None:
    tree.process(7, "0::/../other\n")
    inside = CgroupTree(tree.proc / "7" / "root" / "sys" / "fs")
    inside.v2("", kill=3)
    assert (await reading(of_pid(tree))).events["oom_kill"] == 3


async def test_no_mounts_readable_falls_back_to_the_usual_places(tree: CgroupTree) -> None:
    (tree.proc / "self" / "mountinfo").unlink()
    tree.v1("vllm", kill=1)
    tree.process(7, "4:memory:/vllm\n")
    assert (await reading(of_pid(tree))).events["oom_kill"] == 1


@pytest.mark.parametrize(
    "written", ["{full}", "/system.slice/vllm.service", "system.slice/vllm.service"]
)
async def test_a_path_may_be_a_directory_or_a_cgroups_name(tree: CgroupTree, written: str) -> None:
    full = tree.v2("system.slice/vllm.service")
    found = await reading(at_path(tree, written.format(full=full)))
    assert (found.version, found.path) == (2, "/system.slice/vllm.service")


async def test_a_path_that_never_was_is_absent_and_one_that_went_is_gone(tree: CgroupTree) -> None:
    assert (await once(at_path(tree, "/nowhere"))).fault is Fault.ABSENT
    directory = tree.v2("ctr", kill=1)
    source = at_path(tree, directory)
    await source.open()
    shutil.rmtree(directory)
    sample = await source.sample()
    assert isinstance(sample.reading, CgroupReading)
    assert (sample.reading.gone, sample.reading.path) == (True, "/ctr")
    tree.v2("ctr")
    back = (await source.sample()).reading
    assert isinstance(back, CgroupReading)
    assert (back.gone, back.events["oom_kill"]) == (False, 0)
    await source.close()


async def test_a_dead_process_leaves_its_cgroup_to_be_read(tree: CgroupTree) -> None:
    directory = tree.v2("ctr")
    tree.process(7, "0::/ctr\n")
    source = of_pid(tree)
    await source.open()
    shutil.rmtree(tree.proc / "7")
    (directory / "memory.events").write_text("oom_kill 1\n")
    found = (await source.sample()).reading
    assert isinstance(found, CgroupReading)
    assert found.events == {"oom_kill": 1}
    await source.close()


async def test_a_process_on_its_way_out_is_not_followed_to_the_root(tree: CgroupTree) -> None:
    tree.mounts(HYBRID_MOUNTS)
    tree.v1("ctr")
    tree.v1("")
    tree.process(7, "4:memory:/ctr\n")
    source = of_pid(tree)
    await source.open()
    tree.process(7, "4:memory:/\n")
    found = (await source.sample()).reading
    assert isinstance(found, CgroupReading)
    assert found.path == "/ctr"
    await source.close()


async def test_no_process_known_is_absent_and_none_readable_unsupported(tree: CgroupTree) -> None:
    assert (await once(of_pid(tree, None))).fault is Fault.ABSENT
    assert (await once(of_pid(tree, 7))).fault is Fault.ABSENT
    tree.process(7, "9:name=systemd:/\n")
    assert (await once(of_pid(tree))).fault is Fault.UNSUPPORTED


async def test_partial_rights_give_what_can_be_read(tree: CgroupTree) -> None:
    directory = tree.v2("ctr", kill=1)
    (directory / "memory.current").unlink()
    (directory / "memory.current").mkdir()
    (directory / "memory.peak").unlink()
    found = await reading(at_path(tree, directory))
    assert (found.current, found.peak, found.events["oom_kill"]) == (None, None, 1)


async def test_rows_of_a_recording_hold_the_raw_files(tree: CgroupTree) -> None:
    rows: list[dict[str, object]] = []
    directory = tree.v2("ctr")
    source = CgroupSource(
        Clock(), limit_s=10, path=directory, proc_root=tree.proc, cgroup_root=tree.cgroup,
        tap=lambda at, row: rows.append(dict(row)),
    )  # fmt: skip
    await source.sample()
    shutil.rmtree(directory)
    await source.sample()
    await source.close()
    first, last = rows
    assert first["version"] == 2
    assert first["path"] == last["path"] == "/ctr"
    assert isinstance(first["files"], dict)
    assert first["files"]["memory.max"] == "max\n"
    assert last["files"] is None
