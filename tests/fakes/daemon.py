"""The real daemon as a process of its own, on a free port."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from sidecar import cli
from tests.fakes.forked import Forked

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "sidecar")
KEPT = frozenset(
    {"PATH", "PYTHONDONTWRITEBYTECODE", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"}
    # Without what user-mode Linux tunes, a child of a guest's process spins for ever.
    | {"GLIBC_TUNABLES"}
)


def environment(extra: Mapping[str, str] = {}) -> dict[str, str]:
    """A plain environment: nothing of the caller's settings gets in."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT}
    return {**kept, "PYTHONPATH": str(ROOT), **extra}


def run_command(
    *arguments: str, env: Mapping[str, str] = {}, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """A command of the program, run to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )


class Daemon:
    """A running daemon: what it says on stderr, and what it serves."""

    def __init__(
        self, *arguments: str, env: Mapping[str, str] = {}, process: Forked | None = None
    ) -> None:
        self.process = process or subprocess.Popen(
            [*COMMAND, *arguments],
            env=environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.port = 0
        self.said: list[str] = []
        self.printed: list[str] = []
        self._listens = threading.Event()
        self._readers = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._print, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self.port = int(json.loads(line)["listen"].rpartition(":")[2])
                self._listens.set()
        self._listens.set()

    def _print(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line)

    def listens(self, seconds: float = 20) -> None:
        """Return once it listens; fail if it ends before."""
        assert self._listens.wait(seconds), self.said
        assert self.port, self.said

    def get(self, path: str, headers: Mapping[str, str] = {}) -> tuple[int, str]:
        """Status and text of one page."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metrics(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """The exposition, by name and label values; empty before the first tick."""
        status, text = self.get("/metrics")
        return values(text) if status == 200 else {}

    def until(self, condition: Callable[[], bool], seconds: float = 15) -> None:
        """Return once ``condition`` holds; fail if it does not within ``seconds``."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.02)

    def samples(self, seconds: float = 15) -> None:
        """Return once a first tick is shown."""
        self.until(lambda: self.get("/metrics")[0] == 200, seconds)

    def end(
        self, number: signal.Signals = signal.SIGTERM, seconds: float = 10
    ) -> tuple[int, float]:
        """Send a signal; the exit code, and the seconds that it took to end."""
        begun = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(seconds)
        took = time.monotonic() - begun
        for reader in self._readers:
            reader.join(5)
        return code, took

    def close(self) -> None:
        """End it, if it still runs, and give back its pipes."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join(5)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    @property
    def events(self) -> list[dict[str, Any]]:
        """What was said on stderr; a line that is no JSON is an error."""
        return [json.loads(line) for line in self.said]


def values(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Samples of an exposition by name and label values, in the order of the labels."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@contextlib.contextmanager
def daemon(*arguments: str, env: Mapping[str, str] = {}, forks: bool = False) -> Iterator[Daemon]:
    """``run`` with these arguments, ended whatever happens.

    ``forks``: as a fork of this process, which begins sooner; without ``env``.
    """
    command = ("run", "--listen", "127.0.0.1:0", *arguments)
    process = Forked(lambda: cli.main(command)) if forks else None
    running = Daemon(*command, env=env, process=process)
    try:
        running.listens()
        yield running
    finally:
        running.close()
