"""The search that passes over most of a log changes nothing: the same is told with it switched off."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.log_triage import triage
from sidecar.parse.log_line import LONGEST
from sidecar.parse.whole_log import LineReader
from tests.benchmarks import made_log
from tests.parse.test_log_candidates import CORPUS, CRI, FRONTS, RECORDINGS, TAG, dirty_lines

Told = set[tuple[int, str]]


def every_line(text: bytes, begin: int) -> list[int]:
    """Where all lines begin: nothing is passed over."""
    begins = []
    while begin < len(text):
        begins.append(begin)
        begin = text.find(b"\n", begin) + 1 or len(text)
    return begins


def told(reader: LineReader, *chunks: bytes) -> Told:
    """The lines that mean something, and what."""
    said = [one for chunk in chunks for one in reader.feed(chunk)]
    return {(one.line, one.match.signature.id) for one in (*said, *reader.finish())}


def is_same(fast: Told, slow: Told) -> bool:
    """Whether both tell the same.

    Where every line is looked at, one that means nothing may be joined with the next, which does, and
    is told beside it.
    """
    return fast <= slow and all((line + 1, what) in fast for line, what in slow - fast)


def pieces(text: bytes, size: int) -> Iterator[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


@pytest.mark.parametrize("front", FRONTS)
def test_of_the_corpus(front: str) -> None:
    for lines in CORPUS:
        text = "".join(front + line + "\n" for line in lines).encode()
        slow = told(LineReader(search=every_line), text)
        assert is_same(told(LineReader(), text), slow)
        assert told(LineReader(), *pieces(text, 700)) == told(LineReader(), text)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.parent.name)
def test_of_a_recorded_server(path: Path) -> None:
    with gzip.open(path, "rt") as file:
        text = "".join(json.loads(row)["line"] + "\n" for row in file).encode()
    assert is_same(told(LineReader(), text), told(LineReader(search=every_line), text))


def test_of_a_busy_servers_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    made_log.write(log, 4_000_000)
    slow = LineReader(search=every_line)
    expected = told(slow, log.read_bytes())
    fast = LineReader()
    assert told(fast, *pieces(log.read_bytes(), 300_000)) == expected
    assert len(expected) > 10
    assert fast.lines == slow.lines


@given(
    st.lists(dirty_lines, min_size=1, max_size=40),
    st.sampled_from(("\n", "\r\n")),
    st.data(),
)
def test_of_any_mix_of_lines_in_any_portions(
    lines: list[str], end: str, data: st.DataObject
) -> None:
    text = "".join(line + end for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    portions = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    slow = told(LineReader(search=every_line), text)
    assert is_same(told(LineReader(), *portions), slow)


@given(st.lists(dirty_lines, min_size=1, max_size=12), st.integers(40, 200))
def test_of_wrapped_lines_nothing_is_made_up(lines: list[str], width: int) -> None:
    rows = [line[at : at + width] for line in lines for at in range(0, max(1, len(line)), width)]
    text = "".join(row + "\n" for row in rows).encode()
    assert told(LineReader(), text) <= told(LineReader(search=every_line), text)


@pytest.mark.parametrize("front", ["", TAG, CRI])
@pytest.mark.parametrize("address", ["10.0.0.1:1", "1.2", "::", "1.1:", ":", "0/0"])
@pytest.mark.parametrize("verb", ["GET ", "PUT ", "G", ""])
def test_behind_an_access_lines_address_nothing_is_believed(
    front: str, address: str, verb: str
) -> None:
    head = f'{front}INFO:     {address} - "{verb}'
    wordings = [line for lines in CORPUS for line in lines]
    text = "".join(f"{head}{line}\n" for line in wordings).encode()
    assert told(LineReader(search=every_line), text) == set()


def test_a_line_that_is_too_long_is_cut_wherever_its_portions_end() -> None:
    end = b" torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    oom = b"(EngineCore pid=7) ERROR 10-24 01:26:57 [core.py:710]" + end + b"\n"
    long = b"(EngineCore pid=7) ERROR 10-24 01:26:57 [core.py:710] " + b"x" * LONGEST + end + b"\n"
    text = oom + long * 2 + oom + b"y" * (3 * LONGEST) + b"\n" + oom
    for size in (len(text), LONGEST, LONGEST - 1, 3 * LONGEST, 17_000):
        reader = LineReader()
        lines = {line for line, _ in told(reader, *pieces(text, size))}
        assert (lines, reader.lines, reader.cut) == ({1, 4, 6}, 6, 3)


def test_the_triage_is_the_same_for_chunks_of_any_size(tmp_path: Path) -> None:
    log = tmp_path / "log"
    made_log.write(log, 3_000_000)
    text = log.read_bytes()
    sizes = random.Random(3)
    whole = triage([text])
    assert triage(pieces(text, sizes.randrange(1000, 5000))) == whole
    assert triage(pieces(text, sizes.randrange(50_000, 600_000))) == whole
