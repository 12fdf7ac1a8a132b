"""``check`` says what can be observed, what cannot, and what would help; and it asks once."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sidecar import cli
from sidecar.commands.check import ATTEMPT_WORDS, WAY_WORDS, Finding, as_json, as_text
from sidecar.model.readings import CgroupReading, Witness
from sidecar.model.vocabulary import Cause, Fault, Source, Way
from sidecar.sources.cgroup_places.attempt import Attempt
from sidecar.telling.blind_spots import (
    ABSENT_WORDS,
    ELSEWHERE,
    FAULT_WORDS,
    REMEDIES,
    RIGHTS,
    Right,
    Standpoint,
)
from tests.fakes.cgroup_tree import CgroupTree
from tests.fakes.patience import until
from tests.fakes.vllm_server import FakeVllm, fake_vllm

EXPOSITION = (Path(__file__).parents[1] / "data/expositions/0.26.0.txt").read_bytes()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("VLLM_SIDECAR_")]:
        monkeypatch.delenv(name)


@contextmanager
def served() -> Iterator[FakeVllm]:
    """A healthy server beside us: the command has a loop of its own."""
    begun, ended = threading.Event(), threading.Event()
    running: list[FakeVllm] = []

    async def serve() -> None:
        async with fake_vllm() as server:
            server.behaviour.body = EXPOSITION
            running.append(server)
            begun.set()
            await until(ended.is_set, seconds=30)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert begun.wait(5)
        yield running[0]
    finally:
        ended.set()
        thread.join()


def check(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    code = cli.main(["check", "--format", "json", "--gpu", "off", *options])
    (line,) = capsys.readouterr().out.splitlines()
    return code, json.loads(line)


def test_all_that_is_given_can_be_observed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "vllm.log"
    log.touch()
    place = CgroupTree(tmp_path).v2("pod")
    with served() as server:
        code, found = check(
            capsys, "--target", server.url(""), "--log", str(log), "--cgroup", str(place)
        )
    assert code == 0
    assert set(found["observable"].values()) == {True}
    assert found["remedies"] == {}
    assert found["sources"]["vllm_log"] is None


def test_without_a_server_and_a_log_it_says_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, found = check(
        capsys, "--target", "http://127.0.0.1:9", "--cgroup", "off", "--kernel-log", "off"
    )
    assert code == 1
    assert found["observable"] == dict.fromkeys(Cause, False)
    assert "--log" in found["remedies"]["cuda_oom"]
    assert found["sources"]["vllm_metrics"] == "refused"
    assert found["sources"]["vllm_health"] == "refused"


def test_a_log_that_is_not_there_cannot_show_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served() as server:
        code, found = check(
            capsys, "--target", server.url(""), "--log", str(tmp_path / "secret-canary.log")
        )
    assert code == 1
    assert found["observable"]["cuda_oom"] is False
    assert found["observable"]["preemption"] is True
    assert found["sources"]["vllm_log"] == "absent"
    assert "secret-canary" not in json.dumps(found)


def test_one_of_several_logs_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "vllm.log"
    log.touch()
    missing = tmp_path / "missing.log"
    code, found = check(capsys, "--log", str(log), "--log", str(missing))
    assert code == 1
    assert found["sources"]["vllm_log"] == "absent"
    assert not found["observable"]["cuda_oom"]


def test_people_read_the_same_as_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["check", "--gpu", "off", "--target", "http://127.0.0.1:9"])
    out = capsys.readouterr().out
    assert code == 1
    assert "source vllm_metrics: nobody listens there\n" in out
    assert f"cuda_oom: cannot be observed: {REMEDIES[Cause.CUDA_OOM]}\n" in out


def test_of_a_server_elsewhere_a_host_oom_cannot_be_observed_and_it_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Port 9 of an address that nobody bears (RFC 5737).
    code, found = check(capsys, "--target", "http://203.0.113.7:9")
    assert code == 1
    assert found["observable"]["host_oom"] is False
    assert found["remedies"]["host_oom"] == ELSEWHERE
    assert not {"cgroup", "kernel_log", "process"} & set(found["sources"])


def test_every_fault_and_every_cause_has_its_words() -> None:
    assert set(FAULT_WORDS) == set(Fault)
    assert set(REMEDIES) == set(Cause)
    assert set(ABSENT_WORDS) == set(Source)


def test_every_way_attempt_and_right_has_its_words() -> None:
    assert set(WAY_WORDS) == set(Way)
    assert set(ATTEMPT_WORDS) == set(Attempt)
    assert [row.right for row in RIGHTS] == list(Right)


def test_the_way_to_the_cgroup_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = CgroupTree(tmp_path)
    tree.v2("pod")
    place = tree.v2("pod/ctr")
    options = ("--target", "http://127.0.0.1:9", "--cgroup", str(place))
    _, found = check(capsys, *options)
    assert found["cgroup"] == {"way": "path", "witness": True}
    _, found = check(capsys, "--target", "http://127.0.0.1:9", "--cgroup", "off")
    assert found["cgroup"] == {"way": None, "witness": False}
    cli.main(["check", "--gpu", "off", *options])
    out = capsys.readouterr().out
    assert f"cgroup: found by {WAY_WORDS[Way.PATH]}; the cgroup above it is seen\n" in out


WITNESS = Witness(path="/", identity=1, kills=0)
HIDDEN = {Source.VLLM_METRICS: None, Source.PROCESS: Fault.ABSENT}


def cgroup(path: str, version: int = 2, witness: Witness | None = None) -> dict[str, Any]:
    return {
        "cgroup": CgroupReading(version=version, path=path, way=Way.PID, witness=witness),
        "sources": {Source.CGROUP: None},
    }


def closed(attempt: Attempt) -> dict[str, Any]:
    return {"sources": {Source.CGROUP: Fault.DENIED}, "outside": attempt is Attempt.OUTSIDE}


def pod(fault: Fault | None, *, in_cluster: bool) -> dict[str, Any]:
    return {"sources": {Source.KUBERNETES: fault}, "in_cluster": in_cluster}


@pytest.mark.parametrize(
    ("about", "rights"),
    [
        ({"sources": {}}, []),
        (cgroup("/pod/ctr", witness=WITNESS), []),
        (cgroup("/pod/ctr"), ["host_cgroup"]),
        (cgroup("/"), ["host_cgroup"]),
        (cgroup("/../ctr"), ["host_cgroup"]),
        (cgroup("/vllm"), []),
        (cgroup("/pod/ctr", version=1), []),
        (closed(Attempt.OUTSIDE), ["host_cgroup"]),
        (closed(Attempt.NO_PROCESS), []),
        ({"sources": {Source.KERNEL_LOG: Fault.DENIED}}, ["kernel_log"]),
        ({"sources": {Source.KERNEL_LOG: Fault.ABSENT}}, []),
        ({"sources": HIDDEN}, ["processes"]),
        ({"sources": HIDDEN | {Source.VLLM_METRICS: Fault.REFUSED}}, []),
        ({"sources": HIDDEN | {Source.PROCESS: None}}, []),
        (pod(Fault.DENIED, in_cluster=True), ["pod_status"]),
        (pod(Fault.ABSENT, in_cluster=True), ["pod_status"]),
        (pod(Fault.ABSENT, in_cluster=False), []),
        (pod(None, in_cluster=True), []),
    ],
)
def test_a_right_is_named_only_where_it_would_add_something(
    about: dict[str, Any], rights: list[str]
) -> None:
    finding = Finding(observable={}, standpoint=Standpoint(**about))
    told: Any = as_json(finding)
    assert [row["right"] for row in told["rights"]] == rights
    lines = [line for line in as_text(finding) if line.startswith("right ")]
    assert [line.split()[1].rstrip(":") for line in lines] == rights


def test_where_no_way_led_each_says_why() -> None:
    attempts = {Way.PID: Attempt.OUTSIDE, Way.PROCESS_ROOT: Attempt.DENIED}
    lines = as_text(Finding(observable={}, standpoint=Standpoint({}), attempts=attempts))
    assert lines == [
        f"cgroup: not found by {WAY_WORDS[Way.PID]}: {ATTEMPT_WORDS[Attempt.OUTSIDE]}",
        f"cgroup: not found by {WAY_WORDS[Way.PROCESS_ROOT]}: {ATTEMPT_WORDS[Attempt.DENIED]}",
    ]
