"""How soon after a line is written the daemon shows what it means.

``python -m tests.benchmarks.log_visible`` prints it.
"""

import contextlib
import http.client
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

from tests.benchmarks.busy_vllm import LINE as LINE_OF_A_REQUEST
from tests.benchmarks.log_command import table
from tests.benchmarks.row import Row
from tests.benchmarks.running import BUSY_LINES_A_S
from tests.fakes.daemon import daemon

INCIDENTS = 60
P50_MS, P99_MS = 20.0, 100.0
PATIENCE_S = 5.0
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
        latencies, polls = watched(Path(work) / "quiet.log", incidents)
        busy_log = Path(work) / "busy.log"
        with requests_told(busy_log):
            amid, _ = watched(busy_log, incidents)
    cuts = quantiles(latencies, n=100, method="inclusive")
    busy = quantiles(amid, n=100, method="inclusive")
    lines = f"append to visible amid {BUSY_LINES_A_S:.0f} lines a second"
    bounded = (
        ("append to visible, p50", cuts[49], P50_MS),
        ("append to visible, p99", cuts[98], P99_MS),
        (f"{lines}, p99", busy[98], P99_MS),
    )
    return [
        *(
            Row(what, value, "ms", target=f"<= {most:g} ms", met=value <= most)
            for what, value, most in bounded
        ),
        Row(f"{lines}, p50", busy[49], "ms"),
        Row("append to visible, at most", max(latencies), "ms"),
        Row("one poll of /metrics", sum(polls) / len(polls), "ms"),
    ]


@contextlib.contextmanager
def requests_told(log: Path) -> Iterator[None]:
    """Meanwhile somebody writes a line for each request, as a busy server does."""
    over = threading.Event()

    def write() -> None:
        with log.open("ab", buffering=0) as file:
            while not over.wait(1 / BUSY_LINES_A_S):
                file.write(LINE_OF_A_REQUEST)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def watched(log: Path, incidents: int) -> tuple[list[float], list[float]]:
    """Write incidents, minutes apart by their own stamps, and ask until each is shown."""
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
