"""Readings of GPUs and processes -> whose memory it is; nothing that cannot be told is a number."""

from dataclasses import replace

import pytest

from sidecar.assemble.gpus import LISTINGS_TO_GROW, UNSEEN_BYTES, Gpus
from sidecar.model.budget import GpuBudget, Sight
from sidecar.model.readings import Gpu, GpuProcess, NvmlReading, Process, ProcessReading
from sidecar.model.samples import Instant

GIB = 1 << 30
SERVER = (Process(1, "vllm", born=10), Process(2, "VLLM::EngineCor", born=20))
OURS = ProcessReading(SERVER, root=1)


def card(*held: tuple[int, int | None], used: int | None = 0, index: int = 0) -> Gpu:
    """A GPU of 80 GiB with these processes on it; used without more is what they hold."""
    everything = sum(size or 0 for _, size in held) if used == 0 else used
    return Gpu(
        index=index,
        uuid=f"GPU-{index}",
        name="a",
        total=80 * GIB,
        used=everything,
        free=None if everything is None else 79 * GIB - everything,
        reserved=GIB,
        utilization=0.5,
        processes=tuple(GpuProcess(pid, size) for pid, size in held),
    )


def fed(
    *gpus: Gpu, processes: ProcessReading | None = OURS, serves: bool = True
) -> tuple[GpuBudget, ...]:
    """What is known after one look at each."""
    seen = Gpus()
    seen.see_processes(processes)
    seen.feed(NvmlReading("1", gpus), moment(0), serves=serves)
    return seen.budgets(moment(0))


def moment(at: float) -> Instant:
    return Instant(at, at)


def figures(gpu: GpuBudget) -> tuple[Sight, int | None, int | None, int | None]:
    return gpu.sight, gpu.vllm, gpu.cotenant, gpu.orphans


def test_memory_is_split_by_pid_and_the_server_is_expected_where_it_is() -> None:
    first, second, third = fed(
        card((2, 60 * GIB), (77, 5 * GIB)), card((77, GIB), index=1), card(index=2)
    )
    assert figures(first) == (Sight.SEEN, 60 * GIB, 5 * GIB, 0)
    assert figures(second) == (Sight.SEEN, 0, GIB, 0)
    assert figures(third) == (Sight.SEEN, 0, 0, 0)
    assert [gpu.expected for gpu in (first, second, third)] == [True, False, False]
    assert (first.total, first.used, first.reserved) == (80 * GIB, 65 * GIB, GIB)


@pytest.mark.parametrize(
    ("gpu", "processes", "sight"),
    [
        (card((2, GIB)), replace(OURS, host_pids=False), Sight.OTHER_NAMESPACE),
        (card(used=5 * GIB), replace(OURS, host_pids=False), Sight.OTHER_NAMESPACE),
        (card((0, GIB), (2, GIB)), OURS, Sight.OTHER_NAMESPACE),
        (replace(card(), processes=None), OURS, Sight.HIDDEN),
        (replace(card((2, GIB)), lost=True), OURS, Sight.HIDDEN),
        (card((2, GIB)), None, Sight.NO_SERVER),
        (card((2, GIB)), ProcessReading(()), Sight.NO_SERVER),
        (card(used=9 * GIB), OURS, Sight.HIDDEN),
    ],
)
def test_what_cannot_be_told_is_no_number(
    gpu: Gpu, processes: ProcessReading | None, sight: Sight
) -> None:
    (budget,) = fed(gpu, processes=processes)
    assert figures(budget) == (sight, None, None, None)


def test_a_list_of_none_but_the_server_shows_no_cotenant_also_without_sizes() -> None:
    (budget,) = fed(card((1, None), (2, None), used=50 * GIB))
    assert figures(budget) == (Sight.HIDDEN, None, 0, 0)
    assert budget.expected


def test_a_cotenant_of_hidden_size_is_none_or_the_least_that_is_known() -> None:
    hidden, some = fed(
        card((2, GIB), (77, None), used=9 * GIB),
        card((2, GIB), (77, None), (78, 2 * GIB), used=9 * GIB, index=1),
    )
    assert figures(hidden) == (Sight.HIDDEN, GIB, None, 0)
    assert figures(some) == (Sight.HIDDEN, GIB, 2 * GIB, 0)


def test_a_server_of_hidden_size_does_not_hide_the_cotenant() -> None:
    (budget,) = fed(card((2, None), (77, 3 * GIB), used=9 * GIB))
    assert figures(budget) == (Sight.HIDDEN, None, 3 * GIB, 0)


def test_more_than_a_driver_needs_is_held_by_somebody_unseen() -> None:
    (context,) = fed(card((2, 10 * GIB), used=10 * GIB + UNSEEN_BYTES))
    (somebody,) = fed(card((2, 10 * GIB), used=10 * GIB + UNSEEN_BYTES + 1))
    (others,) = fed(card((2, 10 * GIB), (77, GIB), used=20 * GIB))
    assert figures(context) == (Sight.SEEN, 10 * GIB, 0, 0)
    assert figures(somebody) == (Sight.HIDDEN, 10 * GIB, None, None)
    assert figures(others) == (Sight.HIDDEN, 10 * GIB, GIB, None)


def test_engines_without_their_server_are_orphans() -> None:
    left = ProcessReading((SERVER[1],), root=None)
    (alone,) = fed(card((2, 60 * GIB)), processes=left)
    (beside,) = fed(card((2, 60 * GIB), (50, GIB)), processes=left)
    assert figures(alone) == (Sight.SEEN, 0, 60 * GIB, 60 * GIB)
    assert not alone.expected
    # 50 may be the next server, whose processes nobody has found yet.
    assert figures(beside) == (Sight.NO_SERVER, None, 60 * GIB, 60 * GIB)


def test_an_engine_older_than_its_server_is_an_orphan() -> None:
    anew = (SERVER[1], Process(5, "vllm", born=100), Process(6, "VLLM::EngineCor", born=110))
    (budget,) = fed(card((2, 40 * GIB), (6, 20 * GIB)), processes=ProcessReading(anew, root=5))
    assert figures(budget) == (Sight.SEEN, 20 * GIB, 40 * GIB, 40 * GIB)


def test_what_an_earlier_server_left_is_an_orphan_by_any_name() -> None:
    """Before 0.10.1 engines bear no name of their own."""
    old, engine = Process(1, "python3", born=1), Process(2, "python3", born=2)
    new, next_engine = Process(5, "python3", born=50), Process(6, "python3", born=60)
    seen = Gpus()
    seen.see_processes(ProcessReading((old, engine), root=1))
    seen.see_processes(ProcessReading((engine, new), root=5))
    seen.see_processes(ProcessReading((engine, new, next_engine), root=5))
    seen.feed(NvmlReading("1", (card((2, GIB), (6, 2 * GIB)),)), moment(0), serves=True)
    assert figures(seen.budgets(moment(0))[0]) == (Sight.SEEN, 2 * GIB, GIB, GIB)


def test_a_dead_process_that_is_still_listed_holds_for_nobody() -> None:
    reading = NvmlReading("1", (card((2, 60 * GIB)),))
    seen = Gpus()
    seen.see_processes(OURS)
    seen.feed(reading, moment(0), serves=True)
    seen.see_processes(ProcessReading((), root=None))
    # The driver's list is older than the end of the process.
    assert figures(seen.budgets(moment(0))[0]) == (Sight.SEEN, 60 * GIB, 0, 0)
    seen.feed(reading, moment(1), serves=False)
    assert figures(seen.budgets(moment(1))[0]) == (Sight.SEEN, 0, 60 * GIB, 60 * GIB)
    seen.feed(NvmlReading("1", (card(),)), moment(2), serves=False)
    # Another process may bear the same pid later.
    seen.feed(reading, moment(3), serves=False)
    assert figures(seen.budgets(moment(3))[0]) == (Sight.NO_SERVER, None, None, None)


def test_a_pid_that_is_used_again_by_the_server_is_its_own() -> None:
    reading = NvmlReading("1", (card((2, GIB)),))
    seen = Gpus()
    seen.see_processes(OURS)
    seen.feed(reading, moment(0), serves=True)
    seen.see_processes(ProcessReading((SERVER[0], Process(2, "VLLM::EngineCor", born=99)), root=1))
    seen.feed(reading, moment(1), serves=True)
    assert figures(seen.budgets(moment(1))[0]) == (Sight.SEEN, GIB, 0, 0)


def test_a_child_that_is_not_in_the_tree_yet_is_no_cotenant() -> None:
    reading = NvmlReading("1", (card((2, GIB), (3, GIB)),))
    seen = Gpus()
    seen.see_processes(OURS)
    for at in range(LISTINGS_TO_GROW):
        seen.feed(reading, moment(at), serves=False)
        assert figures(seen.budgets(moment(at))[0]) == (Sight.HIDDEN, None, None, 0)
        seen.see_processes(OURS)
    assert figures(seen.budgets(moment(9))[0]) == (Sight.SEEN, GIB, GIB, 0)


def test_a_cotenant_of_a_server_that_serves_shows_at_once_and_goes_at_once() -> None:
    seen = Gpus()
    seen.see_processes(OURS)
    shown = []
    for at, held in enumerate([0, 3 * GIB, 4 * GIB, 0]):
        others = [(77, held)] if held else []
        seen.feed(NvmlReading("1", (card((2, GIB), *others),)), moment(at), serves=True)
        shown.append(seen.budgets(moment(at))[0].cotenant)
    assert shown == [0, 3 * GIB, 4 * GIB, 0]


def test_neighbours_on_other_instances_are_no_cotenants_and_prove_no_headroom() -> None:
    alone, beside = (
        replace(card((2, GIB), index=0), mig=True),
        replace(card((2, GIB), (77, GIB), index=1), mig=True),
    )
    seen = Gpus()
    seen.see_processes(OURS)
    for at in range(0, 1000, 5):
        seen.feed(NvmlReading("1", (alone, beside)), moment(at), serves=True)
    first, second = seen.budgets(moment(1000))
    assert figures(first) == (Sight.SEEN, GIB, 0, 0)
    assert figures(second) == (Sight.HIDDEN, GIB, None, 0)
    assert [gpu.free_durable for gpu in (first, second)] == [None, None]
    assert first.mig


def test_a_gpu_that_is_lost_under_the_server_is_still_expected() -> None:
    fine, other = card((2, GIB)), card(index=1)
    seen = Gpus()
    seen.see_processes(OURS)
    seen.feed(NvmlReading("1", (fine, other)), moment(0), serves=True)
    gone = replace(fine, lost=True, used=None, free=None, processes=None)
    seen.feed(NvmlReading("1", (gone, replace(other, lost=True))), moment(1), serves=True)
    assert [(g.lost, g.expected) for g in seen.budgets(moment(1))] == [(True, True), (True, False)]
    seen.see_processes(ProcessReading((Process(9, "vllm", born=500),), root=9))
    assert [gpu.expected for gpu in seen.budgets(moment(2))] == [False, False]


@pytest.mark.parametrize("fails", [True, False])
def test_a_gpu_is_missed_that_goes_as_the_server_is_found(*, fails: bool) -> None:
    seen, fine = Gpus(), card((2, GIB))
    seen.feed(NvmlReading("1", (fine,)), moment(0), serves=True)
    assert seen.judge()
    seen.see_processes(OURS)
    if fails:
        seen.miss()
    else:
        gone = replace(fine, lost=True, used=None, free=None, processes=None)
        seen.feed(NvmlReading("1", (gone,)), moment(1), serves=True)
    assert [gpu.expected for gpu in seen.budgets(moment(1))] == [True]


def test_a_card_stays_the_servers_though_its_processes_cannot_be_listed_any_more() -> None:
    seen, fine = Gpus(), card((2, GIB))
    seen.feed(NvmlReading("1", (fine,)), moment(0), serves=True)
    assert seen.judge()
    seen.see_processes(OURS)
    assert not seen.judge()
    seen.see_processes(None)
    gone = replace(fine, lost=True, used=None, free=None, processes=None)
    seen.feed(NvmlReading("1", (gone,)), moment(1), serves=True)
    assert [gpu.expected for gpu in seen.budgets(moment(1))] == [True]


def test_after_a_failed_reading_a_gpu_is_there_and_nothing_is_known_of_it() -> None:
    seen = Gpus()
    assert seen.budgets(moment(0)) == ()
    seen.see_processes(OURS)
    seen.feed(NvmlReading("1", (card((2, GIB)),)), moment(0), serves=True)
    seen.miss()
    assert seen.budgets(moment(1)) == (GpuBudget(index=0, expected=True),)


def test_without_a_listing_of_processes_nobodys_memory_is_known() -> None:
    seen = Gpus()
    seen.see_processes(OURS)
    seen.feed(NvmlReading("1", (card((2, GIB)),)), moment(0), serves=True)
    seen.see_processes(None)
    assert figures(seen.budgets(moment(0))[0]) == (Sight.NO_SERVER, None, None, None)


def test_a_reading_is_judged_once_and_after_all_of_its_tick_is_in() -> None:
    seen = Gpus()
    reading = NvmlReading("1", (card((2, GIB), (77, 3 * GIB)),))
    seen.feed(reading, moment(0), serves=True)
    seen.see_processes(OURS)
    (whose,) = seen.judge().values()
    assert (whose.sight, whose.cotenant, whose.strangers) == (Sight.SEEN, 3 * GIB, 3 * GIB)
    assert seen.judge() == {}
    seen.feed(reading, moment(1), serves=True)
    seen.miss()
    assert seen.judge() == {}


def test_orphans_and_neighbours_on_other_instances_are_no_strangers() -> None:
    for gpu, processes in (
        (card((2, 60 * GIB)), ProcessReading((SERVER[1],), root=None)),
        (replace(card((2, GIB), (77, GIB)), mig=True), OURS),
    ):
        seen = Gpus()
        seen.see_processes(processes)
        seen.feed(NvmlReading("1", (gpu,)), moment(0), serves=True)
        assert [whose.strangers for whose in seen.judge().values()] == [0]
