"""From the start of the process to the first scrape that is served, beside ``python -c "import aiohttp"``.

``python -m tests.benchmarks.start``. Served is an answer 200: something was sampled. At the default
clock, which the start must not wait for.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.benchmarks.row import Row
from tests.benchmarks.running import QUIET_LINES_A_S, busy_server
from tests.fakes.daemon import Daemon, environment

ROUNDS = 9
TARGET_S = 0.8


def start_s(target: str, log: Path) -> float:
    """Seconds until the first scrape is served."""
    begun = time.monotonic()
    daemon = Daemon("run", "--target", target, "--log", str(log), "--listen", "127.0.0.1:0")
    try:
        daemon.listens()
        while daemon.get("/metrics")[0] != 200:
            time.sleep(0.002)
        return time.monotonic() - begun
    finally:
        daemon.close()


def import_s() -> float:
    """Seconds that an interpreter takes for aiohttp alone."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", "import aiohttp"], env=environment(), check=True)
    return time.monotonic() - begun


def measure(rounds: int = ROUNDS) -> list[Row]:
    """One row; both are measured in turn, so that what else the machine does meets both."""
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "log"
        with busy_server(1, log, 0.0, QUIET_LINES_A_S) as target:
            start_s(target, log)
            for _ in range(rounds):
                ours.append(start_s(target, log))
                theirs.append(import_s())
    took, reference = median(ours), median(theirs)
    return [
        Row(
            what="start to first scrape served",
            ours=took,
            unit="s",
            reference='python -c "import aiohttp"',
            theirs=reference,
            ratio=reference / took,
            target=f"<= {TARGET_S} s",
            met=took <= TARGET_S,
        )
    ]


def main() -> None:
    """Print the row."""
    for row in measure():
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
