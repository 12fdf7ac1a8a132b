"""Durations and sizes as people write them."""

import math
import re

DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s|m|h)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(B|KiB|MiB|GiB|TiB)")
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def parse_size(text: str) -> int:
    """Bytes of ``512MiB`` or ``2GiB``.

    Raises:
        ValueError: it is not a size above zero.
    """
    found = SIZE.fullmatch(text.strip())
    count = float(found[1]) * BYTES[found[2]] if found else math.nan
    if not count >= 1:
        raise ValueError("not a size such as 512MiB or 2GiB")
    return int(count)


def parse_duration(text: str) -> float:
    """Seconds of ``250ms``, ``5s``, ``2m`` or ``1h``.

    Raises:
        ValueError: it is not a duration above zero.
    """
    found = DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * SECONDS[found[2]] if found else math.nan
    if not seconds > 0:
        raise ValueError("not a duration such as 250ms, 5s or 2m")
    return round(seconds, 6)


def finite(value: float | None) -> float | None:
    """The value as a float, None where it is missing, no number or endless."""
    if value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
