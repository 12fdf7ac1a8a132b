"""Which names an expression speaks of. Ours are written plainly: what is not understood is an error.

Not PromQL's grammar, which promtool checks, but its words: metrics with their matchers, and labels that
are grouped by, matched on, or left out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

METRIC = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^{}]*\})?")
MATCHER = re.compile(r'\s*([a-z_]+)\s*(=~|!~|!=|=)\s*["\']([^"\']*)["\']\s*')
LABELS = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
WORDS = frozenset({"and", "or", "unless", "bool", "offset"})
FUNCTIONS = frozenset(
    {"sum", "max", "min", "count", "topk", "rate", "time", "max_over_time", "count_over_time"}
    | {"min_over_time"}
)
RANGE = re.compile(r"\[\d+[smhd]\]")


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label. ``values``: the alternatives that it names."""

    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric and the conditions on its labels."""

    metric: str
    matchers: tuple[Matcher, ...]


def matchers(text: str) -> tuple[Matcher, ...]:
    """The conditions between braces.

    Raises:
        ValueError: there is something else between them.
    """
    found = list(MATCHER.finditer(text))
    if MATCHER.sub("", text).strip(", \n"):
        raise ValueError(text)
    return tuple(Matcher(m[1], tuple(m[3].split("|"))) for m in found)


def selectors(expr: str) -> Iterator[Selector]:
    """Every metric in an expression.

    Raises:
        ValueError: a word is neither a metric's nor one that we know.
    """
    rest = RANGE.sub("", LABELS.sub("", expr))
    for name, braces in METRIC.findall(rest):
        if name in WORDS or name in FUNCTIONS:
            if braces:
                raise ValueError(f"{name}{braces}")
            continue
        yield Selector(name, matchers(braces[1:-1]) if braces else ())


def grouping_labels(expr: str) -> set[str]:
    """Labels that are grouped by, matched on, or left out."""
    return {
        label.strip()
        for _, listed in LABELS.findall(expr)
        for label in listed.split(",")
        if label.strip()
    }
