"""Wiring and lifetime of the daemon: knows every part, contains no logic.

Started in order, stopped in reverse: HTTP listens first (not ready yet) and stops last, so that the
final state can be scraped.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from sidecar.catalog.signals import EVIDENCE
from sidecar.classify.policy import Policy
from sidecar.clock import ClockLike
from sidecar.config import Settings, split_listen
from sidecar.export.http import HttpServer, Views
from sidecar.export.metrics import Exposition
from sidecar.model.report import Report
from sidecar.model.samples import Tick
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Source
from sidecar.parse.metric_roles import ExpositionReader
from sidecar.pipeline import Pipeline, Step
from sidecar.sources.base import SourceLike
from sidecar.sources.cgroup import CgroupSource
from sidecar.sources.kernel_log import KernelLogSource
from sidecar.sources.nvml import NvmlSource
from sidecar.sources.process import ProcessSource
from sidecar.sources.vllm_health import VllmHealthSource
from sidecar.sources.vllm_log import VllmLogSource
from sidecar.sources.vllm_metrics import VllmMetricsSource
from sidecar.ticker import Ticker

SCRAPE_LIMIT_S = 5.0
"""Seconds for one answer of vLLM. Scrapes of 1.5 to 4.8 s were seen on starved servers, so a limit
below the interval would take a slow server for a dead one."""
READ_LIMIT_S = 2.0
KEPT_WINDOWS = 1000
LATE_INTERVALS = 3
OPEN_LIMIT_S = 2.0
CLOSE_LIMIT_S = 0.5


@dataclass(slots=True)
class Board:
    """The latest report and the last windows: what the HTTP server may look at."""

    clock: ClockLike
    interval_s: float
    report: Report | None = None
    windows: deque[Judgement] = field(default_factory=lambda: deque(maxlen=KEPT_WINDOWS))
    last_tick: float | None = None

    def post(self, step: Step) -> None:
        """Replace what is shown."""
        self.report = step.report
        self.windows.extend(step.closed)
        self.last_tick = self.clock.now().monotonic

    def is_alive(self) -> bool:
        """Whether the last tick is young enough."""
        if self.last_tick is None:
            return False
        return self.clock.now().monotonic - self.last_tick < LATE_INTERVALS * self.interval_s


def build_sources(settings: Settings, clock: ClockLike) -> tuple[SourceLike, ...]:
    """Every source that the settings ask for. The order is the order of reports."""
    process = ProcessSource(
        clock,
        limit_s=READ_LIMIT_S,
        pid=None if settings.pid == "auto" else settings.pid,
        port=local_port(settings.target),
    )
    sources: list[SourceLike] = [
        VllmMetricsSource(
            clock,
            settings.target + settings.metrics_path,
            ExpositionReader(max_engines=settings.max_engines).read,
            limit_s=SCRAPE_LIMIT_S,
            token_file=settings.target_token_file,
            ca_file=settings.target_ca_file,
        ),
        VllmHealthSource(
            clock,
            settings.target + settings.health_path,
            limit_s=SCRAPE_LIMIT_S,
            version_url=f"{settings.target}/version",
            token_file=settings.target_token_file,
            ca_file=settings.target_ca_file,
        ),
        process,
    ]
    if settings.log:
        sources.append(VllmLogSource(clock, [Path(spec) for spec in settings.log]))
    if settings.cgroup != "off":
        explicit = None if settings.cgroup == "auto" else Path(settings.cgroup)
        sources.append(
            CgroupSource(clock, limit_s=READ_LIMIT_S, path=explicit, pid=lambda: process.root_pid)
        )
    if settings.kernel_log != "off":
        path = "/dev/kmsg" if settings.kernel_log == "auto" else settings.kernel_log
        sources.append(KernelLogSource(clock, path=Path(path)))
    if settings.gpu != "off":
        sources.append(NvmlSource(clock, limit_s=READ_LIMIT_S, indexes=settings.gpu_indexes))
    return tuple(sources)


def local_port(target: str) -> int | None:
    """The port of a target on this host, None for one elsewhere: its port says nothing here."""
    parts = urlsplit(target)
    host = parts.hostname or ""
    if host != "localhost" and not host.startswith("127.") and host not in {"::1", "0.0.0.0"}:  # noqa: S104
        return None
    return parts.port or (443 if parts.scheme == "https" else 80)


def asked_for(settings: Settings) -> frozenset[Source]:
    """The sources that were asked for by name: their failure leaves a window ``unknown``."""
    asked = {Source.VLLM_METRICS, Source.VLLM_HEALTH}
    if settings.log:
        asked.add(Source.VLLM_LOG)
    for source, value in (
        (Source.CGROUP, settings.cgroup),
        (Source.KERNEL_LOG, settings.kernel_log),
        (Source.NVML, settings.gpu),
    ):
        if value not in {"auto", "off"}:
            asked.add(source)
    return frozenset(asked)


async def run(
    settings: Settings,
    clock: ClockLike,
    stop: asyncio.Event,
    *,
    without: frozenset[Source] = frozenset(),
    listening: Callable[[str, int], None] = lambda _host, _port: None,
    observe: Callable[[Step], None] = lambda _step: None,
) -> None:
    """Run the daemon until ``stop`` is set.

    ``without``: sources to leave out. ``listening`` is told where the HTTP server listens; ``observe`` is shown every step.

    Raises:
        ConfigError: the listen address cannot be had.
    """
    board = Board(clock=clock, interval_s=settings.interval)
    pipeline = Pipeline(
        window_s=settings.window,
        policy=Policy(max_preemptions_per_request=settings.max_preemptions_per_request),
        configured=asked_for(settings),
    )

    def consume(tick: Tick) -> None:
        step = pipeline.step(tick)
        board.post(step)
        observe(step)

    server = HttpServer(
        Views(
            report=lambda: board.report, windows=lambda: tuple(board.windows), alive=board.is_alive
        ),
        Exposition(EVIDENCE, max_engines=settings.max_engines),
    )
    async with AsyncExitStack() as stack:
        host, port = split_listen(settings.listen)
        port = await server.start(host, port)
        stack.push_async_callback(server.stop, 0.5)
        listening(host, port)
        sources = tuple(s for s in build_sources(settings, clock) if s.name not in without)
        stack.push_async_callback(close_all, sources)
        await unless(stop, open_all(sources))
        await Ticker(
            clock=clock, interval_s=settings.interval, sources=sources, consume=consume, stop=stop
        ).run()


async def open_all(sources: Sequence[SourceLike]) -> None:
    """Open every source at once; one that hangs is sampled all the same, and says so then."""
    await asyncio.gather(*(within(OPEN_LIMIT_S, source.open()) for source in sources))


async def close_all(sources: Sequence[SourceLike]) -> None:
    """Close every source at once, whatever one of them hangs on."""
    await asyncio.gather(*(within(CLOSE_LIMIT_S, source.close()) for source in sources))


async def unless(stop: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Do something, or leave it once ``stop`` is set."""
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work)
        stopped = group.create_task(stop.wait())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        working.cancel()
        stopped.cancel()


async def within(limit_s: float, work: Coroutine[None, None, None]) -> None:
    """Do something within a limit, or leave it."""
    try:
        async with asyncio.timeout(limit_s):
            await work
    except TimeoutError:
        return
