"""``vllm-sidecar envelope run PLAN.toml --out DIR``: a capacity benchmark in steps."""

import asyncio
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sidecar.clock import Clock
from sidecar.commands.envelope_progress import Progress
from sidecar.commands.exit_codes import DONE, NEGATIVE
from sidecar.commands.run import run_until_signal
from sidecar.config import DEFAULTS, Settings, load, refuse_unknown
from sidecar.envelope.plan import Plan
from sidecar.envelope.report import acceptance_table, say_knee, say_safe, say_verdict
from sidecar.envelope_drive import Drive, Driven, list_programs
from sidecar.envelope_folder import keep_plan, put_together, read_plan, write_envelope
from sidecar.errors import ConfigError
from sidecar.model.envelope import Envelope

LOCK = ".lock"
OURS = ("state_dir", "listen")
"""Settings that a run sets itself: it keeps no state, and whoever scrapes us would watch two daemons."""


def run_envelope(path: Path, folder: Path) -> int:
    """Run a plan to its end; 0 if the intended stage is accepted, 1 if not, or if it ended before.

    Raises:
        ConfigError, RecordingError: the plan, a setting, the folder or a command is unusable.
    """
    plan, text = read_plan(path)
    settings = settings_of(plan)
    for program in list_programs(plan):
        if shutil.which(program) is None:
            raise ConfigError(f"{program}: no such command")
    kept = keep_plan(folder, text, plan)
    clock = Clock()
    progress = Progress(
        sys.stderr,
        clock,
        is_terminal=sys.stderr.isatty(),
        columns=lambda: shutil.get_terminal_size().columns,
    )
    ended: list[Driven] = []

    async def body(stop: asyncio.Event) -> None:
        drive = Drive(plan, settings, folder, clock, progress)
        ended.append(await drive.run(stop))

    with held(folder):
        try:
            run_until_signal(body)
        finally:
            progress.close()
        (driven,) = ended
        return tell(folder, kept, driven, progress)


def settings_of(plan: Plan) -> Settings:
    """The daemon's settings for a plan.

    Raises:
        ConfigError: one is unknown, cannot be honoured, or is not the plan's to set.
    """
    for name in plan.sidecar:
        refuse_unknown(name, DEFAULTS, f"plan: sidecar.{name}")
        if name in OURS:
            raise ConfigError(f"plan: sidecar.{name}: a run sets it itself")
    return load({**plan.sidecar, "listen": "127.0.0.1:0", "state_dir": None})


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep others from running in the same folder at the same time."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{folder}: another run goes on in it") from None
        yield
    finally:
        os.close(descriptor)


def tell(folder: Path, plan: Plan, driven: Driven, progress: Progress) -> int:
    """Write what is known, and say it."""
    if driven.why is not None:
        progress.tell(f"ended early: {driven.why}")
    if not driven.done:
        return NEGATIVE
    envelope = put_together(plan, driven.done)
    written = write_envelope(folder, envelope)
    sys.stdout.write(say_outcome(envelope))
    progress.tell(f"written: {written}")
    return DONE if envelope.acceptance.accepted and driven.why is None else NEGATIVE


def say_outcome(envelope: Envelope) -> str:
    """The acceptance, criterion by criterion, and what follows."""
    table = acceptance_table(envelope)
    lines = [*say_columns([table.columns, *table.rows]), "", say_verdict(envelope)]
    lines += [say_safe(envelope), f"First preempting stage: {say_knee(envelope)}."]
    return "".join(f"{line}\n" for line in lines)


def say_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows with their columns under each other."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
