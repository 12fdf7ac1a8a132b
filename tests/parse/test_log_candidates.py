"""The fast way through a log names every line of which the slow way knows a meaning."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog.signatures import Scope
from sidecar.parse.log_candidates import candidates
from sidecar.parse.log_match import read_line
from sidecar.parse.whole_log import LineReader
from tests.catalog.test_log_signatures import EXAMPLES

DATA = Path(__file__).parents[1] / "data"
EVERYWHERE = frozenset(Scope)
CORPUS = [
    json.loads(row)["lines"]
    for name in ("logs.jsonl", "log_variants.jsonl")
    for row in (DATA / name).read_text().splitlines()
]
RECORDINGS = sorted((DATA / "recordings").glob("*/log.jsonl.gz"))
ACCESS = 'INFO:     10.0.0.1:52596 - "POST /v1/completions HTTP/1.1" 200 OK'
REQUEST = "INFO 11-29 20:57:22 [request_logger.py:65] Received request cmpl-1-0: params: SamplingParams(n=1), lora_request: None."
CALM = (
    "INFO 11-29 20:50:49 [loggers.py:335] Engine 000: Avg prompt throughput: {} tokens/s, Avg"
    " generation throughput: {} tokens/s, Running: {} reqs, Waiting: 0 reqs{}, GPU KV cache usage:"
    " 6.0%, Prefix cache hit rate: 0.0%"
)
TAG = "(APIServer pid=11432) "
PAINTED = "\x1b[1;36m(APIServer pid=11432)\x1b[0;0m "
CRI = "2026-01-01T00:00:00.000000000Z stdout F "
COMPOSE = "vllm-1  | "
JOURNAL = "Nov 29 20:50:49 node1 vllm[123]: "
QUIET_FRONTS = ("", TAG, PAINTED, CRI, CRI + TAG, COMPOSE, COMPOSE + TAG, JOURNAL, JOURNAL + TAG)
FRONTS = (*QUIET_FRONTS, "\x1b[0;36m(APIServer pid=7)\x1b[0m ", "[rank0]: ")
LEADS = (
    *("RuntimeError: ", "vllm.Dead('", "Worker failed with error ", "Call to load method failed: "),
    *("Failed in worker: ", "what():  ", "Caused by: ", "exit status 1: ", "uvicorn.error: "),
    *("Unable to warmup model: X(", "(Original error: ", "thread 'main' panicked at '", "Reason: "),
)
FILLERS = (
    *(f"INFO 05-12 08:01:39 [x.py:1] {lead}" for lead in LEADS),
    ACCESS,
    REQUEST,
    CALM.format("99.7", "0.0", "1", ""),
    "",
    "Loading:  19%|# |",
    "x",
)
GLUES = (
    *("", " ", "\r", "\r\n", "\t", "\x00", "\x1b[0m", '"', "'", "{", " 19%| 4.00it/s ", " (raylet"),
    " ERROR 05-12 08:01:39 [x.py:1] ",
    " INFO 05-12 08:01:39 [x.py:1] ",
    " (raylet, ip=10.0.0.1) ",
)
WORDINGS = [line for pair in EXAMPLES.values() for line in pair]

dirty_lines = st.builds(
    lambda front, filler, glue, wording: front + filler + glue + wording,
    st.sampled_from(FRONTS),
    st.sampled_from(FILLERS),
    st.sampled_from(GLUES),
    st.sampled_from(("", *WORDINGS)),
)


def lost(lines: list[bytes]) -> list[bytes]:
    """The lines that mean something by themselves, but are not named in their text."""
    found = set(candidates(b"\n".join(lines)))
    return [
        line for at, line in enumerate(lines) if at not in found and read_line(line, EVERYWHERE)
    ]


@pytest.mark.parametrize("front", FRONTS)
def test_no_line_of_the_corpus_is_lost(front: str) -> None:
    for lines in CORPUS:
        assert not lost([(front + line).encode() for line in lines])


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.parent.name)
def test_no_line_of_a_recorded_server_is_lost(path: Path) -> None:
    with gzip.open(path, "rt") as file:
        assert not lost([json.loads(row)["line"].encode() for row in file])


@given(st.lists(dirty_lines, max_size=12), st.sampled_from(("\n", "\r\n")))
def test_nothing_is_lost_behind_and_between_lines_that_are_passed_over(
    lines: list[str], end: str
) -> None:
    assert not lost(end.join(lines).encode().split(b"\n"))


@given(st.lists(dirty_lines, min_size=1, max_size=30), st.data())
def test_any_split_of_a_log_tells_what_its_lines_tell(
    lines: list[str], data: st.DataObject
) -> None:
    text = "".join(line + "\n" for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    whole, parted = LineReader(), LineReader()
    told = [(said.line, said.match.signature.id) for said in [*whole.feed(text), *whole.finish()]]
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    said_of_parts = [said for part in parts for said in parted.feed(part)]
    said_of_parts += parted.finish()
    assert [(said.line, said.match.signature.id) for said in said_of_parts] == told
    assert parted.lines == whole.lines == text.count(b"\n")


@pytest.mark.parametrize("front", QUIET_FRONTS)
@pytest.mark.parametrize("filler", [ACCESS, REQUEST, CALM.format("99.7", "370.8", "4", "")])
def test_most_of_a_busy_log_is_passed_over(front: str, filler: str) -> None:
    assert candidates((front + filler + "\n").encode() * 3) == []
    assert candidates((front + filler + "\r\n").encode() * 3) == []


@pytest.mark.parametrize("wording", ["CUDA%20out%20of%20memory", "Killed", "oom?OOM=failed"])
def test_what_users_ask_for_costs_nothing_more(wording: str) -> None:
    access = ACCESS.replace("/v1", f"/{wording}").encode()
    assert candidates(b"\n".join([access] * 100)) == []


def test_statistics_that_tell_of_no_calm_are_named() -> None:
    preempted = CALM.format("99.7", "370.8", "4", ", Preemptions: 3").encode()
    standstill = CALM.format("0.0", "0.0", "4", "").encode()
    idle = CALM.format("0.0", "0.0", "0", "").encode()
    assert candidates(b"\n".join([idle, preempted, idle, standstill, idle])) == [1, 3]


@pytest.mark.parametrize("front", ['{"log":"', "Nov 29 20:50:49 node1 vllm[123]: ", "x "])
def test_in_a_log_with_other_heads_the_same_lines_are_named(front: str) -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    lines = [front + ACCESS] * 400
    lines[350] = front + oom
    assert candidates("\n".join(lines).encode()) == [350]


def test_a_line_that_is_drawn_over_is_read_as_what_it_shows_at_last() -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    for hidden in (ACCESS, REQUEST, "INFO 05-12 08:01:39 [x.py:1] fine"):
        assert candidates(f"{ACCESS}\n{hidden}\r{oom}\n{ACCESS}\n".encode()) == [1]
