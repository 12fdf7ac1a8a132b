"""Any bytes are read without an exception, in bounded time, and the prefilter is sound."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog.signatures import SIGNATURES, Scope
from sidecar.parse.log_candidates import candidates
from sidecar.parse.log_line import LONGEST, records
from sidecar.parse.log_match import read_line
from tests.catalog.test_log_signatures import EXAMPLES

EVERYWHERE = frozenset(Scope)
LINES = [line for pair in EXAMPLES.values() for line in pair]
PREFIXES = (
    "",
    "(EngineCore pid=1) ",
    "INFO 05-12 08:01:39 [x.py:1] ",
    "ERROR 05-12 08:01:39 [x.py:1] ",
    "2026-01-01T00:00:00.000000000Z stdout F ",
    '{"log":"',
    "\x1b[0;36m(APIServer pid=7)\x1b[0;0m ",
    "[rank0]: ",
    "Loading:  19% Completed | 7/37 [00:01<00:07,  4.00it/s]",
)


@given(st.binary(max_size=400))
def test_any_bytes_are_read(raw: bytes) -> None:
    read_line(raw, EVERYWHERE)
    candidates(raw)


@given(st.text(max_size=300))
def test_any_text_is_read(raw: str) -> None:
    for said in read_line(raw, EVERYWHERE):
        assert said.signature.id in SIGNATURES


@given(st.lists(st.sampled_from(PREFIXES), max_size=3), st.sampled_from(LINES))
def test_the_prefilter_loses_nothing_that_a_line_says(prefixes: list[str], line: str) -> None:
    whole = "".join(prefixes) + line
    if read_line(whole, EVERYWHERE):
        assert candidates(whole.encode()) == [0]


@given(st.lists(st.sampled_from(LINES), max_size=8))
def test_a_line_is_found_among_others_as_it_is_alone(lines: list[str]) -> None:
    text = "\n".join(lines).encode()
    found = set(candidates(text))
    for number, line in enumerate(lines):
        if candidates(line.encode()):
            assert number in found


def test_a_line_that_is_too_long_is_cut() -> None:
    (found,) = records("x" * (3 * LONGEST))
    assert len(found.message) == LONGEST


def test_hard_lines_take_no_noticeable_time() -> None:
    for hard in (
        "(" * 50_000,
        "[" * 50_000,
        "a." * 30_000 + "Error: ",
        "INFO 05-12 08:01:39 [x.py:1] " * 2000,
        "Sequence group " + "is preempted " * 5000,
        "ERROR:  " * 8000,
        "{" * 50_000 + "}" * 50_000,
        "RESOURCE_EXHAUSTED: " * 3000,
        'time="x" level=debug msg=' + "a" * 50_000 + " oom",
        "\x1b[0m" * 16_000,
        "died unexpectedly " * 3000 + "failed memory OOM oom Killed",
    ):
        read_line(hard, EVERYWHERE)
        candidates(hard.encode())
