"""The report of every generation of kernels: victim, limit and the process that asked for memory."""

from collections.abc import Sequence

import pytest

from sidecar.model.readings import KernelKill
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Kind
from sidecar.parse.kernel_line import KernelFold

POD = "/kubepods/burstable/pod7f0c"
CONTAINER = f"{POD}/4f5c"
SIZES = "total-vm:2392596kB, anon-rss:396916kB, file-rss:206556kB"
TAIL = f"{SIZES}, shmem-rss:0kB, UID:1000 pgtables:1964kB oom_score_adj:600"
PLACE = "nodemask=(null),cpuset=4f5c,mems_allowed=0"

V4_4 = [
    "VLLM::Worker invoked oom-killer: gfp_mask=0x24000c0, order=0, oom_score_adj=969",
    "VLLM::Worker cpuset=4f5c mems_allowed=0",
    f"Task in {CONTAINER} killed as a result of limit of {POD}",
    "memory: usage 2355200kB, limit 2355200kB, failcnt 3528",
    "Memory cgroup out of memory: Kill process 812 (VLLM::EngineCor) score 990 or sacrifice child",
    f"Killed process 812 (VLLM::EngineCor) {SIZES}",
    "Kill process 813 (VLLM::EngineCor) sharing same memory",
]
V4_9 = [
    (
        "VLLM::Worker invoked oom-killer: gfp_mask=0x24000c0(GFP_KERNEL), nodemask=0, order=0, "
        "oom_score_adj=969"
    ),
    *V4_4[1:5],
    f"Killed process 812 (VLLM::EngineCor) {SIZES}, shmem-rss:0kB",
    "oom_reaper: reaped process 812 (VLLM::EngineCor), now anon-rss:0kB, file-rss:0kB",
]
V4_14 = [
    (
        "VLLM::Worker invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null),  order=0, "
        "oom_score_adj=969"
    ),
    *V4_9[1:],
]
V4_19 = [V4_14[0].replace("0x14000c0", "0x6000c0"), *V4_9[1:]]
V5_0 = [
    "VLLM::Worker invoked oom-killer: gfp_mask=0x600040(GFP_NOFS), order=0, oom_score_adj=969",
    (
        f"oom-kill:constraint=CONSTRAINT_NONE,{PLACE},oom_memcg={POD},task_memcg={CONTAINER},"
        "task=VLLM::EngineCor,pid=812,uid=1000"
    ),
    *V4_9[4:],
]
V5_4 = [
    "VLLM::Worker invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=969",
    (
        f"oom-kill:constraint=CONSTRAINT_MEMCG,{PLACE},oom_memcg={POD},task_memcg={CONTAINER},"
        "task=VLLM::EngineCor,pid=812,uid=1000"
    ),
    f"Memory cgroup out of memory: Killed process 812 (VLLM::EngineCor) {TAIL}",
]
V5_15 = [
    (
        "VLLM::Worker invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, "
        "oom_score_adj=969"
    ),
    *V5_4[1:],
    "oom_reaper: reaped process 812 (VLLM::EngineCor), now anon-rss:0kB, file-rss:0kB",
]
V6_12 = [
    *V5_15[:1],
    "CPU: 3 UID: 1000 PID: 814 Comm: VLLM::Worker Not tainted 6.12.41 #1",
    *V5_15[1:],
]
EVERY = {
    "4.4": V4_4,
    "4.9": V4_9,
    "4.14": V4_14,
    "4.19": V4_19,
    "5.0": V5_0,
    "5.4": V5_4,
    "5.15": V5_15,
    "6.8": V5_15,
    "6.12": V6_12,
}


def fold(lines: Sequence[str], step: float = 0.001) -> list[KernelKill]:
    folding = KernelFold()
    kills: list[KernelKill] = []
    for number, line in enumerate(lines):
        kills += folding.feed(line, Instant(number * step, number * step))
    return kills + list(folding.flush())


def of_the_host(lines: Sequence[str]) -> list[str]:
    """The same report for want of memory of the whole host."""
    return [
        line.replace("Memory cgroup out of memory", "Out of memory")
        .replace("CONSTRAINT_MEMCG", "CONSTRAINT_NONE")
        .replace(f"oom_memcg={POD}", "global_oom")
        for line in lines
        if not line.startswith("Task in")
    ]


@pytest.mark.parametrize("kernel", EVERY)
def test_a_limit_of_a_cgroup_is_told_with_its_victim_its_owner_and_the_trigger(kernel: str) -> None:
    (kill,) = fold(EVERY[kernel])
    assert (kill.pid, kill.comm, kill.kind) == (812, "VLLM::EngineCor", Kind.CGROUP)
    assert (kill.limit_cgroup, kill.victim_cgroup) == (POD, CONTAINER)
    assert kill.trigger == "VLLM::Worker"


@pytest.mark.parametrize("kernel", EVERY)
def test_want_of_memory_of_the_host_has_no_limit(kernel: str) -> None:
    (kill,) = fold(of_the_host(EVERY[kernel]))
    assert (kill.pid, kill.comm, kill.kind) == (812, "VLLM::EngineCor", Kind.SYSTEM)
    assert kill.limit_cgroup is None
    assert kill.victim_cgroup == (None if kernel.startswith("4") else CONTAINER)
    assert kill.trigger == "VLLM::Worker"


@pytest.mark.parametrize("kernel", ["4.4", "4.19", "5.0"])
def test_a_child_that_dies_in_place_of_its_parent_is_one_kill(kernel: str) -> None:
    lines = [line.replace("Killed process 812", "Killed process 899") for line in EVERY[kernel]]
    (kill,) = fold(lines)
    assert (kill.kind, kill.limit_cgroup, kill.victim_cgroup) == (Kind.CGROUP, POD, CONTAINER)
    assert kill.pid == (812 if kernel == "5.0" else 899)


@pytest.mark.parametrize("constraint", ["CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY"])
def test_want_of_memory_on_some_nodes_is_the_hosts(constraint: str) -> None:
    lines = [line.replace("CONSTRAINT_NONE", constraint) for line in of_the_host(V6_12)]
    (kill,) = fold(lines)
    assert (kill.kind, kill.victim_cgroup) == (Kind.SYSTEM, CONTAINER)


def test_the_allocating_task_may_be_the_one_that_is_killed() -> None:
    why = "Out of memory (oom_kill_allocating_task)"
    (old,) = fold(
        [
            f"{why}: Kill process 6344 (sh) score 0 or sacrifice child",
            f"Killed process 6345 (sleep) {SIZES}",
        ]
    )
    assert (old.pid, old.comm, old.kind) == (6345, "sleep", Kind.SYSTEM)
    (new,) = fold([f"{why}: Killed process 6344 (sh) {TAIL}"])
    assert (new.pid, new.comm, new.kind) == (6344, "sh", Kind.SYSTEM)


@pytest.mark.parametrize(
    "verdict",
    [
        f"Killed process 77 (java) {SIZES}",
        f"Killed process 77 (java), UID 1000, {SIZES}",
        f"Killed process 77, UID 1000, (java) {SIZES}",
        f"Out of memory: Killed process 77 (java) {TAIL}",
        "Out of Memory: Killed process 77 (java).".replace("Memory", "memory").rstrip("."),
    ],
)
def test_every_form_of_a_verdict_names_its_process(verdict: str) -> None:
    (kill,) = fold([verdict])
    assert (kill.pid, kill.comm) == (77, "java")


@pytest.mark.parametrize(
    "comm",
    ["VLLM::EngineCor", "a b", "((resolved))", "x, y", "a,pid=1,uid=2", ") total-vm", "invoked"],
)
def test_victim_and_trigger_may_bear_any_name(comm: str) -> None:
    lines = [line.replace("VLLM::EngineCor", comm).replace("VLLM::Worker", comm) for line in V6_12]
    (kill,) = fold(lines)
    assert (kill.comm, kill.trigger) == (comm, comm)


def test_names_that_the_kernel_escapes_are_read_back() -> None:
    (kill,) = fold(["\\xc3\\xa9t\\xc3\\xa9 invoked oom-killer: gfp_mask=0xcc0", *V6_12[1:]])
    assert kill.trigger == "été"


def test_what_other_programs_say_of_the_killer_names_no_trigger() -> None:
    (kill,) = fold(["Nov 29 20:58:48 gpu-7 app[1]: x invoked oom-killer: gfp", *V6_12[1:]])
    assert kill.trigger is None


def test_a_report_held_up_by_a_slow_console_keeps_its_trigger() -> None:
    stamped = [f"4,{number},351410000,-;{line}" for number, line in enumerate(V6_12)]
    (kill,) = fold(stamped, step=100)
    assert kill.trigger == "VLLM::Worker"


def test_a_search_without_a_victim_leaves_no_trigger_for_the_next_kill() -> None:
    (kill,) = fold([V5_4[0], "Out of memory and no killable processes...", *V5_4[1:]])
    assert kill.trigger is None


def test_an_announcement_that_no_verdict_follows_is_no_kill() -> None:
    assert fold(V4_4[:5]) == []


def test_a_record_that_was_copied_twice_says_what_it_says_once() -> None:
    doubled = [f"[ 14808.06398{number // 2}] {V4_19[number // 2]}" for number in range(10)]
    other = [
        "Memory cgroup out of memory: Kill process 5 (other) score 9 or sacrifice child",
        f"Killed process 5 (other) {SIZES}",
    ]
    first, second = fold([*doubled, *V4_19[5:], *(f"[ 14809.000000] {line}" for line in other)])
    assert (first.pid, first.limit_cgroup, first.trigger) == (812, POD, "VLLM::Worker")
    assert (second.pid, second.limit_cgroup, second.trigger) == (5, None, None)
