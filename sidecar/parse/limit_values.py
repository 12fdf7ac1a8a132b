"""A value as vLLM writes it -> the number of a limit, or nothing: text never passes."""

import math
import re
from typing import Final

from sidecar.catalog.vllm_settings import Unit

_GIB: Final = 1 << 30
_MOST: Final = {
    Unit.COUNT: 10**12,
    Unit.BYTES: 1 << 60,
    Unit.GIB: 1 << 30,
    Unit.SHARE: 1,
    Unit.RESERVE: 1,
}
"""What a value of this unit can be at most; beyond it a number is a mistake, or no limit."""

_PLAIN = re.compile(r"[0-9][0-9_]{0,20}(?:\.[0-9]{0,20})?(?:[eE][+-]?[0-9]{1,2})?|\.[0-9]{1,20}")
_HUMAN = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([kKmMgGtT])")
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}
_WHOLE: Final = frozenset({Unit.COUNT, Unit.BYTES})

_LOW = re.compile(r"(?:fp|int|nf)[1-8](?![0-9])|turboquant|(?<![0-9])[1-8]bit")
_HIGH = frozenset(
    {"auto", "bfloat16", "bf16", "float16", "fp16", "half", "float32", "fp32", "float"}
)
_TRUE = frozenset({"true", "1"})
_FALSE = frozenset({"false", "0"})
_POLICIES: Final = {"priority": 1.0, "fcfs": 0.0}
_LONGEST_WORD: Final = 40


def limit_value(unit: Unit, value: object) -> float | None:
    """The number that ``value`` (text, or what JSON knows) gives for a limit of ``unit``.

    None for anything that no limit can be: nothing, negative, endless, too large, a word.
    """
    match unit:
        case Unit.FLAG:
            return _flag(value)
        case Unit.PRECISION:
            return _precision(value)
        case Unit.POLICY:
            return _POLICIES.get(_word(value))
        case Unit.GIB:
            gib = _bounded(unit, _number(value))
            return None if gib is None else float(round(gib * _GIB))
        case _:
            return _bounded(unit, _number(value, human=unit in _WHOLE))


def thousands(text: str) -> str:
    """A number of a log without the commas between its thousands."""
    return text.replace(",", "")


def _word(value: object) -> str:
    return value.lower() if isinstance(value, str) and len(value) <= _LONGEST_WORD else ""


def _flag(value: object) -> float | None:
    if isinstance(value, bool):
        return float(value)
    word = _word(value)
    return 1.0 if word in _TRUE else 0.0 if word in _FALSE else None


def _precision(value: object) -> float | None:
    word = _word(value).removeprefix("torch.")
    if word in _HIGH:
        return 0.0
    return 1.0 if _LOW.search(word) else None


def _number(value: object, *, human: bool = False) -> float | None:
    """A number; with ``human`` also 25.6k (thousands) or 25K (of 1024), as vLLM reads them."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        # An integer beyond what a float can hold is beyond every bound as well.
        return float(value) if abs(value) <= 1 << 80 else None
    if not isinstance(value, str):
        return None
    if _PLAIN.fullmatch(value):
        try:
            return float(value)
        except ValueError:
            return None
    found = _HUMAN.fullmatch(value) if human else None
    if found is None:
        return None
    digits, suffix = found.groups()
    if suffix.isupper():
        # vLLM refuses a fraction of a binary multiple.
        return None if "." in digits else float(digits) * float(1024) ** _POWERS[suffix.lower()]
    return float(digits) * float(1000) ** _POWERS[suffix]


def _bounded(unit: Unit, number: float | None) -> float | None:
    if number is None or not math.isfinite(number) or not 0 <= number <= _MOST[unit]:
        return None
    if unit in _WHOLE:
        whole = round(number)
        # 25.6k is whole but for the rounding of floats.
        return float(whole) if whole >= 1 and math.isclose(whole, number, rel_tol=1e-12) else None
    if (unit is Unit.SHARE and number == 0) or (unit is Unit.RESERVE and number == 1):
        return None
    return number
