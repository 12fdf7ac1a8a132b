"""``vllm-sidecar capture``: one pressure window recorded raw, safe to show to others."""

import asyncio
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from sidecar.clock import Clock
from sidecar.commands.exit_codes import DONE, NEGATIVE
from sidecar.commands.run import run_until_signal
from sidecar.config import Settings
from sidecar.errors import ConfigError
from sidecar.recorded_run import Load, RecordedRun
from sidecar.recording.about import Outcome


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
    if wish.bundle is not None:
        check_bundle(wish.bundle)
    ended: list[Outcome] = []
    recording = RecordedRun(
        settings,
        wish.folder,
        Clock(),
        wish.load,
        about=wish.about,
        most_bytes=wish.most_bytes,
    )

    async def body(stop: asyncio.Event) -> None:
        ended.append(await recording.run(stop, tell))

    run_until_signal(body)
    (recorded,) = ended
    tell(summary(wish, recorded, secrets_known=recording.secrets_known))
    if wish.bundle is not None:
        pack(wish.folder, wish.bundle)
        tell(f"bundle: {wish.bundle}")
    is_whole = recorded.ended is None or (recorded.ended == "stopped" and not wish.load.command)
    return DONE if is_whole and not recorded.exit_code else NEGATIVE


def check_bundle(bundle: Path) -> None:
    """See before the recording whether the archive can be written after it.

    Raises:
        ConfigError: it cannot.
    """
    if bundle.exists():
        raise ConfigError(f"bundle: {bundle}: it is there already")
    fresh = aside(bundle)
    try:
        fresh.touch()
        fresh.unlink()
    except OSError as error:
        raise ConfigError(f"bundle: {bundle}: {error.strerror}") from None


def aside(path: Path) -> Path:
    """Where a file is written before it gets its name."""
    return path.with_name(f"{path.name}.new")


def summary(wish: Wish, recorded: Outcome, *, secrets_known: bool) -> str:
    """What was recorded, in a line or two."""
    lines = [f"recorded {recorded.finished - recorded.begun:.0f} s in {wish.folder}"]
    if recorded.exit_code is not None:
        lines.append(f"the command ended with {recorded.exit_code}")
    if wish.load.command and recorded.ended is None and recorded.drained is None:
        lines.append("requests were left in the server at the end")
    if not secrets_known:
        lines.append(
            "the server's environment could not be read: secrets in it are hidden only by their form"
        )
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

    fresh = aside(bundle)
    try:
        with tarfile.open(fresh, "w:gz") as archive:
            for path in sorted(folder.iterdir()):
                if path.is_file():
                    archive.add(path, f"recording/{path.name}", filter=plain)
        fresh.rename(bundle)
    finally:
        fresh.unlink(missing_ok=True)


def tell(line: str) -> None:
    """Say a line where the load's own output does not go."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
