"""Reading only what moved, against the strict reader that reads every line of every scrape."""

import contextlib
import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog import vllm_metrics as roles_of
from sidecar.model.readings import MetricsReading
from sidecar.parse.exposition import SampleReader
from sidecar.parse.exposition_reader import ExpositionReader
from sidecar.parse.metric_roles import name_series
from sidecar.parse.scrape import ScrapeReader
from tests.parse.test_exposition import CLASSIC, keep_all, real_texts

DATA = Path(__file__).parents[1] / "data"
NEW_NUMBERS = ("0", "1", "17.5", "1e+06", "NaN", "+Inf", "-3", "two", "", "1 1700000000", "0x1")
TEXTS = {name: (text, content_type) for name, text, content_type in real_texts()}
SHORT = (DATA / "expositions/0.26.0.txt").read_text()


def strictly(body: bytes, content_type: str) -> list[tuple[object, float]] | None:
    """Every sample, by a reader that knows nothing; None for what it refuses."""
    try:
        return list(SampleReader(keep_all).read(body, content_type))
    except ValueError:
        return None


def swiftly(
    reader: ScrapeReader[object], body: bytes, content_type: str
) -> list[tuple[object, float]] | None:
    try:
        scrape = reader.read(body, content_type)
    except ValueError:
        return None
    return list(zip(scrape.series, scrape.numbers, strict=True))


def reading_of(reader: ExpositionReader, body: bytes, content_type: str) -> MetricsReading | None:
    try:
        return replace(reader.read(body, content_type), layout=0)
    except ValueError:
        return None


def same(one: object, other: object) -> bool:
    """Equality where NaN is NaN."""
    return repr(one) == repr(other)


def with_number(line: str, number: str) -> str:
    return f"{line.rpartition(' ')[0]} {number}"


def all_greater(text: str, by: int) -> str:
    """The text with ``by`` added to every plain number."""

    def greater(found: re.Match[str]) -> str:
        return f"{found[1]}{float(found[2]) + by}"

    return re.sub(r"(?m)^([^#\n]* )(\d+\.?\d*)$", greater, text)


EDITS: dict[str, Callable[[list[str], int, str], list[str]]] = {
    "number": lambda rows, at, new: [*rows[:at], with_number(rows[at], new), *rows[at + 1 :]],
    "gone": lambda rows, at, _: rows[:at] + rows[at + 1 :],
    "twice": lambda rows, at, _: rows[: at + 1] + rows[at:],
    "swapped": lambda rows, at, _: [*rows[:at], *reversed(rows[at : at + 2]), *rows[at + 2 :]],
    "renamed": lambda rows, at, _: [
        *rows[:at],
        rows[at].replace("vllm:", "vllm:x_"),
        *rows[at + 1 :],
    ],
    "label": lambda rows, at, _: [*rows[:at], rows[at].replace('="', '="q'), *rows[at + 1 :]],
    "cut": lambda rows, at, _: [*rows[:at], rows[at][:-1], *rows[at + 1 :]],
    "blank": lambda rows, at, _: [*rows[:at], "", *rows[at:]],
    "comment": lambda rows, at, _: [*rows[:at], "# said otherwise 1", *rows[at + 1 :]],
    "tab": lambda rows, at, _: [*rows[:at], rows[at].replace(" ", "\t"), *rows[at + 1 :]],
}
edits = st.lists(
    st.tuples(st.sampled_from(sorted(EDITS)), st.floats(0, 1), st.sampled_from(NEW_NUMBERS)),
    max_size=6,
)


def bodies(text: str, changes: list[list[tuple[str, float, str]]]) -> Iterator[bytes]:
    """The text, and it again after each of several rounds of changes."""
    rows = text.split("\n")
    yield text.encode()
    for one_round in changes:
        for kind, share, number in one_round:
            rows = EDITS[kind](rows, int(share * (len(rows) - 2)), number)
        yield "\n".join(rows).encode()


@given(st.lists(edits, min_size=1, max_size=5))
def test_what_changes_between_scrapes_is_read_as_if_all_were_new(
    changes: list[list[tuple[str, float, str]]],
) -> None:
    reader, roles = ScrapeReader[object](keep_all), ExpositionReader()
    for body in bodies(SHORT, changes):
        assert same(swiftly(reader, body, CLASSIC), strictly(body, CLASSIC))
        fresh = ExpositionReader()
        # Engines that were shown stay shown, so the new reader must know the old one's.
        fresh.shown = list(roles.shown)
        assert same(reading_of(roles, body, CLASSIC), reading_of(fresh, body, CLASSIC))


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_scrape_that_moved_everywhere_reads_as_a_new_one(name: str) -> None:
    text, content_type = TEXTS[name]
    reader, roles = ScrapeReader[object](keep_all), ExpositionReader()
    for step in range(3):
        moved = all_greater(text, step).encode()
        assert same(swiftly(reader, moved, content_type), strictly(moved, content_type))
        fresh = reading_of(ExpositionReader(), moved, content_type)
        assert same(reading_of(roles, moved, content_type), fresh)


@pytest.mark.parametrize("path", sorted((DATA / "recordings").glob("*/metrics.jsonl.gz")), ids=str)
def test_a_recorded_server_reads_the_same_scrape_by_scrape(path: Path) -> None:
    roles = ExpositionReader()
    with gzip.open(path, "rt") as file:
        rows = [row for row in map(json.loads, file) if row.get("status") == 200][:60]
    for row in rows:
        body, content_type = row["body"].encode(), row["content_type"]
        fresh = ExpositionReader()
        fresh.shown = list(roles.shown)
        assert same(reading_of(roles, body, content_type), reading_of(fresh, body, content_type))


def test_only_what_moved_is_told_and_only_that_is_made_anew() -> None:
    reader, roles = ScrapeReader(name_series), ExpositionReader()
    reader.read(SHORT.encode(), CLASSIC)
    before = roles.read(SHORT.encode(), CLASSIC)
    again = reader.read(SHORT.encode(), CLASSIC)
    assert again.moved == []
    assert roles.read(SHORT.encode(), CLASSIC) is before
    line = next(one for one in SHORT.split("\n") if one.startswith("vllm:num_requests_running{"))
    moved = SHORT.replace(line, with_number(line, "41.0"))
    told = reader.read(moved.encode(), CLASSIC)
    assert [told.numbers[place] for place in told.moved or ()] == [41.0]
    now = roles.read(moved.encode(), CLASSIC)
    assert now.engines["0"].values[roles_of.RUNNING] == 41.0
    assert before.engines["0"].values[roles_of.RUNNING] != 41.0
    for role, histogram in now.engines["0"].histograms.items():
        assert histogram is before.engines["0"].histograms[role]


def test_a_body_that_is_refused_changes_nothing() -> None:
    reader, roles = ScrapeReader[object](keep_all), ExpositionReader()
    first = roles.read(SHORT.encode(), CLASSIC)
    assert swiftly(reader, SHORT.encode(), CLASSIC) is not None
    lines = SHORT.split("\n")
    at = max(n for n, line in enumerate(lines) if line and line[0] != "#")
    broken = "\n".join([*lines[:at], with_number(lines[at], "two"), *lines[at + 1 :]])
    for body in (broken, SHORT[:-1], "\n".join(lines[:at])):
        with contextlib.suppress(ValueError):
            reader.read(body.encode(), CLASSIC)
            roles.read(body.encode(), CLASSIC)
        assert same(swiftly(reader, SHORT.encode(), CLASSIC), strictly(SHORT.encode(), CLASSIC))
        assert same(reading_of(roles, SHORT.encode(), CLASSIC), replace(first, layout=0))
