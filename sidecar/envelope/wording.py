"""How the figures and loads of an envelope are written: the same in reports, comparisons and rules."""

import math
from collections.abc import Mapping

from sidecar.envelope.figures import Repeats, Unit
from sidecar.model.envelope import Envelope
from sidecar.telling.figures import UNKNOWN, say_bytes, say_number, say_seconds


def say(value: float | None, unit: Unit) -> str:
    """A figure with its unit, where that is not said by its label."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    match unit:
        case Unit.SECONDS:
            return say_seconds(value)
        case Unit.SHARE:
            return f"{say_number(value * 100)}%"
        case Unit.BYTES:
            return say_bytes(value)
        case Unit.PER_REQUEST | Unit.COUNT | Unit.TOKENS | Unit.TOKENS_PER_SECOND:
            return say_number(value)


def say_repeats(repeats: Repeats | None, unit: Unit) -> str:
    """The median, and how far the farthest repeat lies from it where the two are told apart."""
    if repeats is None:
        return UNKNOWN
    middle, least, greatest = (
        say(value, unit) for value in (repeats.median, repeats.least, repeats.greatest)
    )
    if least == greatest:
        return middle
    away = max(repeats.greatest - repeats.median, repeats.median - repeats.least)
    if not repeats.median or away > abs(repeats.median):
        return f"{middle} ({least} to {greatest})"
    return f"{middle} ±{away / abs(repeats.median) * 100:.2g}%"


LOAD_UNITS: Mapping[str, tuple[str, str]] = {
    "concurrency": ("concurrent request", "concurrent requests"),
    "requests_per_second": ("request/s", "requests/s"),
}


def say_unit(envelope: Envelope) -> str:
    """What loads are counted in, in the plural."""
    return LOAD_UNITS.get(envelope.unit, ("", "units of load"))[1]


def say_load(envelope: Envelope, load: float | None) -> str:
    """A load with its unit."""
    if load is None or not math.isfinite(load):
        return UNKNOWN
    single, many = LOAD_UNITS.get(envelope.unit, ("unit of load", "units of load"))
    return f"{say_number(load)} {single if load == 1 else many}"
