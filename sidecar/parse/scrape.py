"""One server's expositions, read line by line against the one before.

Which lines there are hardly changes between scrapes, and of most of them not even the number: only
lines that differ are looked at, each by its own place. Whatever else is different, even by one
character, is read in full by the strict reader.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import ne
from typing import Generic, TypeVar

from sidecar.parse.exposition import SampleReader, read_text

Named = TypeVar("Named")

MAX_KEPT = 8 * 1024 * 1024
"""Bytes of a body that is kept to compare the next one with. Real ones of 64 engines have 3 million."""

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Scrape(Generic[Named]):
    """What matters of one exposition, in its order.

    ``series`` is the same list as long as the same series are there. ``moved``: places whose numbers
    differ from the scrape before; None where ``series`` is a new list.
    """

    series: Sequence[Named]
    numbers: Sequence[float]
    moved: Sequence[int] | None = None


@dataclass(slots=True)
class Kept:
    """The lines of the last exposition.

    Of each: where its number begins, and its place among those that matter; 0 and ``NOWHERE`` if there
    is none.
    """

    lines: list[str] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


class ScrapeReader(Generic[Named]):
    """Reads expositions of one server; ``name_series`` as of ``SampleReader``."""

    def __init__(self, name_series: Callable[[str, Mapping[str, str]], Named | None]) -> None:
        self.samples = SampleReader(name_series)
        self.kept = Kept()
        self.series: list[Named] = []
        self.numbers: list[float] = []

    def read(self, body: bytes, content_type: str) -> Scrape[Named]:
        """Read one exposition. ``numbers`` are the reader's own list, valid until the next one.

        Raises:
            ValueError: the text is not UTF-8, cut short, or no exposition.
        """
        lines = read_text(body, content_type).split("\n")
        moved = self.compare(lines)
        if moved is None:
            self.learn(lines, keep=len(body) <= MAX_KEPT)
        return Scrape(self.series, self.numbers, moved)

    def compare(self, lines: list[str]) -> list[int] | None:
        """Take in the numbers that differ; None if more than numbers does.

        Raises:
            ValueError: a number is none. Of this exposition nothing is kept then.
        """
        kept = self.kept
        if len(lines) != len(kept.lines):
            return None
        fresh: dict[int, float] = {}
        for at in compress(count(), map(ne, lines, kept.lines)):
            line, begin = lines[at], kept.begins[at]
            if not begin or line[:begin] != kept.lines[at][:begin]:
                return None
            value = line[begin:]
            if not value or " " in value:
                return None
            fresh[kept.places[at]] = float(value)
        kept.lines = lines
        fresh.pop(NOWHERE, None)
        for place, number in fresh.items():
            self.numbers[place] = number
        return list(fresh)

    def learn(self, lines: list[str], *, keep: bool) -> None:
        """Read every line in full."""
        self.kept = Kept()
        fresh = Kept(lines=lines)
        series: list[Named] = []
        numbers: list[float] = []
        for line in lines:
            place, begin = NOWHERE, 0
            if line and line[0] != "#":
                named, number = self.samples.sample(line)
                begin = self.samples.number_at(line)
                if named is not None:
                    place = len(numbers)
                    series.append(named)
                    numbers.append(number)
            fresh.places.append(place)
            fresh.begins.append(begin)
        # Of servers that were exchanged, and of requests' own labels, nothing is to stay.
        self.samples.keep(
            line[: at - 1] for line, at in zip(lines, fresh.begins, strict=True) if at
        )
        self.numbers = numbers
        if series != self.series:
            self.series = series
        if keep:
            self.kept = fresh
