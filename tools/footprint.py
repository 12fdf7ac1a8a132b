"""Measures the daemon with every source at 1 s and 5 s clocks: share of a core, and resident memory.

``python tools/footprint.py [SECONDS]``: the rows of ``tests.benchmarks.daemon_footprint``.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.benchmarks.daemon_footprint import SECONDS, measure  # noqa: E402


def main() -> None:
    """Print the figures."""
    for row in measure(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS):
        sys.stdout.write(f"{row.what}: {row.ours:.3g} {row.unit}\n")


if __name__ == "__main__":
    main()
