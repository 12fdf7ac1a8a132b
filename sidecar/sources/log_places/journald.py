"""The log of a systemd unit, out of the journal of this host, by ``journalctl``.

``-o json`` (systemd ``JOURNAL_EXPORT_FORMATS``): a message with control bytes is a list of numbers, a
repeated field a list of values, and one too big for a line ``null`` unless ``--all`` is given.
"""

import json
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Final

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.base import LOOKBACK_BYTES
from sidecar.sources.log_places.channel import Block, Channel
from sidecar.sources.log_places.lines import LineCutter
from sidecar.sources.log_places.position import JournalPosition

_CHUNK_BYTES: Final = 64 * 1024
_LOOKBACK_ENTRIES: Final = 2000
_LOOK_LIMIT_S: Final = 30.0
"""Seconds for one look into the journal: cold, big journals take long."""
_BYTE: Final = range(256)
_DENIALS: Final = (b"insufficient permissions", b"Permission denied", b"not seeing messages")
_NOTHING: Final = (b"No journal files were found", b"Failed to open")


@dataclass(frozen=True, slots=True)
class _Entries:
    """Lines of some entries, and the cursor of the last one."""

    data: bytes
    cursor: str | None


class JournalFeed:
    """Follows one unit with a child process, from a cursor on.

    ``program`` is the command, with what is to stand in front of our arguments.
    """

    def __init__(self, unit: str, *, program: Sequence[str] = ("journalctl",)) -> None:
        self._command = (
            *program,
            f"--unit={unit}",
            "--output=json",
            "--output-fields=MESSAGE",
            "--all",
            "--no-pager",
        )
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def run(self, channel: Channel) -> Fault | None:
        """Look back, or make sure that we may look, and then follow."""
        known = isinstance(channel.position, JournalPosition)
        found = self._look(0 if known else _LOOKBACK_ENTRIES)
        if isinstance(found, Fault):
            return found
        if not known and found.cursor is not None:
            channel.position = JournalPosition(found.cursor)
        channel.opened(None if known else _last_lines(found.data))
        return self._follow(channel)

    def interrupt(self) -> None:
        """End the child."""
        self._stopped = True
        child = self._child
        if child is not None:
            child.kill()

    def _look(self, entries: int) -> _Entries | Fault:
        """The last entries that are there, or why there can be none."""
        try:
            child = self._started(f"--lines={entries}", stderr=subprocess.PIPE)
            with child:
                output, complaint = child.communicate(timeout=_LOOK_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._end()
            return Fault.TIMEOUT
        except FileNotFoundError:
            return Fault.ABSENT
        except PermissionError:
            return Fault.DENIED
        except OSError:
            return Fault.IO_ERROR
        found = _entries(output)
        if found.cursor is None and any(word in complaint for word in _DENIALS):
            return Fault.DENIED
        if any(word in complaint for word in _NOTHING):
            return Fault.ABSENT
        return found if child.returncode == 0 else Fault.IO_ERROR

    def _follow(self, channel: Channel) -> Fault | None:
        at = channel.position
        # A unit that has no entry yet is read from its first one on.
        place = [f"--after-cursor={at.cursor}"] if isinstance(at, JournalPosition) else []
        try:
            child = self._started("--follow", "--lines=all", *place, stderr=subprocess.DEVNULL)
        except OSError:
            return Fault.IO_ERROR
        came = False
        with child, suppress(OSError):
            came = _pump(child.stdout, channel)
            child.kill()
        if not came and child.returncode > 0:
            # It does not take the cursor, which may be of a journal that is gone.
            channel.position = None
            channel.put(Block(b"", lost=1))
            return Fault.DISCONNECTED
        return None

    def _started(self, *arguments: str, stderr: int) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(  # noqa: S603 - our own words and a checked unit name
            (*self._command, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            start_new_session=True,
        )
        self._child = child
        if self._stopped:
            child.kill()
        return child

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()


def _pump(output: IO[bytes] | None, channel: Channel) -> bool:
    """Hand over what the child writes, until it ends or nobody wants it; whether there was any."""
    cutter, came = LineCutter(), False
    while output is not None and (data := output.read(_CHUNK_BYTES)):
        lines = cutter.feed(data)
        overlong = cutter.take_overlong()
        if not lines and not overlong:
            continue
        came = True
        found = _entries(lines)
        position = None if found.cursor is None else JournalPosition(found.cursor)
        if not channel.put(Block(found.data, position, overlong=overlong)):
            break
    return came


def _entries(output: bytes) -> _Entries:
    """The messages of entries as lines of a log."""
    lines: list[bytes] = []
    cursor = None
    for line in output.split(b"\n"):
        entry = _entry(line)
        if entry is None:
            continue
        cursor = entry.get("__CURSOR", cursor)
        text = _text(entry.get("MESSAGE"))
        if text:
            lines.append(_line(text))
    return _Entries(b"".join(lines), cursor if isinstance(cursor, str) else None)


def _entry(line: bytes) -> dict[str, object] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _text(value: object) -> str:
    """A message in any of its forms; a repeated one line by line."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    if all(isinstance(item, int) and item in _BYTE for item in value):
        return bytes(value).decode("utf-8", "replace")
    return "\n".join(filter(None, map(_text, value)))


def _line(text: str) -> bytes:
    """A message as one line; of several lines it stays one record, as the journal has it."""
    if "\n" in text.rstrip("\n"):
        text = json.dumps({"MESSAGE": text}, ensure_ascii=False)
    return text.rstrip("\n").encode("utf-8", "replace") + b"\n"


def _last_lines(data: bytes) -> bytes:
    if len(data) <= LOOKBACK_BYTES:
        return data
    return data[data.find(b"\n", len(data) - LOOKBACK_BYTES) + 1 :]
