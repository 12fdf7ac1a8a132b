"""Rows as they come -> the files of a recording, masked, bounded, and never in the clock's way."""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from sidecar.errors import RecordingError
from sidecar.model.vocabulary import Fault
from sidecar.recording.folder import HEADER
from sidecar.thread import CallThread

WRITE_LIMIT_S = 0.5
"""Seconds that a step waits for its rows to be written; a disk that hangs must not stop the clock."""
CLOSE_LIMIT_S, CLOSE_TRIES = 5.0, 6
"""Seconds, and how often, that the end waits for the disk."""
WAITING_MOST = 64 * 1024 * 1024
"""About how many characters may wait to be written; what comes beyond them ends the recording."""

Mask = Callable[[str, Mapping[str, object]], object]
"""Takes a row and its file's name, gives it back without what must not leave this machine."""


@dataclass(slots=True)
class Recorder:
    """Writes one recording into ``folder``, at most ``most_bytes`` of it.

    ``ended`` is why nothing is written any more: a closed word, None while all is well. Rows are not
    masked and written while it is ``held``.
    """

    folder: Path
    mask: Mask
    most_bytes: int
    ended: str | None = None
    held: bool = False
    rows: Counter[str] = field(default_factory=Counter)
    _files: dict[str, IO[bytes]] = field(default_factory=dict)
    _waiting: dict[str, list[Mapping[str, object]]] = field(default_factory=dict)
    _size: int = 0
    _bytes: int = 0
    _thread: CallThread = field(default_factory=lambda: CallThread("recording"))

    def open(self, header: Mapping[str, object]) -> None:
        """Make the folder and write what is known before the first sample; blocks.

        Raises:
            RecordingError: the folder cannot be used, or something is in it already.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise RecordingError(f"{self.folder}: something is in it already")
            self.write_header(header)
        except OSError as error:
            raise RecordingError(f"{self.folder}: {error.strerror}") from None

    def write_header(self, header: Mapping[str, object]) -> None:
        """Replace the description of the recording; blocks. Raises OSError."""
        path = self.folder / HEADER
        fresh = path.with_suffix(".new")
        text = json.dumps(self.mask(HEADER, header), indent=1, allow_nan=False)
        fresh.write_text(f"{text}\n", encoding="utf-8")
        os.replace(fresh, path)  # noqa: PTH105  (atomic on purpose)

    def add(self, name: str, row: Mapping[str, object]) -> None:
        """Put a row to those that wait for a file."""
        if self.ended is not None:
            return
        if self._size > WAITING_MOST:
            self.ended = "disk_too_slow"
            return
        self._waiting.setdefault(name, []).append(row)
        self._size += size_of(row)
        self.rows[name] += 1

    async def flush(self) -> None:
        """Write what waits, if the disk takes it; what it does not take now is tried with the next."""
        if self.held or self.ended is not None or not self._waiting or self._thread.busy:
            return
        waiting, self._waiting, self._size = self._waiting, {}, 0
        # A write that takes longer goes on; what comes of it stands in ``ended``.
        await self._thread.call(lambda: self._write(waiting), WRITE_LIMIT_S)

    async def close(self, header: Callable[[], Mapping[str, object]]) -> None:
        """Write the rest, and then the final description, which may tell how that went."""
        waiting, self._waiting = self._waiting, {}

        def finish() -> None:
            if self.ended is None:
                self._write(waiting)
            for file in self._files.values():
                file.close()
            try:
                self.write_header(header())
            except OSError:
                self.ended = "disk_full"
                (self.folder / HEADER).with_suffix(".new").unlink(missing_ok=True)

        for _ in range(CLOSE_TRIES):
            done = await self._thread.call(finish, CLOSE_LIMIT_S)
            if done is Fault.TIMEOUT:
                self.ended = "disk_too_slow"
            if done is not Fault.BUSY:
                break
            self.ended = "disk_too_slow"
        self._thread.close()

    def _encode(self, name: str, row: Mapping[str, object]) -> str:
        return json.dumps(
            self.mask(name, row), separators=(",", ":"), ensure_ascii=True, allow_nan=False
        )

    def _write(self, waiting: Mapping[str, list[Mapping[str, object]]]) -> None:
        """Write rows; blocks. A disk that does not take them all ends the recording."""
        try:
            for name, rows in waiting.items():
                if name not in self._files:
                    self._files[name] = (self.folder / name).open("ab", buffering=0)
                text = "".join(f"{self._encode(name, row)}\n" for row in rows)
                data = memoryview(text.encode("ascii"))
                self._bytes += len(data)
                while data:
                    data = data[self._files[name].write(data) :]
        except OSError:
            self.ended = "disk_full"
            return
        if self._bytes > self.most_bytes:
            self.ended = "too_large"


def size_of(value: object) -> int:
    """About how many characters a value has as JSON."""
    match value:
        case str():
            return 4 + len(value)
        case list() | tuple():
            return 4 + sum(map(size_of, value))
        case Mapping():
            return 4 + sum(map(size_of, value.keys())) + sum(map(size_of, value.values()))
        case _:
            return 12
