"""CPU and memory of the whole daemon, beside ``prometheus-node-exporter`` scraped at the same rate.

``python -m tests.benchmarks.daemon_footprint [SECONDS]``. Every source is on; the daemon is scraped
every 15 s, as Prometheus does by default.
"""

import contextlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

from tests.benchmarks.row import Row
from tests.benchmarks.running import (
    BUSY_LINES_A_S,
    QUIET_LINES_A_S,
    cpu_s,
    daemon_beside,
    memory_mb,
    part_beside,
)

NODE_EXPORTER = "prometheus-node-exporter"
SECONDS = 60.0
WARM_S = 6.0
SCRAPE_S = 15.0
CPU_TARGETS = {(1, "1s"): 0.4, (8, "1s"): 0.8}
"""Per cent of a core, by engines and clock."""
RSS_TARGET_MB = 62.0


@dataclass(frozen=True, slots=True)
class Use:
    """Per cent of a core, and MB."""

    cpu: float
    rss: float


@contextlib.contextmanager
def node_exporter() -> Iterator[tuple[int, str] | None]:
    """Pid and address of a node exporter; None where it is not installed."""
    command = shutil.which(NODE_EXPORTER)
    if command is None:
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    exporter = subprocess.Popen(
        [command, f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield exporter.pid, f"http://127.0.0.1:{port}/metrics"
    finally:
        exporter.terminate()
        exporter.wait()


def get(url: str) -> None:
    """Scrape, and wait for who is not there yet."""
    for _ in range(50):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            answer.read()
            return
        time.sleep(0.1)


def run(
    engines: int, interval: str, seconds: float, lines_a_s: float = QUIET_LINES_A_S
) -> tuple[Use, Use | None]:
    """What we use, and what the node exporter uses when it is scraped at our interval."""
    every = float(interval.removesuffix("s"))
    beside = daemon_beside(engines, interval, lines_a_s=lines_a_s)
    with beside as ours, node_exporter() as theirs:
        pids = [ours.process.pid] + ([] if theirs is None else [theirs[0]])
        if theirs is not None:
            get(theirs[1])
        time.sleep(WARM_S)
        used = [cpu_s(pid) for pid in pids]
        begun = time.monotonic()
        scraped = begun - SCRAPE_S
        while (now := time.monotonic()) - begun < seconds:
            if theirs is not None:
                get(theirs[1])
            if now - scraped >= SCRAPE_S:
                scraped = now
                ours.get("/metrics")
            time.sleep(max(0.0, every - (time.monotonic() - now)))
        took = time.monotonic() - begun
        uses = [
            Use(cpu=100 * (cpu_s(pid) - before) / took, rss=memory_mb(pid))
            for pid, before in zip(pids, used, strict=True)
        ]
    return uses[0], uses[1] if theirs is not None else None


def run_part(part: str, engines: int, seconds: float) -> float:
    """Per cent of a core of a part of the daemon alone."""
    with part_beside(part, engines) as pid:
        time.sleep(WARM_S)
        used, begun = cpu_s(pid), time.monotonic()
        time.sleep(seconds)
        return 100 * (cpu_s(pid) - used) / (time.monotonic() - begun)


def measure_parts(ours: float, engines: int, seconds: float) -> list[Row]:
    """What of ``ours`` at a 1 s clock is there before anything is thought."""
    parts = {
        "gets": "of it: a loop with the two GETs, and nothing else",
        "sources": "of it: every source sampled, and the samples thrown away",
    }
    return [
        Row(
            what=what,
            ours=run_part(part, engines, seconds),
            unit="% of a core",
            reference="the whole daemon",
            theirs=ours,
        )
        for part, what in parts.items()
    ]


def cpu_row(what: str, ours: Use, theirs: Use | None, limit: float | None = None) -> Row:
    """The CPU of both, and what ours may be at most in per cent of a core."""
    return Row(
        what=f"{what}: CPU",
        ours=ours.cpu,
        unit="% of a core",
        reference=NODE_EXPORTER,
        theirs=None if theirs is None else theirs.cpu,
        ratio=None if theirs is None else theirs.cpu / ours.cpu,
        target="" if limit is None else f"<= {limit} %",
        met=None if limit is None else ours.cpu <= limit,
    )


def measure_busy_log(seconds: float) -> Row:
    """What it costs to follow a log in which every request is told."""
    ours, theirs = run(1, "1s", seconds, BUSY_LINES_A_S)
    return cpu_row(f"daemon, 1 engine, 1s clock, {BUSY_LINES_A_S:.0f} lines a second", ours, theirs)


def measure(seconds: float = SECONDS) -> list[Row]:
    """CPU and memory for one and eight engines at two clocks."""
    rows = []
    for engines in (1, 8):
        for interval in ("1s", "5s"):
            ours, theirs = run(engines, interval, seconds)
            what = f"daemon, {engines} engine{'s' * (engines > 1)}, {interval} clock"
            limit = CPU_TARGETS.get((engines, interval))
            is_bound = (engines, interval) == (8, "1s")
            rows += [
                cpu_row(what, ours, theirs, limit),
                Row(
                    what=f"{what}: RSS",
                    ours=ours.rss,
                    unit="MB",
                    reference=NODE_EXPORTER,
                    theirs=None if theirs is None else theirs.rss,
                    ratio=None if theirs is None else theirs.rss / ours.rss,
                    target=f"<= {RSS_TARGET_MB:.0f} MB" if is_bound else "",
                    met=ours.rss <= RSS_TARGET_MB if is_bound else None,
                ),
            ]
            if interval == "1s":
                rows += measure_parts(ours.cpu, engines, seconds)
    return [*rows, measure_busy_log(seconds)]


def main() -> None:
    """Print the rows."""
    for row in measure(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS):
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
