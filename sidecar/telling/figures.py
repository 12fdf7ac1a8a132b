"""How figures, times and lists are written: the same on every page, in every line and file."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))

_TIMES = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
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


def say_duration(seconds: float) -> str:
    """A length of time in its two largest units."""
    if not math.isfinite(seconds) or seconds >= 1e9:  # noqa: PLR2004 - no time of ours
        return UNKNOWN
    whole = max(0, round(seconds))
    for size, name, part_size, part in _TIMES:
        if whole >= size:
            rest = whole % size // part_size
            return f"{whole // size} {name}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def say_limit(value: float) -> str:
    """A limit as it is set: whole, without commas."""
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e18 else f"{value:.6g}"  # noqa: PLR2004


def plain(text: str, most: int = 120) -> str:
    """At most so many printable characters of a text that others wrote; the cut is shown."""
    shown = "".join(char if char.isprintable() else "?" for char in text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def say_list(words: Sequence[str]) -> str:
    """Words as a list in a sentence."""
    if len(words) < 2:  # noqa: PLR2004 - nothing to join
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def iso_time(unix: float) -> str:
    """The moment in UTC to the second; ``?`` outside the calendar."""
    try:
        return datetime.fromtimestamp(math.floor(unix), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "?"


def clock_time(unix: float) -> str:
    """The time of the day in UTC; ``?`` outside the calendar."""
    return iso_time(unix)[11:19] or "?"


def count_of(count: float, noun: str) -> str:
    """A count with its noun, in the plural unless it is one."""
    return f"{count:.6g} {noun}{'' if count == 1 else 's'}"
