"""Program: the whole daemon beside a server that dies; tells, as JSON, what the daemon showed.

Arguments: the root of a memory hierarchy, the kernel log, the interval in seconds, a directory to
write in. Needs root. One result for each way to die.
"""

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.fakes.daemon import Daemon, daemon  # noqa: E402

DATA = ROOT / "tests/data"
STAND_IN = Path(__file__).with_name("vllm_stand_in.py")
LIMIT = 64 << 20
CAUSES = ("host_oom", "cuda_oom", "engine_failure", "stalled", "preemption")
WAYS = {"oom": "host_oom", "kill": "engine_failure", "neighbour": "host_oom"}
NEIGHBOURS_INTERVAL_S, NEIGHBOURS_WINDOW_S = 1, 6
GIVE_UP_S = 10.0
NEIGHBOUR = """
import os, sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
held = [os.urandom(1 << 20) for _ in range(4096)]
"""


def last_words() -> str:
    """What a real vLLM wrote after its engine was killed."""
    with gzip.open(DATA / "recordings/i_enginecore_sigkill/log.jsonl.gz", "rt") as file:
        lines = [json.loads(line)["line"] for line in file]
    begin = next(n for n, line in enumerate(lines) if " ERROR " in line)
    return "".join(f"{line}\n" for line in lines[begin:])


@contextlib.contextmanager
def cgroup(root: Path, name: str) -> Iterator[Path]:
    """A memory cgroup with a limit; on v2 a container in a pod, as Kubernetes nests them."""
    version1 = (root / "memory.limit_in_bytes").exists()
    places = [root / name] if version1 else [root / name, root / name / "ctr"]
    for place in places:
        if not version1:
            (place.parent / "cgroup.subtree_control").write_text("+memory")
        place.mkdir()
    limits = (
        ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        if version1
        else ("memory.max", "memory.swap.max")
    )
    for limit, value in zip(limits, (LIMIT, LIMIT if version1 else 0), strict=True):
        with contextlib.suppress(OSError):  # no swap accounting
            (places[-1] / limit).write_text(str(value))
    try:
        yield places[-1]
    finally:
        for place in reversed(places):
            remove(place)


def remove(place: Path) -> None:
    """A cgroup can be removed once the kernel is done with its last process."""
    for _ in range(200):
        with contextlib.suppress(OSError):
            for pid in (place / "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
        with contextlib.suppress(OSError):
            place.rmdir()
            return
        time.sleep(0.02)


@contextlib.contextmanager
def stand_in(place: Path, work: Path) -> Iterator[tuple["subprocess.Popen[str]", dict[str, int]]]:
    """The server, in its cgroup."""
    words = work / "last_words"
    words.write_text(last_words())
    log = work / "vllm.log"
    log.write_text("")
    with subprocess.Popen(
        [sys.executable, STAND_IN, place, DATA / "expositions/0.26.0.txt", log, words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def end_engine(what: str, process: "subprocess.Popen[str]", engine: int) -> float:
    """Let the engine die; the moment at which it was dead."""
    if what == "kill":
        os.kill(engine, signal.SIGKILL)
    else:
        assert process.stdin is not None
        process.stdin.write("take all memory\n")
        process.stdin.flush()
    stat = Path(f"/proc/{engine}/stat")
    while is_living(stat):
        time.sleep(0.001)
    return time.monotonic()


def end_neighbour(place: Path) -> float:
    """A process of the cgroup that is none of the server's takes memory until it is killed.

    Early in a window, so that the server can be seen to live on before the window ends.
    """
    time.sleep(NEIGHBOURS_WINDOW_S - time.time() % NEIGHBOURS_WINDOW_S + 0.1)
    code = subprocess.run([sys.executable, "-c", NEIGHBOUR, place], check=False).returncode
    assert code == -signal.SIGKILL
    return time.monotonic()


def is_living(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def alerts(running: Daemon) -> dict[str, str]:
    """The severity of each cause that is alerted."""
    return {
        labels[0]: labels[1]
        for (name, labels), value in running.metrics().items()
        if name == "vllm_sidecar_alert" and value == 1
    }


def observe(running: Daemon, died: float, wanted: str, settle_s: float) -> dict[str, Any]:
    """How long it took until ``wanted`` was alerted, and all that was alerted from then on."""
    ever: dict[str, list[str]] = {}
    late = None
    end = died + GIVE_UP_S
    while time.monotonic() < end:
        for cause, severity in alerts(running).items():
            ever.setdefault(cause, [])
            if severity not in ever[cause]:
                ever[cause].append(severity)
        if late is None and wanted in ever:
            late = time.monotonic() - died
            # What follows may not add a second failure.
            end = time.monotonic() + settle_s
        time.sleep(0.01)
    verdicts = {
        labels[0]
        for (name, labels), value in running.metrics().items()
        if name == "vllm_sidecar_verdict" and value == 1
    }
    return {"late_s": late, "ever": ever, "at_last": alerts(running), "verdicts": sorted(verdicts)}


def try_out(
    what: str, root: Path, kmsg: str, *, interval_s: int, window_s: int, work: Path
) -> dict[str, Any]:
    """One server, one daemon, one death."""
    work.mkdir(parents=True)
    with (
        cgroup(root, f"sidecar-test-{os.getpid()}-{what}") as place,
        stand_in(place, work) as (process, about),
        daemon(
            "--target", f"http://127.0.0.1:{about['port']}",
            "--log", str(work / "vllm.log"),
            "--kernel-log", kmsg,
            "--interval", f"{interval_s}s",
            "--window", f"{window_s}s",
        ) as running,
    ):  # fmt: skip
        running.until(lambda: watches(running), seconds=30)
        if what == "neighbour":
            died = end_neighbour(place)
        else:
            died = end_engine(what, process, about["engine"])
        found = observe(running, died, WAYS[what], settle_s=window_s + 0.5)
        found["sources"] = {
            labels[0]: value
            for (name, labels), value in running.metrics().items()
            if name == "vllm_sidecar_source_up"
        }
        found["code"], _ = running.end()
        found["said"] = running.events
        return found


def watches(running: Daemon) -> bool:
    """Whether the server was seen serving, and its cgroup found."""
    shown = running.metrics()
    return (
        shown.get(("vllm_sidecar_target_state", ("serving",))) == 1
        and shown.get(("vllm_sidecar_source_up", ("cgroup",))) == 1
    )


def main() -> None:
    root, kmsg, interval_s, work = Path(sys.argv[1]), *sys.argv[2:5]

    def attempt(what: str) -> dict[str, Any]:
        interval, window = int(interval_s), 2 * int(interval_s)
        if what == "neighbour":
            interval, window = NEIGHBOURS_INTERVAL_S, NEIGHBOURS_WINDOW_S
        place = Path(work) / what
        found = try_out(what, root, kmsg, interval_s=interval, window_s=window, work=place)
        return {"what": what, **found}

    # At the same time: most of the time is spent in waiting for what must not come.
    with ThreadPoolExecutor() as pool:
        for found in pool.map(attempt, WAYS):
            sys.stdout.write(f"RESULT {json.dumps(found)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
