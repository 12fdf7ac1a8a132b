"""What shows it: the signs in the last window, and all that were counted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sidecar.catalog import signals
from sidecar.model.verdict import CauseFound
from sidecar.page.shown import Shown
from sidecar.telling.figures import clock_time, count_of, iso_time, say_number, say_seconds
from sidecar.telling.markup import Markup, element, join
from sidecar.telling.plain import plain_engine

MOST_ROWS = 40
IN_SECONDS = frozenset({signals.NO_PROGRESS})


@dataclass(frozen=True, slots=True)
class Sign:
    """Evidence of one kind, folded: how much of it there was, and when."""

    cause: str
    source: str
    signal: str
    engine: str
    amount: float
    first: float
    last: float


def fold_signs(causes: Sequence[CauseFound]) -> Iterator[Sign]:
    """Evidence that differs only by time or amount, as one."""
    amounts: dict[tuple[str, str, str, str], float] = {}
    times: dict[tuple[str, str, str, str], tuple[float, float]] = {}
    for found in causes:
        for one in found.evidence:
            engine = "" if one.engine is None else plain_engine(one.engine)
            key = (found.cause.value, one.source.value, one.signal, engine)
            amounts[key] = amounts.get(key, 0.0) + one.amount
            first, last = times.get(key, (one.at.unix, one.at.unix))
            times[key] = (min(first, one.at.unix), max(last, one.at.unix))
    for key, amount in amounts.items():
        yield Sign(*key, amount, *times[key])


def show_evidence(shown: Shown) -> Markup:
    """The signs of now, then the totals."""
    signs = list(fold_signs(shown.causes))
    rows = [
        (
            one.cause,
            f"{one.source}: {one.signal}",
            one.engine,
            say_amount(one.signal, one.amount),
            join(
                (
                    element("time", iso_time(one.first)),
                    "" if one.last - one.first < 1 else f" to {clock_time(one.last)}",
                )
            ),
        )
        for one in signs[:MOST_ROWS]
    ]
    now = (
        show_table(("cause", "sign", "engine", "count", "when (UTC)"), rows)
        if rows
        else element("p", "No sign of a cause in the last window.")
    )
    more = "" if len(signs) <= MOST_ROWS else element("p", f"{len(signs) - MOST_ROWS} more signs.")
    return element(
        "section",
        element("h2", "What shows it", id="evidence"),
        now,
        more,
        show_totals(shown),
        aria_labelledby="evidence",
    )


def say_amount(signal: str, amount: float) -> str:
    """How much of a sign there was; of some it is a time."""
    return say_seconds(amount) if signal in IN_SECONDS else say_number(amount)


def show_totals(shown: Shown) -> Markup:
    """Every sign that was ever counted, and when its cause was last shown."""
    report = shown.report
    rows = []
    for key, amount in sorted(report.evidence_total.items(), key=lambda item: str(item[0])):
        if not amount:
            continue
        at = report.last_evidence.get(key.cause)
        when = "" if at is None else element("time", iso_time(at))
        rows.append(
            (
                key.cause.value,
                f"{key.source.value}: {key.signal}",
                say_amount(key.signal, amount),
                when,
            )
        )
    if not rows:
        return element("p", "Nothing was ever counted.")
    table = show_table(("cause", "sign", "count", "cause last shown (UTC)"), rows[:MOST_ROWS])
    summary = element("summary", f"Counted so far: {count_of(len(rows), 'sign')}")
    return element("details", summary, table, id="totals")


def show_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table that scrolls by itself where it is wider than the page; empty columns are left out."""
    kept = [at for at in range(len(heads)) if not rows or any(row[at] for row in rows)]
    head = element("tr", *(element("th", heads[at], scope="col") for at in kept))
    body = [element("tr", *(element("td", row[at]) for at in kept)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *body))
    return element("div", table, class_="wide", role="region", tabindex="0", aria_label=heads[0])
