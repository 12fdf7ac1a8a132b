"""Runs the stages of a plan, one repeat after the other, each recorded by the daemon itself.

What is done stays done: a run that was interrupted, or killed, goes on where it was. A repeat that was
cut off is put aside and run again, and so is one whose command failed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeVar

from sidecar.clock import ClockLike
from sidecar.config import Settings
from sidecar.envelope.plan import Plan, say_load
from sidecar.envelope_folder import (
    Place,
    Repeat,
    find_changes,
    list_places,
    mark_done,
    mask_results,
    put_aside,
    read_repeat,
    replace_file,
    say_place,
)
from sidecar.errors import ConfigError
from sidecar.model.vocabulary import Fault
from sidecar.parse.secrets import Secrets
from sidecar.pipeline import Step
from sidecar.recorded_run import NOT_QUIET, SERVER_LOST, UNSEEN, Load, RecordedRun
from sidecar.thread import CallThread

T = TypeVar("T")

READ_LIMIT_S: Final = 600.0
"""Seconds to read and fold one recording."""
OUTPUT: Final = "load.log"
MOST_OUTPUT: Final = 1 << 20
"""Characters of what a load wrote that are kept beside its result."""


class Watcher(Protocol):
    """Who is told how the run goes."""

    def begin(self, place: Place, number: int, total: int) -> None:
        """A repeat is begun: the server is waited for."""
        ...

    def load(self) -> None:
        """Its load is begun."""
        ...

    def step(self, step: Step) -> None:
        """The daemon took a step."""
        ...

    def end(self, repeat: Repeat, *, kept: bool) -> None:
        """A repeat is done, now or in a run before."""
        ...


@dataclass(frozen=True, slots=True)
class Driven:
    """What was done, and why no more of it; None if all was."""

    done: tuple[Repeat, ...]
    why: str | None = None


@dataclass(slots=True)
class Output:
    """The end of what a load writes, line by line, as much as ``MOST_OUTPUT``.

    A line is kept whole or not at all: half a secret could not be told from other text.
    """

    lines: deque[str] = field(default_factory=deque)
    rest: str = ""
    size: int = 0

    def hear(self, piece: bytes) -> None:
        """Take in a piece. What a carriage return draws over is a line of its own."""
        text = self.rest + piece.decode("utf-8", "replace")
        *whole, self.rest = text.replace("\r", "\n").split("\n")
        for line in whole:
            self.keep(line)
        if len(self.rest) > MOST_OUTPUT:
            self.keep(self.rest)
            self.rest = ""

    def keep(self, line: str) -> None:
        """Keep a line, and forget the oldest beyond the bound."""
        if line:
            self.lines.append(line)
            self.size += len(line)
        while self.size > MOST_OUTPUT:
            self.size -= len(self.lines.popleft())

    def text(self, secrets: Secrets) -> str:
        """All that is kept of it, without secrets."""
        self.keep(self.rest)
        self.rest = ""
        return "".join(f"{secrets.hide(line)}\n" for line in self.lines)


@dataclass(slots=True)
class Drive:
    """One run of a plan into a folder."""

    plan: Plan
    settings: Settings
    folder: Path
    clock: ClockLike
    watcher: Watcher
    done: list[Repeat] = field(default_factory=list)
    thread: CallThread = field(default_factory=lambda: CallThread("envelope"))

    async def run(self, stop: asyncio.Event) -> Driven:
        """Run what is not done, until all is or it cannot go on.

        Raises:
            ConfigError, RecordingError: a setting, a command or a recording is unusable.
            OSError: the folder cannot be written.
        """
        places = list_places(self.folder.resolve(), self.plan)
        try:
            for number, place in enumerate(places, start=1):
                why = await self.pass_place(place, number, len(places), stop)
                if why is not None:
                    return Driven(tuple(self.done), why)
        finally:
            self.thread.close()
        return Driven(tuple(self.done))

    async def pass_place(
        self, place: Place, number: int, total: int, stop: asyncio.Event
    ) -> str | None:
        """One repeat, done already or now; why nothing can come after it, None if it can."""
        if place.is_done:
            repeat = await self.call(lambda: read_repeat(place))
            if repeat.run.killed is not None or not repeat.run.exit_code:
                return self.refuse_other(repeat) or self.keep(repeat, kept=True)
        if stop.is_set():
            return "it was stopped"
        self.watcher.begin(place, number, total)
        ended = await self.record(place, stop)
        if ended not in {None, SERVER_LOST}:
            return self.explain(place, ended)
        repeat = await self.call(lambda: read_repeat(place))
        other = self.refuse_other(repeat)
        if other is not None:
            return other
        await self.call(lambda: mark_done(place, ended))
        return self.keep(repeat, kept=False)

    def refuse_other(self, repeat: Repeat) -> str | None:
        """Why a repeat cannot stand beside the first one: it is of another server; None if it can."""
        changed = find_changes(self.done[0].identity, repeat.identity) if self.done else ()
        if not changed:
            return None
        where = say_place(repeat.place)
        return f"{where}: the server is another one than before: {', '.join(changed)}"

    def keep(self, repeat: Repeat, *, kept: bool) -> str | None:
        """Take in a repeat that is done; a server that is gone carries no further one."""
        self.done.append(repeat)
        self.watcher.end(repeat, kept=kept)
        where = say_place(repeat.place)
        if repeat.run.killed is not None:
            return f"{where}: the server died ({repeat.run.killed.value})"
        return None if repeat.run.whole else f"{where}: the server was stopped"

    def explain(self, place: Place, ended: str | None) -> str:
        """Why a repeat came to nothing."""
        if ended == "stopped":
            return "it was stopped"
        settle = self.plan.settle
        if ended == UNSEEN:
            return f"{say_place(place)}: the server's metrics could not be read within {settle.limit:g} s"
        if ended == NOT_QUIET:
            return (
                f"{say_place(place)}: the server was not quiet for {settle.quiet:g} s "
                f"within {settle.limit:g} s: its load was not begun"
            )
        return f"{say_place(place)}: the recording ended early: {(ended or '').replace('_', ' ')}"

    async def record(self, place: Place, stop: asyncio.Event) -> str | None:
        """Record one repeat; why it ended before its time, None if it did not."""
        await self.call(lambda: make_room(place))
        output = Output()
        recording = RecordedRun(
            self.settings,
            place.recording,
            self.clock,
            self.load_of(place),
            about=f"{self.plan.name}: {say_place(place)}, load {say_load(place.stage.load)}",
            heard=output.hear,
            observe=self.watcher.step,
        )
        try:
            recorded = await recording.run(stop, lambda _line: self.watcher.load())
        finally:
            await self.call(lambda: self.write_output(place, output, recording.secrets))
        return recorded.ended

    @staticmethod
    def write_output(place: Place, output: Output, secrets: Secrets) -> None:
        """Keep what the load wrote, without secrets. Raises OSError."""
        mask_results(place, secrets)
        text = output.text(secrets)
        if text:
            replace_file(place.folder / OUTPUT, text)

    def load_of(self, place: Place) -> Load:
        """What makes the load of one repeat, and when it may begin."""
        command = place.stage.fill(
            result=str(place.result), result_dir=str(place.result_folder), repeat=place.repeat
        )
        settle = self.plan.settle
        return Load(
            command=command,
            drain_s=settle.drain,
            quiet_s=settle.quiet,
            quiet_limit_s=settle.limit,
            ends_with_server=True,
        )

    async def call(self, function: Callable[[], T]) -> T:
        """Something that blocks, off the loop."""
        got = await self.thread.call(function, READ_LIMIT_S)
        if isinstance(got, Fault):
            raise ConfigError(f"{self.folder}: it does not answer")
        return got


def make_room(place: Place) -> None:
    """An empty folder for a repeat. Raises OSError."""
    put_aside(place)
    place.result_folder.mkdir(parents=True)


def list_programs(plan: Plan) -> Sequence[str]:
    """The programs that make the loads, each once."""
    return tuple(dict.fromkeys(stage.command[0] for stage in plan.stages))
