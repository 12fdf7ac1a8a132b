"""One server's expositions -> readings in canonical roles: the whole way, scrape after scrape."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress, count

from sidecar.model.readings import MetricsReading
from sidecar.parse.metric_refresh import Refresh
from sidecar.parse.metric_roles import Layout, Series, lay_out, name_series
from sidecar.parse.scrape import ScrapeReader

MOST_ENGINES = 256
"""Engines that are kept apart while reading; how many are shown is the exporter's matter."""


class ExpositionReader:
    """Reads one server's expositions into canonical roles.

    At most ``max_engines`` engines are kept apart, those that came first; the others are folded into
    ``other``. An engine that was shown stays shown, or its counters would seem to jump.
    """

    def __init__(self, *, max_engines: int = MOST_ENGINES) -> None:
        self.max_engines = max_engines
        self.scrapes = ScrapeReader(name_series)
        self.layout = Layout(series=[])
        self.layouts = 0
        self.shown: list[str] = []
        self.numbers: list[float] = []
        self.places: list[int] = []
        self.last: MetricsReading | None = None
        self.refresh: Refresh | None = None

    def read(self, body: bytes, content_type: str) -> MetricsReading:
        """Read one exposition.

        Raises:
            ValueError: it is not UTF-8, cut short, or no exposition.
        """
        scrape = self.scrapes.read(body, content_type)
        last = self.last
        moved = None if scrape.moved is None else self.follow(scrape.numbers, scrape.moved)
        if moved is None or last is None:
            last = self.begin(scrape.series, scrape.numbers)
        elif moved:
            self.refresh = self.refresh or Refresh(self.layout)
            last = self.refresh.update(last, self.numbers, moved)
        self.last = last
        return last

    def begin(self, series: Sequence[Series], numbers: Sequence[float]) -> MetricsReading:
        """Work out the whole reading."""
        measured = [is_measured(number) for number in numbers]
        kept = list(compress(series, measured))
        if kept != self.layout.series:
            self.layout = lay_out(kept, self.show_engines)
            self.layouts += 1
        self.refresh = None
        place = count()
        self.places = [next(place) if is_kept else -1 for is_kept in measured]
        self.numbers = list(compress(numbers, measured))
        return replace(self.layout.reading(self.numbers), layout=self.layouts)

    def follow(self, numbers: Sequence[float], moved: Iterable[int]) -> list[int] | None:
        """Take in the numbers at some places; None if other ones than before are a measurement."""
        taken = []
        for at in moved:
            number, place = numbers[at], self.places[at]
            # As ``is_measured``, whose call would cost more than all else here.
            if (0 <= number < math.inf) != (place >= 0):
                return None
            if place >= 0:
                self.numbers[place] = number
                taken.append(place)
        return taken

    def show_engines(self, labels: set[str]) -> Sequence[str]:
        """The engines that are kept apart: those before, and new ones while there is room."""
        new = sorted(labels - set(self.shown), key=lambda text: (len(text), text))
        self.shown.extend(new[: max(0, self.max_engines - len(self.shown))])
        return sorted(self.shown, key=lambda text: (len(text), text))


def is_measured(value: float) -> bool:
    """NaN, infinities and negative numbers are no measurement of any role we read."""
    return 0 <= value < math.inf
