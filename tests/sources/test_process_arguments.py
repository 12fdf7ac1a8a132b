"""Of the first process's command line only the numbers of known limits are read."""

import json
from pathlib import Path

import pytest

from sidecar.clock import Clock
from sidecar.model.limits import Known, Limit, Limits, Origin
from sidecar.model.readings import ProcessReading
from sidecar.model.samples import Instant
from sidecar.recording.rows import read_processes
from sidecar.sources.process import ProcessSource
from tests.fakes.proc_tree import ProcTree

CANARY = "sk-canary-7f3a"
SERVE = ("/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve", f"/models/{CANARY}")


def typed(value: float) -> Limits:
    return {Limit.MAX_NUM_SEQS: Known(value, Origin.COMMAND_LINE)}


def command_line(tree: ProcTree, pid: int, *words: str, end: bytes = b"\0") -> None:
    text = b"\0".join(word.encode("utf-8", "surrogateescape") for word in words)
    (tree.root / str(pid) / "cmdline").write_bytes(text + end)


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    made = ProcTree(tmp_path / "proc")
    made.start(100, 1, "vllm", born=200)
    made.start(101, 100, "VLLM::EngineCor", born=210)
    return made


def source(tree: ProcTree) -> ProcessSource:
    return ProcessSource(Clock(), limit_s=10, pid=100, proc_root=tree.root)


async def reading(watched: ProcessSource) -> ProcessReading:
    got = (await watched.sample()).reading
    assert isinstance(got, ProcessReading)
    return got


async def test_the_limits_are_told_and_no_word(tree: ProcTree) -> None:
    command_line(tree, 100, *SERVE, "--max-num-seqs", "32", "--api-key", CANARY)
    command_line(tree, 101, "VLLM::EngineCore", end=b"\0" * 40)
    watched = source(tree)
    got = await reading(watched)
    assert got.limits == typed(32)
    assert CANARY not in repr(got)
    await watched.close()


@pytest.mark.parametrize(
    "text",
    [b"", b"\0", b"\0" * 4096, b"VLLM::APIServer_0\0\0\0", b"\xff\xfe\0serve\0", b"vllm\0serve"],
)
async def test_a_line_that_tells_nothing_is_no_fault(tree: ProcTree, text: bytes) -> None:
    (tree.root / "100" / "cmdline").write_bytes(text)
    watched = source(tree)
    assert (await reading(watched)).limits == {}
    await watched.close()


async def test_no_right_to_the_line_is_no_fault(tree: ProcTree) -> None:
    (tree.root / "100" / "cmdline").mkdir()
    watched = source(tree)
    got = await reading(watched)
    assert (got.limits, len(got.processes)) == ({}, 2)
    await watched.close()


async def test_what_is_cut_at_the_bound_is_left_out(tree: ProcTree) -> None:
    filler = ("--served-model-name", "x" * (64 * 1024 - 110))
    command_line(tree, 100, *SERVE, *filler, "--max-num-seqs", "32" * 40, "--watermark", "0.5")
    watched = source(tree)
    assert (await reading(watched)).limits == {}
    await watched.close()


async def test_the_line_is_read_once_for_each_first_process(tree: ProcTree) -> None:
    command_line(tree, 100, *SERVE, "--max-num-seqs", "32")
    watched = source(tree)
    assert (await reading(watched)).limits == typed(32)
    (tree.root / "100" / "cmdline").write_bytes(b"VLLM::APIServer\0")
    assert (await reading(watched)).limits == typed(32)
    await watched.close()


async def test_a_shell_that_becomes_the_server_is_read_again(tree: ProcTree) -> None:
    command_line(tree, 100, "bash", "-c", "exec vllm serve --max-num-seqs 32")
    watched = source(tree)
    assert (await reading(watched)).limits == {}
    command_line(tree, 100, *SERVE, "--max-num-seqs", "32")
    found = [(await reading(watched)).limits for _ in range(12)]
    assert found[-1] == typed(32)
    await watched.close()


async def test_a_dead_server_has_no_limits_and_its_successor_its_own(tree: ProcTree) -> None:
    tree.listen({8000: 7})
    tree.hold(100, 7)
    command_line(tree, 100, *SERVE, "--max-num-seqs", "32")
    watched = ProcessSource(Clock(), limit_s=10, port=8000, proc_root=tree.root)
    assert (await reading(watched)).limits == typed(32)
    for pid in (100, 101):
        (tree.root / str(pid) / "cmdline").unlink(missing_ok=True)
        tree.end(pid)
    tree.listen({})
    assert (await reading(watched)).limits == {}
    tree.start(300, 1, "vllm", born=900)
    command_line(tree, 300, *SERVE, "--max-num-seqs", "64")
    tree.listen({8000: 8})
    tree.hold(300, 8)
    assert (await reading(watched)).limits == typed(64)
    await watched.close()


async def test_a_recording_keeps_the_numbers_only(tree: ProcTree) -> None:
    rows: list[dict[str, object]] = []

    def tap(at: Instant, row: object) -> None:
        rows.append(json.loads(json.dumps(row)))

    command_line(tree, 100, *SERVE, "--max-num-seqs", "32", "--api-key", CANARY)
    watched = ProcessSource(Clock(), limit_s=10, pid=100, proc_root=tree.root, tap=tap)
    got = await reading(watched)
    await watched.close()
    assert rows[0]["limits"] == {"max_num_seqs": 32}
    assert CANARY not in json.dumps(rows)
    assert read_processes(rows[0]) == got


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"max_num_seqs": 32, "hf_token": 7}, typed(32)),
        ({"max_num_seqs": -1}, {}),
        ({"max_num_seqs": "32"}, {}),
        ({"max_num_seqs": float("nan")}, {}),
        ({"max_num_seqs": 10**400}, {}),
    ],
    ids=repr,
)
def test_a_recording_is_read_by_the_names_of_limits(told: dict[str, object], found: Limits) -> None:
    assert read_processes({"processes": [], "limits": told}).limits == found


@pytest.mark.parametrize("told", [None, [], 7, "max_num_seqs"], ids=repr)
def test_limits_of_a_wrong_kind_make_a_row_unreadable(told: object) -> None:
    with pytest.raises((AttributeError, TypeError)):
        read_processes({"processes": [], "limits": told})
