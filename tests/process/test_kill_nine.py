"""Killed again and again amid a log that grows and rotates, the daemon counts every incident once."""

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.fakes.daemon import Daemon

INCIDENTS = 1000
ROTATE_EVERY = 60
KILLS = 50
BEGIN = datetime(2026, 1, 2)  # noqa: DTZ001  (a log's head bears no zone)


def incident(n: int) -> str:
    """One incident as a server with two ranks tells it: a root, told often, and what follows."""
    at = (BEGIN + timedelta(minutes=5 * n)).strftime("%m-%d %H:%M:%S")
    root = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 960.00 MiB. GPU 0 has a"
        " total capacity of 79.14 GiB of which 712.75 MiB is free."
    )
    dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
    lines = [
        f"(APIServer pid=1) INFO {at} [api_server.py:1] vLLM API server version 0.14.1",
        *(f"(Worker_TP{r} pid={r}) ERROR {at} [core.py:7] {root}" for r in (0, 1)),
        f"(EngineCore_DP0 pid=9) ERROR {at} [core.py:7] {root}",
        *(f"(APIServer pid=1) ERROR {at} [serving_chat.py:1] {dead}" for _ in range(3)),
    ]
    return "".join(f"{line}\n" for line in lines)


@contextmanager
def writing(log: Path, pace_s: float) -> Iterator[threading.Thread]:
    """A server that writes all incidents, with a log that is renamed now and then."""
    stop = threading.Event()

    def write() -> None:
        for n in range(INCIDENTS):
            if n and n % ROTATE_EVERY == 0:
                kept = sorted(log.parent.glob("vllm.log.*"), key=lambda p: -int(p.suffix[1:]))
                for path in kept:
                    path.rename(path.with_suffix(f".{int(path.suffix[1:]) + 1}"))
                log.rename(log.with_name("vllm.log.1"))
            text = incident(n)
            cut = random.Random(n).randrange(len(text))
            for part in (text[:cut], text[cut:]):
                with log.open("a") as file:
                    file.write(part)
                stop.wait(pace_s / 2)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join()


def start(log: Path, state: Path) -> Daemon:
    return Daemon(
        "run",
        *("--target", "http://127.0.0.1:1", "--log", str(log), "--state-dir", str(state)),
        *("--interval", "100ms", "--window", "200ms", "--listen", "127.0.0.1:0"),
        *("--cgroup", "off", "--kernel-log", "off", "--gpu", "off"),
    )


def counted(daemon: Daemon) -> dict[str, float]:
    """Evidence of the log by its cause."""
    found = dict.fromkeys(("cuda_oom", "engine_failure", "host_oom"), 0.0)
    for (name, labels), value in daemon.metrics().items():
        if name == "vllm_sidecar_evidence_total" and labels[-1] == "vllm_log":
            found[labels[0]] = found.get(labels[0], 0.0) + value
    return {cause: total for cause, total in found.items() if total}


@pytest.mark.timeout(240)
def test_a_thousand_incidents_are_counted_once_over_fifty_kills(tmp_path: Path) -> None:
    log, state = tmp_path / "log" / "vllm.log", tmp_path / "state"
    log.parent.mkdir()
    log.touch()
    dice = random.Random(7)
    first = start(log, state)
    first.listens()
    first.samples()
    with writing(log, pace_s=0.055) as writer:
        daemon = first
        for _ in range(KILLS):
            threading.Event().wait(dice.uniform(0.05, 0.5))
            os.kill(daemon.process.pid, signal.SIGKILL)
            daemon.close()
            daemon = start(log, state)
            daemon.listens()
        writer.join()
        daemon.samples()
        daemon.until(lambda: counted(daemon).get("cuda_oom", 0) >= INCIDENTS, 30)
        threading.Event().wait(1.0)
        found = counted(daemon)
        daemon.end()
        daemon.close()
    assert found == {"cuda_oom": INCIDENTS}
