"""Where a value stands on a drawing: scales, and the ticks that people read them by."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
WIDE = 30.0
"""From this ratio on between what is greatest and what is least, equal ratios get equal room."""
LEAST, GREATEST = 1e-300, 1e300
"""Figures beyond these stand at the edge."""
DOUBLING = 8.0
"""The same for loads, which are mostly doubled from stage to stage."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From values in [``low``, ``high``] to places in [``begin``, ``end``]."""

    low: float
    high: float
    begin: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Where the value stands; what lies beyond an edge stands at it."""
        if self.is_log:
            if value <= 0:
                return self.begin
            share = log_ratio(value, self.low) / log_ratio(self.high, self.low)
        else:
            # Halves first: the difference of two great floats can be beyond every float.
            share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin)


def log_ratio(one: float, other: float) -> float:
    """The logarithm of their ratio, which itself can be beyond every float."""
    return math.log(one) - math.log(other)


def widen(low: float, high: float) -> tuple[float, float]:
    """An interval that is not empty."""
    if high / 2 > low / 2:
        return low, high
    room = abs(low) / 2 or 1.0
    return low - room, high + room


def scale_loads(loads: Sequence[float], begin: float, end: float) -> Scale:
    """The axis that all plots of a page share, with some room at its ends."""
    low, high = min(loads, default=1.0), max(loads, default=1.0)
    room = (end - begin) * 0.04
    if low > 0 and log_ratio(high, low) >= math.log(DOUBLING):
        return Scale(low, high, begin + room, end - room, is_log=True)
    return Scale(*widen(low, high), begin + room, end - room)


def scale_values(
    values: Sequence[float], begin: float, end: float, *, top: float | None, may_be_log: bool
) -> Scale:
    """An axis from nothing to the greatest value, or to ``top``; by ratios where they lie far apart."""
    shown = [value for value in values if value >= 0]
    greatest = max(shown, default=0.0)
    least = min((value for value in shown if value > 0), default=0.0)
    if may_be_log and least > 0 and log_ratio(greatest, least) >= math.log(WIDE):
        low = max(10.0 ** math.floor(math.log10(least)), LEAST)
        return Scale(low, min(greatest, GREATEST) * 1.2, begin, end, is_log=True)
    high = min(greatest, GREATEST) * 1.08 if greatest > LEAST else 1.0
    return Scale(0.0, top or high, begin, end)


def ticks(scale: Scale, most: int = 5) -> list[float]:
    """Round values within the scale, rising."""
    return log_ticks(scale, most) if scale.is_log else even_ticks(scale, most)


def even_ticks(scale: Scale, most: int) -> list[float]:
    """Multiples of a round step."""
    rough = (scale.high - scale.low) / most
    if not (math.isfinite(rough) and rough > 0):
        return [scale.low]
    size = 10.0 ** math.floor(math.log10(rough))
    step = next((one * size for one in STEPS if one * size >= rough), 10 * size)
    first = math.ceil(scale.low / step - 1e-9)
    count = math.floor(scale.high / step + 1e-9) - first + 1
    return [(first + at) * step for at in range(min(count, most + 2))]


def log_ticks(scale: Scale, most: int) -> list[float]:
    """Powers of ten; between them also 2 and 5 where there is room."""
    powers = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)

    def between(shares: Sequence[int]) -> list[float]:
        every = (share * 10.0**power for power in powers for share in shares)
        return [value for value in every if scale.low * 0.999 <= value <= scale.high]

    fine = next(
        (found for found in map(between, ((1, 2, 5), (1, 3))) if len(found) <= most + 1), None
    )
    whole = between((1,))
    return fine or whole[:: max(1, math.ceil(len(whole) / most))]


def thin(places: Iterable[float], least: float) -> list[int]:
    """Numbers of those places that stand at least so far from the one before them that is kept."""
    kept: list[int] = []
    last = -math.inf
    for at, place in enumerate(places):
        if place - last >= least:
            kept.append(at)
            last = place
    return kept


def spread_out(places: Sequence[float], least: float, lowest: float) -> list[float]:
    """Places for labels near their own, none closer than ``least``, none beyond ``lowest``."""
    order = sorted(range(len(places)), key=lambda at: places[at])
    result = list(places)
    last = -math.inf
    for at in order:
        result[at] = last = max(places[at], last + least)
    limit = lowest
    for at in reversed(order):
        result[at] = min(result[at], limit)
        limit = result[at] - least
    return result
