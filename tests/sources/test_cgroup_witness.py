"""The cgroup above is read so that its count, ours and the children's belong together."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.readings import CgroupReading, Witness
from sidecar.model.vocabulary import Fault, Way
from sidecar.sources.cgroup import CgroupSource
from sidecar.sources.cgroup_places.directory import Directory, Look, look_at
from sidecar.sources.cgroup_places.parent import CHILDREN_MOST, Observer
from tests.fakes.cgroup_tree import V1_CONTROL, V1_MOUNT, V2_EVENTS, CgroupTree

NAME = "pod/ctr"


@pytest.fixture
def tree(tmp_path: Path) -> CgroupTree:
    made = CgroupTree(tmp_path)
    made.v2("pod", kill=4)
    return made


def count(directory: Path, kill: int) -> None:
    (directory / "memory.events").write_text(V2_EVENTS.format(max=9, kill=kill))


def key(directory: Path) -> str:
    return f"{directory.name}#{directory.stat().st_ino}"


def at(tree: CgroupTree, name: str = NAME, version: int = 2) -> Directory:
    root = tree.cgroup if version != 1 else tree.cgroup / "memory"
    return Directory(version, root / name, f"/{name}", Way.PATH)


def seen(observer: Observer, directory: Directory) -> Witness:
    _, witness = observer.observe(directory)
    assert witness is not None
    return witness


def test_the_first_look_holds_the_count_above_and_every_childs(tree: CgroupTree) -> None:
    own, other = tree.v2(NAME, kill=1), tree.v2("pod/other", kill=2)
    parent = own.parent
    assert seen(Observer(), at(tree)) == Witness(
        path="/pod",
        identity=parent.stat().st_ino,
        kills=4,
        children={key(own): 1, key(other): 2},
    )


def test_while_nothing_is_counted_nothing_is_listed_again(tree: CgroupTree) -> None:
    own = tree.v2(NAME, kill=1)
    observer = Observer()
    first = seen(observer, at(tree))
    (own / "memory.current").write_text("99\n")
    assert [seen(observer, at(tree)) for _ in range(5)] == [first] * 5
    assert observer.listings == 1


def kill_in_own(tree: CgroupTree) -> None:
    count(tree.cgroup / NAME, 2)
    count(tree.cgroup / "pod", 5)


def kill_in_another(tree: CgroupTree) -> None:
    count(tree.cgroup / "pod/other", 3)
    count(tree.cgroup / "pod", 5)


def another_begins(tree: CgroupTree) -> None:
    tree.v2("pod/third")


def another_ends(tree: CgroupTree) -> None:
    shutil.rmtree(tree.cgroup / "pod/other")


def own_is_made_anew(tree: CgroupTree) -> None:
    kept = tree.cgroup / "pod/ctr"
    kept.rename(tree.cgroup.parent / "removed")
    tree.v2(NAME)


def own_ends(tree: CgroupTree) -> None:
    shutil.rmtree(tree.cgroup / NAME)


@pytest.mark.parametrize(
    "happens",
    [kill_in_own, kill_in_another, another_begins, another_ends, own_is_made_anew, own_ends],
)
def test_what_moved_is_read_anew(tree: CgroupTree, happens: Callable[[CgroupTree], None]) -> None:
    tree.v2(NAME, kill=1)
    tree.v2("pod/other", kill=2)
    observer = Observer()
    seen(observer, at(tree))
    happens(tree)
    assert seen(observer, at(tree)) == seen(Observer(), at(tree))
    assert seen(observer, at(tree)).settled
    assert observer.listings == 2


def test_a_kill_while_the_children_are_read_is_looked_at_again(tree: CgroupTree) -> None:
    own = tree.v2(NAME)
    kills = iter([5, 5])

    def look(directory: Directory) -> Look | Fault:
        got = look_at(directory)
        count(own.parent, next(kills))
        return got

    witness = seen(Observer(look=look), at(tree))
    assert (witness.kills, witness.settled) == (5, True)


def test_kills_without_an_end_leave_the_numbers_unsettled(tree: CgroupTree) -> None:
    own = tree.v2(NAME)
    kills: Iterator[int] = iter(range(5, 100))

    def look(directory: Directory) -> Look | Fault:
        count(own.parent, next(kills))
        return look_at(directory)

    observer = Observer(look=look)
    witness = seen(observer, at(tree))
    assert witness.settled is False
    assert witness.children == {key(own): 0}
    assert next(kills) == 8, "three looks"
    observer.look = look_at
    assert seen(observer, at(tree)).settled is True


def test_a_child_that_cannot_be_counted_leaves_all_unknown(tree: CgroupTree) -> None:
    tree.v2(NAME)
    (tree.cgroup / "pod/other").mkdir()
    witness = seen(Observer(), at(tree))
    assert (witness.kills, witness.children, witness.settled) == (4, None, True)


def test_too_many_children_are_not_read(tree: CgroupTree) -> None:
    for number in range(CHILDREN_MOST):
        tree.v2(f"pod/{number}")
    assert len(seen(Observer(), at(tree, "pod/1")).children or ()) == CHILDREN_MOST
    tree.v2("pod/one-more")
    assert seen(Observer(), at(tree, "pod/1")).children is None


@pytest.mark.parametrize("most", [CHILDREN_MOST, CHILDREN_MOST + 1])
def test_of_too_many_children_none_is_opened(tree: CgroupTree, most: int) -> None:
    for number in range(most):
        tree.v2(f"pod/{number}")
    observer = Observer()
    witness = seen(observer, at(tree, "pod/1"))
    assert (witness.kills, witness.settled) == (4, True)
    assert observer.reads == (most if most <= CHILDREN_MOST else 0)


def test_where_directories_come_and_go_only_the_new_ones_are_read(tree: CgroupTree) -> None:
    for number in range(100):
        tree.v2(f"pod/{number}", kill=number)
    observer = Observer()
    directory = at(tree, "pod/1")
    seen(observer, directory)
    for number in range(20):
        tree.v2(f"pod/new{number}", kill=0)
        shutil.rmtree(tree.cgroup / f"pod/{50 + number}")
        tree.v2(f"pod/more{number}", kill=0)
        assert seen(observer, directory) == seen(Observer(), directory)
    assert observer.reads == 100 + 40


def test_once_a_kill_was_counted_above_all_children_are_read_again(tree: CgroupTree) -> None:
    for number in range(10):
        tree.v2(f"pod/{number}")
    observer = Observer()
    directory = at(tree, "pod/1")
    seen(observer, directory)
    another = tree.v2("pod/another", kill=1)
    count(tree.cgroup / "pod/7", 1)
    count(tree.cgroup / "pod", 6)
    children = seen(observer, directory).children or {}
    assert (children[key(another)], children[key(tree.cgroup / "pod/7")]) == (1, 1)
    assert observer.reads == 21


def test_directories_that_come_while_they_are_listed_are_listed_again(tree: CgroupTree) -> None:
    tree.v2(NAME)
    coming = iter("ab")

    def look(directory: Directory) -> Look | Fault:
        got = look_at(directory)
        name = next(coming, None)
        if name is not None:
            tree.v2(f"pod/{name}")
        return got

    observer = Observer(look=look)
    directory = at(tree)
    looks = [seen(observer, directory) for _ in range(3)]
    assert all(witness.settled for witness in looks)
    assert looks[-1] == seen(Observer(), directory)


def test_a_limit_above_comes_with_what_stands_against_it(tree: CgroupTree) -> None:
    tree.v2(NAME)
    assert seen(Observer(), at(tree)).current is None
    (tree.cgroup / "pod/memory.max").write_text("5000\n")
    witness = seen(Observer(), at(tree))
    assert (witness.limit, witness.current, witness.reclaimable) == (5000, 1000, 540)


def test_what_is_above_a_mount_is_no_witness(tree: CgroupTree) -> None:
    tree.v2("ctr")
    assert Observer().observe(at(tree, "ctr"))[1] is None


def test_v1_has_no_count_above_but_the_childrens(tree: CgroupTree) -> None:
    parent = tree.v1("pod", kill=7, limit=9000)
    own, other = tree.v1(NAME, kill=1), tree.v1("pod/other", kill=2)
    observer = Observer()
    assert seen(observer, at(tree, version=1)) == Witness(
        path="/pod",
        identity=parent.stat().st_ino,
        kills=None,
        children={key(own): 1, key(other): 2},
        limit=9000,
        current=1000,
        reclaimable=500,
    )
    seen(observer, at(tree, version=1))
    assert observer.listings == 1
    (own / "memory.oom_control").write_text(V1_CONTROL.format(kill=2))
    assert (seen(observer, at(tree, version=1)).children or {})[key(own)] == 2
    shutil.rmtree(own)
    witness = seen(observer, at(tree, version=1))
    assert witness.children == {key(other): 2}


# Through the source.


def source_of(tree: CgroupTree, pid: Callable[[], int]) -> CgroupSource:
    return CgroupSource(Clock(), limit_s=10, pid=pid, proc_root=tree.proc, cgroup_root=tree.cgroup)


async def read(source: CgroupSource) -> CgroupReading:
    reading = (await source.sample()).reading
    assert isinstance(reading, CgroupReading)
    return reading


async def test_a_cgroup_that_is_gone_leaves_its_witness(tree: CgroupTree) -> None:
    own = tree.v2(NAME)
    tree.process(7, f"0::/{NAME}\n")
    source = source_of(tree, lambda: 7)
    await read(source)
    shutil.rmtree(own)
    shutil.rmtree(tree.proc / "7")
    count(own.parent, 5)
    for _ in range(2):
        found = await read(source)
        assert found.gone
        assert found.witness is not None
        assert (found.witness.path, found.witness.kills, found.witness.children) == ("/pod", 5, {})
    await source.close()


async def test_a_container_that_was_restarted_has_a_witness_of_its_own(tree: CgroupTree) -> None:
    own = tree.v2(NAME)
    tree.process(7, f"0::/{NAME}\n")
    tree.process(8, "0::/pod/next\n")
    pids = [7, 8]
    source = source_of(tree, lambda: pids[0])
    await read(source)
    pids.pop(0)
    shutil.rmtree(own)
    count(own.parent, 5)
    successor = tree.v2("pod/next")
    found = await read(source)
    await source.close()
    assert (found.path, found.gone) == ("/pod/next", False)
    assert found.witness is not None
    assert (found.witness.kills, found.witness.children) == (5, {key(successor): 0})


async def test_a_pod_that_is_gone_with_it_leaves_no_witness(tree: CgroupTree) -> None:
    own = tree.v2(NAME)
    tree.process(7, f"0::/{NAME}\n")
    source = source_of(tree, lambda: 7)
    await read(source)
    shutil.rmtree(own.parent)
    found = await read(source)
    await source.close()
    assert (found.gone, found.witness) == (True, None)


async def test_beside_the_counters_stand_the_boot_and_the_hosts_memory(tree: CgroupTree) -> None:
    tree.mounts(V1_MOUNT)
    tree.v1("ctr")
    tree.process(7, "4:memory:/ctr\n")
    (tree.proc / "sys/kernel/random").mkdir(parents=True)
    (tree.proc / "sys/kernel/random/boot_id").write_text("9ba0124a-7311-4bd8-a51a-c26bf0eae958\n")
    (tree.proc / "meminfo").write_text("MemTotal:  9 kB\nMemAvailable:    4 kB\n")
    source = source_of(tree, lambda: 7)
    found = await read(source)
    await source.close()
    assert (found.boot, found.host_available) == ("9ba0124a-7311-4bd8-a51a-c26bf0eae958", 4096)
    assert (found.reclaimable, found.shmem, found.unevictable) == (500, 20, 7)
    assert found.userspace_kills is None


def test_before_the_local_count_was_apart_the_count_above_said_nothing_of_those_below(
    tree: CgroupTree,
) -> None:
    own = tree.v2(NAME, kill=1)
    (own.parent / "memory.events.local").unlink()
    assert seen(Observer(), at(tree)).kills is None


@pytest.mark.parametrize(
    ("options", "kills"), [("rw,nsdelegate", 4), ("rw,memory_localevents", None)]
)
async def test_a_mount_may_keep_the_count_above_from_counting_those_below(
    tree: CgroupTree, options: str, kills: int | None
) -> None:
    own = tree.v2(NAME, kill=1)
    tree.mounts(f"29 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 {options}\n")
    source = CgroupSource(
        Clock(), limit_s=2.0, path=own, proc_root=tree.proc, cgroup_root=tree.cgroup
    )
    reading = (await source.sample()).reading
    await source.close()
    assert isinstance(reading, CgroupReading)
    assert reading.witness is not None
    assert reading.witness.kills == kills
