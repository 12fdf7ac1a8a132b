"""How soon after a line is written the daemon shows what it means.

``python -m tests.benchmarks.log_visible`` prints it.
"""

import http.client
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import quantiles

from tests.benchmarks.log_command import table
from tests.benchmarks.row import Row
from tests.benchmarks.running import BUSY_LINES_A_S
from tests.fakes.daemon import daemon

INCIDENTS = 60
P50_MS, P99_MS = 20.0, 100.0
PATIENCE_S = 5.0
REQUEST = '(APIServer pid=1) INFO:     127.0.0.1:4 - "POST /v1/completions HTTP/1.1" 200 OK\n'
POLL_S = 0.002
FIND_EVIDENCE = re.compile(
    r'^vllm_sidecar_evidence_total\{cause="cuda_oom",signal="gpu_out_of_memory",source="vllm_log"\}'
    r" (\S+)$",
    re.MULTILINE,
).search
LINE = (
    "(EngineCore pid=7) ERROR 10-{day:02} {hour:02}:{minute:02}:57 [core.py:1104]"
    " torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


def measure(incidents: int = INCIDENTS) -> list[Row]:
    """Milliseconds from the write to the first answer that tells of it, a poll's length included."""
    with tempfile.TemporaryDirectory() as work:
        latencies, polls = watched(Path(work), incidents)
    with tempfile.TemporaryDirectory() as work:
        amid, _ = watched(Path(work), incidents, among_lines=True)
    cuts = quantiles(latencies, n=100, method="inclusive")
    busy = quantiles(amid, n=100, method="inclusive")
    lines = f"amid {BUSY_LINES_A_S:.0f} lines a second"
    return [
        *(
            Row(
                f"append to visible, {name}",
                value,
                "ms",
                target=f"<= {most:g} ms",
                met=value <= most,
            )
            for name, value, most in (("p50", cuts[49], P50_MS), ("p99", cuts[98], P99_MS))
        ),
        Row("append to visible, at most", max(latencies), "ms"),
        Row(f"append to visible, {lines}, p50", busy[49], "ms"),
        Row(f"append to visible, {lines}, p99", busy[98], "ms"),
        Row("one poll of /metrics", sum(polls) / len(polls), "ms"),
    ]


def write_lines(log: Path, over: threading.Event) -> None:
    """Tell of request after request, as a busy server does."""
    with log.open("a") as file:
        while not over.wait(1 / BUSY_LINES_A_S):
            file.write(REQUEST)
            file.flush()


def watched(
    work: Path, incidents: int, *, among_lines: bool = False
) -> tuple[list[float], list[float]]:
    """Write incidents, minutes apart by their own stamps, and ask until each is shown."""
    over = threading.Event()
    writer = threading.Thread(target=write_lines, args=(work / "growing.log", over))
    if among_lines:
        writer.start()
    try:
        return watched_alone(work, incidents)
    finally:
        over.set()
        if among_lines:
            writer.join()


def watched_alone(work: Path, incidents: int) -> tuple[list[float], list[float]]:
    """The same, whoever else writes to the log."""
    log = work / "growing.log"
    with log.open("a") as file:
        file.write("(APIServer pid=1) INFO:     Application startup complete.\n")
    options = ("--target", "http://127.0.0.1:9", "--log", str(log), "--interval", "1s")
    off = ("--window", "5s", "--cgroup", "off", "--kernel-log", "off", "--gpu", "off")
    latencies, polls = [], []
    with daemon(*options, *off) as running, log.open("a") as file:
        running.samples()
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=5)
        for number in range(incidents):
            # The phase against the sample clock is another one each time.
            time.sleep(0.2 + 0.0137 * (number % 40))
            minutes = number * 10
            before = evidence(connection)
            begun = time.monotonic()
            file.write(
                LINE.format(day=1 + minutes // 1440, hour=minutes // 60 % 24, minute=minutes % 60)
            )
            file.flush()
            while evidence(connection) <= before:
                if time.monotonic() - begun > PATIENCE_S:
                    raise TimeoutError(f"incident {number} is not shown")
                time.sleep(POLL_S)
            latencies.append((time.monotonic() - begun) * 1000)
            asked = time.monotonic()
            evidence(connection)
            polls.append((time.monotonic() - asked) * 1000)
        connection.close()
    return latencies, polls


def evidence(connection: http.client.HTTPConnection) -> float:
    """How many GPU allocation failures the exposition tells of."""
    connection.request("GET", "/metrics")
    found = FIND_EVIDENCE(connection.getresponse().read().decode())
    return float(found[1]) if found else 0.0


def main() -> None:
    """Measure and print."""
    sys.stdout.write(table(measure()))


if __name__ == "__main__":
    main()
