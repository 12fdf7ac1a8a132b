"""The daemon with its tape on, around a time or around a command that makes load."""

import asyncio
import contextlib
import os
import platform
import shlex
import shutil
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from sidecar import app
from sidecar.assemble.life import GONE
from sidecar.capture.launch import read_launch
from sidecar.capture.tape import Tape
from sidecar.capture.writer import Recorder
from sidecar.catalog import vllm_metrics as roles
from sidecar.clock import ClockLike
from sidecar.config import Settings, read_environment
from sidecar.errors import ConfigError, SidecarError
from sidecar.model.readings import MetricsReading, NvmlReading, ProcessReading
from sidecar.model.vocabulary import Fault, ServerState, Source
from sidecar.parse.launch import Launch
from sidecar.parse.recorded_exposition import hide_labels
from sidecar.parse.secrets import Secrets, hide_argv, secrets_of_argv, secrets_of_environment
from sidecar.pipeline import Step
from sidecar.recording.about import Outcome
from sidecar.recording.folder import FILES, FORMAT
from sidecar.thread import CallThread
from sidecar.wiring import asked_for

BASELINE_S = 15.0
"""Seconds that the first readings may take before the load begins all the same."""
LOOK_S = 5.0
BEGIN_LIMIT_S = 10.0
STOP_S = 10.0
"""Seconds that a command has to end after SIGTERM, before SIGKILL."""
LOST_S = 10.0
"""Seconds without a server after which none is waited for: its root may be told late."""
PIECE = 65536
"""Bytes of a command's output that are taken at once."""
NOT_QUIET, UNSEEN, SERVER_LOST = "not_quiet", "unseen", "server_lost"
"""Why a load was not begun, or ended before its time."""
OVER = frozenset({ServerState.DEAD, ServerState.STOPPED})


@dataclass(frozen=True, slots=True)
class Load:
    """What is recorded: so many seconds, or a command and then until the server has drained.

    ``drain_s``: seconds that the server has to finish what the command left in it. ``quiet_s``: nothing
    must have run or waited for so long before the load, or it is not begun after ``quiet_limit_s``.
    ``ends_with_server``: a server that is gone for ``LOST_S`` ends it.
    """

    seconds: float | None = None
    command: tuple[str, ...] = ()
    drain_s: float = 30.0
    quiet_s: float = 0.0
    quiet_limit_s: float = 120.0
    ends_with_server: bool = False


@dataclass(slots=True)
class RecordedRun:
    """One recording of one server.

    ``heard`` takes what the load's command writes, in pieces; None: it goes where ours goes.
    ``observe`` is shown every step of the daemon.
    """

    settings: Settings
    folder: Path
    clock: ClockLike
    load: Load
    about: str = ""
    most_bytes: int = 2 << 30
    secrets: Secrets = field(default_factory=Secrets)
    launch: Launch | None = None
    before: NvmlReading | None = None
    created: float = 0.0
    heard: Callable[[bytes], None] | None = None
    observe: Callable[[Step], None] = lambda _step: None
    lost_since: float | None = None
    looked_at: int | None = None
    secrets_known: bool = False
    thread: CallThread = field(default_factory=lambda: CallThread("capture"))

    async def run(self, stop: asyncio.Event, say: Callable[[str], None]) -> Outcome:
        """Record until the load is over, or until ``stop`` is set.

        Raises:
            ConfigError, RecordingError: a setting or the folder cannot be honoured.
        """
        command = self.load.command
        if command and shutil.which(command[0]) is None:
            raise ConfigError(f"{command[0]}: no such command")
        self.created = self.clock.now().unix
        recorder = Recorder(self.folder, self.mask, self.most_bytes)
        # Nothing is written before it is known what must not be.
        recorder.held = True

        def begin() -> None:
            self.learn_secrets()
            recorder.open(self.header(recorder))

        if isinstance(await self.thread.call(begin, BEGIN_LIMIT_S), Fault):
            raise ConfigError(f"{self.folder}: it does not answer")
        tape = Tape(recorder)
        quiet = asyncio.Event()
        outcome = Outcome(self.created, self.created, ended="failed")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.daemon(quiet, tape))
                try:
                    outcome = await self.around(stop, tape, say)
                finally:
                    recorder.held = False
                    quiet.set()
        except* SidecarError as failed:
            raise failed.exceptions[0] from None
        finally:

            def final() -> dict[str, object]:
                ended = outcome.ended or recorder.ended
                return self.header(recorder, tape, replace(outcome, ended=ended))

            await recorder.close(final)
            self.thread.close()
        return replace(outcome, ended=outcome.ended or recorder.ended)

    def mask(self, name: str, row: Mapping[str, object]) -> object:
        """A row as it may be shown to others."""
        if name == FILES[Source.VLLM_METRICS] and isinstance(row.get("body"), str):
            row = {**row, "body": hide_labels(str(row["body"]))}
        return self.secrets.hide(row)

    def learn_secrets(self) -> None:
        """What the load is given, and what we are."""
        self.secrets.learn(secrets_of_argv(self.load.command))
        self.secrets.learn(secrets_of_environment(read_environment()))
        if self.settings.target_token_file is not None:
            with contextlib.suppress(OSError, ValueError):
                self.secrets.learn([self.settings.target_token_file.read_text().strip()])

    async def daemon(self, stop: asyncio.Event, tape: Tape) -> None:
        """The daemon itself, without what a recording has no file for."""
        await app.run(
            self.settings,
            self.clock,
            stop,
            without=frozenset({Source.KUBERNETES}),
            tape=tape,
            observe=self.watch,
        )

    def watch(self, step: Step) -> None:
        """Notice since when there is no server any more."""
        fault = step.report.sources[Source.VLLM_METRICS].last_fault
        if step.report.state in OVER or fault in GONE:
            self.lost_since = self.lost_since or step.report.at.monotonic
        else:
            self.lost_since = None
        self.observe(step)

    @property
    def is_lost(self) -> bool:
        """Whether the load is to end because its server is gone for good."""
        since = self.lost_since
        if not self.load.ends_with_server or since is None:
            return False
        return self.clock.now().monotonic - since >= LOST_S

    async def around(self, stop: asyncio.Event, tape: Tape, say: Callable[[str], None]) -> Outcome:
        """Wait for the first readings, let the load pass, and wait until the server has drained."""
        ended = await first_of(stop, self.settle(tape))
        tape.recorder.held = False
        if ended is None and self.load.quiet_s:
            ended = await first_of(stop, self.wait_for_quiet(tape))
        begun = self.clock.now().unix
        code: int | None = None
        if ended is None and self.load.seconds is not None:
            ended = await first_of(stop, self.pass_time(tape, self.load.seconds))
        elif ended is None:
            say(f"load: {shlex.join(hide_argv(self.load.command))}")
            code, ended = await self.run_command(stop, tape)
        finished = self.clock.now().unix
        drained = None
        if ended is None and self.load.command:
            drained = await self.drain(stop, tape)
        if ended is None and self.is_lost:
            ended = SERVER_LOST
        return Outcome(begun, finished, code, drained, ended or tape.recorder.ended)

    async def settle(self, tape: Tape) -> str | None:
        """Wait for the first readings, and find out how the server was started."""
        end = self.clock.now().monotonic + BASELINE_S
        while Source.VLLM_METRICS not in tape.latest and self.clock.now().monotonic < end:
            await self.clock.pause(self.settings.interval / 4)
        await self.look(tape)
        self.before = tape.reading(NvmlReading)
        return None

    async def look(self, tape: Tape) -> None:
        """Find out how the server was started, and its secrets; again where it is another process."""
        listed = tape.reading(ProcessReading)
        if listed is None or listed.root is None or listed.root == self.looked_at:
            return
        pid = listed.root
        self.looked_at = pid
        found = await self.thread.call(lambda: read_launch(pid, self.secrets), LOOK_S)
        if isinstance(found, Fault) or found is None:
            return
        self.launch = self.launch or found.launch
        self.secrets_known = found.is_whole

    async def wait_for_quiet(self, tape: Tape) -> str | None:
        """Wait until nothing ran, waited or was made for a while; why not, if that does not come."""
        end = self.clock.now().monotonic + self.load.quiet_limit_s
        since, made = None, None
        while self.clock.now().monotonic < end and tape.recorder.ended is None:
            sample = tape.latest.get(Source.VLLM_METRICS)
            if sample is None or not is_drained(sample.reading) or made_by(sample.reading) != made:
                since = None
            if sample is not None:
                made = made_by(sample.reading)
                since = since or (sample.at.monotonic if is_drained(sample.reading) else None)
                if since is not None and sample.at.monotonic - since >= self.load.quiet_s:
                    return None
            await self.clock.pause(self.settings.interval / 2)
        is_seen = tape.reading(MetricsReading) is not None
        return tape.recorder.ended or (NOT_QUIET if is_seen else UNSEEN)

    async def pass_time(self, tape: Tape, seconds: float) -> str | None:
        """Let time pass; it ends early where nothing is written any more."""
        recorder = tape.recorder
        end = self.clock.now().monotonic + seconds
        while recorder.ended is None and self.clock.now().monotonic < end:
            left = end - self.clock.now().monotonic
            await self.clock.pause(min(left, self.settings.interval))
            await self.look(tape)
        return recorder.ended

    async def run_command(self, stop: asyncio.Event, tape: Tape) -> tuple[int | None, str | None]:
        """Run the load to its end."""
        pipe = None if self.heard is None else asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self.load.command, stdout=pipe, stderr=pipe and asyncio.subprocess.STDOUT
            )
        except OSError as error:
            raise ConfigError(f"{self.load.command[0]}: {error.strerror}") from None
        try:
            async with asyncio.TaskGroup() as group:
                listener = group.create_task(self.listen(process))
                ended = await first_of(stop, self.attend(process, tape))
                # Children that it left behind may hold its output open.
                await asyncio.wait({listener}, timeout=self.settings.interval)
                listener.cancel()
        finally:
            if process.returncode is None:
                await end_process(process)
        return (process.returncode if ended is None else None), ended

    async def listen(self, process: asyncio.subprocess.Process) -> None:
        """Take in what the command writes."""
        if self.heard is None or process.stdout is None:
            return
        while piece := await process.stdout.read(PIECE):
            self.heard(piece)

    async def attend(self, process: asyncio.subprocess.Process, tape: Tape) -> str | None:
        """Wait for the end of the load, or of the recording."""
        while process.returncode is None:
            if tape.recorder.ended is not None:
                return tape.recorder.ended
            if self.is_lost:
                return SERVER_LOST
            await self.look(tape)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.interval):
                    await process.wait()
        return None

    async def drain(self, stop: asyncio.Event, tape: Tape) -> float | None:
        """Wait until nothing runs or waits; the moment, None if it did not come in time."""
        over = self.clock.now().monotonic
        end = over + self.load.drain_s
        while self.clock.now().monotonic < end and not stop.is_set() and not self.is_lost:
            sample = tape.latest.get(Source.VLLM_METRICS)
            # A look from before the end says nothing of what came after it.
            is_later = sample is not None and sample.at.monotonic >= over
            if sample is not None and is_later and is_drained(sample.reading):
                return sample.at.unix
            await self.clock.pause(self.settings.interval / 2)
        return None

    def header(
        self, recorder: Recorder, tape: Tape | None = None, outcome: Outcome | None = None
    ) -> dict[str, object]:
        """The description of the recording: ``recording.json``."""
        health = None if tape is None else tape.version
        return {
            "format": FORMAT,
            "created": self.created,
            "about": self.about,
            "target": {
                "vllm_version": health,
                "launch": None if self.launch is None else asdict(self.launch),
                # Where its environment could not be read, secrets in it are hidden by their form only.
                "secrets_known": self.secrets_known,
            },
            "settings": {
                "interval": self.settings.interval,
                "window": self.settings.window,
                "tolerance": self.settings.max_preemptions_per_request,
                "asked": sorted(source.value for source in asked_for(self.settings)),
            },
            "hardware": {
                "machine": platform.machine(),
                "kernel": platform.release(),
                "cpus": os.cpu_count(),
                "gpus_before": gpus_before(self.before),
            },
            "load": {
                "command": hide_argv(self.load.command),
                "seconds": self.load.seconds,
                "outcome": None if outcome is None else asdict(outcome),
            },
            "rows": dict(recorder.rows),
        }


def is_drained(reading: object) -> bool:
    """Whether no engine has a request that runs or waits."""
    if not isinstance(reading, MetricsReading) or not reading.engines:
        return False
    return all(
        engine.values.get(role) == 0.0
        for engine in reading.engines.values()
        for role in (roles.RUNNING, roles.WAITING)
    )


def made_by(reading: object) -> float | None:
    """Tokens of prompts and answers so far: they rise also for what came and went between two looks."""
    if not isinstance(reading, MetricsReading):
        return None
    return sum(
        engine.values.get(role, 0.0)
        for engine in reading.engines.values()
        for role in (roles.PROMPT_TOKENS, roles.GENERATION_TOKENS)
    )


def gpus_before(reading: NvmlReading | None) -> list[dict[str, object]]:
    """The GPUs as they were before the load: names and bytes."""
    return [
        {"index": gpu.index, "name": gpu.name, "total": gpu.total, "free": gpu.free}
        for gpu in (() if reading is None else reading.gpus)
    ]


async def first_of(stop: asyncio.Event, work: Coroutine[None, None, str | None]) -> str | None:
    """What the work says of its end, or ``stopped``."""
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work)
        stopped = group.create_task(stop.wait())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        is_done = working.done()
        working.cancel()
        stopped.cancel()
    return working.result() if is_done else "stopped"


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Ask a process to end, and make it."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
