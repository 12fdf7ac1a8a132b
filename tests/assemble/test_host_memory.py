"""A kill is counted once, and only if it is ours."""

import pytest

from sidecar.assemble.host_memory import HostMemory
from sidecar.model.readings import CgroupReading, KernelKill, Process, ProcessReading
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Confidence, Kind

AT = Instant(10.0, 1010.0)


def cgroup(kills: int, *, identity: int = 1, path: str = "/vllm", **others: int) -> CgroupReading:
    return CgroupReading(
        version=2, path=path, identity=identity, events={"oom_kill": kills, **others}
    )


def amounts(*readings: CgroupReading) -> list[float]:
    host = HostMemory()
    return [sum(e.amount for e in host.see_cgroup(reading, AT)) for reading in readings]


def test_kills_of_the_past_are_the_baseline() -> None:
    assert amounts(cgroup(5), cgroup(5), cgroup(6)) == [0, 0, 1]


def test_a_cgroup_made_anew_counts_from_zero() -> None:
    assert amounts(cgroup(5), cgroup(1, identity=2)) == [0, 1]


def test_a_cgroup_that_is_gone_for_a_while_keeps_its_baseline() -> None:
    gone = CgroupReading(version=2, path="/vllm", gone=True)
    assert amounts(cgroup(1), gone, cgroup(2)) == [0, 0, 1]


def test_kills_of_another_cgroup_are_of_the_past() -> None:
    assert amounts(cgroup(0), cgroup(5, identity=9, path="/other")) == [0, 0]


def test_pressure_is_no_kill() -> None:
    assert amounts(cgroup(0), cgroup(0, max=1575, high=154, oom=3)) == [0, 0]


def kill(
    *, victim: str | None = None, pid: int | None = None, comm: str | None = None
) -> KernelKill:
    return KernelKill(10.0, 1010.0, Kind.CGROUP, pid=pid, comm=comm, victim_cgroup=victim)


def told(host: HostMemory, record: KernelKill) -> Confidence | None:
    found = host.see_kills([record])
    return found[0].confidence if found else None


@pytest.mark.parametrize(
    ("victim", "ours"),
    [
        ("/kubepods/pod1/vllm", True),
        ("/kubepods/pod1/vllm/child", True),
        ("/kubepods/pod1", False),
        ("/kubepods/pod1/vllm2", False),
        ("/docker/" + "a" * 64, False),
    ],
)
def test_a_kill_is_ours_by_its_cgroup(victim: str, *, ours: bool) -> None:
    host = HostMemory()
    host.see_cgroup(cgroup(0, path="/kubepods/pod1/vllm"), AT)
    got = told(host, kill(victim=victim, pid=7, comm="VLLM::Worker"))
    assert got is (Confidence.CONFIRMED if ours else None)


def test_a_cgroup_seen_from_a_namespace_is_found_in_the_hosts_path() -> None:
    host = HostMemory()
    host.see_cgroup(cgroup(0, path="/pod1/vllm"), AT)
    assert told(host, kill(victim="/kubepods/pod1/vllm")) is Confidence.CONFIRMED


def test_a_root_of_a_namespace_is_nobodys_name() -> None:
    host = HostMemory()
    host.see_cgroup(cgroup(0, path="/"), AT)
    record = kill(victim="/kubepods/pod1/other", comm="VLLM::Worker")
    assert told(host, record) is Confidence.SUSPECTED


def test_a_kill_is_ours_by_a_pid_that_still_has_its_name() -> None:
    host = HostMemory()
    host.see_processes(ProcessReading((Process(7, "VLLM::EngineCore"),)))
    assert told(host, kill(pid=7, comm="VLLM::EngineCor")) is Confidence.CONFIRMED
    assert told(host, kill(pid=7, comm="firefox")) is None
    assert told(host, kill(pid=8, comm="VLLM::EngineCor")) is None


def test_a_name_alone_is_only_a_suspicion() -> None:
    assert told(HostMemory(), kill(pid=7, comm="VLLM::Worker")) is Confidence.SUSPECTED
    assert told(HostMemory(), kill(pid=7, comm="python3")) is None
