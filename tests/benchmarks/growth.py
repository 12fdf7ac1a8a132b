"""What grows: cost with ten times the engines or the past, memory over a day of series that come and go.

``python -m tests.benchmarks.growth [HOURS]``. The day is virtual: every tick goes through reader,
pipeline, checkpoint and our own rendering, as fast as it can.
"""

import gc
import json
import os
import re
import sys
import time
import tracemalloc
from statistics import linear_regression, median

from sidecar.export.metrics import Exposition, Format
from sidecar.export.results import window_result
from sidecar.history.past import Past
from sidecar.model.verdict import Judgement
from tests.benchmarks.row import Row
from tests.benchmarks.running import memory_mb
from tests.benchmarks.virtual import EVIDENCE_KEYS, VirtualServer

HOURS = 24.0
INTERVAL_S = 5.0
SCRAPE_TICKS = 3
RENAME_TICKS = 60
"""Every so many ticks all models and processes get new names: a server was exchanged."""
FEW, MANY = 4, 40
WINDOW_S, WINDOWS = 15.0, 5760
LEVEL_KB_PER_H = 10.0
"""A slope below it is none: less than a megabyte in four days."""


def renamed(body: bytes, number: int) -> bytes:
    """The exposition of a server whose labels were never seen before."""
    return re.sub(rb'model_name="[^"]*"', f'model_name="model-{number}"'.encode(), body)


def tick_ms(engines: int, ticks: int = 40) -> float:
    """Milliseconds of CPU for a tick: reading, thinking, rendering."""
    server, exposition, costs = VirtualServer(engines), Exposition(EVIDENCE_KEYS), []
    for _ in range(ticks):
        body = server.body()
        begun = time.process_time()
        exposition.payload(server.step(body).report, Format.TEXT, compressed=True)
        costs.append((time.process_time() - begun) * 1e3)
    return median(costs[5:])


def churn(hours: float) -> tuple[list[float], list[float], list[float]]:
    """Hours, KB that Python holds, and MB resident, ten times an hour in the second half."""
    server, exposition = VirtualServer(1, interval_s=INTERVAL_S), Exposition(EVIDENCE_KEYS)
    ticks = int(hours * 3600 / INTERVAL_S)
    every = int(360 / INTERVAL_S)
    at: list[float] = []
    held: list[float] = []
    resident: list[float] = []
    base = server.body()
    for number in range(ticks):
        body = base if number % 7 else server.body()
        report = server.step(renamed(body, number // RENAME_TICKS)).report
        if number % SCRAPE_TICKS == 0:
            exposition.payload(report, Format.TEXT, compressed=True)
        if number == ticks // 3:
            tracemalloc.start()
        if number > ticks // 2 and number % every == 0:
            gc.collect()
            at.append(number * INTERVAL_S / 3600)
            held.append(tracemalloc.get_traced_memory()[0] / 1024)
            resident.append(memory_mb(os.getpid()))
    tracemalloc.stop()
    return at, held, resident


def past_us(windows: int) -> tuple[float, float]:
    """Microseconds of CPU to keep a window, of so many; and KB that all of them take."""
    server, past = VirtualServer(1, interval_s=INTERVAL_S), Past()
    result = window_result(first_window(server))
    begun = time.process_time()
    for number in range(windows):
        span = {"start": WINDOW_S * number, "end": WINDOW_S * (number + 1)}
        told = {**result, "window": span, "state": f"{number}"}
        past.add(told, json.dumps(told))
    taken = time.process_time() - begun
    kept = past.archive.size + len(past.timeline.packed)
    return taken / windows * 1e6, kept / 1024


def first_window(server: VirtualServer) -> Judgement:
    """A whole window of a busy server."""
    closed: tuple[Judgement, ...] = ()
    while len(closed) == 0 or closed[0].window.partial:
        closed = server.step(server.body()).closed or closed
    return closed[0]


def measure(hours: float = HOURS) -> list[Row]:
    """The cost of ten times the engines, and two slopes of memory."""
    few, many = tick_ms(FEW), tick_ms(MANY)
    short, long = past_us(WINDOWS // 10), past_us(WINDOWS)
    at, held, resident = churn(hours)
    slope = linear_regression(at, held).slope
    return [
        Row(
            what=f"tick with {MANY} engines",
            ours=many,
            unit="ms CPU",
            reference=f"{FEW} engines",
            theirs=few,
            ratio=many / few,
            target="<= 11x",
            met=many <= 11 * few,
        ),
        Row(
            what=f"keeping a window, the {WINDOWS:,} of a day in {long[1]:.0f} KB",
            ours=long[0],
            unit="us CPU",
            reference=f"a tenth of them in {short[1]:.0f} KB",
            theirs=short[0],
            ratio=long[0] / short[0],
            target="<= 1.3x",
            met=long[0] <= 1.3 * short[0],
        ),
        Row(
            what=f"memory over {hours:.0f} h of churn",
            ours=slope,
            unit="KB/h held",
            target=f"<= {LEVEL_KB_PER_H:.0f} KB/h",
            met=slope <= LEVEL_KB_PER_H,
        ),
        Row(
            what=f"resident memory over {hours:.0f} h of churn",
            ours=linear_regression(at, resident).slope * 1000,
            unit="KB/h resident",
        ),
    ]


def main() -> None:
    """Print the rows."""
    for row in measure(float(sys.argv[1]) if len(sys.argv) > 1 else HOURS):
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
