"""What lines in logs mean: one row per wording.

A ``pattern`` is matched at the START of a message, after wrappers, prefixes, the logger's head and
exception names are taken off (``parse.log_line``); so text that is quoted inside a line never counts.
Wordings are of vLLM 0.1 to 0.33, torch 1.12 to 2.13, Linux 3.10 to 7.0, systemd 245 to 257.
"""

from collections.abc import Mapping
from types import MappingProxyType

from sidecar.catalog.signatures.facts import ARGUMENT_ROWS, FACT_ROWS
from sidecar.catalog.signatures.needles import NEEDLES, QUIET_STARTS
from sidecar.catalog.signatures.row import (
    LIVE_SCOPES,
    PIN_MEMORY_FRAME,
    SERVER_STOPPING,
    Facts,
    Mark,
    Scope,
    Signature,
)
from sidecar.catalog.signatures.server import AFTERMATH_ROWS, SERVER_ROWS
from sidecar.catalog.signatures.system import RAY_ROWS, SYSTEM_ROWS

__all__ = [
    "ARGUMENT_ROWS",
    "LIVE_SCOPES",
    "NEEDLES",
    "PIN_MEMORY_FRAME",
    "QUIET_STARTS",
    "ROWS",
    "SERVER_STOPPING",
    "SIGNATURES",
    "Facts",
    "Mark",
    "Scope",
    "Signature",
]

ROWS: tuple[Signature, ...] = (*SERVER_ROWS, *RAY_ROWS, *AFTERMATH_ROWS, *FACT_ROWS, *SYSTEM_ROWS)
"""In order: the first row that matches speaks."""

SIGNATURES: Mapping[str, Signature] = MappingProxyType({row.id: row for row in ROWS})
"""By id."""
