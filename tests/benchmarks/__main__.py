"""Everything that is measured, in one run: ``python -m tests.benchmarks [NAME...]``.

Prints a table and writes ``.benchmarks/results.json``; ends with 1 if a target is missed.
"""

import importlib
import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.benchmarks.row import Row

NAMES = (
    "exposition_parse",
    "log_scan",
    "scan_large",
    "log_visible",
    "kill_visible",
    "daemon_footprint",
    "own_metrics",
    "start",
    "replay_speed",
    "page",
    "growth",
)
BY_NAME_ONLY = ("churn",)
"""It takes an hour."""
RESULTS = Path(__file__).resolve().parents[2] / ".benchmarks/results.json"
HEADS = ("what", "ours", "reference", "theirs", "ratio", "target", "met")


def say(value: float | None) -> str:
    """Three digits."""
    return "" if value is None else f"{value:.3g}"


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is printed."""
    met = {True: "yes", False: "NO", None: ""}[row.met]
    ratio = "" if row.ratio is None else f"{say(row.ratio)}x"
    ours = f"{say(row.ours)} {row.unit}"
    return row.what, ours, row.reference, say(row.theirs), ratio, row.target, met


def table(rows: Iterable[Row]) -> str:
    """The rows in columns."""
    lines = [HEADS, *map(cells, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEADS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def main(names: Sequence[str]) -> int:
    """Measure what is asked for, else everything; the exit code."""
    unknown = set(names) - {*NAMES, *BY_NAME_ONLY}
    if unknown:
        sys.stderr.write(f"no such benchmark: {', '.join(sorted(unknown))}\n")
        return 2
    rows: list[Row] = []
    for name in names or NAMES:
        sys.stderr.write(f"{name} ...\n")
        rows += importlib.import_module(f"tests.benchmarks.{name}").measure()
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=1)
    )
    sys.stdout.write(f"{table(rows)}\n")
    return 1 if any(row.met is False for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
