"""A kill is counted once, and only if it is ours."""

from dataclasses import replace

import pytest

from sidecar.assemble.host_memory import FORMER_S, Belonging, HostMemory, evidence_of
from sidecar.assemble.kill_ledger import Toll
from sidecar.model.evidence import Evidence, Parties, Weight
from sidecar.model.readings import CgroupReading, KernelKill, Process, ProcessReading
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Confidence, Kind, LimitOwner, Party, Way

AT = Instant(10.0, 1010.0)


def cgroup(kills: int, *, identity: int = 1, path: str = "/vllm", **others: int) -> CgroupReading:
    return CgroupReading(
        version=2, path=path, identity=identity, events={"oom_kill": kills, **others}
    )


def signals_of(toll: Toll, *, inner: bool = False, way: Way = Way.PID) -> dict[str, Evidence]:
    reading = CgroupReading(version=2, path="/vllm", inner=inner, way=way)
    return {evidence.signal: evidence for evidence in evidence_of(toll, reading, AT)}


def test_pressure_is_no_kill() -> None:
    host = HostMemory()
    host.see_cgroup(cgroup(0), AT)
    assert host.see_cgroup(cgroup(0, max=1575, high=154, oom=3), AT) == Toll()
    assert signals_of(Toll()) == {}


def test_a_kill_in_the_servers_own_cgroup_is_a_root() -> None:
    evidence = signals_of(Toll(own=2, group=1))
    assert {signal: e.amount for signal, e in evidence.items()} == {
        "oom_kill": 2.0,
        "oom_group_kill": 1.0,
    }
    assert {(e.weight, e.confidence) for e in evidence.values()} == {
        (Weight.ROOT, Confidence.CONFIRMED)
    }


@pytest.mark.parametrize(
    ("inner", "way", "weight"),
    [
        (True, Way.PATH, Weight.ROOT),
        (False, Way.PATH, Weight.SUPPORT),
        (False, Way.PID, Weight.SUPPORT),
        (True, Way.POD, Weight.SUPPORT),
    ],
)
def test_a_kill_below_is_the_servers_only_where_the_server_is_below(
    *, inner: bool, way: Way, weight: Weight
) -> None:
    assert signals_of(Toll(below=1), inner=inner, way=way)["oom_kill_below"].weight is weight


@pytest.mark.parametrize("sure", [True, False])
def test_a_witnessed_kill_counts_and_says_how_sure_it_is(*, sure: bool) -> None:
    evidence = signals_of(Toll(witnessed=1, sure=sure))["oom_kill_witnessed"]
    assert evidence.weight is Weight.ROOT
    assert (evidence.confidence is Confidence.CONFIRMED) == sure


def test_a_kill_by_systemd_oomd_is_of_its_own_kind() -> None:
    assert signals_of(Toll(userspace=4))["userspace_kill"].kind is Kind.USERSPACE


def kill(
    *, victim: str | None = None, pid: int | None = None, comm: str | None = None
) -> KernelKill:
    return KernelKill(10.0, 1010.0, Kind.CGROUP, pid=pid, comm=comm, victim_cgroup=victim)


def told(host: HostMemory, record: KernelKill) -> Confidence | None:
    found, _ = host.see_kills([record])
    return found[0].confidence if found else None


@pytest.mark.parametrize(
    ("victim", "sure"),
    [
        ("/kubepods/pod1/vllm", Confidence.CONFIRMED),
        ("/kubepods/pod1/vllm/child", Confidence.SUSPECTED),
        ("/kubepods/pod1", None),
        ("/kubepods/pod1/vllm2", None),
        ("/docker/" + "a" * 64, None),
    ],
)
def test_a_kill_is_ours_by_its_cgroup(victim: str, sure: Confidence | None) -> None:
    host = HostMemory()
    host.see_place(cgroup(0, path="/kubepods/pod1/vllm"), AT)
    got = told(host, kill(victim=victim, pid=7, comm="VLLM::Worker"))
    assert got is sure


def test_a_cgroup_seen_from_a_namespace_is_found_in_the_hosts_path() -> None:
    host = HostMemory()
    host.see_place(cgroup(0, path="/pod1/vllm"), AT)
    assert told(host, kill(victim="/kubepods/pod1/vllm")) is Confidence.CONFIRMED


def test_a_root_of_a_namespace_is_nobodys_name() -> None:
    host = HostMemory()
    host.see_place(cgroup(0, path="/"), AT)
    record = kill(victim="/kubepods/pod1/other", comm="VLLM::Worker")
    assert told(host, record) is Confidence.SUSPECTED


def test_a_kill_is_ours_by_a_pid_that_still_has_its_name() -> None:
    host = HostMemory()
    host.see_processes(ProcessReading((Process(7, "VLLM::EngineCore"),)), AT)
    assert told(host, kill(pid=7, comm="VLLM::EngineCor")) is Confidence.CONFIRMED
    assert told(host, kill(pid=7, comm="firefox")) is None
    assert told(host, kill(pid=8, comm="VLLM::EngineCor")) is None


def test_a_name_alone_is_only_a_suspicion() -> None:
    assert told(HostMemory(), kill(pid=7, comm="VLLM::Worker")) is Confidence.SUSPECTED
    assert told(HostMemory(), kill(pid=7, comm="python3")) is None


ID, OTHER_ID = "a" * 64, "b" * 64
POD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"


def in_container(container: str, path: str) -> HostMemory:
    host = HostMemory()
    host.see_place(replace(cgroup(0, path=path), container=container), AT)
    return host


@pytest.mark.parametrize(("container", "ours"), [(ID, True), (OTHER_ID, False)])
def test_a_kill_is_ours_by_the_containers_id_where_a_namespace_hides_the_path(
    container: str, *, ours: bool
) -> None:
    host = in_container(ID, f"/../cri-containerd-{ID}.scope")
    record = kill(victim=f"{POD}/cri-containerd-{container}.scope", comm="VLLM::Worker")
    assert (told(host, record) is Confidence.CONFIRMED) == ours


def test_a_record_of_the_container_before_the_restart_is_still_ours_for_a_while() -> None:
    host = in_container(ID, f"{POD}/cri-containerd-{ID}.scope")
    host.see_place(replace(cgroup(0, path=f"{POD}/x"), container=OTHER_ID), AT)
    record = kill(victim=f"{POD}/cri-containerd-{ID}.scope")
    assert told(host, record) is Confidence.CONFIRMED
    late = replace(record, at_monotonic=AT.monotonic + FORMER_S + 1)
    assert told(host, late) is None


def test_of_a_pod_nobody_says_in_which_container_the_server_is() -> None:
    host = HostMemory()
    host.see_place(replace(cgroup(0, path=POD), way=Way.POD), AT)
    assert told(host, kill(victim=f"{POD}/cri-containerd-{ID}.scope")) is Confidence.SUSPECTED


def test_pids_of_a_container_are_not_those_that_the_kernel_prints() -> None:
    host = HostMemory()
    host.see_processes(ProcessReading((Process(7, "VLLM::Worker"),), host_pids=False), AT)
    assert told(host, kill(pid=7, comm="VLLM::Worker")) is Confidence.SUSPECTED


@pytest.mark.parametrize(
    ("limit", "owner"),
    [
        ("/kubepods/pod1/vllm", LimitOwner.OWN),
        ("/kubepods/pod1", LimitOwner.ABOVE),
        ("/kubepods/pod1/vllm/child", LimitOwner.BELOW),
        ("/elsewhere", None),
        (None, None),
    ],
)
def test_whose_limit_it_was(limit: str | None, owner: LimitOwner | None) -> None:
    host = HostMemory()
    host.see_place(cgroup(0, path="/kubepods/pod1/vllm"), AT)
    record = replace(
        kill(victim="/kubepods/pod1/vllm/child", comm="VLLM::Worker_TP"),
        limit_cgroup=limit,
        trigger="VLLM::EngineCor",
    )
    ((evidence,), _) = host.see_kills([record])
    assert evidence.parties == Parties(Party.WORKER, Party.ENGINE, owner)


def test_a_kill_of_the_whole_host_was_nobodys_limit() -> None:
    host = HostMemory()
    host.see_place(cgroup(0, path="/vllm"), AT)
    ((evidence,), _) = host.see_kills(
        [replace(kill(victim="/vllm", comm="ptxas"), kind=Kind.SYSTEM)]
    )
    assert evidence.parties == Parties(Party.OTHER, None, LimitOwner.HOST)


@pytest.mark.parametrize(("anchored", "ours"), [(True, False), (False, True)])
def test_the_same_unit_in_another_machine_is_another_where_the_whole_path_is_seen(
    *, anchored: bool, ours: bool
) -> None:
    host = HostMemory()
    host.see_place(replace(cgroup(0, path="/system.slice/vllm.service"), anchored=anchored), AT)
    record = kill(victim="/machine.slice/guest/system.slice/vllm.service")
    assert (told(host, record) is not None) == ours


def test_a_kill_beside_a_server_that_lives_is_not_ours() -> None:
    host = HostMemory()
    host.see_place(cgroup(0, path="/docker/a"), AT)
    assert host.whose(kill(victim="/docker/b", comm="VLLM::Worker")) is Belonging.BESIDE
    host.see_kills([kill(victim="/docker/b", comm="VLLM::Worker")])
    assert host.take_strays(AT) == ()


def test_a_kill_beside_a_cgroup_that_just_went_may_be_of_one_that_nobody_saw() -> None:
    host = HostMemory()
    host.see_place(cgroup(0, path="/docker/a"), AT)
    host.see_place(CgroupReading(version=2, path="/docker/a", gone=True), AT)
    found, unsure = host.see_kills([kill(victim="/docker/b", comm="VLLM::Worker")])
    assert found == ()
    assert unsure
    (stray,) = host.take_strays(AT)
    assert (stray.weight, stray.confidence) == (Weight.ROOT, Confidence.SUSPECTED)


@pytest.mark.parametrize("comm", ["python3", "VLLM::Worker"])
def test_without_any_knowledge_of_the_server_a_record_leaves_a_doubt(comm: str) -> None:
    found, unsure = HostMemory().see_kills([kill(victim="/docker/b", comm=comm)])
    assert bool(found) != unsure, "either it may be ours by its name, or nobody can tell"


def test_a_pid_that_was_not_seen_for_a_while_is_anybodys() -> None:
    host = HostMemory()
    host.see_processes(ProcessReading((Process(7, "python3"),)), AT)
    late = Instant(AT.monotonic + FORMER_S + 1, AT.unix + FORMER_S + 1)
    host.see_processes(ProcessReading((Process(8, "python3"),)), late)
    assert told(host, kill(pid=7, comm="python3")) is None
    assert told(host, kill(pid=8, comm="python3")) is Confidence.CONFIRMED
