"""A cgroup may bear a name that looks like parts of a record: it hides its own kill, and forges none."""

import pytest

from sidecar.model.readings import KernelKill
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Kind
from sidecar.parse.kernel_line import KernelFold

SERVER = f"docker-{'a' * 64}.scope"
"""The server's cgroup, in which nothing was killed."""
BESIDE = "/user.slice/user-1001.slice"
HEAD = "oom-kill:constraint={constraint},nodemask=(null),cpuset={cpuset},mems_allowed=0"


def summary(
    victim: str, *, limit: str | None = None, comm: str = "stress", cpuset: str = "/"
) -> str:
    """A cgroup's record; without a limit, one of the whole machine."""
    head = HEAD.format(constraint="CONSTRAINT_MEMCG" if limit else "CONSTRAINT_NONE", cpuset=cpuset)
    owner = f"oom_memcg={limit}" if limit else "global_oom"
    return f"{head},{owner},task_memcg={victim},task={comm},pid=900,uid=1000"


VERDICT = "Memory cgroup out of memory: Killed process 900 (stress) total-vm:1kB, anon-rss:1kB"
FORGED = f"{BESIDE}/x,task_memcg=/{SERVER},task=y"


def fold(*lines: str) -> list[KernelKill]:
    folding = KernelFold()
    kills: list[KernelKill] = []
    for number, line in enumerate(lines):
        kills += folding.feed(line, Instant(number / 1000, number / 1000))
    return kills + list(folding.flush())


def names(kill: KernelKill) -> tuple[str | None, str | None]:
    return kill.limit_cgroup, kill.victim_cgroup


@pytest.mark.parametrize(
    "record",
    [
        summary(FORGED, limit=FORGED),
        summary(FORGED, limit=BESIDE),
        summary(FORGED),
        summary(f"{BESIDE}/x,task=y,pid=77,uid=0", limit=BESIDE),
        summary(f"{BESIDE}/x,oom_memcg=/{SERVER}"),
        summary(f"{BESIDE}/x,global_oom", limit=BESIDE),
        summary(f"{BESIDE}/x", limit=f"{BESIDE}/x,global_oom,task_memcg=/{SERVER},task=y"),
        summary(f"{BESIDE}/x", cpuset=f"x,oom_memcg=/{SERVER}"),
        summary(f"{BESIDE}/x", limit=BESIDE, cpuset=f"x,global_oom,task_memcg=/{SERVER},task=y"),
    ],
)
def test_a_record_that_can_be_read_in_two_ways_names_no_cgroup(record: str) -> None:
    (kill,) = fold(record, VERDICT)
    assert (kill.pid, kill.comm, names(kill)) == (900, "stress", (None, None))


def test_a_comma_alone_misleads_nobody() -> None:
    victim = f"{BESIDE}/x,y=z, pid=77,uid=0"
    (kill,) = fold(summary(victim, limit=BESIDE), VERDICT)
    assert names(kill) == (BESIDE, victim)


@pytest.mark.parametrize(("comm", "told"), [("a,task=b", "b"), ("a,pid=1,uid=2", "a,pid=1,uid=2")])
def test_the_victim_is_the_one_at_the_end_whatever_its_process_is_called(
    comm: str, told: str
) -> None:
    (kill,) = fold(summary("/a", limit="/a", comm=comm))
    assert (kill.pid, kill.comm) == (900, told)


@pytest.mark.parametrize("length", [931, 950, 976, 992, 1024])
def test_a_name_that_fills_the_record_cannot_put_its_end_there(length: int) -> None:
    """What follows a full record stands in the next one, or is lost."""
    victim = f"{BESIDE}/{{}}/{SERVER},task=y,pid=77,uid=0"
    unpadded = len(summary(victim, limit=BESIDE)) - len(",task=stress,pid=900,uid=1000{}")
    record = summary(victim.format("p" * (length - unpadded)), limit=BESIDE)
    head, tail = record[:length], record[length:]
    assert tail == ",task=stress,pid=900,uid=1000"
    for lines in ((head, tail, VERDICT), (head, VERDICT)):
        (kill,) = fold(*lines)
        assert (kill.pid, names(kill)) == (900, (None, None))


def test_a_long_record_is_still_a_kill() -> None:
    long = f"/{'/'.join(['kubepods.slice'] * 30)}"
    (kill,) = fold(summary(long, limit=long), VERDICT)
    assert (kill.pid, kill.kind) == (900, Kind.CGROUP)


def test_a_summary_that_was_cut_names_no_cgroup() -> None:
    record = summary(f"{BESIDE}/x,task_memcg=/{SERVER},task=y", limit=BESIDE)
    shortest = len("oom-kill:constraint=CONSTRAINT_MEMCG")
    for length in range(shortest, len(record) - len(",pid=900,uid=1000")):
        (kill,) = fold(record[:length], VERDICT)
        assert (kill.pid, names(kill)) == (900, (None, None))


def test_before_5_0_a_name_that_holds_the_words_between_names_no_cgroup() -> None:
    words = "killed as a result of limit of"
    announced = "Memory cgroup out of memory: Kill process 900 (stress) score 9 or sacrifice child"
    killed = "Killed process 900 (stress) total-vm:1kB, anon-rss:1kB"
    (kill,) = fold(f"Task in {BESIDE}/x {words} /{SERVER} {words} {BESIDE}", announced, killed)
    assert (kill.pid, kill.kind, names(kill)) == (900, Kind.CGROUP, (None, None))
    (kill,) = fold(f"Task in {BESIDE}/x {words} /{SERVER}{'/p' * 450}", announced, killed)
    assert names(kill) == (None, None)
    (kill,) = fold(f"Task in {BESIDE}/x {words} {BESIDE}", announced, killed)
    assert names(kill) == (BESIDE, f"{BESIDE}/x")


def test_a_group_whose_name_holds_the_words_behind_it_does_not_tell_where_its_members_lived() -> (
    None
):
    words = "are going to be killed due to memory.oom.group set"
    victim = f"{BESIDE}/x {words}/{SERVER}"
    member = VERDICT.replace("900", "901")
    told = fold(
        summary(victim, limit=BESIDE), VERDICT, f"Tasks in {victim} {words}", VERDICT, member
    )
    assert [(kill.pid, kill.victim_cgroup) for kill in told] == [(900, victim), (901, None)]
