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
from sidecar.commands.check import FAULT_WORDS, REMEDIES
from sidecar.model.vocabulary import Cause, Fault
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


def test_people_read_the_same_as_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["check", "--gpu", "off", "--target", "http://127.0.0.1:9"])
    out = capsys.readouterr().out
    assert code == 1
    assert "source vllm_metrics: nobody listens there\n" in out
    assert f"cuda_oom: cannot be observed: {REMEDIES[Cause.CUDA_OOM]}\n" in out


def test_every_fault_and_every_cause_has_its_words() -> None:
    assert set(FAULT_WORDS) == set(Fault)
    assert set(REMEDIES) == set(Cause)
