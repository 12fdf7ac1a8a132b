"""On v1 a cgroup that only holds others would say 0 for ever: it is refused, however it was named."""

import asyncio
import shutil
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.readings import CgroupReading
from sidecar.model.vocabulary import Fault, Way
from sidecar.sources.cgroup import CgroupSource
from sidecar.sources.cgroup_places.attempt import Attempt
from tests.fakes.cgroup_tree import V1_MOUNT, CgroupTree

ID = "4fa6e0f0c6786287e131c3852c58a2e01cc697a68231826813597e4994f1d6e2"
UID = "2fee0b93-3b8f-4f0e-9d5e-3c1c2b9cbb21"
PODS = "kubepods/burstable"
POD = f"{PODS}/pod{UID}"


@pytest.fixture
def tree(tmp_path: Path) -> CgroupTree:
    made = CgroupTree(tmp_path)
    made.mounts(V1_MOUNT)
    made.v1("")
    return made


def v1(tree: CgroupTree, name: str, *, processes: str = "", rss: int = 0, kill: int = 0) -> Path:
    """A cgroup with processes in it; with ``rss`` alone, with such as are of another pid namespace."""
    place = tree.v1(name, kill=kill)
    (place / "cgroup.procs").write_text(processes)
    (place / "memory.stat").write_text(f"cache 0\nrss {rss}\ntotal_rss 4096\n")
    return place


def named(tree: CgroupTree, given: str | Path) -> CgroupSource:
    return CgroupSource(
        Clock(), limit_s=10, path=given, proc_root=tree.proc, cgroup_root=tree.cgroup
    )


async def fault_of(source: CgroupSource) -> Fault | None:
    return (await source.sample()).fault


async def refused(source: CgroupSource, way: Way = Way.PATH) -> bool:
    faults = [await fault_of(source) for _ in range(3)]
    await source.close()
    return (set(faults), source.attempts[way]) == ({Fault.UNSUPPORTED}, Attempt.UNCOUNTED)


@pytest.mark.parametrize("inside", [{"processes": "77\n"}, {"rss": 4096}])
@pytest.mark.parametrize("given", ["kubepods", PODS, POD, f"/{POD}/", f"/{POD}/x/.."])
async def test_what_lies_above_the_server_is_refused(
    tree: CgroupTree, given: str, inside: dict[str, str | int]
) -> None:
    for name in ("kubepods", PODS, POD, f"{POD}/x"):
        v1(tree, name)
    v1(tree, f"{POD}/{ID}", **inside)  # type: ignore[arg-type]
    assert await refused(named(tree, given))


@pytest.mark.parametrize("given", [POD, "system.slice"])
async def test_a_pod_or_a_slice_is_refused_before_anything_is_in_it(
    tree: CgroupTree, given: str
) -> None:
    v1(tree, given)
    assert await refused(named(tree, given))


async def test_an_id_whose_container_keeps_its_processes_below_is_refused(
    tree: CgroupTree,
) -> None:
    v1(tree, f"docker/{ID}")
    v1(tree, f"docker/{ID}/below", processes="77\n")
    source = named(tree, ID)
    assert await refused(source, Way.CONTAINER_ID)
    assert source._reader.finder._by_id.searches == 1


@pytest.mark.parametrize("inside", [{"processes": "77\n"}, {"rss": 4096}, {}])
async def test_the_servers_own_is_read_also_after_its_end(
    tree: CgroupTree, inside: dict[str, str | int]
) -> None:
    place = v1(tree, f"{POD}/{ID}", **inside)  # type: ignore[arg-type]
    source = named(tree, f"{POD}/{ID}")
    assert await fault_of(source) is None
    v1(tree, f"{POD}/{ID}", kill=1)
    if inside:
        v1(tree, f"{POD}/{ID}/tool", processes="78\n")
    reading = (await source.sample()).reading
    assert isinstance(reading, CgroupReading)
    assert reading.events["oom_kill"] == 1
    shutil.rmtree(place)
    reading = (await source.sample()).reading
    await source.close()
    assert isinstance(reading, CgroupReading)
    assert reading.gone


async def test_one_that_turns_out_to_hold_others_is_refused_from_then_on(tree: CgroupTree) -> None:
    v1(tree, "vllm")
    source = named(tree, "vllm")
    assert await fault_of(source) is None
    v1(tree, "vllm/server", processes="77\n")
    assert await refused(source)


async def test_one_in_which_the_server_starts_later_is_read_from_then_on(tree: CgroupTree) -> None:
    v1(tree, "vllm")
    v1(tree, "vllm/tool", processes="78\n")
    source = named(tree, "vllm")
    assert await fault_of(source) is Fault.UNSUPPORTED
    v1(tree, "vllm", processes="77\n")
    assert await fault_of(source) is None
    assert source.attempts[Way.PATH] is Attempt.FOUND
    await source.close()


async def test_a_tree_of_many_is_taken_for_inhabited(tree: CgroupTree) -> None:
    v1(tree, "vllm")
    for number in range(300):
        (tree.cgroup / "memory/vllm" / str(number)).mkdir()
    assert await refused(named(tree, "vllm"))


@pytest.mark.component("cgroup_v1")
@pytest.mark.parametrize(
    "given", ["/", "//", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/x/.."]
)
async def test_the_top_of_the_machine_is_refused(given: str) -> None:
    source = CgroupSource(Clock(), limit_s=10, path=given)
    assert await refused(source)


@pytest.mark.component("cgroup_v1")
@pytest.mark.component("root")
async def test_the_kernels_own_files_tell_who_is_where() -> None:
    above = Path("/sys/fs/cgroup/memory/sidecar-counts-nothing")
    own = above / "own"
    own.mkdir(parents=True)
    process = None
    try:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", f"echo 0 > {own}/cgroup.procs; echo in; exec sleep 60",
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        assert await process.stdout.readline() == b"in\n"
        assert await refused(CgroupSource(Clock(), limit_s=10, path=above))
        source = CgroupSource(Clock(), limit_s=10, path=own)
        assert await fault_of(source) is None
        await source.close()
    finally:
        if process is not None:
            process.kill()
            await process.wait()
        for place in (own, above):
            for _ in range(500):
                try:
                    place.rmdir()
                    break
                except OSError:
                    await asyncio.sleep(0.01)


# How a path may be written.


@pytest.mark.parametrize("given", ["", ".", "./", "..", "x/..", "./."])
async def test_a_name_that_is_none_does_not_mean_the_top(tree: CgroupTree, given: str) -> None:
    (tree.cgroup / "memory.events").write_text("oom_kill 0\n")
    v1(tree, "x", processes="77\n")
    source = named(tree, given)
    assert await fault_of(source) is Fault.ABSENT
    await source.close()


async def test_a_link_or_a_detour_leads_to_the_directory_with_its_own_name(
    tree: CgroupTree, tmp_path: Path
) -> None:
    v1(tree, "docker")
    place = v1(tree, "docker/server", processes="77\n", kill=3)
    v1(tree, "docker/beside", processes="78\n", kill=5)
    (tmp_path / "link").symlink_to(place)
    for given in (
        str(tmp_path / "link"),
        f"{place}/",
        f"{place}/../server",
        f"{place.parent}/beside/../server",
        "docker/server",
        "/docker/beside/../server",
        "memory/docker/server",
    ):
        source = named(tree, given)
        reading = (await source.sample()).reading
        await source.close()
        assert isinstance(reading, CgroupReading), given
        assert (reading.path, reading.events["oom_kill"]) == ("/docker/server", 3)
        assert reading.witness is not None, given
        assert reading.witness.path == "/docker"


async def test_links_in_a_circle_and_to_nowhere_lead_nowhere(
    tree: CgroupTree, tmp_path: Path
) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "c").symlink_to(tmp_path / "nowhere")
    for name in "abc":
        source = named(tree, tmp_path / name)
        assert await fault_of(source) is Fault.ABSENT
        await source.close()
