"""Whether users' text stands open is told in one pass, whatever it holds, row by row or at once."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.log_triage import triage
from sidecar.parse import log_cuts, log_open
from sidecar.parse.log_cuts import BEFORE, Continuations
from sidecar.parse.log_line import LONGEST, open_text, records
from sidecar.parse.log_open import OpenText

HEAD = "INFO 11-30 06:00:01 [logger.py:43] Received request chatcmpl-1: prompt: "
TAIL = ", params: SamplingParams(n=1, stop=[]), prompt_token_ids: None, lora_request: None."
ROW = b"CUDA out of memory. Tried to allocate"


def is_open(line: str) -> bool:
    (record,) = records(line)
    return record.unfinished


@pytest.mark.parametrize("prompt", ["hi", "it's", 'a"b', 'it\'s "x"', "\\", "\\'", "((", "x\n'"])
def test_a_whole_request_is_not_open(prompt: str) -> None:
    assert not is_open(f"{HEAD}{prompt!r}{TAIL}")


@pytest.mark.parametrize("name", ["a: prompt: '", "a'", 'a: prompt: "x', "a: params: (", "\\"])
def test_a_requests_name_leaves_nothing_open(name: str) -> None:
    line = f"INFO 11-30 06:00:01 [logger.py:43] Received request {name}: prompt: 'x'{TAIL}"
    assert not is_open(line)


@given(st.text("ab'\"\\([{)]}, ", max_size=30), st.lists(st.integers(0, 60), max_size=4))
def test_rows_tell_what_the_whole_tells(text: str, places: list[int]) -> None:
    message = f"Received request x: prompt: 'q' {text}"
    whole, parts = OpenText(), OpenText()
    whole.feed(message)
    cuts = sorted({place % len(message) for place in places} | {0, len(message)})
    for begin, end in pairwise(cuts):
        parts.feed(message[begin:end])
    assert parts.is_open == whole.is_open


@pytest.mark.parametrize("width", range(70, 240))
def test_spaces_at_the_edge_of_a_terminal_belong_to_the_text(width: int) -> None:
    prompt = "My job says. It ends. \\ CUDA out of memory. Tried to allocate. " * 6
    line = f"{HEAD}{prompt!r}{TAIL}".encode()
    rows = [line[at : at + width] for at in range(0, len(line), width)]
    continued = Continuations(rows)
    written = len(f"{HEAD}{prompt!r}") // width
    assert all(continued.holds(at) for at in range(1, written + 1))
    assert not Continuations([line, ROW]).holds(1)


@pytest.mark.parametrize("fill", ["'", '"', "\\'", "\\\"'", "'\\", "\"'", 'don\'t "do" ', "("])
def test_each_literal_is_tried_from_its_own_quote_only(
    monkeypatch: pytest.MonkeyPatch, fill: str
) -> None:
    tried: list[int] = []

    class Counted:
        def __init__(self, mark: str) -> None:
            self.end = ends[mark]

        def match(self, text: str, at: int) -> object:
            found = self.end.match(text, at)
            tried.append((found.end() if found else len(text)) - at)
            return found

    ends = log_open._LITERAL_ENDS
    monkeypatch.setattr(log_open, "_LITERAL_ENDS", {mark: Counted(mark) for mark in ends})
    text = OpenText()
    text.feed(f"Received request x: prompt: '\"{fill * (LONGEST // len(fill))}")
    assert sum(tried) <= LONGEST + 64


def test_a_record_above_is_read_once_for_all_lines_below(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def counted(line: bytes) -> OpenText | None:
        read.append(line)
        return open_text(line)

    monkeypatch.setattr(log_cuts, "open_text", counted)
    rows = [f"{HEAD}'a".encode(), *[ROW] * (BEFORE - 1)] * 50
    continued = Continuations(rows)
    assert [continued.holds(at) for at in range(len(rows))] == [
        at % BEFORE != 0 for at in range(len(rows))
    ]
    assert len(read) == 50


@pytest.mark.parametrize(
    "unit",
    [
        f"{HEAD}'\"{'x' * 50}ERROR CUDA out of memory{chr(39) * 65_000}\n".encode(),
        f"{HEAD}'a\n".encode() + (ROW + b"\n") * 31,
        f"{HEAD}'a\n".encode() + (b"y" * 30_000 + ROW + b"\n") * 31,
        f"{HEAD}'a\n".encode() + (ROW + b"y" * 3900 + b"\n") * 31,
        b"\n",
    ],
    ids=["quotes", "short rows", "long rows", "wide rows", "newlines"],
)
def test_a_crafted_log_keeps_nobody_busy(unit: bytes) -> None:
    data = unit * ((1 << 20) // len(unit) + 1)
    assert triage([data]).causes == ()
