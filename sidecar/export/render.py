"""Rows of families -> the text of an exposition, from parts that were rendered before.

What a family and a row look like is asked of ``prometheus_client`` once; only numbers change from
one scrape to the next, and of most rows not even those.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.utils import floatToGoString

from sidecar.catalog.family import Family, FamilyType
from sidecar.export.bounded import Row
from sidecar.parse.quantity import finite

SPARE_ROWS = 16
"""Rows of a family that are remembered beyond twice as many as were written last: of earlier servers."""
PLAIN = 1e6
"""Below it Python and Go write a number alike; ``floatToGoString`` sees to the others."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Families that are ready to be rendered: what ``prometheus_client`` calls a collector."""

    metrics: tuple[Metric, ...]

    def collect(self) -> Iterable[Metric]:
        """The families in their order."""
        return self.metrics


@dataclass(slots=True)
class Line:
    """A row as it was written last: its text before the number, the number, and the whole line."""

    start: str
    value: float
    text: str


class Renderer:
    """Writes one content type; ``write_whole`` renders a collector in it, with ``end`` behind the last family."""

    def __init__(self, write_whole: Callable[[Metrics], bytes], *, end: str = "") -> None:
        self.write_whole = write_whole
        self.end = end
        self.heads: dict[str, str] = {}
        self.lines: dict[str, dict[tuple[str, ...], Line]] = {}
        self.written: dict[str, tuple[Sequence[Row], str]] = {}

    def render(
        self, tables: Iterable[tuple[Family, Sequence[Row]]], others: Iterable[Metric]
    ) -> bytes:
        """Every family that has a row with a finite value, and ``others`` behind them."""
        parts: list[str] = []
        for family, rows in tables:
            written = self.written.get(family.name)
            if written is None or written[0] != rows:
                written = self.written[family.name] = (rows, self.family(family, rows))
            parts.append(written[1])
        parts.extend(map(self.single, others))
        parts.append(self.end)
        return "".join(parts).encode()

    def family(self, family: Family, rows: Sequence[Row]) -> str:
        """A family whose rows are not those that were written last; nothing without a finite value."""
        parts: list[str] = []
        known = self.lines.setdefault(family.name, {})
        for values, value in rows:
            line = known.get(values)
            if line is not None and line.value == value:
                parts.append(line.text)
            elif (number := finite(value)) is not None:
                parts.append(self.write(family, values, number))
        if len(known) > 2 * len(parts) + SPARE_ROWS:
            known.clear()
        return self.head(family) + "".join(parts) if parts else ""

    def head(self, family: Family) -> str:
        """What stands above the family's rows."""
        head = self.heads.get(family.name)
        if head is None:
            head = self.heads[family.name] = self.ready(metric_of(family))
        return head

    def write(self, family: Family, values: tuple[str, ...], number: float) -> str:
        """A row with a number that it did not have before."""
        lines = self.lines[family.name]
        line = lines.get(values)
        if line is None:
            line = lines[values] = self.first(family, values)
        line.value = number
        # 0 and -0 are one number, and written as one.
        line.text = f"{line.start}{say(number + 0.0)}\n"
        return line.text

    def first(self, family: Family, values: tuple[str, ...]) -> Line:
        """A row that was not written before, as 0."""
        metric = metric_of(family)
        sample = family.base_name if family.type is FamilyType.SUMMARY else family.name
        labels = dict(zip(family.label_names, values, strict=True))
        metric.add_sample(sample, {name: text for name, text in labels.items() if text}, 0.0)
        text = self.ready(metric).removeprefix(self.head(family))
        return Line(text.rpartition(" ")[0] + " ", 0.0, text)

    def single(self, metric: Metric) -> str:
        """A family that is not of our table: mostly one number without labels."""
        samples = metric.samples
        if len(samples) != 1 or samples[0].labels:
            return self.ready(metric)
        start = self.heads.get(metric.name)
        if start is None:
            start = self.heads[metric.name] = self.ready(metric).rpartition(" ")[0] + " "
        return f"{start}{say(float(samples[0].value))}\n"

    def ready(self, metric: Metric) -> str:
        """A metric as ``prometheus_client`` writes it."""
        return self.write_whole(Metrics((metric,))).decode().removesuffix(self.end)


def metric_of(family: Family) -> Metric:
    """The family without rows."""
    return Metric(family.base_name, family.help, family.type.value, family.unit)


def say(value: float) -> str:
    """A number as Go writes it."""
    if -PLAIN < value < PLAIN:
        return repr(value)
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]
