"""How figures, loads and names of others are written: the same in reports, pages, comparisons and rules."""

import math
from collections.abc import Mapping, Sequence

from sidecar.envelope.figures import Repeats, Unit
from sidecar.model.envelope import Envelope

_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
UNKNOWN = "-"
"""What stands where nobody could measure."""


def say_number(value: float) -> str:
    """Three significant digits, whole numbers whole and with commas."""
    if not math.isfinite(value):
        return UNKNOWN
    if abs(value) >= 1e15:  # noqa: PLR2004 - no figure of a real server
        return f"{value:.3g}"
    if abs(value) >= 100 or float(value).is_integer():  # noqa: PLR2004 - three digits stand before the point
        return f"{value:,.0f}"
    return f"{value:.3g}"


def say_seconds(value: float) -> str:
    """Milliseconds below a second."""
    if abs(value) < 1:
        return f"{say_number(value * 1000)} ms"
    return f"{say_number(value)} s"


def say_bytes(value: float) -> str:
    """In the largest unit that leaves one before the point."""
    for size, name in _SIZES:
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    return f"{say_number(value)} B"


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


def say_limit(value: float) -> str:
    """A limit as it is set: whole, without commas."""
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e18 else f"{value:.6g}"  # noqa: PLR2004


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


def plain(text: str, most: int = 120) -> str:
    """At most so many printable characters of a text that others wrote; the cut is shown."""
    shown = "".join(char if char.isprintable() else "?" for char in text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def say_list(words: Sequence[str]) -> str:
    """Words as a list in a sentence."""
    if len(words) < 2:  # noqa: PLR2004 - nothing to join
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
