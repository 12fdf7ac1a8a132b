"""How soon after a kernel's kill the daemon shows it: a real server, killed a hundred times.

Each kill has a server, a memory cgroup and a daemon at a 1 s clock of its own, so that it is the alert
itself that is awaited each time: one that has risen stands for five minutes. Needs root and cgroup v1.
"""

import http.client
import json
import os
import re
import select
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from tests.benchmarks.log_command import table
from tests.benchmarks.row import Row
from tests.fakes.daemon import daemon
from tests.fakes.forked import Forked
from tests.process import vllm_stand_in
from tests.process.memory_cgroups import pod_cgroup

ROOT = Path(__file__).parents[2]
EXPOSITION = ROOT / "tests/data/expositions/0.26.0.txt"
MEMORY = Path("/sys/fs/cgroup/memory")
KMSG = Path("/dev/kmsg")
KILLS = 100
LIMIT = 24 << 20
PATIENCE_S = 10.0
POLL_S = 0.005
FIND_ALERTS = re.compile(
    r'^vllm_sidecar_alert\{cause="(\w+)",severity="\w+"\} 1(?:\.0)?$', re.MULTILINE
).findall
WATCHES = (
    'vllm_sidecar_target_state{state="serving"} 1',
    'vllm_sidecar_source_up{source="cgroup"} 1',
)


@dataclass(slots=True)
class Kill:
    """Seconds on the monotonic clock; ``first``: the cause that was alerted first.

    ``reaped`` is unknown where the kernel killed the victim's parent, too.
    """

    recorded: float
    reaped: float | None
    alerted: float
    first: str
    polls: list[float] = field(default_factory=list)


class KernelRecord:
    """Reads the kernel log from its end until it tells that a process was killed."""

    def __init__(self, pid: int) -> None:
        self._descriptor = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._descriptor, 0, os.SEEK_END)
        self._sought = f"Killed process {pid} ".encode()
        self.at: float | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while poll.poll(PATIENCE_S * 1000):
            try:
                record = os.read(self._descriptor, 8192)
            except (BlockingIOError, BrokenPipeError):
                continue
            if self._sought in record:
                self.at = time.monotonic()
                return

    def close(self) -> float:
        """When it was read."""
        self._thread.join(PATIENCE_S)
        os.close(self._descriptor)
        assert self.at is not None, "the kernel log told of no kill"
        return self.at


@contextmanager
def server(place: Path, work: Path) -> Iterator[tuple[Forked, dict[str, int]]]:
    """The stand-in, its port and its processes' pids."""
    log, words = work / "vllm.log", work / "words"
    for file in (log, words):
        file.write_text("")
    arguments = [str(place), str(EXPOSITION), str(log), str(words)]
    process = Forked(lambda: vllm_stand_in.main(arguments))
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.close()


def until(ask: Callable[[], str], *wanted: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not all(sample in ask() for sample in wanted):
        assert time.monotonic() < end, f"never shown: {wanted}"
        time.sleep(0.02)


def kill_once(number: int, work: Path) -> Kill:
    """One server's engine is killed for memory."""
    name = f"sidecar-bench-{os.getpid()}-{number}"
    with pod_cgroup(MEMORY, name) as pod:
        place = pod.add("ctr", LIMIT)
        options = ("--log", str(work / "vllm.log"), "--interval", "1s", "--window", "5s")
        with (
            server(place, work) as (process, about),
            daemon("--target", f"http://127.0.0.1:{about['port']}", *options) as running,
        ):
            connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=5)

            def ask() -> str:
                connection.request("GET", "/metrics")
                return connection.getresponse().read().decode()

            until(ask, *WATCHES)
            # The phase against the sample clock is another one each time.
            time.sleep(0.2 + 0.0137 * (number % 73))
            record = KernelRecord(about["engine"])
            process.stdin.write("engine take\n")
            process.stdin.flush()
            alerted, first, polls = await_alert(ask)
            connection.close()
            told = process.stdout.readline()
            reaped = json.loads(told)["at"] if told else None
            return Kill(record.close(), reaped, alerted, first, polls)


def await_alert(ask: Callable[[], str]) -> tuple[float, str, list[float]]:
    """When a host OOM is alerted, what was alerted first, and how long each poll took."""
    end = time.monotonic() + PATIENCE_S
    first, polls = "", []
    while True:
        begun = time.monotonic()
        causes = FIND_ALERTS(ask())
        now = time.monotonic()
        polls.append(now - begun)
        first = first or next(iter(causes), "")
        if "host_oom" in causes:
            return now, first, polls
        assert now < end, "the kill is not shown"
        time.sleep(POLL_S)


def measure(kills: int = KILLS) -> list[Row]:
    """Milliseconds until the alert stood on ``/metrics``, the wait for the next poll included.

    Nothing where the machine does not let us: it needs root and cgroup v1.
    """
    if os.geteuid() != 0 or not (MEMORY / "memory.limit_in_bytes").exists():
        return []
    with tempfile.TemporaryDirectory() as work:
        seen = [kill_once(number, Path(work)) for number in range(kills)]
    polls = [poll for kill in seen for poll in kill.polls]
    wrong = sum(kill.first != "host_oom" for kill in seen)
    return [
        *waits(f"{kills} kernel kills, record to alert", [k.alerted - k.recorded for k in seen]),
        *waits(
            f"{kills} kernel kills, victim reaped to alert",
            [k.alerted - k.reaped for k in seen if k.reaped is not None],
        ),
        Row("one poll of /metrics", 1000 * sum(polls) / len(polls), "ms"),
        Row("kills first alerted as another cause", wrong, "kills", target="none", met=wrong == 0),
    ]


def waits(what: str, seconds: list[float]) -> list[Row]:
    """The middle, the hundredth and the longest of some waits."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    found = (("p50", cuts[49]), ("p99", cuts[98]), ("at most", max(seconds)))
    return [Row(f"{what}, {name}", value * 1000, "ms") for name, value in found]


def main() -> None:
    """Measure and print."""
    rows = measure()
    sys.stdout.write(table(rows) or "kill to alert: not measured, it needs root and cgroup v1\n")


if __name__ == "__main__":
    main()
