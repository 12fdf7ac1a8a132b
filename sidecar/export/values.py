"""Numbers as our results and series may hold them: finite and rounded."""

from collections.abc import Mapping

from sidecar.parse.quantity import finite

DECIMALS = 6
EXACT = 2**53
"""Up to here every whole number is a float of its own (IEEE 754 binary64)."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


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
