"""Program: a server that is killed for memory again and again, its cgroup removed right afterwards.

Arguments: the root of a memory hierarchy, the kernel log or ``off``, the interval as the daemon takes
it, a directory to write in, how often. Needs root. As a container runtime does it: one pod, for each
life of the server a new cgroup of another name in it, which is removed 10 ms after the kill. Tells, as
JSON, in how many of the deaths each daemon's evidence of a host OOM rose on ``/metrics``. With a
kernel log there are two daemons, of which the second does not read it.
"""

import contextlib
import http.client
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.fakes.daemon import Daemon, daemon  # noqa: E402
from tests.fakes.forked import Forked  # noqa: E402
from tests.process import vllm_stand_in  # noqa: E402
from tests.process.memory_cgroups import PodCgroup, pod_cgroup  # noqa: E402

EXPOSITION = ROOT / "tests/data/expositions/0.26.0.txt"
KEPT = (
    *("vllm:num_requests_running{", "vllm:num_requests_waiting{", "vllm:kv_cache_usage_perc{"),
    *("vllm:num_preemptions_total{", "vllm:prompt_tokens_total{", "vllm:generation_tokens_total{"),
)
"""Of the exposition: what a server is known by. It is asked for often."""
LIMIT = 5 << 20
STEP = 4096
"""Bytes by which each life's limit differs: a daemon that shows it has found the new cgroup."""
REMOVED_AFTER_S = 0.01
PATIENCE_S = 10.0
NOTED_S = 4.0
PORT = "18000"
POLL_S = 0.04
SERVING, DEAD = (f'vllm_sidecar_target_state{{state="{state}"}} 1' for state in ("serving", "dead"))
FIND_LIMIT = re.compile(
    r'^vllm_sidecar_host_memory_bytes\{kind="limit"\} (\S+)$', re.MULTILINE
).search
FIND_EVIDENCE = re.compile(
    r'^vllm_sidecar_evidence_total\{cause="host_oom",signal="(\w+)",source="(\w+)"\} (\S+)$',
    re.MULTILINE,
).findall


@dataclass
class Watcher:
    """A daemon, what it showed last, and in how many deaths each evidence rose."""

    name: str
    running: Daemon
    shown: dict[str, float] = field(default_factory=dict)
    rises: Counter[str] = field(default_factory=Counter)
    missed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=5)

    def page(self) -> str:
        """The exposition; what the daemon said, if it answers no more."""
        try:
            self.connection.request("GET", "/metrics")
            return self.connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            raise AssertionError(self.running.said) from None

    def evidence(self) -> dict[str, float]:
        """The evidence of a host OOM, by source and signal."""
        return evidence_of(self.page())

    def knows(self, limit: int) -> bool:
        """Whether the server with this limit is seen serving."""
        page = self.page()
        found = FIND_LIMIT(page)
        return SERVING in page and found is not None and float(found[1]) == limit

    def has_noted(self) -> bool:
        """Whether the server's death and a reason of it are seen."""
        page = self.page()
        return DEAD in page and evidence_of(page) != self.shown

    def account(self, life: int) -> None:
        """Take down what rose since the last call."""
        now = self.evidence()
        risen = [key for key, value in now.items() if value > self.shown.get(key, 0)]
        self.rises.update(risen)
        if not risen:
            self.missed.append(life)
        self.shown = now

    def told(self) -> dict[str, Any]:
        return {
            "seen_by": dict(self.rises),
            "missed": self.missed,
            "amounts": {key: value for key, value in self.shown.items() if value},
        }


def evidence_of(page: str) -> dict[str, float]:
    return {f"{source} {signal}": float(n) for signal, source, n in FIND_EVIDENCE(page)}


def wait_for(condition: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(POLL_S)


def live_and_die(pod: PodCgroup, life: int, arguments: list[str], watchers: list[Watcher]) -> float:
    """One life of the server; seconds from its death until its cgroup was gone."""
    limit = LIMIT + life * STEP
    place = pod.add(f"ctr-{life}", limit)
    server = Forked(lambda: vllm_stand_in.main([str(place), *arguments], children=()))
    try:
        assert server.stdout.readline(), server.stderr.read()
        for watcher in watchers:
            wait_for(partial(watcher.knows, limit), f"life {life} unknown to {watcher.name}")
            if life == 0:
                watcher.shown = watcher.evidence()
        server.stdin.write("api_server take\n")
        server.stdin.flush()
        assert server.wait(PATIENCE_S) == -9
        died = time.monotonic()
        time.sleep(REMOVED_AFTER_S)
        place.rmdir()
        return time.monotonic() - died
    finally:
        server.close()


def watch(log: str, interval: str, vllm_log: Path) -> contextlib.AbstractContextManager[Daemon]:
    """A daemon beside the server's port."""
    return daemon(
        *("--target", f"http://127.0.0.1:{PORT}", "--log", str(vllm_log), "--gpu", "off"),
        *("--kernel-log", log, "--interval", interval, "--window", interval),
    )


def main() -> None:
    root, kmsg, interval, work, lives = *sys.argv[1:5], int(sys.argv[5])
    exposition, vllm_log, words = (Path(work) / name for name in ("metrics", "vllm.log", "words"))
    lines = EXPOSITION.read_text().splitlines()
    exposition.write_text("".join(f"{line}\n" for line in lines if line.startswith(KEPT)))
    vllm_log.write_text("")
    words.write_text("")
    arguments = [*map(str, (exposition, vllm_log, words)), PORT]
    gone_after = []
    with (
        pod_cgroup(Path(root), f"sidecar-test-{os.getpid()}-restarts") as pod,
        contextlib.ExitStack() as stack,
    ):
        watchers = [
            Watcher(log, stack.enter_context(watch(log, interval, vllm_log)))
            for log in dict.fromkeys((kmsg, "off"))
        ]
        for life in range(lives):
            gone_after.append(live_and_die(pod, life, arguments, watchers))
            # One that the first daemon has not seen by then is told as missed.
            with contextlib.suppress(AssertionError):
                wait_for(watchers[0].has_noted, "not noted", NOTED_S)
            for watcher in watchers:
                watcher.account(life)
        found = {
            "lives": lives,
            "watchers": {watcher.name: watcher.told() for watcher in watchers},
            "cgroup_gone_after_s": {"least": min(gone_after), "most": max(gone_after)},
        }
    sys.stdout.write(f"RESULT {json.dumps(found)}\n")


if __name__ == "__main__":
    main()
