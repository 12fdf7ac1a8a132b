"""Answers of a server about itself -> its limits. Some of these answers hold secrets: only numbers pass."""

import json
from typing import Final

from sidecar.catalog.vllm_settings import ARGUMENTS, SERVER_INFO
from sidecar.model.limits import Limit, Limits, Origin
from sidecar.parse.launch_arguments import with_origin
from sidecar.parse.limit_values import limit_value

_LENGTH: Final = ARGUMENTS["max_model_len"]


def parse_models(body: bytes) -> Limits:
    """``max_model_len`` of the first card of ``/v1/models``; adapters, which follow, have none."""
    cards = _member(_json(body), "data")
    first = cards[0] if isinstance(cards, list) and cards else None
    value = limit_value(_LENGTH.unit, _member(first, "max_model_len"))
    return {} if value is None else with_origin({_LENGTH.limit: value}, Origin.MODELS)


def parse_server_info(body: bytes) -> Limits:
    """The limits in ``/server_info?config_format=json`` (with ``VLLM_SERVER_DEV_MODE=1`` only)."""
    config = _member(_json(body), "vllm_config")
    values: dict[Limit, float] = {}
    for path, setting in SERVER_INFO:
        found = config
        for key in path:
            found = _member(found, key)
        value = limit_value(setting.unit, found)
        if value is not None:
            values[setting.limit] = value
    return with_origin(values, Origin.SERVER_INFO)


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _member(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None
