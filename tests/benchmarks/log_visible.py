"""How soon after a line is written the daemon shows what it means."""

import http.client
import re
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from tests.fakes.daemon import daemon

INCIDENTS = 60
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


@dataclass(frozen=True, slots=True)
class Shown:
    """Milliseconds from the write to the first answer that tells of it, a poll's length included."""

    p50_ms: float
    p99_ms: float
    most_ms: float
    poll_ms: float
    incidents: int

    def __str__(self) -> str:
        return (
            f"p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms, at most {self.most_ms:.1f} ms"
            f" of {self.incidents}; one poll takes {self.poll_ms:.1f} ms"
        )


def measure(work: Path) -> Shown:
    """Write incidents, minutes apart by their own stamps, and ask until each is shown."""
    log = work / "growing.log"
    log.write_text("(APIServer pid=1) INFO:     Application startup complete.\n")
    options = ("--target", "http://127.0.0.1:9", "--log", str(log), "--interval", "1s")
    off = ("--window", "5s", "--cgroup", "off", "--kernel-log", "off", "--gpu", "off")
    with daemon(*options, *off) as running, log.open("a") as file:
        running.samples()
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=5)
        latencies, polls = [], []
        for number in range(INCIDENTS):
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
    cuts = quantiles(latencies, n=100, method="inclusive")
    return Shown(cuts[49], cuts[98], max(latencies), sum(polls) / len(polls), len(latencies))


def evidence(connection: http.client.HTTPConnection) -> float:
    """How many GPU allocation failures the exposition tells of."""
    connection.request("GET", "/metrics")
    found = FIND_EVIDENCE(connection.getresponse().read().decode())
    return float(found[1]) if found else 0.0
