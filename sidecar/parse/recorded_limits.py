"""Limits as a recording keeps them: by name, a number of the command line, or a pair with its origin."""

from collections.abc import Mapping
from typing import Final

from sidecar.model.limits import Known, Limit, Limits, Origin

_MOST: Final = 1 << 60
_NAMES: Final = {limit.value: limit for limit in Limit}


def limits_row(limits: Limits) -> dict[str, object]:
    """The row of these limits."""
    return {
        limit.value: known.value
        if known.origin is Origin.COMMAND_LINE
        else [known.value, known.origin.value]
        for limit, known in limits.items()
    }


def read_limits_row(row: Mapping[str, object]) -> Limits:
    """The limits of a row.

    Names that we do not know are left out, and so are values that no limit can have.
    """
    told = {_NAMES[name]: _known(value) for name, value in row.items() if name in _NAMES}
    return {limit: known for limit, known in told.items() if known is not None}


def _known(told: object) -> Known | None:
    match told:
        case bool():
            return None
        case int() | float() if 0 <= told <= _MOST:
            return Known(float(told), Origin.COMMAND_LINE)
        case [int() | float() as value, str(origin)] if 0 <= value <= _MOST:
            return Known(float(value), Origin(origin)) if origin in tuple(Origin) else None
        case _:
            return None
