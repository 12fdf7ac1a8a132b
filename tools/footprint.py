"""Measures the daemon at a 1 s interval on a real exposition: share of a core, and resident memory.

``python tools/footprint.py [SECONDS]``: CPU from ``/proc/PID/stat``, memory from ``/proc/PID/status``.
"""

import os
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sidecar.clock import Clock  # noqa: E402
from tests.fakes.daemon import Daemon, daemon  # noqa: E402

EXPOSITION = (ROOT / "tests/data/expositions/0.26.0.txt").read_bytes()
WARM_S = 10.0


class Handler(BaseHTTPRequestHandler):
    """A server that always says the same, and keeps its connections as uvicorn does."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the exposition, or that all is well."""
        body = EXPOSITION if self.path == "/metrics" else b""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int, name: str) -> int:
    """A memory figure of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def measure(running: Daemon, seconds: float) -> str:
    """What the daemon needs once it is warm, scraped every 15 s as Prometheus would."""
    pid = running.process.pid
    clock, pause = Clock(), threading.Event()
    pause.wait(WARM_S)
    begun, used = clock.now().monotonic, cpu_s(pid)
    while clock.now().monotonic - begun < seconds:
        running.get("/metrics")
        pause.wait(min(15.0, seconds))
    share = (cpu_s(pid) - used) / (clock.now().monotonic - begun)
    now, peak = resident_bytes(pid, "VmRSS"), resident_bytes(pid, "VmHWM")
    return f"CPU {share:.2%} of a core, RSS {now / 1e6:.1f} MB, peak {peak / 1e6:.1f} MB"


def main() -> None:
    """Print the figures."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
        tempfile.NamedTemporaryFile(suffix=".log") as log,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        target = f"http://127.0.0.1:{server.server_port}"
        with daemon("--target", target, "--log", log.name, "--interval", "1s") as running:
            sys.stdout.write(f"{measure(running, seconds)}\n")
        server.shutdown()


if __name__ == "__main__":
    main()
