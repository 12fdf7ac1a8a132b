"""An ``Envelope`` as ``envelope.json`` and back: the dataclasses are the format, read field by field.

The same envelope gives the same bytes: fields in their order, mappings sorted, numbers rounded to
``DECIMALS``. A file of another format, with an unknown key, a wrong type, NaN or too much of anything is
refused in one line, which holds nothing of its values.
"""

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final, Union, cast, get_args, get_origin, get_type_hints

from sidecar.model.envelope import Envelope
from sidecar.parse.secrets import hide_forms

FILE_NAME: Final = "envelope.json"
FORMAT: Final = 1
DECIMALS: Final = 6
EXACT: Final = 2**53
MOST_CHARACTERS: Final = 16 * 1024 * 1024
MOST_TEXT: Final = 100_000
MOST_ITEMS: Final = 10_000
Json = Any


# Out


def encode_envelope(envelope: Envelope) -> str:
    """The text of ``envelope.json``."""
    told = {"format": FORMAT, **write(envelope)}
    return json.dumps(told, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def write(value: object) -> Json:
    """One value of the model as JSON has it. No number that is none is written, and no secret's form."""
    match value:
        case None | bool():
            return value
        case StrEnum():
            return value.value
        case str():
            return hide_forms(value)
        case int() | float():
            return write_number(value)
        case tuple():
            return [write(one) for one in value]
        case Mapping():
            return {
                hide_forms(str(name)): write(one)
                for name, one in sorted(value.items(), key=lambda item: str(item[0]))
            }
        case _ if is_dataclass(value):
            return {one.name: write(getattr(value, one.name)) for one in fields(value)}
        case _:
            raise TypeError(type(value).__name__)


def write_number(value: float) -> Json:
    """A number rounded, whole ones without a point; None where it is no measurement."""
    if not math.isfinite(value):
        return None
    rounded = round(float(value), DECIMALS)
    return int(rounded) if rounded.is_integer() and abs(rounded) <= EXACT else rounded


# In


def decode_envelope(text: str) -> Envelope:
    """The envelope of a text.

    Raises:
        ValueError: it is no envelope of a format that we know; in one line.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"larger than {MOST_CHARACTERS >> 20} MiB")
    try:
        told = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(told, dict):
        raise ValueError("not an envelope")  # noqa: TRY004  (a fault of the file)
    if told.get("format") != FORMAT or isinstance(told["format"], bool):
        raise ValueError(f"not an envelope of format {FORMAT}")
    del told["format"]
    return cast("Envelope", read(Envelope, told, "envelope"))


def refuse_constant(_: str) -> float:
    """NaN and infinities are no JSON."""
    raise ValueError


def read(kind: Any, told: Json, where: str) -> object:
    """A value of this type.

    Raises:
        ValueError: it is of another; ``where`` says which.
    """
    origin = get_origin(kind)
    if origin in {Union, types.UnionType}:
        (inner,) = (one for one in get_args(kind) if one is not types.NoneType)
        return None if told is None else read(inner, told, where)
    if origin is tuple:
        return read_items(get_args(kind)[0], told, where)
    if origin is not None and issubclass(origin, Mapping):
        return read_mapping(get_args(kind), told, where)
    if is_dataclass(kind):
        return read_record(cast("type", kind), told, where)
    return read_plain(kind, told, where)


def read_plain(kind: type, told: Json, where: str) -> object:
    """A number, a flag, a text or a word of a closed set."""
    is_number = isinstance(told, int | float) and not isinstance(told, bool)
    if kind is float and is_number and abs(told) <= float(EXACT) ** 2:
        return float(told)
    if kind is int and is_number and abs(told) <= EXACT and float(told).is_integer():
        return int(told)
    if kind is bool and isinstance(told, bool):
        return told
    if kind is str and isinstance(told, str) and len(told) <= MOST_TEXT:
        return told
    if issubclass(kind, StrEnum):
        if isinstance(told, str) and told in {member.value for member in kind}:
            return kind(told)
        raise ValueError(f"{where}: not one of {', '.join(kind)}")
    raise ValueError(f"{where}: {WANTED[kind]} is needed")


WANTED: Final[Mapping[type, str]] = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "a text",
}


def read_items(kind: Any, told: Json, where: str) -> tuple[object, ...]:
    """A list."""
    if not isinstance(told, list) or len(told) > MOST_ITEMS:
        raise ValueError(f"{where}: a list of at most {MOST_ITEMS} is needed")
    return tuple(read(kind, one, f"{where}[{at}]") for at, one in enumerate(told))


def read_mapping(kinds: tuple[Any, ...], told: Json, where: str) -> Mapping[object, object]:
    """An object whose keys are texts or words of a closed set."""
    if not isinstance(told, dict) or len(told) > MOST_ITEMS:
        raise ValueError(f"{where}: an object of at most {MOST_ITEMS} is needed")
    key, value = kinds
    return {
        read_plain(key, name, f"a key of {where}"): read(value, one, f"a value of {where}")
        for name, one in told.items()
    }


def read_record(kind: type, told: Json, where: str) -> object:
    """A record: no key but its fields, and all that have no default."""
    if not isinstance(told, dict):
        raise ValueError(f"{where}: an object is needed")  # noqa: TRY004  (a fault of the file)
    known = shape_of(kind)
    if any(name not in known for name in told):
        raise ValueError(f"{where}: it has an unknown key")
    for name, (one, _) in known.items():
        if name not in told and is_needed(one):
            raise ValueError(f"{where}.{name}: it is missing")
    return kind(
        **{name: read(known[name][1], one, f"{where}.{name}") for name, one in told.items()}
    )


@cache
def shape_of(kind: type) -> Mapping[str, tuple[Field[Any], Any]]:
    """The fields of a record with their types, by name."""
    hints = get_type_hints(kind)
    return {one.name: (one, hints[one.name]) for one in fields(kind)}


def is_needed(one: Field[Any]) -> bool:
    """Whether a field has no default."""
    return one.default is MISSING and one.default_factory is MISSING
