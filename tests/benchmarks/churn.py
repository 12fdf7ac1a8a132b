"""Memory of the whole daemon with eight engines over an hour in which every label changes each minute.

``python -m tests.benchmarks churn``. It is scraped as Prometheus does; at the end somebody looks at the page.
"""

import sys
import time
from statistics import linear_regression, median

from sidecar.page.shown import SPANS
from tests.benchmarks.row import Row
from tests.benchmarks.running import daemon_beside, memory_mb

SECONDS = 3600.0
RENAMES_S = 60.0
SCRAPE_S = 15.0
TARGET_MB = 62.0
LEVEL_KB_PER_H = 500.0
"""A slope below it is none: the kept past fills by a few hundred KB in its first day."""


def watch(seconds: float) -> tuple[list[float], list[float], float]:
    """Hours, and MB resident then; and once the page was looked at in each span."""
    at: list[float] = []
    resident: list[float] = []
    with daemon_beside(8, "1s", renames_s=RENAMES_S) as running:
        begun = time.monotonic()
        while (age := time.monotonic() - begun) < seconds:
            running.get("/metrics")
            at.append(age / 3600)
            resident.append(memory_mb(running.process.pid))
            time.sleep(SCRAPE_S)
        for span in SPANS:
            running.get(f"/?span={span.word}")
        looked_at = memory_mb(running.process.pid)
    return at, resident, looked_at


def measure(seconds: float = SECONDS) -> list[Row]:
    """What is resident in the last tenth of the time, and its slope over the second half."""
    at, resident, looked_at = watch(seconds)
    last = median(resident[-max(1, len(resident) // 10) :])
    half = len(at) // 2
    slope = linear_regression(at[half:], resident[half:]).slope * 1000
    minutes = seconds / 60
    return [
        Row(
            what=f"daemon, 8 engines, after {minutes:.0f} min of churn: RSS",
            ours=last,
            unit="MB",
            reference="the same after a minute",
            theirs=resident[min(4, len(resident) - 1)],
            target=f"<= {TARGET_MB:.0f} MB",
            met=last <= TARGET_MB,
        ),
        Row(
            what="and once somebody looked at the page",
            ours=looked_at,
            unit="MB",
        ),
        Row(
            what="its slope over the second half",
            ours=slope,
            unit="KB/h",
            target=f"<= {LEVEL_KB_PER_H:.0f} KB/h",
            met=slope <= LEVEL_KB_PER_H,
        ),
    ]


def main() -> None:
    """Print the rows."""
    for row in measure(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS):
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
