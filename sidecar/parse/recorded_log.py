"""Lines of vLLM's log as a recording keeps them, and what they say again.

A line that may hold users' text is not kept: what was read of it stands in its place, as closed names
and numbers.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from sidecar.catalog.signatures import SIGNATURES
from sidecar.model.readings import LogEvent
from sidecar.model.samples import Instant
from sidecar.parse.log_match import Match, read_line

ORIGINS: Final = frozenset({"api_server", "engine", "worker", "unknown"})
_MOST: Final = 1e18


def event_of(match: Match, at: Instant) -> LogEvent:
    """A match as the event of a line that came at a moment."""
    return LogEvent(
        signature=match.signature.id,
        at_monotonic=at.monotonic,
        at_unix=at.unix,
        origin=match.origin,
        amount=match.amount,
        stamp=match.stamp,
        numbers=match.numbers,
    )


def match_row(match: Match) -> dict[str, object]:
    """What was read of a line that is not kept."""
    return {
        "signature": match.signature.id,
        "origin": match.origin,
        "amount": match.amount,
        "stamp": match.stamp,
        "numbers": dict(match.numbers),
    }


def read_log_row(row: Mapping[str, Any], at: Instant) -> tuple[LogEvent, ...]:
    """The events of one row.

    Raises:
        KeyError: a key is missing that must be there.
        TypeError: a value is of another kind than it must be.
        ValueError: a value is none of those that can be.
    """
    if "read" in row:
        return tuple(_event(one, at) for one in row["read"])
    line = row["line"]
    if not isinstance(line, str):
        raise TypeError("no line")
    return tuple(event_of(match, at) for match in read_line(line))


def _event(one: Mapping[str, Any], at: Instant) -> LogEvent:
    if one["signature"] not in SIGNATURES or one["origin"] not in ORIGINS:
        raise ValueError("no signature of ours")
    stamp = one.get("stamp")
    return LogEvent(
        signature=one["signature"],
        at_monotonic=at.monotonic,
        at_unix=at.unix,
        origin=one["origin"],
        amount=_number(one["amount"]),
        stamp=None if stamp is None else _number(stamp),
        numbers={str(name): _number(value) for name, value in one["numbers"].items()},
    )


def _number(value: float) -> float:
    """A finite number.

    Raises:
        ValueError: it is none, or larger than any count can be.
    """
    number = float(value)
    if not math.isfinite(number) or abs(number) > _MOST:
        raise ValueError("no number")
    return number
