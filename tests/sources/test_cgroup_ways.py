"""The server's cgroup is found by the surest way that is open, for every driver, naming and view."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.readings import CgroupReading
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Way
from sidecar.sources.cgroup import CgroupSource
from sidecar.sources.cgroup_places.attempt import Attempt
from sidecar.sources.cgroup_places.search import FIRST_RETRY, MOST_DIRECTORIES, Search
from tests.fakes.cgroup_tree import HOST_MOUNT, HYBRID_MOUNTS, V1_MOUNT, V2_MOUNT, CgroupTree

ID = "4fa6e0f0c6786287e131c3852c58a2e01cc697a68231826813597e4994f1d6e2"
OURS = "7d" * 32
NODE = "ab" * 32
UID = "2fee0b93-3b8f-4f0e-9d5e-3c1c2b9cbb21"
SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
PODS = f"kubepods.slice/kubepods-burstable.slice/{SLICE}"
NESTED = f"kubelet.slice/kubelet-kubepods.slice/kubelet-{SLICE}"
CONTAINERS = {
    "systemd, containerd": f"{PODS}/cri-containerd-{ID}.scope",
    "systemd, CRI-O": f"{PODS}/crio-{ID}.scope",
    "systemd, guaranteed": f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{ID}.scope",
    "systemd, docker": f"system.slice/docker-{ID}.scope",
    "systemd, podman": f"machine.slice/libpod-{ID}.scope",
    "cgroupfs, containerd": f"kubepods/burstable/pod{UID}/{ID}",
    "cgroupfs, docker": f"docker/{ID}",
    "cgroupfs, podman": f"libpod_parent/{'0' * 64}/libpod-{ID}",
    "cgroupfs, containerd with a slice": f"system.slice/containerd.service/{SLICE}:cri-containerd:{ID}",
    "kind": f"docker/{NODE}/{NESTED}/cri-containerd-{ID}.scope",
    "k3s in a unit": f"system.slice/k3s.service/{NESTED}/cri-containerd-{ID}.scope",
}  # fmt: skip
KUBELETS = "60 23 8:1 /var/lib/kubelet/pods/{uid}/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"


@pytest.fixture
def tree(tmp_path: Path) -> CgroupTree:
    return CgroupTree(tmp_path)


def source_of(tree: CgroupTree, *, pid: int | None = 7, here: bool = True) -> CgroupSource:
    return CgroupSource(
        Clock(), limit_s=10, pid=lambda: pid, here=here,
        proc_root=tree.proc, cgroup_root=tree.cgroup,
    )  # fmt: skip


def named(tree: CgroupTree, given: str) -> CgroupSource:
    return CgroupSource(
        Clock(), limit_s=10, path=given, proc_root=tree.proc, cgroup_root=tree.cgroup
    )


async def looked(source: CgroupSource) -> tuple[Sample, Mapping[Way, Attempt]]:
    sample = await source.sample()
    await source.close()
    return sample, source.attempts


async def read(source: CgroupSource) -> CgroupReading:
    sample, attempts = await looked(source)
    assert isinstance(sample.reading, CgroupReading), (sample.fault, attempts)
    assert attempts[sample.reading.way or Way.PATH] is Attempt.FOUND
    return sample.reading


def private(tree: CgroupTree, name: str, *, host: bool) -> None:
    """A pod's sidecar: its namespace begins at its own cgroup; the server is the process 7."""
    depth = name.count("/") + 1
    tree.mounts(V2_MOUNT + (HOST_MOUNT if host else ""), above="/" + "/".join([".."] * depth))
    tree.process("self", "0::/\n")
    tree.v2("")
    tree.process(7, f"0::/../{Path(name).name}\n")


@pytest.mark.parametrize("name", CONTAINERS.values(), ids=CONTAINERS)
async def test_by_the_process_where_the_hosts_tree_is_seen(tree: CgroupTree, name: str) -> None:
    tree.v2(name, kill=2)
    tree.process(7, f"0::/{name}\n")
    found = await read(source_of(tree))
    assert (found.way, found.path, found.container) == (Way.PID, f"/{name}", ID)
    assert found.events["oom_kill"] == 2


@pytest.mark.parametrize("name", CONTAINERS.values(), ids=CONTAINERS)
async def test_by_the_containers_id_from_a_namespace_with_the_hosts_tree_mounted(
    tree: CgroupTree, name: str
) -> None:
    private(tree, name, host=True)
    tree.v2(name, kill=2, at=tree.host)
    tree.v2(str(Path(name).with_name(f"crio-conmon-{ID}.scope")), kill=9, at=tree.host)
    found = await read(source_of(tree))
    assert (found.way, found.path, found.container) == (Way.CONTAINER_ID, f"/{name}", ID)
    assert found.events["oom_kill"] == 2


@pytest.mark.parametrize("name", CONTAINERS.values(), ids=CONTAINERS)
async def test_by_the_processs_own_mounts_from_a_namespace(tree: CgroupTree, name: str) -> None:
    private(tree, name, host=False)
    tree.mounts(V2_MOUNT, root=f"/../{Path(name).name}", of=7)
    tree.v2("", kill=2, at=tree.proc / "7/root/sys/fs/cgroup")
    found = await read(source_of(tree))
    assert (found.way, found.container) == (Way.PROCESS_ROOT, ID)
    assert found.events["oom_kill"] == 2


@pytest.mark.parametrize("name", CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize("scheme", ["containerd://", "docker://", "cri-o://", ""])
async def test_by_an_id_that_is_given(tree: CgroupTree, name: str, scheme: str) -> None:
    tree.v2(name, kill=2)
    found = await read(named(tree, f"{scheme}{ID}"))
    assert (found.way, found.path, found.events["oom_kill"]) == (Way.CONTAINER_ID, f"/{name}", 2)


@pytest.mark.parametrize("name", CONTAINERS.values(), ids=CONTAINERS)
async def test_by_an_id_on_a_hybrid_host_whose_memory_is_on_v1(tree: CgroupTree, name: str) -> None:
    tree.mounts(HYBRID_MOUNTS)
    tree.v1(name, kill=2)
    (tree.cgroup / "unified" / name).mkdir(parents=True)
    found = await read(named(tree, ID))
    assert (found.version, found.path, found.events["oom_kill"]) == (1, f"/{name}", 2)


async def test_by_the_id_where_v1_shows_our_own_part_under_sys(tree: CgroupTree) -> None:
    """Docker mounts our own cgroup over /sys/fs/cgroup; the host's lies beside it."""
    host = V1_MOUNT.replace("/sys/fs/cgroup/memory", str(tree.host)).replace("{root}", "/")
    tree.mounts(V1_MOUNT + host, root=f"/docker/{OURS}")
    tree.v1("")
    shutil.copytree(tree.v1("server", kill=2), tree.host / "docker" / ID)
    tree.process(7, f"4:memory:/docker/{ID}\n")
    found = await read(source_of(tree))
    assert (found.way, found.path) == (Way.PID, f"/docker/{ID}")
    tree.process(7, f"4:memory:/elsewhere/{ID}\n")
    found = await read(source_of(tree))
    assert (found.way, found.path) == (Way.CONTAINER_ID, f"/docker/{ID}")


async def test_a_path_wins_and_says_so(tree: CgroupTree) -> None:
    tree.v2("given", kill=1)
    found = await read(named(tree, "/given"))
    assert (found.way, found.path) == (Way.PATH, "/given")


async def test_a_child_that_crun_makes_is_read_as_its_container(tree: CgroupTree) -> None:
    name = f"machine.slice/libpod-{ID}.scope"
    tree.v2(name, kill=1, limit="5000")
    child = tree.v2(f"{name}/container", kill=1)
    (tree.cgroup / name / "cgroup.procs").write_text("")
    tree.process(7, f"0::/{name}/container\n")
    found = await read(source_of(tree))
    assert (found.way, found.path, found.limit) == (Way.PID, f"/{name}", 5000)
    assert found.inner
    # On v1 a cgroup does not count what is below it.
    shutil.rmtree(child.parent)
    tree.mounts(V1_MOUNT)
    tree.v1(name)
    tree.v1(f"{name}/container", kill=1)
    tree.process(7, f"4:memory:/{name}/container\n")
    found = await read(source_of(tree))
    assert (found.path, found.events["oom_kill"], found.inner) == (f"/{name}/container", 1, False)


async def test_a_process_in_the_pod_whose_view_is_closed_is_denied_and_says_why(
    tree: CgroupTree,
) -> None:
    private(tree, f"{PODS}/cri-containerd-{ID}.scope", host=False)
    sample, attempts = await looked(source_of(tree))
    assert sample.fault is Fault.DENIED
    assert attempts == {
        Way.PID: Attempt.OUTSIDE,
        Way.CONTAINER_ID: Attempt.ABSENT,
        Way.PROCESS_ROOT: Attempt.DENIED,
    }


@pytest.mark.parametrize(
    "given", ["", "x" * 5000, "/" + "x" * 300, "a\0b", "\ud800", "../..", "//"]
)
async def test_a_name_that_can_be_no_path_is_absent(tree: CgroupTree, given: str) -> None:
    assert (await looked(named(tree, given)))[0].fault is Fault.ABSENT


@pytest.mark.component("root")
def test_a_process_whose_root_is_closed_to_us_is_denied() -> None:
    """As an ordinary user, beside a server of another user: no way leads there, and none fails."""
    program = """
import asyncio, os, sys
from pathlib import Path
from sidecar.clock import Clock
from sidecar.sources.cgroup import CgroupSource
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
source = CgroupSource(Clock(), limit_s=10, pid=lambda: int(sys.argv[1]), cgroup_root=Path("/none"))
print(asyncio.run(source.sample()).fault, *source.attempts.values())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(os.getpid())],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    fault, *attempts = done.stdout.split()
    assert fault == "denied"
    assert len(attempts) == 3
    assert "found" not in attempts


# No process of the server is seen.


def by_own_name(tree: CgroupTree) -> str:
    tree.v2(PODS, kill=3)
    tree.v2(f"{PODS}/cri-containerd-{OURS}.scope")
    tree.process("self", f"0::/{PODS}/cri-containerd-{OURS}.scope\n")
    return f"/{PODS}"


def by_uid_and_hosts_mount(tree: CgroupTree) -> str:
    tree.mounts(V2_MOUNT + HOST_MOUNT + KUBELETS.replace("{uid}", UID), above="/../../../..")
    tree.process("self", "0::/\n")
    tree.v2("")
    for place in (PODS, f"{PODS}/cri-containerd-{ID}.scope"):
        tree.v2(place, kill=3, at=tree.host)
    return f"/{PODS}"


def by_uid_and_cgroupfs(tree: CgroupTree) -> str:
    tree.mounts(V2_MOUNT + HOST_MOUNT + KUBELETS.replace("{uid}", UID), above="/../../..")
    tree.process("self", "0::/\n")
    tree.v2(f"kubepods/burstable/pod{UID}", kill=3, at=tree.host)
    return f"/kubepods/burstable/pod{UID}"


def by_podmans_parent(tree: CgroupTree) -> str:
    pod = f"machine.slice/machine-libpod_pod_{'0' * 64}.slice"
    tree.v2(pod, kill=3)
    tree.v2(f"{pod}/libpod-{OURS}.scope")
    tree.process("self", f"0::/{pod}/libpod-{OURS}.scope\n")
    return f"/{pod}"


@pytest.mark.parametrize(
    "lay", [by_own_name, by_uid_and_hosts_mount, by_uid_and_cgroupfs, by_podmans_parent]
)
async def test_without_a_process_our_own_pod_is_read(
    tree: CgroupTree, lay: Callable[[CgroupTree], str]
) -> None:
    name = lay(tree)
    found = await read(source_of(tree, pid=None))
    assert (found.way, found.path, found.inner) == (Way.POD, name, True)
    assert found.events["oom_kill"] == 3
    assert found.container is None


async def test_our_pod_says_nothing_of_a_server_elsewhere(tree: CgroupTree) -> None:
    by_own_name(tree)
    sample, _ = await looked(source_of(tree, pid=None, here=False))
    assert sample.fault is Fault.ABSENT


async def test_a_pod_of_v1_would_never_count_a_containers_kill(tree: CgroupTree) -> None:
    tree.mounts(V1_MOUNT)
    pod = f"kubepods/burstable/pod{UID}"
    tree.v1(pod)
    tree.v1(f"{pod}/{OURS}")
    tree.process("self", f"4:memory:/{pod}/{OURS}\n")
    sample, attempts = await looked(source_of(tree, pid=None))
    assert sample.fault is Fault.ABSENT
    assert attempts[Way.POD] is Attempt.UNCOUNTED


async def test_a_process_that_is_seen_later_wins_over_the_pod(tree: CgroupTree) -> None:
    by_own_name(tree)
    tree.v2(f"{PODS}/cri-containerd-{ID}.scope", kill=1)
    pids: list[int | None] = [None, 7]
    tree.process(7, f"0::/{PODS}/cri-containerd-{ID}.scope\n")
    source = CgroupSource(
        Clock(), limit_s=10, pid=lambda: pids.pop(0), proc_root=tree.proc, cgroup_root=tree.cgroup
    )
    ways = [getattr((await source.sample()).reading, "way", None) for _ in range(2)]
    await source.close()
    assert ways == [Way.POD, Way.PID]


async def test_without_a_pod_our_own_container_is_read_if_others_are_in_it(
    tree: CgroupTree,
) -> None:
    directory = tree.v2(f"docker/{OURS}", kill=1)
    tree.process("self", f"0::/docker/{OURS}\n")
    init, child = 4001, 4002
    for pid, parent in ((os.getpid(), init), (init, 0), (child, os.getpid()), (4003, init)):
        tree.process(pid, "")
        (tree.proc / str(pid) / "stat").write_text(f"{pid} (a) b) S {parent} 0 0\n")
    (directory / "cgroup.procs").write_text(f"{os.getpid()}\n{init}\n{child}\n")
    sample, attempts = await looked(source_of(tree, pid=None))
    assert sample.fault is Fault.ABSENT
    assert attempts[Way.OWN] is Attempt.ALONE
    (directory / "cgroup.procs").write_text(f"{os.getpid()}\n{init}\n{child}\n4003\n")
    found = await read(source_of(tree, pid=None))
    assert (found.way, found.path) == (Way.OWN, f"/docker/{OURS}")


async def test_who_comes_into_our_container_from_outside_does_not_make_it_the_servers(
    tree: CgroupTree,
) -> None:
    """A health check or a shell by ``exec``: its parent is not in the container, nor are we its."""
    directory = tree.v2(f"docker/{OURS}", kill=1)
    tree.process("self", f"0::/docker/{OURS}\n")
    visitor, child = 5001, 5002
    for pid, parent in ((os.getpid(), 0), (visitor, 0), (child, visitor)):
        tree.process(pid, "")
        (tree.proc / str(pid) / "stat").write_text(f"{pid} (a) b) S {parent} 0 0\n")
    (directory / "cgroup.procs").write_text(f"{os.getpid()}\n{visitor}\n{child}\n0\n")
    sample, attempts = await looked(source_of(tree, pid=None))
    assert sample.fault is Fault.ABSENT
    assert attempts[Way.OWN] is Attempt.ALONE


async def test_a_session_or_unit_of_the_host_is_not_taken_for_the_servers(tree: CgroupTree) -> None:
    name = "user.slice/user-0.slice/session-1.scope"
    (tree.v2(name) / "cgroup.procs").write_text("1\n2\n")
    tree.v2("user.slice/user-0.slice")
    tree.process("self", f"0::/{name}\n")
    sample, attempts = await looked(source_of(tree, pid=None))
    assert sample.fault is Fault.ABSENT
    assert attempts[Way.OWN] is Attempt.NO_ID


# What a search costs.


async def test_an_id_that_is_nowhere_is_looked_for_ever_more_seldom(tree: CgroupTree) -> None:
    source = named(tree, ID)
    search = source._reader.finder._by_id
    for _ in range(FIRST_RETRY + 1):
        assert (await source.sample()).fault is Fault.ABSENT
    assert search.searches == 1
    tree.v2(f"docker/{ID}")
    assert isinstance((await source.sample()).reading, CgroupReading)
    assert search.searches == 2
    await source.sample()
    assert search.searches == 2
    await source.close()


async def test_another_process_is_looked_for_at_once(tree: CgroupTree) -> None:
    private(tree, f"docker/{ID}", host=True)
    source = source_of(tree)
    await source.sample()
    other = "12" * 32
    tree.v2(f"docker/{other}", kill=1, at=tree.host)
    tree.process(7, f"0::/../{other}\n")
    found = (await source.sample()).reading
    await source.close()
    assert isinstance(found, CgroupReading)
    assert found.container == other


def test_a_search_is_bounded_in_number_and_depth(tree: CgroupTree) -> None:
    deep = tree.cgroup.joinpath(*"abcdefghijklmnop")
    deep.mkdir(parents=True)
    asked: list[str] = []

    def is_wanted(name: str) -> bool:
        asked.append(name)
        return False

    source = named(tree, ID)
    mounts = source._reader.finder._mounts()
    Search().find("one", mounts, is_wanted)
    assert asked == ["", *"abcdefghijkl"]
    asked.clear()
    for number in range(MOST_DIRECTORIES + 10):
        (tree.cgroup / str(number)).mkdir()
    Search().find("two", mounts, is_wanted)
    assert len(asked) == MOST_DIRECTORIES


def test_a_link_is_not_followed(tree: CgroupTree) -> None:
    tree.v2("there")
    (tree.cgroup / "loop").symlink_to(tree.cgroup)
    found = Search().find(
        "x", named(tree, ID)._reader.finder._mounts(), lambda name: name == "loop"
    )
    assert found is None


# The life of a container.


async def test_a_restarted_container_is_followed_and_a_worker_of_it_changes_nothing(
    tree: CgroupTree,
) -> None:
    """Seen through its own mounts: each process shows them under another path."""
    private(tree, f"docker/{ID}", host=False)
    for pid in (7, 8):
        tree.process(pid, f"0::/../docker-{ID}.scope\n")
        tree.v2("", kill=1, at=tree.proc / str(pid) / "root/sys/fs/cgroup")
    pids = [7, 8]
    source = CgroupSource(
        Clock(), limit_s=10, pid=lambda: pids[0], proc_root=tree.proc, cgroup_root=tree.cgroup
    )
    await source.sample()
    pids.pop(0)
    shutil.rmtree(tree.proc / "7")
    found = (await source.sample()).reading
    await source.close()
    assert isinstance(found, CgroupReading)
    assert (found.gone, found.way, found.events["oom_kill"]) == (False, Way.PROCESS_ROOT, 1)
