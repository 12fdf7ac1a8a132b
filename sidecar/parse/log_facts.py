"""A line of a start that tells of the server's limits -> their numbers, by the names of the limits."""

import re
from collections.abc import Mapping

from sidecar.catalog.signatures import Facts
from sidecar.catalog.vllm_settings import ARGUMENTS, ENGINE_FIELDS, Unit
from sidecar.model.limits import Limit
from sidecar.parse.launch_arguments import Values, values_of_dict, values_of_keywords
from sidecar.parse.limit_values import limit_value, thousands

_UNITS = {Limit.KV_MEMORY_ADVICE_BYTES: Unit.BYTES}


def read_facts(facts: Facts, found: re.Match[str]) -> Mapping[str, float]:
    """What a message tells that matched the pattern of a row with ``facts``."""
    rest = found.string[found.end() :]
    values: Values
    match facts:
        case Facts.NUMBERS:
            values = _groups(found, Unit.COUNT)
        case Facts.GIB:
            values = _groups(found, Unit.GIB)
        case Facts.DICT:
            values = values_of_dict(rest)
        case Facts.NAMESPACE:
            values = values_of_keywords(rest, ARGUMENTS)
        case Facts.CONFIG:
            values = values_of_keywords(rest.partition("with config: ")[2], ENGINE_FIELDS)
    return {limit.value: value for limit, value in values.items()}


def _groups(found: re.Match[str], unit: Unit) -> Values:
    values: dict[Limit, float] = {}
    for name, text in found.groupdict().items():
        limit = Limit(name)
        value = None if text is None else limit_value(_UNITS.get(limit, unit), thousands(text))
        if value is not None:
            values[limit] = value
    return values
