"""A log of a gigabyte: CPU time of its scan, and the memory held from its begin to its end.

``python -m tests.benchmarks.scan_large [MB]`` prints it.
"""

import sys
import tempfile
from pathlib import Path

from tests.benchmarks.log_command import table
from tests.benchmarks.log_scan import made, scan
from tests.benchmarks.row import Row

MEGABYTES = 1000
MB_PER_CPU_S = 250.0
MOST_GROWN_MB = 2.0
"""What a scan's memory may grow by between the first fifth of a log and its end."""


def measure(megabytes: int = MEGABYTES) -> list[Row]:
    """MB per CPU second with the start of the command in it; memory in MB."""
    with tempfile.TemporaryDirectory() as directory:
        log, held = made(Path(directory) / "vllm.log", megabytes)
        ran = scan(log, held, rounds=1)
    speed = megabytes / ran.cpu_s
    early, late, peak = ran.rss_mb[len(ran.rss_mb) // 5], ran.rss_mb[-1], max(ran.rss_mb)
    return [
        Row(
            f"scan of {megabytes} MB",
            speed,
            "MB per CPU s",
            target=f">= {MB_PER_CPU_S:g}",
            met=speed >= MB_PER_CPU_S,
        ),
        Row(
            f"memory of a scan of {megabytes} MB, at most",
            peak,
            "MB",
            "after a fifth of it",
            early,
            peak / early,
            f"<= {MOST_GROWN_MB:g} MB more",
            peak - early <= MOST_GROWN_MB,
        ),
        Row(f"memory of a scan of {megabytes} MB, at its end", late, "MB"),
    ]


def main(megabytes: int) -> None:
    """Measure and print."""
    sys.stdout.write(table(measure(megabytes)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES)
