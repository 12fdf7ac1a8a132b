"""Plays a recording as if it were a live server: a port, a log, a kernel log and a cgroup.

The daemon watches it with its ordinary sources, so that what a demo shows is what runs elsewhere.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sidecar.clock import ClockLike
from sidecar.http_library import web
from sidecar.model.vocabulary import Source
from sidecar.recording.folder import FILES, Recording, Row

HOST = "127.0.0.1"
PLAYED = (
    Source.VLLM_METRICS,
    Source.VLLM_HEALTH,
    Source.VLLM_LOG,
    Source.KERNEL_LOG,
    Source.CGROUP,
)
"""Processes and GPUs are not played: their numbers would have to be those of this machine."""


@dataclass(slots=True)
class StandIn:
    """One recording, played into ``folder`` and onto a port of the loopback address."""

    recording: Recording
    folder: Path
    clock: ClockLike
    metrics: Row = field(default_factory=dict)
    health: Row = field(default_factory=dict)
    recorded_cgroup: str = ""
    port: int = 0
    listener: asyncio.Server | None = None
    server: web.Server | None = None

    @property
    def log(self) -> Path:
        """Where vLLM's log is written."""
        return self.folder / "vllm.log"

    @property
    def kernel_log(self) -> Path:
        """Where the kernel's log is written."""
        return self.folder / "kernel.log"

    @property
    def cgroup(self) -> Path:
        """The server's cgroup."""
        return self.folder / "cgroup"

    @property
    def sources(self) -> frozenset[Source]:
        """What the recording can play."""
        return self.recording.sources() & frozenset(PLAYED)

    async def open(self) -> None:
        """Take a port, and make the files that are to grow."""
        self.server = web.Server(self.answer, access_log=None, handler_cancellation=True)
        self.cgroup.mkdir(parents=True)
        self.log.touch()
        self.kernel_log.touch()
        for source in self.sources:
            first = next(self.recording.rows(source), None)
            if first is not None and source not in {Source.VLLM_LOG, Source.KERNEL_LOG}:
                await self.apply(source, first[3])
        if not self.port:
            await self.listen()

    async def close(self) -> None:
        """Give the port back."""
        self.hang_up()
        if self.server is not None:
            await self.server.shutdown(0.1)

    async def play(self, stop: asyncio.Event, ended: Callable[[], None]) -> None:
        """Play all rows at the pace at which they were recorded."""
        rows = heapq.merge(
            *(self.recording.rows(source) for source in FILES if source in self.sources),
            key=lambda row: row[:2],
        )
        begun = self.clock.now().monotonic
        first: float | None = None
        for at, _, source, row in rows:
            first = at if first is None else first
            await self.clock.until(begun + at - first)
            if stop.is_set():
                return
            await self.apply(source, row)
        ended()

    async def apply(self, source: Source, row: Row) -> None:
        """Let one row be what the world shows."""
        match source:
            case Source.VLLM_METRICS:
                self.metrics = row
                await self.follow_port(row)
            case Source.VLLM_HEALTH:
                self.health = row
            case Source.VLLM_LOG:
                append(self.log, str(row.get("line", "")))
            case Source.KERNEL_LOG:
                append(self.kernel_log, self.moved(str(row.get("line", ""))))
            case Source.CGROUP:
                self.recorded_cgroup = str(row.get("path", ""))
                for name, text in (row.get("files") or {}).items():
                    (self.cgroup / Path(name).name).write_text(text, encoding="utf-8")
            case _:
                pass

    def moved(self, line: str) -> str:
        """A kernel record that speaks of the cgroup where it now lies."""
        if not self.recorded_cgroup:
            return line
        return line.replace(f"memcg={self.recorded_cgroup},", f"memcg={self.cgroup},")

    async def follow_port(self, row: Row) -> None:
        """Listen, or not, as the recorded server did."""
        refused = row.get("status") is None and row.get("error") != "timeout"
        if refused:
            self.hang_up()
        elif self.listener is None:
            await self.listen()

    async def listen(self) -> None:
        """Listen on the port we had, or take a free one."""
        loop = asyncio.get_running_loop()
        if self.server is None:
            return
        self.listener = await loop.create_server(self.server, HOST, self.port)
        self.port = int(self.listener.sockets[0].getsockname()[1])

    def hang_up(self) -> None:
        """Refuse new connections."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer as the recorded server did."""
        row = self.metrics if request.path == "/metrics" else self.health
        if row.get("error") == "timeout":
            await self.clock.pause(60.0)
        if request.path == "/metrics":
            return web.Response(
                status=int(row.get("status") or 503),
                body=str(row.get("body", "")).encode(),
                headers={"Content-Type": str(row.get("content_type", "text/plain"))},
            )
        if request.path == "/health":
            return web.Response(status=int(row.get("status") or 503))
        return web.Response(status=404)


def append(path: Path, line: str) -> None:
    """Add a line to a growing file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
