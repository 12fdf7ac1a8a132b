"""What a dashboard's table is made of: panels in sections, their queries, how states look."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sidecar.catalog.family import Family

COLUMNS = 24
"""Width of Grafana's grid."""


class Kind(StrEnum):
    """The panel plugins that are used; all of them are Grafana's own."""

    STAT = "stat"
    TIMESERIES = "timeseries"
    TIMELINE = "state-timeline"
    TABLE = "table"
    BARS = "bargauge"


class Unit(StrEnum):
    """Grafana's unit identifiers; ``bytes`` is the one that counts in powers of 1024."""

    BYTES = "bytes"
    BYTES_PER_SECOND = "binBps"
    SECONDS = "s"
    SHARE = "percentunit"
    AGO = "dateTimeFromNow"
    NUMBER = "short"
    PER_SECOND = "cps"
    TOKENS = "count:tokens"
    TOKENS_PER_SECOND = "count:tokens/s"
    REQUESTS = "count:requests"
    SERVERS = "count:servers"
    PROCESSES = "count:processes"
    PREEMPTIONS = "count:preemptions"
    PER_REQUEST = "suffix: per request"
    STATE = "none"


class Words(StrEnum):
    """What a stat writes: of each series its value, its name, or both."""

    VALUE = "value"
    NAME = "name"
    BOTH = "value_and_name"


Steps = tuple[tuple[float | None, str], ...]
"""Lower bounds and the colours from there on; the first has no bound."""


@dataclass(frozen=True, slots=True)
class State:
    """A value and how it is shown: always a word beside the colour."""

    value: str
    text: str
    colour: str


@dataclass(frozen=True, slots=True)
class Query:
    """One expression. ``legend`` names its series, or its column in a table.

    ``states``, ``unit``, ``steps``: as of a panel, for the series of this query alone. ``empty``: what
    a table's cell says that is rightly empty; else that it is unknown.
    """

    expr: str
    legend: str = ""
    states: tuple[State, ...] = ()
    unit: Unit | None = None
    steps: Steps = ()
    empty: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table that comes from a label; ``states`` colours its words.

    ``title``: its head, if not the label. ``empty``: what a cell without the label says.
    """

    label: str
    title: str = ""
    states: tuple[State, ...] = ()
    link: str = ""
    empty: str = ""

    @property
    def head(self) -> str:
        """What stands over the column."""
        return self.title or self.label


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. ``width`` and ``height`` in units of the grid; the place is found by code.

    ``states``: words for values. ``painted``: colours for series by their name. ``steps``: thresholds,
    each a lower bound and a colour, the first without bound. ``columns``: the labels that a table
    shows before its values. ``sort_by``: the column that a table is sorted by, greatest first
    unless ``least_first``.
    ``words``: what a stat shows of its series. ``least``, ``most``: the ends of the scale.
    ``bars``, ``stacked``: how a chart is drawn.
    """

    kind: Kind
    title: str
    unit: Unit
    width: int
    height: int
    about: str
    queries: tuple[Query, ...]
    states: tuple[State, ...] = ()
    steps: Steps = ()
    columns: tuple[Column, ...] = ()
    painted: tuple[State, ...] = ()
    sort_by: str = ""
    least_first: bool = False
    words: Words = Words.VALUE
    least: float | None = None
    most: float | None = None
    bars: bool = False
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Panels under a heading; "" for none."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the head of a dashboard, out of the values of a label."""

    label: str
    many: bool = False
    all_of_them: bool = True


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard. ``episodes``: an expression that is 1 while an episode runs, drawn over charts."""

    uid: str
    title: str
    about: str
    variables: tuple[Variable, ...]
    sections: tuple[Section, ...]
    links: tuple[tuple[str, str], ...] = ()
    episodes: str = ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The servers that the dashboard's variables choose, as a part of selectors."""

    matchers: tuple[str, ...]

    def of(self, family: Family, **labels: str | tuple[str, ...]) -> str:
        """The selector of a family for the chosen servers, by values of its labels: one or several."""
        return self.named(family.name, **labels)

    def named(self, name: str, **labels: str | tuple[str, ...]) -> str:
        """The selector of any metric by its name."""
        more = (
            f'{label}="{value}"' if isinstance(value, str) else f'{label}=~"{"|".join(value)}"'
            for label, value in labels.items()
        )
        return f"{name}{{{', '.join((*self.matchers, *more))}}}"

    def numbered(self, family: Family, label: str, values: Iterable[str], by: str = "") -> str:
        """Which member of a state set is 1, as its number: 1 for the first, 0 for none.

        ``by``: labels to keep, with commas between.
        """
        terms = " or ".join(
            f"{number} * {self.of(family, **{label: value})}"
            for number, value in enumerate(values, 1)
        )
        return f"max by ({by}) ({terms})" if by else f"max({terms})"


def lasting(state: str, sign: str = "") -> str:
    """Seconds for which an expression has been 1, over at most six hours; nothing where it is not.

    ``sign``: labels by which it is aggregated first.
    """
    held = f"max by ({sign}) ({state})" if sign else state
    left = f"max_over_time(timestamp({held} == 0)[6h:15s])"
    born = f"min_over_time(timestamp({held})[6h:15s])"
    return f"(time() - ({left} or {born})) and {held} == 1"


def stat(
    title: str,
    width: int,
    about: str,
    *queries: Query,
    unit: Unit = Unit.STATE,
    height: int = 4,
    states: tuple[State, ...] = (),
    steps: Steps = (),
    painted: tuple[State, ...] = (),
    words: Words = Words.VALUE,
) -> Panel:
    """What is now, as one figure or word for each series."""
    return Panel(
        Kind.STAT, title, unit, width, height, about, queries,
        states=states, steps=steps, painted=painted, words=words,
    )  # fmt: skip


def chart(
    title: str,
    unit: Unit,
    width: int,
    about: str,
    *queries: Query,
    height: int = 7,
    steps: Steps = (),
    painted: tuple[State, ...] = (),
    most: float | None = None,
    bars: bool = False,
    stacked: bool = False,
) -> Panel:
    """Figures over the shown range, drawn from zero on."""
    return Panel(
        Kind.TIMESERIES, title, unit, width, height, about, queries,
        steps=steps, painted=painted, least=0, most=most, bars=bars, stacked=stacked,
    )  # fmt: skip


def timeline(
    title: str, width: int, height: int, about: str, *queries: Query, states: tuple[State, ...] = ()
) -> Panel:
    """States over the shown range, a line for each series."""
    return Panel(
        Kind.TIMELINE, title, Unit.STATE, width, height, about, queries, states=states
    )  # fmt: skip


def table(
    title: str,
    width: int,
    height: int,
    about: str,
    columns: tuple[Column, ...],
    *queries: Query,
    unit: Unit = Unit.NUMBER,
    sort_by: str = "",
    least_first: bool = False,
) -> Panel:
    """What is now, a row for each combination of labels."""
    return Panel(
        Kind.TABLE, title, unit, width, height, about, queries,
        columns=columns, sort_by=sort_by, least_first=least_first,
    )  # fmt: skip


def bars(
    title: str,
    unit: Unit,
    width: int,
    about: str,
    *queries: Query,
    height: int = 7,
    painted: tuple[State, ...] = (),
) -> Panel:
    """What is now, a bar for each series."""
    return Panel(
        Kind.BARS, title, unit, width, height, about, queries, painted=painted, least=0
    )  # fmt: skip
