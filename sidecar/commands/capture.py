"""``vllm-sidecar capture``: one pressure window recorded raw, safe to show to others."""

import asyncio
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from sidecar.clock import Clock
from sidecar.commands.run import run_until_signal
from sidecar.config import Settings
from sidecar.errors import ConfigError
from sidecar.recorded_run import Load, Recorded, RecordedRun

DONE, NEGATIVE = 0, 1


@dataclass(frozen=True, slots=True)
class Wish:
    """What to record and where. ``bundle``: an archive of it, as well."""

    folder: Path
    load: Load
    about: str = ""
    bundle: Path | None = None
    most_bytes: int = 2 << 30


def run_capture(settings: Settings, wish: Wish) -> int:
    """Record; returns 0 if the recording is whole and its command succeeded, else 1.

    Raises:
        ConfigError, RecordingError: a setting, the folder or the command cannot be honoured.
    """
    if wish.bundle is not None and wish.bundle.exists():
        raise ConfigError(f"bundle: {wish.bundle}: it is there already")
    ended: list[Recorded] = []

    async def body(stop: asyncio.Event) -> None:
        recording = RecordedRun(
            settings,
            wish.folder,
            Clock(),
            wish.load,
            about=wish.about,
            most_bytes=wish.most_bytes,
        )
        ended.append(await recording.run(stop, tell))

    run_until_signal(body)
    (recorded,) = ended
    tell(summary(wish, recorded))
    if wish.bundle is not None:
        pack(wish.folder, wish.bundle)
        tell(f"bundle: {wish.bundle}")
    is_whole = recorded.ended is None or (recorded.ended == "stopped" and not wish.load.command)
    return DONE if is_whole and not recorded.exit_code else NEGATIVE


def summary(wish: Wish, recorded: Recorded) -> str:
    """What was recorded, in a line or two."""
    lines = [f"recorded {recorded.finished - recorded.begun:.0f} s in {wish.folder}"]
    if recorded.exit_code is not None:
        lines.append(f"the command ended with {recorded.exit_code}")
    if wish.load.command and recorded.ended is None and recorded.drained is None:
        lines.append("requests were left in the server at the end")
    if recorded.ended is not None:
        lines.append(f"ended early: {recorded.ended.replace('_', ' ')}")
    return "; ".join(lines)


def pack(folder: Path, bundle: Path) -> None:
    """The recording as an archive, without owners and without our folder's place.

    Raises:
        OSError: it cannot be written.
    """

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o644
        return entry

    name = "recording"
    with tarfile.open(bundle, "x:gz") as archive:
        for path in sorted(folder.iterdir()):
            if path.is_file():
                archive.add(path, f"{name}/{path.name}", filter=plain)


def tell(line: str) -> None:
    """Say a line where the load's own output does not go."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
