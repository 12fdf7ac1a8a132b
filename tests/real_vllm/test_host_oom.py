"""A real engine killed by the kernel at its cgroup's limit, and, started again, by hand: told apart."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.daemon import daemon
from tests.process.memory_cgroups import await_full_reports, pod_cgroup
from tests.real_vllm.load import Ask, users
from tests.real_vllm.server import ENGINE, VllmServer, vllm_server
from tests.real_vllm.watch import OFTEN, Phase, say, watch

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.component("root"),
    pytest.mark.component("cgroup_v1"),
]

ROOT = Path("/sys/fs/cgroup/memory")
GENEROUS = 6 << 30
"""Bytes: three times what the server needs."""
ROOM = 384 << 20
"""Bytes that are left to it before the kernel kills."""
HOG = """
import pathlib, sys, time
place, room = pathlib.Path(sys.argv[1]), int(sys.argv[2])
(place / "cgroup.procs").write_text("0")
begun, held = time.monotonic(), []
while "oom_kill 0" in (place / "memory.oom_control").read_text() and len(held) << 20 < 4 * room:
    if len(held) < 14 * (time.monotonic() - begun):
        held.append(b"\\1" * (1 << 20))
    else:
        time.sleep(0.02)
"""
"""Takes 14 MiB in a second of a cgroup's memory, until somebody else was killed for it."""
HOG_S = 240


@dataclass(frozen=True, slots=True)
class Story:
    """What was shown of both deaths, and how the server ended."""

    pressure: Phase
    kill: Phase
    restart: Phase
    by_hand: Phase
    exit_codes: list[int]


def prefer(pid: int) -> None:
    """Let the kernel choose this process before all others."""
    Path(f"/proc/{pid}/oom_score_adj").write_text("1000")


def kill_by_kernel(server: VllmServer, place: Path) -> None:
    """Let something else in the server's cgroup take all that is left, until the engine is killed."""
    (engine,) = server.pids(ENGINE)
    prefer(engine)
    used = int((place / "memory.usage_in_bytes").read_text())
    (place / "memory.limit_in_bytes").write_text(str(used + ROOM))
    subprocess.run([sys.executable, "-c", HOG, place, str(ROOM)], check=True, timeout=HOG_S)


@pytest.fixture(scope="module")
def story(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    work = tmp_path_factory.mktemp("host_oom")
    exit_codes: list[int] = []
    await_full_reports()
    with pod_cgroup(ROOT, f"sidecar-test-{os.getpid()}") as pod:
        place = pod.add("ctr", GENEROUS)
        with (
            vllm_server(model, work, cgroup=place) as server,
            daemon("--target", server.url, "--log", str(server.log), *OFTEN) as running,
            watch(running) as watching,
        ):
            server.await_ready()
            watching.await_report(lambda shown: shown.state == "serving")
            with users(server, 10, Ask(46, 1200)):
                with watching.phase("pressure") as pressure:
                    watching.await_report(lambda shown: "preemption" in shown.alerts)
                with watching.phase("kill") as kill:
                    kill_by_kernel(server, place)
                    exit_codes.append(server.await_end())
                    watching.await_report(lambda shown: shown.state == "dead")
                    watching.await_windows(1)
            (place / "memory.limit_in_bytes").write_text(str(GENEROUS))
            with watching.phase("restart") as restart:
                server.start()
                server.await_ready()
                watching.await_report(lambda shown: shown.state == "serving")
                watching.await_windows(1, read=True)
            with users(server, 4, Ask(46, 600)) as tally, watching.phase("by hand") as by_hand:
                watching.until(lambda: tally.answers[200] > 0)
                server.kill(ENGINE)
                exit_codes.append(server.await_end())
                watching.await_report(lambda shown: shown.state == "dead")
                watching.await_windows(2)
    return Story(pressure, kill, restart, by_hand, exit_codes)


def test_a_kill_for_memory_amid_preemption_is_a_host_oom(story: Story) -> None:
    story.pressure.tell()
    story.kill.tell()
    assert ("preemption", "warning") in story.pressure.alerts
    assert {cause for cause, _ in story.pressure.alerts} == {"preemption"}
    assert story.exit_codes[0] == 0, "it does not say by its exit code that it failed"
    last = story.kill.windows[-1]
    assert (last["verdict"], last["state"], last["severity"]) == ("host_oom", "dead", "critical")
    assert last["lever"]["name"] == "raise_host_memory_limit"
    found = [cause for cause in story.kill.causes if cause["cause"] == "host_oom"]
    assert found
    for cause in found:
        assert cause["kind"] == "cgroup"
        assert cause["confidence"] == "confirmed"
        assert cause["phase"] == "runtime"
        assert cause["severity"] == "critical"
    assert {cause["cause"] for cause in story.kill.causes} <= {"host_oom", "preemption"}
    assert ("host_oom", "critical") in story.kill.alerts
    assert {cause for cause, _ in story.kill.alerts} == {"host_oom", "preemption"}
    assert story.kill.states == ["serving", "dead"]


def test_two_witnesses_tell_whom_the_kernel_killed_and_for_whose_limit(story: Story) -> None:
    assert story.kill.signals("host_oom") == {
        ("cgroup", "oom_kill"),
        ("kernel_log", "oom_kill_record"),
    }
    records = [one for one in story.kill.evidence("host_oom") if one["source"] == "kernel_log"]
    assert records[0]["victim"] == "engine"
    # What the engine held may come back too late for the next of them.
    assert {one["victim"] for one in records} <= {"engine", "worker"}
    assert {one["limit_owner"] for one in records} == {"own"}


def test_the_time_to_the_limit_was_told_before(story: Story) -> None:
    alive = [one for one in story.kill.shown if one.state == "serving"]
    told = [
        (round(one.at - story.kill.begun, 1), memory["time_to_limit_seconds"])
        for one in alive
        if (memory := one.report["host_memory"]) and "time_to_limit_seconds" in memory
    ]
    say(f"seconds since the limit was set, and told until it is met: {told[:3]} ... {told[-3:]}")
    assert told
    headrooms = [
        memory["headroom"]["own"] for one in alive if (memory := one.report["host_memory"])
    ]
    assert min(headrooms) < ROOM / 2


def test_a_server_that_starts_again_where_one_was_killed_is_well(story: Story) -> None:
    story.restart.tell()
    assert story.restart.states == ["dead", "starting", "serving"]
    assert story.restart.read[-1]["verdict"] == "none"
    assert {cause for cause, _ in story.restart.alerts} <= {"host_oom", "preemption"}
    assert story.restart.shown[-1].alerts == {"host_oom": "critical"}, "not forgotten so soon"


def test_a_kill_by_hand_in_the_same_cgroup_is_an_engine_failure(story: Story) -> None:
    story.by_hand.tell()
    assert story.exit_codes[1] == 0, "it does not say by its exit code that it failed"
    assert story.by_hand.states == ["serving", "dead"]
    assert story.by_hand.verdicts[-2:] == ["engine_failure"] * 2
    assert {cause["cause"] for cause in story.by_hand.causes} <= {"engine_failure", "preemption"}
    found = [cause for cause in story.by_hand.causes if cause["cause"] == "engine_failure"]
    assert {(one["kind"], one["phase"]) for one in found} == {("killed", "runtime")}
    assert story.by_hand.windows[-1]["lever"]["name"] == "inspect_engine_failure"
    assert story.by_hand.shown[-1].alerts["engine_failure"] == "critical"
