"""Wiring and lifetime of the daemon: knows every part, contains no logic.

Started in order, stopped in reverse: HTTP listens first (not ready yet) and stops last, so that the
final state can be scraped.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from sidecar.capture.tape import Tape
from sidecar.catalog.signals import EVIDENCE
from sidecar.classify.policy import Policy
from sidecar.clock import ClockLike
from sidecar.config import Settings, read_cluster, split_listen
from sidecar.envelope.live import compare_live
from sidecar.envelope_file import load_envelope
from sidecar.export.http import HttpServer, find_web_file
from sidecar.export.metrics import Exposition
from sidecar.export.pages import Views
from sidecar.export.results import encode, window_result
from sidecar.model.envelope import Envelope, EnvelopeStatus
from sidecar.model.report import ReloadStatus, Report
from sidecar.model.samples import Instant, Tick
from sidecar.model.saved_state import Checkpoint
from sidecar.model.vocabulary import Source
from sidecar.pipeline import Pipeline, Step
from sidecar.reload import Reloader, Reloads
from sidecar.sources.base import SourceLike
from sidecar.state_file import StateFile
from sidecar.ticker import Ticker
from sidecar.wiring import asked_for, build_sources

KEPT_WINDOWS = 1000
KEPT_CHARACTERS = 4 * 1024 * 1024
"""A window of one engine has 1,500 characters, one of 64 engines 30,000."""
LATE_INTERVALS = 3
OPEN_LIMIT_S = 2.0
CLOSE_LIMIT_S = 0.5


class Keeper:
    """Keeps the checkpoint: written before a step is shown, so that nothing shown is ever lost."""

    def __init__(
        self, pipeline: Pipeline, file: StateFile | None, complain: Callable[[str], None]
    ) -> None:
        self.pipeline = pipeline
        self.file = file
        self.complain = complain
        self.kept: Checkpoint | None = None

    async def restore(self, now: Instant) -> Checkpoint | None:
        """Go on from the last checkpoint, and return it for the sources to go on from.

        Raises:
            ConfigError: the directory for the state cannot be used.
        """
        checkpoint = None if self.file is None else await self.file.load()
        if checkpoint is not None:
            self.pipeline.restore(checkpoint, now)
        return checkpoint

    async def keep(self, now: Instant) -> None:
        """Write the checkpoint if this step changed it."""
        if self.file is None:
            return
        checkpoint = self.pipeline.checkpoint(now)
        if self.kept is None or replace(checkpoint, saved_unix=self.kept.saved_unix) != self.kept:
            failed_before = self.file.failures
            await self.file.save(checkpoint)
            self.kept = checkpoint
            if self.file.failures > failed_before == 0:
                self.complain("state_not_saved")

    def close(self) -> None:
        """Let the file go."""
        if self.file is not None:
            self.file.close()


def state_file(settings: Settings) -> StateFile | None:
    """The file for this server's checkpoint.

    Another target, log, cgroup or pid is another server, and so is what has the same address in
    another pod.
    """
    if settings.state_dir is None:
        return None
    cluster = read_cluster()
    pod = None if cluster.host is None else cluster.pod
    # Outside of a cluster our host's name is that of a container, which another run does not bear.
    told = (settings.target, list(settings.log), settings.cgroup, settings.pid, pod)
    return StateFile(settings.state_dir, json.dumps(told))


@dataclass(slots=True)
class Measured:
    """The envelope that the server is held against, if there is one."""

    envelope: Envelope | None

    def compare(self, report: Report) -> EnvelopeStatus | None:
        """Whether it still holds."""
        return None if self.envelope is None else compare_live(self.envelope, report)


@dataclass(slots=True)
class Board:
    """The latest report and the last windows: what the HTTP server may look at."""

    clock: ClockLike
    interval_s: float
    report: Report | None = None
    windows: deque[str] = field(default_factory=deque)
    characters: int = 0
    last_tick: float | None = None
    reload: ReloadStatus | None = None

    def post(self, step: Step) -> None:
        """Replace what is shown."""
        self.report = step.report
        for judgement in step.closed:
            self.keep(encode(window_result(judgement)))
        self.last_tick = self.clock.now().monotonic

    def show_reload(self, status: ReloadStatus) -> None:
        """Show what came of a reload, without waiting for the next tick."""
        self.reload = status
        if self.report is not None:
            self.report = replace(self.report, reload=status)

    def keep(self, window: str) -> None:
        """Keep a closed window as its text, and forget the oldest beyond the bounds."""
        self.windows.append(window)
        self.characters += len(window)
        while len(self.windows) > KEPT_WINDOWS or self.characters > KEPT_CHARACTERS:
            self.characters -= len(self.windows.popleft())

    def is_alive(self) -> bool:
        """Whether the last tick is young enough."""
        if self.last_tick is None:
            return False
        return self.clock.now().monotonic - self.last_tick < LATE_INTERVALS * self.interval_s


async def run(
    settings: Settings,
    clock: ClockLike,
    stop: asyncio.Event,
    *,
    without: frozenset[Source] = frozenset(),
    tape: Tape | None = None,
    listening: Callable[[str, int], None] = lambda _host, _port: None,
    observe: Callable[[Step], None] = lambda _step: None,
    complain: Callable[..., None] = lambda _event, **_fields: None,
    reloads: Reloads | None = None,
) -> None:
    """Run the daemon until ``stop`` is set.

    ``without``: sources to leave out. ``tape``: notes all that is sampled and judged, for a
    recording. ``listening`` is told where the HTTP server listens; ``observe`` is shown every step;
    ``complain`` hears of what goes wrong with ourselves, once. ``reloads`` asks for the settings to
    be read again.

    Raises:
        ConfigError: the listen address or the folder for the state cannot be had, a place of the
            log is of no known form, or the web configuration cannot be honoured.
    """
    board = Board(clock=clock, interval_s=settings.interval)
    pipeline = Pipeline(
        window_s=settings.window,
        policy=Policy(max_preemptions_per_request=settings.max_preemptions_per_request),
        configured=asked_for(settings),
    )

    keeper = Keeper(pipeline, state_file(settings), complain)
    checkpoint = await keeper.restore(clock.now())
    if tape is None:
        built = build_sources(settings, clock, checkpoint)
    else:
        built = tape.all(build_sources(settings, clock, checkpoint, tap_of=tape.tap))
    sources = tuple(source for source in built if source.name not in without)

    measured = Measured(await load_envelope(settings.envelope))

    def shown(step: Step) -> Step:
        """A step with what is known beside the pipeline."""
        status = measured.compare(step.report)
        return replace(step, report=replace(step.report, reload=board.reload, envelope=status))

    async def consume(tick: Tick) -> None:
        if tape is not None:
            tape.note_tick(tick)
        step = shown(pipeline.step(tick))
        if tape is not None:
            await tape.note_windows(step.closed)
        await keeper.keep(tick.at)
        board.post(step)
        observe(step)

    exposition = Exposition(EVIDENCE, max_engines=settings.max_engines)
    server = HttpServer(
        Views(
            report=lambda: board.report, windows=lambda: tuple(board.windows), alive=board.is_alive
        ),
        exposition,
        web_file=find_web_file(settings.web_config_file, clock, complain),
        complain=complain,
    )

    def take(fresh: Settings) -> None:
        pipeline.adopt(Policy(max_preemptions_per_request=fresh.max_preemptions_per_request))
        exposition.max_engines = fresh.max_engines

    async def reload_files() -> None:
        envelope = await load_envelope(settings.envelope)
        await server.reload()
        measured.envelope = envelope

    reloader = Reloader(
        settings, clock, take=take, reload_files=reload_files, show=board.show_reload
    )
    async with AsyncExitStack() as stack:
        host, port = split_listen(settings.listen)
        port = await server.start(host, port)
        stack.push_async_callback(server.stop, 0.5)
        listening(host, port)
        stack.callback(keeper.close)
        stack.push_async_callback(close_all, sources)
        await unless(stop, open_all(sources))
        async with beside(reloader.run(reloads or Reloads(lambda: settings))):
            await Ticker(
                clock=clock,
                interval_s=settings.interval,
                sources=sources,
                consume=consume,
                stop=stop,
            ).run()
        if tape is not None:
            await tape.note_windows(pipeline.finish())


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Do something for as long as the block takes."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        yield
        task.cancel()


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
