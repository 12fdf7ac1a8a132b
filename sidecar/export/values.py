"""Numbers and texts as our results and series may hold them: finite, short, printable."""

import math
import re
from collections.abc import Mapping

from sidecar.catalog.exported import OTHER

DECIMALS = 6
EXACT = 2**53
"""Up to here every whole number is a float of its own (IEEE 754 binary64)."""
ENGINE_NAME = re.compile(r"[0-9A-Za-z_.-]{1,32}", re.ASCII)
MAX_TEXT = 64
MAX_WORDS = 500
"""Characters of one of our own sentences."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def plain_engine(name: str) -> str:
    """The engine's name if it is a short plain word, else ``other``."""
    return name if ENGINE_NAME.fullmatch(name) else OTHER


def plain_text(text: str) -> str:
    """At most ``MAX_TEXT`` printable characters of a text; ``?`` for those that are not."""
    return "".join(char if char.isprintable() else "?" for char in text[:MAX_TEXT])


def plain_words(text: str, most: int = MAX_WORDS) -> str:
    """A sentence of ours, cut to ``most`` printable characters."""
    return "".join(char if char.isprintable() else "?" for char in text[:most])


def order_engine(name: str) -> tuple[int, str]:
    """A sort key that puts 2 before 10."""
    return len(name), name


def finite(value: float | None) -> float | None:
    """The value as a float, None where it is missing, no number or endless."""
    if value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def number(value: float | None) -> Json:
    """The value rounded, whole numbers without a decimal point; None where it is no number.

    A number beyond ``EXACT`` stays a float, which is written with an exponent: 1e300 has 301 digits.
    """
    known = finite(value)
    if known is None:
        return None
    rounded = round(known, DECIMALS)
    return int(rounded) if rounded.is_integer() and abs(rounded) <= EXACT else rounded


def numbers(values: Mapping[str, float | None]) -> dict[str, Json]:
    """Each value as a number, those that are none left out."""
    return {name: number(value) for name, value in values.items() if finite(value) is not None}
