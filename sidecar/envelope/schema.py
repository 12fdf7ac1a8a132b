"""The JSON Schema (draft 2020-12) of ``envelope.json``, made from the dataclasses that are its format."""

import inspect
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from typing import Any, Final, Union, get_args, get_origin

from sidecar.envelope.artifact import FORMAT, MOST_ITEMS, MOST_TEXT, is_needed, shape_of
from sidecar.model.envelope import Envelope

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
ID: Final = f"urn:vllm-sidecar:envelope:{FORMAT}"
Schema = dict[str, Any]

PLAIN: Final[Mapping[type, Schema]] = {
    float: {"type": "number"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    str: {"type": "string", "maxLength": MOST_TEXT},
}


def make_schema() -> Schema:
    """The whole schema."""
    defined: dict[str, Schema] = {}
    top = record_schema(Envelope, defined)
    return {
        "$schema": DRAFT,
        "$id": ID,
        "title": "Envelope",
        **top,
        "required": ["format", *top["required"]],
        "properties": {"format": {"const": FORMAT}, **top["properties"]},
        "$defs": dict(sorted(defined.items())),
    }


def schema_of(kind: Any, defined: dict[str, Schema]) -> Schema:
    """The schema of one type; records and closed sets go to ``defined``."""
    origin = get_origin(kind)
    if origin in {Union, types.UnionType}:
        (inner,) = (one for one in get_args(kind) if one is not types.NoneType)
        return {"anyOf": [schema_of(inner, defined), {"type": "null"}]}
    if origin is tuple:
        items = schema_of(get_args(kind)[0], defined)
        return {"type": "array", "items": items, "maxItems": MOST_ITEMS}
    if origin is not None and issubclass(origin, Mapping):
        key, value = get_args(kind)
        return mapping_schema(key, value, defined)
    if kind in PLAIN:
        return dict(PLAIN[kind])
    if kind.__name__ not in defined:
        defined[kind.__name__] = {}
        is_record = is_dataclass(kind)
        defined[kind.__name__] = record_schema(kind, defined) if is_record else word_schema(kind)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def mapping_schema(key: type, value: Any, defined: dict[str, Schema]) -> Schema:
    """An object whose keys are texts, or words of a closed set."""
    schema: Schema = {
        "type": "object",
        "additionalProperties": schema_of(value, defined),
        "maxProperties": MOST_ITEMS,
    }
    if issubclass(key, StrEnum):
        schema["propertyNames"] = schema_of(key, defined)
    return schema


def word_schema(kind: type[StrEnum]) -> Schema:
    """A closed set of words."""
    return {"description": describe(kind), "enum": [member.value for member in kind]}


def record_schema(kind: type, defined: dict[str, Schema]) -> Schema:
    """A record, described as the code describes it."""
    shape = shape_of(kind)
    return {
        "description": describe(kind),
        "type": "object",
        "properties": {name: schema_of(hint, defined) for name, (_, hint) in shape.items()},
        "required": [name for name, (one, _) in shape.items() if is_needed(one)],
        "additionalProperties": False,
    }


def describe(kind: type) -> str:
    """The type's docstring in one line."""
    return " ".join((inspect.getdoc(kind) or "").replace("``", "`").split())
