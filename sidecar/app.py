"""Wiring and lifetime of the daemon: knows every part, contains no logic.

Started in order, stopped in reverse: HTTP listens first (not ready yet) and stops last, so that the
final state can be scraped.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from sidecar import __version__
from sidecar.board import Board
from sidecar.catalog.signals import EVIDENCE
from sidecar.classify.policy import Policy
from sidecar.clock import ClockLike
from sidecar.config import Settings, read_cluster, split_listen
from sidecar.envelope_file import load_envelope
from sidecar.export.http import HttpServer, find_web_file
from sidecar.export.metrics import Exposition
from sidecar.export.pages import Views
from sidecar.history.past import Past
from sidecar.history_folder import HistoryFolder
from sidecar.model.samples import Instant, Tick
from sidecar.model.saved_state import Checkpoint
from sidecar.model.vocabulary import Source
from sidecar.page.shown import Place
from sidecar.pipeline import Pipeline, Step
from sidecar.reload import Reloader, Reloads
from sidecar.sources.base import SourceLike
from sidecar.state_file import StateFile
from sidecar.ticker import Ticker
from sidecar.wiring import asked_for, build_sources, is_here

if TYPE_CHECKING:
    from sidecar.capture.tape import Tape  # nobody else pays for what a recording needs

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
        if checkpoint != self.kept:
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


async def run(
    settings: Settings,
    clock: ClockLike,
    stop: asyncio.Event,
    *,
    without: frozenset[Source] = frozenset(),
    tape: "Tape | None" = None,
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
    place = Place(
        settings.interval,
        settings.window,
        in_cluster=read_cluster().host is not None,
        is_here=is_here(settings),
        version=__version__,
        target=settings.target,
        host=socket.gethostname(),
    )
    board = Board(clock=clock, place=place, past=Past(settings.history))
    pipeline = Pipeline(
        window_s=settings.window,
        policy=Policy(max_preemptions_per_request=settings.max_preemptions_per_request),
        configured=asked_for(settings),
    )

    file = state_file(settings)
    keeper = Keeper(pipeline, file, complain)
    folder = None if file is None else HistoryFolder(file.path.with_suffix(".windows"), complain)
    checkpoint = await keeper.restore(clock.now())
    if tape is None:
        built = build_sources(settings, clock, checkpoint)
    else:
        built = tape.all(build_sources(settings, clock, checkpoint, tap_of=tape.tap))
    sources = tuple(source for source in built if source.name not in without)

    board.envelope = await load_envelope(settings.envelope)

    async def consume(tick: Tick) -> None:
        if tape is not None:
            tape.note_tick(tick)
        step = board.complete(pipeline.step(tick))
        if tape is not None:
            await tape.note_windows(step.closed)
        await keeper.keep(tick.at)
        board.post(step)
        if step.closed and folder is not None:
            await folder.save(board.past.archive)
        observe(step)

    exposition = Exposition(EVIDENCE, max_engines=settings.max_engines)
    server = HttpServer(
        Views(lambda: board.report, board.past.archive.walk, board.is_alive, board.page),
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
        board.envelope = envelope

    reloader = Reloader(
        settings, clock, take=take, reload_files=reload_files, show=board.show_reload
    )
    async with AsyncExitStack() as stack:
        host, port = split_listen(settings.listen)
        port = await server.start(host, port)
        stack.push_async_callback(server.stop, 0.5)
        listening(host, port)
        stack.callback(keeper.close)
        if folder is not None:
            stack.callback(folder.close)
            await folder.load(board.past)
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
