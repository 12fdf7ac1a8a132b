"""A real Prometheus with a real Alertmanager, what they watch, and who is told."""

import asyncio
import contextlib
import http.server
import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from sidecar.commands import demo
from sidecar.recording.folder import Recording
from sidecar.stand_in import StandIn
from tests.fakes.forked import Forked
from tests.fakes.live_prometheus import HOST, LivePrometheus, free_port, is_ready
from tests.fakes.scaled_clock import ScaledClock

START_S = 30


@contextlib.contextmanager
def process_of(name: str, folder: Path, port: int, *arguments: str) -> Iterator[None]:
    """A server of the Prometheus project, ready; ended whatever happens."""
    log = folder / f"{name}.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            [name, f"--web.listen-address={HOST}:{port}", *arguments],
            stdout=written,
            stderr=written,
            stdin=subprocess.DEVNULL,
        )
    try:
        end = time.monotonic() + START_S
        while not is_ready(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(20)


@contextlib.contextmanager
def prometheus(folder: Path, config: Mapping[str, Any]) -> Iterator[LivePrometheus]:
    """A Prometheus with this configuration."""
    port, file = free_port(), folder / "prometheus.yml"
    file.write_text(json.dumps(config))  # JSON is YAML.
    stored = f"--storage.tsdb.path={folder / 'prometheus-data'}"
    with process_of("prometheus", folder, port, f"--config.file={file}", stored):
        yield LivePrometheus(port, time.time())


@dataclass(frozen=True, slots=True, order=True)
class Alert:
    """An alert that Alertmanager holds. ``state``: active, or suppressed by another."""

    name: str
    severity: str
    instance: str
    state: str


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """An Alertmanager that runs, asked over its API."""

    port: int

    def alerts(self) -> tuple[Alert, ...]:
        """What it holds now, in order; what is resolved is not among it."""
        with urllib.request.urlopen(f"http://{HOST}:{self.port}/api/v2/alerts", timeout=10) as page:
            held = [
                Alert(
                    row["labels"]["alertname"],
                    row["labels"]["severity"],
                    row["labels"]["instance"],
                    row["status"]["state"],
                )
                for row in json.load(page)
            ]
        return tuple(sorted(held))


@contextlib.contextmanager
def alertmanager(folder: Path, config: Mapping[str, Any]) -> Iterator[Alertmanager]:
    """An Alertmanager with this configuration, alone."""
    port, file = free_port(), folder / "alertmanager.yml"
    file.write_text(json.dumps(config))
    arguments = (
        f"--config.file={file}",
        f"--storage.path={folder / 'alertmanager-data'}",
        "--cluster.listen-address=",
    )
    with process_of("prometheus-alertmanager", folder, port, *arguments):
        yield Alertmanager(port)


@dataclass(frozen=True, slots=True)
class Page:
    """What a page of a ``Host`` was sent, or sends."""

    path: str
    body: bytes


@dataclass(slots=True)
class Host:
    """A small HTTP server: expositions by their path, and whatever is posted to it."""

    port: int
    pages: Mapping[str, bytes] = field(default_factory=dict)
    posted: list[Page] = field(default_factory=list)

    def told(self, receiver: str) -> list[tuple[str, str, str]]:
        """Alerts of the notifications that were posted to ``/receiver``: name, instance, status."""
        return [
            (alert["labels"]["alertname"], alert["labels"]["instance"], alert["status"])
            for page in self.posted
            if page.path == f"/{receiver}"
            for alert in json.loads(page.body)["alerts"]
        ]


@contextlib.contextmanager
def host(port: int) -> Iterator[Host]:
    """A ``Host`` that answers."""
    shown = Host(port)

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            # Whoever asked may have gone: a scrape that came too late.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.end_headers()
                self.wfile.write(body)

        def do_GET(self) -> None:
            page = shown.pages.get(self.path)
            self.answer(404) if page is None else self.answer(200, page)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            shown.posted.append(Page(self.path, body))
            self.answer(200)

        def log_message(self, *_: object) -> None:
            return

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = True
        block_on_close = False

    server = Server((HOST, shown.port), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        yield shown
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True, slots=True)
class SecondAct:
    """What a demo plays once ``cue`` is there; until then the last moment before stays."""

    recording: Path
    cue: Path


@dataclass(frozen=True, slots=True)
class Play:
    """The demo of a recording. ``factor``: so many times as fast as it was recorded."""

    port: int
    recording: Path
    folder: Path
    factor: float
    then: SecondAct | None = None

    def run(self) -> None:
        """The demo as it is, but for a second act."""
        then = self.then

        class TwoActs(StandIn):
            async def play(self, stop: asyncio.Event, ended: Callable[[], None]) -> None:
                await StandIn.play(self, stop, lambda: None)
                if then is not None:
                    while not then.cue.exists():
                        await self.clock.pause(0.5)
                    self.recording = Recording(then.recording)
                    await StandIn.play(self, stop, lambda: None)
                ended()

        recording, listen = Recording(self.recording), f"{HOST}:{self.port}"
        stop, clock = asyncio.Event(), ScaledClock(self.factor)
        with mock.patch.object(demo, "StandIn", TwoActs):
            asyncio.run(demo.play(recording, self.folder, listen, stop, clock, once=False))


@contextlib.contextmanager
def played(plays: Iterable[Play]) -> Iterator[dict[int, Forked]]:
    """Every demo in a process of its own, by its port. To be begun before any thread is."""
    with contextlib.ExitStack() as stack:
        begun = {}
        for play in plays:
            begun[play.port] = Forked(play.run)
            stack.callback(begun[play.port].close)
        yield begun


@contextlib.contextmanager
def demos(
    recordings: Mapping[int, Path], folder: Path, factor: float
) -> Iterator[dict[int, Forked]]:
    """The demo of each recording on its port; as ``played``."""
    plays = [
        Play(port, recording, folder / f"played-{port}", factor)
        for port, recording in recordings.items()
    ]
    with played(plays) as begun:
        yield begun
