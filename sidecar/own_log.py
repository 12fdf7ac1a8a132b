"""Our own log: one JSON line per event on stderr, with fields from an allow-list only."""

import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

FIELDS = frozenset(
    {
        "event",
        "level",
        "timestamp",
        "verdict",
        "severity",
        "cause",
        "kind",
        "state",
        "why",
        "source",
        "fault",
        "listen",
        "window_s",
        "interval_s",
        "signal",
        "step",
        "lever",
        "settings",
    }
)
"""What a line may hold. Everything else is dropped: a field that quotes the outside would leak."""


def keep_allowed(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Drop fields that are not on the list."""
    return {name: value for name, value in event.items() if name in FIELDS}


def make_logger() -> structlog.typing.FilteringBoundLogger:
    """A logger that writes to stderr, bound to no global configuration."""
    return structlog.wrap_logger(  # type: ignore[no-any-return]
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            keep_allowed,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(20),
    )
