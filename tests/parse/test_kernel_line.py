"""One kill is one kill, however many lines the kernel spends on it."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.model.readings import KernelKill
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Kind
from sidecar.parse.kernel_line import KernelFold, is_about_kills

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
SUMMARY = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/c1,task=VLLM::EngineCor,pid=23802,uid=0"
)
VERDICT = (
    "Memory cgroup out of memory: Killed process 23802 (VLLM::EngineCor) total-vm:2392596kB, "
    "anon-rss:396916kB, file-rss:206556kB, shmem-rss:0kB, UID:0 pgtables:1964kB oom_score_adj:600"
)
GLOBAL = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
    "task_memcg=/system.slice/vllm.service,task=python3,pid=77,uid=1000"
)
GLOBAL_VERDICT = "Out of memory: Killed process 77 (python3) total-vm:1kB, anon-rss:1kB"


def at(seconds: float) -> Instant:
    return Instant(monotonic=100 + seconds, unix=1000 + seconds)


def fold(*lines: str, step: float = 0.001) -> list[KernelKill]:
    folding = KernelFold()
    kills: list[KernelKill] = []
    for number, line in enumerate(lines):
        kills += folding.feed(line, at(number * step))
    return kills + list(folding.flush())


def recorded(name: str) -> list[str]:
    with gzip.open(RECORDINGS / name / "kernel_log.jsonl.gz", "rt") as file:
        return [json.loads(line)["line"] for line in file]


def corpus() -> list[dict[str, Any]]:
    with (RECORDINGS.parent / "logs.jsonl").open() as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize(
    ("recording", "pid", "comm", "trigger"),
    [
        ("f1_host_oom_enginecore", 23802, "VLLM::EngineCor", "python"),
        ("v2_host_oom", 725, "VLLM::Worker", "python3"),
    ],
)
def test_a_recorded_kill_is_one_kill(recording: str, pid: int, comm: str, trigger: str) -> None:
    (kill,) = fold(*recorded(recording))
    assert (kill.pid, kill.comm, kill.kind) == (pid, comm, Kind.CGROUP)
    assert kill.trigger == trigger
    assert (kill.limit_cgroup, kill.victim_cgroup) == ("/vllm", "/vllm")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("c042", [(3742074, "lmcache", Kind.SYSTEM, None)]),
        ("c083", [(265, "plymouthd", Kind.SYSTEM, "kswapd0")]),
        ("c106", [(461754, "pt_main_thread", Kind.CGROUP, None)]),
        ("c110", []),
        (
            "c111",
            [
                (15617, "python3", Kind.CGROUP, None),
                (15674, "python3", Kind.CGROUP, None),
                (15784, "python3", Kind.SYSTEM, None),
                (15925, "(resolved)", Kind.SYSTEM, None),
            ],
        ),
        ("c114", []),
        ("c120", [(1877, "influxd", Kind.SYSTEM, None)]),
        ("c174", [(16014, "cicc", Kind.SYSTEM, None)]),
        ("c221", []),
        ("c250", []),
    ],
)
def test_lines_from_public_reports_tell_the_kills_that_they_show(
    entry: str, told: list[tuple[int, str, Kind, str | None]]
) -> None:
    (lines,) = (one["lines"] for one in corpus() if one["id"] == entry)
    found = [(kill.pid, kill.comm, kill.kind, kill.trigger) for kill in fold(*lines)]
    assert found == told


def test_the_kill_is_given_with_the_summary_and_the_verdict_adds_nothing() -> None:
    folding = KernelFold()
    (kill,) = folding.feed(SUMMARY, at(0))
    assert (kill.at_monotonic, kill.at_unix) == (100.0, 1000.0)
    assert (kill.limit_cgroup, kill.victim_cgroup) == ("/kubepods/pod1", "/kubepods/pod1/c1")
    assert folding.feed(VERDICT, at(0.1)) == ()
    assert folding.flush() == ()


def test_a_global_oom_keeps_the_cgroup_of_its_victim() -> None:
    (kill,) = fold(GLOBAL, GLOBAL_VERDICT)
    assert kill.kind is Kind.SYSTEM
    assert (kill.limit_cgroup, kill.victim_cgroup) == (None, "/system.slice/vllm.service")


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "6,595,1397749679,-;",
        "6,595,1397749679,-,caller=T12;",
        "<6>",
        "[ 1397.749679] ",
        "[ 1397.749679][ T1234] ",
        "[Mon Nov 29 20:58:48 2026] ",
        "kern  :info  : [ 1397.749679] ",
        "Nov 29 20:58:48 gpu-7 kernel: ",
        "Nov 29 20:58:48 gpu-7 kernel: [ 1397.749679] ",
        "2026-11-29T20:58:48.123+00:00 gpu-7 kernel: ",
    ],
)
def test_every_way_of_printing_the_log_is_read(prefix: str) -> None:
    assert len(fold(prefix + SUMMARY, prefix + VERDICT)) == 1
    assert len(fold(prefix + VERDICT)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "12,595,1397749679,-;" + SUMMARY,
        "30,595,1397749679,-;" + VERDICT,
        "Nov 29 20:58:48 gpu-7 vllm[12]: prompt says kernel: " + SUMMARY,
        "INFO request: " + VERDICT,
        "6,1,1,-;systemd-oomd[7]: Killed /system.slice/vllm.service due to memory pressure",
        "6,1,1,-;oom_reaper: reaped process 23802 (VLLM::EngineCor), now anon-rss:0kB",
        "6,1,1,-;Out of memory and no killable processes...",
        "",
    ],
)
def test_what_no_kernel_said_is_no_kill(line: str) -> None:
    assert fold(line) == []


def test_two_kills_whose_lines_are_mixed_stay_two() -> None:
    kills = fold(SUMMARY, GLOBAL, "3,1,1,-;usb 1-1: new device", GLOBAL_VERDICT, VERDICT)
    assert [kill.pid for kill in kills] == [23802, 77]


@pytest.mark.parametrize("kept", range(len("oom-kill:constraint=CONSTRAINT_MEMCG"), len(SUMMARY)))
def test_a_summary_cut_anywhere_still_gives_one_kill_with_the_right_victim(kept: int) -> None:
    (kill,) = fold(SUMMARY[:kept], VERDICT)
    assert (kill.pid, kill.comm, kill.kind) == (23802, "VLLM::EngineCor", Kind.CGROUP)
    assert kill.limit_cgroup in {None, "/kubepods/pod1"}
    assert kill.victim_cgroup in {None, "/kubepods/pod1/c1"}


def test_a_summary_in_pieces_is_put_together() -> None:
    head, tail = SUMMARY.split(",cpuset", 1)
    (kill,) = fold(f"6,5,1,-;{head}", f"6,6,1,c;,cpuset{tail}", f"3,7,1,-;{VERDICT}")
    assert kill.victim_cgroup == "/kubepods/pod1/c1"


def test_a_cut_summary_that_nothing_follows_is_given_after_a_while() -> None:
    folding = KernelFold()
    assert folding.feed(SUMMARY[:60], at(0)) == ()
    assert folding.undecided(at(0.1))
    assert folding.flush(at(0.1)) == ()
    (kill,) = folding.flush(at(2))
    assert (kill.pid, kill.kind) == (None, Kind.CGROUP)
    assert not folding.undecided(at(2))
    assert folding.feed(VERDICT, at(3)) == ()


GROUP = "Tasks in /kubepods/pod1{} are going to be killed due to memory.oom.group set"
MEMBER = VERDICT.replace("23802", "23900")


def test_a_group_kill_tells_each_member_once_though_the_victim_is_printed_twice() -> None:
    victim, member = fold(SUMMARY, VERDICT, GROUP.format("/c1"), VERDICT, MEMBER)
    assert (victim.pid, member.pid) == (23802, 23900)
    assert (member.kind, member.limit_cgroup) == (Kind.CGROUP, "/kubepods/pod1")
    assert member.victim_cgroup == "/kubepods/pod1/c1"


def test_a_group_above_the_victim_does_not_tell_where_its_members_lived() -> None:
    kills = fold(SUMMARY, VERDICT, GROUP.format(""), VERDICT, MEMBER)
    assert [kill.pid for kill in kills] == [23802, 23900]
    assert (kills[1].limit_cgroup, kills[1].victim_cgroup) == ("/kubepods/pod1", None)


def test_a_member_that_is_about_to_end_by_itself_is_not_killed() -> None:
    spared = (
        "Memory cgroup out of memory: OOM victim 23900 (VLLM::Worker) is already exiting. "
        "Skip killing the task"
    )
    assert is_about_kills(spared)
    assert [kill.pid for kill in fold(SUMMARY, VERDICT, GROUP.format("/c1"), spared)] == [23802]
    assert fold(SUMMARY[:60], spared) == []


def test_a_verdict_without_a_summary_stands_alone() -> None:
    (memcg,) = fold(VERDICT)
    assert (memcg.kind, memcg.pid, memcg.victim_cgroup) == (Kind.CGROUP, 23802, None)
    (system,) = fold(GLOBAL_VERDICT)
    assert (system.kind, system.comm) == (Kind.SYSTEM, "python3")


def test_kernels_before_5_0_announce_and_then_kill_perhaps_another() -> None:
    kills = fold(
        "Task in /docker/abc killed as a result of limit of /docker",
        "memory: usage 49152kB, limit 49152kB, failcnt 35",
        "Memory cgroup out of memory: Kill process 4001 (vllm) score 990 or sacrifice child",
        "Killed process 4002 (pt_main_thread) total-vm:100kB, anon-rss:10kB, file-rss:0kB",
    )
    (kill,) = kills
    assert (kill.pid, kill.comm, kill.kind) == (4002, "pt_main_thread", Kind.CGROUP)
    assert (kill.limit_cgroup, kill.victim_cgroup) == ("/docker", "/docker/abc")


def test_a_memory_report_without_a_kill_is_no_kill() -> None:
    assert fold("Task in /docker/abc killed as a result of limit of /docker") == []


def test_a_process_may_have_any_name() -> None:
    odd = SUMMARY.replace("VLLM::EngineCor", "a,pid=1,uid=2")
    assert [(kill.pid, kill.comm) for kill in fold(odd)] == [(23802, "a,pid=1,uid=2")]
    odd = VERDICT.replace("VLLM::EngineCor", "x) (y), z")
    assert [(kill.pid, kill.comm) for kill in fold(odd)] == [(23802, "x) (y), z")]
    assert fold(SUMMARY.replace("VLLM::EngineCor", r"\xc3\xa9t\xc3\xa9"))[0].comm == "été"


def test_a_pid_that_comes_back_is_another_kill_and_a_repeated_line_is_not() -> None:
    assert len(fold(SUMMARY, VERDICT, SUMMARY, VERDICT, step=1)) == 1
    assert len(fold(SUMMARY, VERDICT, SUMMARY, VERDICT, step=10)) == 2
    assert len(fold(VERDICT, VERDICT, step=10)) == 2


def test_the_records_own_time_tells_old_kills_apart_that_are_read_at_once() -> None:
    first, second = "6,1,1000000,-;", "6,2,9000000000,-;"
    assert len(fold(first + SUMMARY, second + SUMMARY, step=0)) == 2
    assert len(fold(first + SUMMARY, first + SUMMARY, step=120)) == 1


def test_a_verdict_may_come_before_its_summary() -> None:
    assert [kill.pid for kill in fold(VERDICT, SUMMARY)] == [23802]


def test_a_thousand_kills_are_a_thousand() -> None:
    lines = [SUMMARY.replace("23802", str(pid)) for pid in range(1000)]
    assert len(fold(*lines, step=0.0001)) == 1000


def test_a_recording_keeps_only_what_is_about_kills() -> None:
    assert is_about_kills("6,1,1,-;" + SUMMARY)
    assert is_about_kills(VERDICT)
    assert is_about_kills("4,513,1,-;python invoked oom-killer: gfp_mask=0xcc0, order=0")
    assert not is_about_kills("5,1,1,-;audit: type=1400 comm=secret")


@pytest.mark.parametrize(
    "line",
    [
        "oom-kill:constraint=A" + ",oom_memcg=" * 6000,
        "oom-kill:constraint=A" + ",oom_memcg=a,task_memcg=" * 3000,
        "oom-kill:constraint=A,task=" + "x,pid=1" * 9000,
        "Out of memory: Killed process 1 (" + ")" * 64_000,
        "Task in /" + " killed as a result of limit of" * 2000,
        "kernel: " * 8000 + "Killed",
        "[" * 64_000 + "Kill",
        "<1>" * 20_000 + "Kill",
    ],
    ids=lambda line: line[:40],
)
def test_the_longest_and_oddest_line_is_read_at_once(line: str) -> None:
    begun = time.perf_counter()
    fold(line, ",task=" + line)
    is_about_kills(line)
    assert time.perf_counter() - begun < 0.5


def test_pieces_without_end_are_not_put_together_without_end() -> None:
    folding = KernelFold()
    folding.feed("oom-kill:constraint=CONSTRAINT_MEMCG", at(0))
    begun = time.perf_counter()
    for _ in range(4096):
        folding.feed(",task_memcg=/" + "a" * 100, at(0))
    assert time.perf_counter() - begun < 5
    (kill,) = folding.flush()
    assert kill.kind is Kind.CGROUP


@given(st.lists(st.text() | st.sampled_from([SUMMARY, VERDICT, GLOBAL, SUMMARY[:70]])))
def test_any_text_is_folded_without_an_error(lines: list[str]) -> None:
    assert len(fold(*lines)) <= len(lines)
