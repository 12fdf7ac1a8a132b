"""A reading with some numbers moved -> the next reading: what did not move is the same object.

What is the same object need not be compared, added up or copied by whoever reads it next.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING

from sidecar.model.readings import EngineReading, Histogram, MetricsReading

if TYPE_CHECKING:
    from sidecar.parse.metric_roles import Cell, EngineLayout, HistogramCells, Layout

Numbers = Sequence[float]


@dataclass(frozen=True, slots=True)
class Value:
    """A number of one engine's reading: a role's value, or with ``is_outcome`` that of a reason."""

    engine: str
    role: str
    make: Callable[[Numbers], float]
    is_outcome: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A histogram of one engine's reading."""

    engine: str
    role: str
    make: Callable[[Numbers], Histogram]


class Refresh:
    """Knows for one layout what each place is part of."""

    def __init__(self, layout: "Layout") -> None:
        self.layout = layout
        self.parts: list[Value | Shape] = []
        homes: list[list[int]] = [[] for _ in layout.series]
        for engine, about in layout.engines.items():
            for part, places in parts_of(engine, about):
                for place in places:
                    homes[place].append(len(self.parts))
                self.parts.append(part)
        self.homes = [tuple(parts) for parts in homes]
        self.marks = frozenset(layout.epoch.values())

    def update(
        self, before: MetricsReading, numbers: Numbers, moved: Iterable[int]
    ) -> MetricsReading:
        """The reading after ``before``, which is of the same layout."""
        layout = self.layout
        return replace(
            before,
            engines=self.engines(before.engines, numbers, moved),
            epoch=before.epoch
            if self.marks.isdisjoint(moved)
            else {mark: numbers[place] for mark, place in layout.epoch.items()},
            sleeping=any(numbers[place] == 0 for place in layout.awake),
        )

    def engines(
        self, before: Mapping[str, EngineReading], numbers: Numbers, moved: Iterable[int]
    ) -> Mapping[str, EngineReading]:
        """The engines, those of which something moved made anew."""
        touched = set(chain.from_iterable(map(self.homes.__getitem__, moved)))
        fresh: dict[str, Draft] = {}
        for number in touched:
            part = self.parts[number]
            draft = fresh.get(part.engine)
            if draft is None:
                draft = fresh[part.engine] = Draft.of(before[part.engine])
            if isinstance(part, Shape):
                draft.histograms[part.role] = part.make(numbers)
            elif part.is_outcome:
                draft.outcomes[part.role] = part.make(numbers)
            else:
                draft.values[part.role] = part.make(numbers)
        return {
            name: fresh[name].reading() if name in fresh else seen for name, seen in before.items()
        }


@dataclass(slots=True)
class Draft:
    """An engine's reading while its numbers are exchanged."""

    values: dict[str, float]
    histograms: dict[str, Histogram]
    outcomes: dict[str, float]

    @classmethod
    def of(cls, seen: EngineReading) -> "Draft":
        """A copy."""
        return cls(dict(seen.values), dict(seen.histograms), dict(seen.outcomes))

    def reading(self) -> EngineReading:
        """The reading."""
        return EngineReading(self.values, self.histograms, self.outcomes)


def parts_of(engine: str, about: "EngineLayout") -> Iterator[tuple[Value | Shape, tuple[int, ...]]]:
    """Every part of an engine's reading, and the places that it is made of."""
    for role, cells in about.values.items():
        yield Value(engine, role, value_of(cells)), places_of(cells)
    for reason, cell in about.outcomes.items():
        yield Value(engine, reason, value_of((cell,)), is_outcome=True), cell.places
    for role, histogram in about.histograms.items():
        yield Shape(engine, role, shape_of(histogram)), places_of(cells_of(histogram))


def places_of(cells: Iterable["Cell"]) -> tuple[int, ...]:
    """The places of several cells."""
    return tuple(place for cell in cells for place in cell.places)


def cells_of(histogram: "HistogramCells") -> tuple["Cell", ...]:
    """The cells of a histogram: buckets, count and, where there is one, the sum."""
    total = () if histogram.total is None else (histogram.total,)
    return (*(cell for _, cell in histogram.buckets), histogram.count, *total)


def value_of(cells: tuple["Cell", ...]) -> Callable[[Numbers], float]:
    """Makes a value; what is one number only is taken as it is."""
    places = places_of(cells)
    if len(places) == 1:
        return itemgetter(places[0])
    return lambda numbers: sum(cell.value(numbers) for cell in cells)


def shape_of(histogram: "HistogramCells") -> Callable[[Numbers], Histogram]:
    """Makes a histogram; in one go where each of its values is one number."""
    cells = cells_of(histogram)
    has_all = histogram.buckets and histogram.total is not None
    if not has_all or any(len(cell.places) != 1 for cell in cells):
        return histogram.value
    bounds = tuple(bound for bound, _ in histogram.buckets)
    pick = itemgetter(*places_of(cells))

    def make(numbers: Numbers) -> Histogram:
        *values, number, total = pick(numbers)
        return Histogram(tuple(zip(bounds, values, strict=True)), number, total)

    return make
