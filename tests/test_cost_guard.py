"""What the work of a tick costs, by counts and by ratios: a slow machine changes none of them."""

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType

import pytest

from sidecar.export.metrics import Exposition, Format
from sidecar.parse.exposition_reader import ExpositionReader
from tests.benchmarks.exposition_parse import least_cpu_s, library
from tests.benchmarks.made_exposition import TEXT, MadeExposition
from tests.benchmarks.virtual import EVIDENCE_KEYS, VirtualServer

LEAST_RATIO = 15.0
"""Half of what is measured: times of two programs on one machine differ by less."""
CALLS = {
    # Of Python functions, comprehensions among them; measured are 38, 622 and 657.
    "read": 50,
    "step": 750,
    "show": 790,
}
CALLS_AN_ENGINE = 250
"""More calls of a tick for each further engine; measured are 207."""


def count_calls(work: Callable[[], object]) -> int:
    """Calls of Python functions while something is done."""
    calls: Counter[str] = Counter()

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        calls[event] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls["call"]


def costs_of(engines: int) -> dict[str, int]:
    """Calls of a tick of a warm daemon amid a window, by what they are for."""
    server, exposition = VirtualServer(engines), Exposition(EVIDENCE_KEYS)
    for _ in range(20):
        report = server.step(server.body()).report
        exposition.payload(report, Format.TEXT, compressed=True)
    bodies = [server.made.scrape(server.ticks), server.made.scrape(server.ticks + 1)]
    reader = ExpositionReader()
    reader.read(bodies[0], TEXT)
    reader.read(bodies[1], TEXT)
    read = count_calls(lambda: reader.read(server.made.scrape(server.ticks + 2), TEXT))
    rendered = count_calls(lambda: server.made.scrape(server.ticks + 2))
    body = server.body()
    reports = []
    whole = count_calls(lambda: reports.append(server.step(body).report))
    show = count_calls(lambda: exposition.payload(reports[0], Format.TEXT, compressed=True))
    return {"read": read - rendered, "step": whole, "show": show}


def test_a_tick_makes_no_more_calls_than_it_did() -> None:
    found = costs_of(1)
    assert all(found[what] <= most for what, most in CALLS.items()), found


def test_another_engine_costs_a_tick_no_more_calls_than_it_did() -> None:
    few, many = (sum(costs_of(engines).values()) for engines in (2, 6))
    assert (many - few) / 4 <= CALLS_AN_ENGINE, (few, many)


def test_a_scrape_that_did_not_move_is_read_by_a_handful_of_calls() -> None:
    reader = ExpositionReader()
    body = MadeExposition(8).scrape(0)
    reader.read(body, TEXT)
    assert count_calls(lambda: reader.read(body, TEXT)) < 12


@pytest.mark.parametrize("engines", [1, 8])
def test_an_exposition_is_read_many_times_faster_than_by_the_library(engines: int) -> None:
    made = MadeExposition(engines)
    bodies = [made.scrape(number) for number in range(12)]
    reader = ExpositionReader()
    reader.read(bodies[0], TEXT)
    rest = iter(bodies[1:])
    ours = least_cpu_s(lambda: reader.read(next(rest), TEXT), 11)
    theirs = least_cpu_s(library(bodies[0]), 3)
    assert theirs >= LEAST_RATIO * ours, f"{theirs / ours:.0f}x only"


def test_the_memory_of_a_reader_stays_level_while_servers_are_exchanged() -> None:
    reader = ExpositionReader()
    made = MadeExposition(1).scrape(0)
    for number in range(200):
        reader.read(made.replace(b'model_name="', b'model_name="%d-' % number), TEXT)
    # What is known is what this one exposition shows.
    assert len(reader.scrapes.samples.known) <= made.count(b"\n")
    assert len(reader.scrapes.kept.lines) == made.count(b"\n") + 1
