"""Each kill is counted once, or reported as not seen: never twice, never silently zero."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.assemble.kill_ledger import RESTART_S, KillLedger, Toll
from sidecar.model.readings import CgroupReading, Witness
from tests.fakes.cgroup_machine import DEEDS, CgroupMachine

BOOT = "b1"


def look(
    kills: int,
    *,
    inode: int = 1,
    path: str = "/pod/a",
    local: int | None = None,
    above: int | None = None,
    siblings: dict[str, int] | None = None,
    settled: bool = True,
) -> CgroupReading:
    name = path.rpartition("/")[2]
    witness = None
    if above is not None:
        children = {f"{name}#{inode}": kills, **(siblings or {})}
        witness = Witness("/pod", 100, above, children, settled=settled)
    return CgroupReading(
        version=2,
        path=path,
        identity=inode,
        boot=BOOT,
        events={"oom_kill": kills},
        local_events=None if local is None else {"oom_kill": local},
        witness=witness,
    )


def gone(above: int | None, siblings: dict[str, int] | None = None) -> CgroupReading:
    witness = None if above is None else Witness("/pod", 100, above, siblings or {})
    return CgroupReading(version=2, path="/pod/a", gone=True, boot=BOOT, witness=witness)


def tolls(*readings: CgroupReading) -> list[Toll]:
    ledger = KillLedger()
    return [ledger.see(reading, float(n)) for n, reading in enumerate(readings)]


def test_kills_of_the_past_are_the_baseline() -> None:
    assert tolls(look(5, above=9), look(5, above=9), look(6, above=10))[1:] == [Toll(), Toll(own=1)]


def test_a_kill_below_is_told_from_one_of_our_own() -> None:
    assert tolls(look(0, local=0), look(3, local=1))[1] == Toll(own=1, below=2)


def test_a_look_that_could_not_read_the_local_count_takes_what_rose_for_our_own() -> None:
    assert tolls(look(3, local=0), look(4), look(4, local=1))[1:] == [Toll(own=1), Toll()]


def test_a_kill_between_the_last_look_and_the_removal_is_told_from_above() -> None:
    assert tolls(look(0, above=4), gone(5))[1] == Toll(witnessed=1)


def test_a_removal_without_a_kill_is_seen_to_be_one() -> None:
    assert tolls(look(2, above=4), gone(4))[1] == Toll()


def test_without_a_witness_a_removal_is_reported_as_not_seen_once() -> None:
    assert tolls(look(0), gone(None), gone(None))[1:] == [Toll(unseen=True), Toll()]


def test_the_kill_of_a_sibling_that_lives_is_not_ours() -> None:
    before = look(0, above=0, siblings={"side#2": 0})
    assert tolls(before, gone(3, {"side#2": 3}))[1] == Toll()


def test_where_a_sibling_vanished_too_nobody_can_be_sure() -> None:
    before = look(0, above=0, siblings={"side#2": 0})
    assert tolls(before, gone(1))[1] == Toll(witnessed=1, sure=False)


def test_the_kill_of_a_sibling_that_vanished_before_is_not_ours_later() -> None:
    readings = (look(0, above=0, siblings={"side#2": 0}), look(0, above=1), gone(1))
    assert tolls(*readings)[1:] == [Toll(), Toll()]


def test_a_container_that_was_made_anew_counts_from_zero_and_the_old_one_from_above() -> None:
    new = look(1, inode=7, path="/pod/b", above=6)
    assert tolls(look(0, above=4), new)[1] == Toll(own=1, witnessed=1)


def test_a_cgroup_of_the_same_name_made_anew_counts_from_zero() -> None:
    assert tolls(look(5), look(1, inode=2))[1] == Toll(own=1, unseen=True)


def test_several_restarts_between_two_looks_are_all_told() -> None:
    new = look(0, inode=9, path="/pod/d", above=7)
    assert tolls(look(0, above=4), new)[1] == Toll(witnessed=3)


def test_kills_of_a_cgroup_that_was_beside_ours_all_along_are_of_the_past() -> None:
    before = look(0, above=5, siblings={"b#7": 5})
    new = look(6, inode=7, path="/pod/b", above=6)
    assert tolls(before, new)[1] == Toll(own=1)


def test_a_cgroup_nobody_knew_is_its_own_baseline_and_says_so() -> None:
    moved = look(5, inode=7, path="/elsewhere/b")
    assert tolls(look(0), moved)[1] == Toll(unseen=True)


def test_numbers_that_do_not_belong_together_are_not_compared() -> None:
    readings = (
        look(0, above=0),
        look(1, above=5, settled=False, siblings={"side#2": 0}),
        gone(5, {"side#2": 4}),
    )
    assert tolls(*readings)[1:] == [Toll(own=1), Toll()]


def test_another_boot_is_another_machine() -> None:
    assert tolls(look(5, above=5), replace(look(0, above=0), boot="b2"))[1] == Toll()


def test_a_group_kill_counts_its_processes_once_and_the_group_apart() -> None:
    readings = [
        replace(look(n), local_events={"oom_kill": n, "oom_group_kill": n // 3}) for n in (0, 3)
    ]
    assert tolls(*readings)[1] == Toll(own=3, group=1)


def test_kills_by_systemd_oomd_move_no_counter_of_the_kernel() -> None:
    readings = [replace(look(0), userspace_kills=n) for n in (0, 4)]
    assert tolls(*readings)[1] == Toll(userspace=4)


def test_a_kill_beside_a_cgroup_that_is_long_gone_is_not_ours_and_may_have_been() -> None:
    ledger = KillLedger()
    ledger.see(look(0, above=0), 0.0)
    ledger.see(gone(0), 1.0)
    assert ledger.see(gone(1), 1.0 + RESTART_S) == Toll(witnessed=1, sure=False)
    assert ledger.see(gone(2), 60.0) == Toll(unseen=True)


def test_in_our_own_pod_nobody_else_comes_and_goes() -> None:
    pod = "/kubepods/pod0c9d1c3e-8a3e-4b5c-9d3f-0123456789ab"
    ledger = KillLedger()

    def above(kills: int, reading: CgroupReading) -> CgroupReading:
        return replace(reading, witness=Witness(pod, 100, kills, {}))

    ledger.see(above(0, look(0)), 0.0)
    ledger.see(above(0, gone(None)), 1.0)
    assert ledger.see(above(1, gone(None)), 600.0) == Toll(witnessed=1, sure=False)


def test_where_the_children_cannot_be_told_apart_nothing_is_told_from_above() -> None:
    def crowd(kills: int, reading: CgroupReading) -> CgroupReading:
        return replace(reading, witness=Witness("/pod", 100, kills, None))

    assert tolls(crowd(0, look(0)), crowd(3, gone(None)))[1] == Toll(unseen=True)


def test_a_server_that_moved_took_no_kill_with_it() -> None:
    before = look(0, above=0, siblings={"b#7": 0, "c#8": 0})
    moved = look(0, inode=7, path="/pod/b", above=1, siblings={"a#1": 0})
    assert tolls(before, moved)[1] == Toll()


def test_a_group_below_that_was_killed_whole_is_not_our_group() -> None:
    readings = [
        replace(
            look(3 * n),
            events={"oom_kill": 3 * n, "oom_group_kill": n},
            local_events={"oom_kill": 0, "oom_group_kill": 0},
        )
        for n in (0, 1)
    ]
    assert tolls(*readings)[1] == Toll(below=3)


# Any order of what can happen


@settings(max_examples=500)
@given(
    deeds=st.lists(st.sampled_from((*DEEDS, "look", "restart")), max_size=40), seen=st.booleans()
)
def test_each_kill_is_counted_once_or_reported_as_not_seen(deeds: list[str], *, seen: bool) -> None:
    machine, ledger = CgroupMachine(has_witness=seen), KillLedger()
    ledger.see(machine.look(), 0.0)
    counted, unseen = 0, 0
    for deed in [*deeds, "look"]:
        if deed == "look":
            toll = ledger.see(machine.look(), 0.0)
            counted += toll.own + toll.below + toll.witnessed
            unseen += toll.unseen
        elif deed == "restart":
            ledger = KillLedger(ledger.known)
        else:
            machine.do(deed)
    assert counted <= machine.kills
    assert counted == machine.kills or unseen
    if seen:
        assert (counted, unseen) == (machine.kills, 0)
