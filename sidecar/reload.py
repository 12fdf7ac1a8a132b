"""The settings are read again: those that can change while we run do, of the others it is said.

All or nothing: where one file of them is wrong, all of the last good ones stay in effect.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from sidecar.clock import ClockLike
from sidecar.config import DEFAULTS, Settings
from sidecar.errors import ConfigError
from sidecar.model.report import ReloadStatus
from sidecar.model.vocabulary import Fault
from sidecar.thread import CallThread

RELOADABLE = frozenset({"max_preemptions_per_request", "max_engines"})
"""Settings that nothing was built upon. What the web configuration's file says is the listener's own."""
READ_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a reload.

    ``why``: what is wrong with the settings, None if they were taken. ``needs_restart``: the names of
    those that differ from what we were started with, and stay as they were.
    """

    why: str | None = None
    needs_restart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reloads:
    """Who asks for reloads, and hears of them.

    ``wish`` is set to ask for one. ``read`` reads the settings; it may block, and raises
    ``ConfigError``. ``begin`` and ``tell`` are called before and after each reload.
    """

    read: Callable[[], Settings]
    wish: asyncio.Event = field(default_factory=asyncio.Event)
    begin: Callable[[], None] = lambda: None
    tell: Callable[[Outcome], None] = lambda _outcome: None


def needs_restart(running: Settings, read: Settings) -> tuple[str, ...]:
    """The settings that differ and cannot change while we run, by their names."""
    return tuple(
        name
        for name in DEFAULTS
        if name not in RELOADABLE and getattr(running, name) != getattr(read, name)
    )


class Reloader:
    """Reads the settings again whenever that is wished for.

    ``take`` puts reloadable settings into effect; ``reload_files`` reads what the settings name, the
    listener's files and the measured envelope, and raises ``ConfigError`` where they are wrong;
    ``show`` publishes what came of it.
    """

    def __init__(
        self,
        settings: Settings,
        clock: ClockLike,
        *,
        take: Callable[[Settings], None],
        reload_files: Callable[[], Awaitable[None]],
        show: Callable[[ReloadStatus], None],
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.take = take
        self.reload_files = reload_files
        self.show = show
        self.status = ReloadStatus(successful=True, success_unix=clock.now().unix)
        self.show(self.status)

    async def run(self, asked: Reloads) -> None:
        """Reload for every wish, also for one that came before; several at once are one."""
        thread = CallThread("reload")
        try:
            while True:
                await asked.wish.wait()
                # Cleared before the files are read: who changes one meanwhile may ask again.
                asked.wish.clear()
                asked.begin()
                outcome = await self.reload(asked.read, thread)
                now = self.clock.now().unix
                if outcome.why is None:
                    self.status = ReloadStatus(successful=True, success_unix=now)
                else:
                    self.status = replace(self.status, successful=False)
                self.show(self.status)
                asked.tell(outcome)
        finally:
            thread.close()

    async def reload(self, read: Callable[[], Settings], thread: CallThread) -> Outcome:
        """Read everything, and only then put any of it into effect."""
        try:
            fresh = await thread.call(read, READ_LIMIT_S)
            if isinstance(fresh, Fault):
                return Outcome(why="the settings' file does not answer")
            await self.reload_files()
        except ConfigError as error:
            return Outcome(why=str(error))
        self.take(fresh)
        return Outcome(needs_restart=needs_restart(self.settings, fresh))
