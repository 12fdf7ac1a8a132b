"""The kept windows on disk: a file for each block, added to as windows close."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sidecar.history.archive import Archive, Block
from sidecar.history.past import Past
from sidecar.model.vocabulary import Fault
from sidecar.thread import CallThread

LARGEST = 2 * 1024 * 1024
"""Bytes of a file; a larger one is not ours."""
MOST_FILES = 2_000
LOAD_LIMIT_S = 5.0
SAVE_LIMIT_S = 0.5
"""Seconds that a step waits for the disk; one that hangs must not stop the clock."""
SUFFIX = ".jsonl.gz"


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done for one file: add ``data`` at ``offset``, write it anew (None), or remove it."""

    number: int
    edition: int
    offset: int | None
    data: bytes | None


class HistoryFolder:
    """The blocks of one server's windows, in a folder of their own.

    Whoever holds the lock of the server's state may use it. What could not be written is tried again
    with the next window; ``complain`` hears of the first failure.
    """

    def __init__(self, folder: Path, complain: Callable[[str], None]) -> None:
        self.folder = folder
        self.complain = complain
        self.thread = CallThread("history")
        self.saved: dict[int, tuple[int, int]] = {}
        self.failures = 0

    def count_failure(self) -> None:
        """Something could not be read or written."""
        self.failures += 1
        if self.failures == 1:
            self.complain("history_not_saved")

    async def load(self, past: Past) -> None:
        """Take in what was kept."""
        found = await self.thread.call(self.read, LOAD_LIMIT_S)
        if isinstance(found, Fault):
            self.count_failure()
            return
        for number, packed in found:
            past.restore(number, packed)
            self.saved[number] = (0, len(packed))
        past.archive.reopen()

    def read(self) -> list[tuple[int, bytes]] | Fault:
        """The blocks in the order of their numbers; blocks the caller."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            names = sorted(
                (int(path.name.removesuffix(SUFFIX)), path)
                for path in self.folder.iterdir()
                if path.name.endswith(SUFFIX) and path.name.removesuffix(SUFFIX).isdecimal()
            )[-MOST_FILES:]
            found = []
            for number, path in names:
                with path.open("rb") as file:
                    packed = file.read(LARGEST + 1)
                found.append((number, packed if len(packed) <= LARGEST else b""))
        except OSError:
            return Fault.IO_ERROR
        return found

    async def save(self, archive: Archive) -> None:
        """Bring the files to what the archive holds."""
        changes = tuple(self.changes(archive))
        done = await self.thread.call(lambda: self.write(changes), SAVE_LIMIT_S)
        if isinstance(done, Fault):
            # Nobody knows how far it came: what was to be written is written anew.
            done = [(change, False) for change in changes]
        for change, successful in done:
            if not successful:
                self.count_failure()
                self.saved[change.number] = (-1, 0)
            elif change.data is None:
                self.saved.pop(change.number, None)
            else:
                length = (change.offset or 0) + len(change.data)
                self.saved[change.number] = (change.edition, length)

    def changes(self, archive: Archive) -> Iterator[Change]:
        """What differs between the files and the archive."""
        blocks = {block.number: block for block in archive.blocks}
        for number in [number for number in self.saved if number not in blocks]:
            yield Change(number, 0, None, None)
        for block in archive.blocks:
            change = self.change_of(block)
            if change is not None:
                yield change

    def change_of(self, block: Block) -> Change | None:
        """What is to be done for a block, None if its file is as it should be."""
        edition, length = self.saved.get(block.number, (-1, 0))
        if edition != block.edition:
            return Change(block.number, block.edition, None, bytes(block.packed))
        if length == len(block.packed):
            return None
        return Change(block.number, edition, length, bytes(block.packed[length:]))

    def write(self, changes: tuple[Change, ...]) -> list[tuple[Change, bool]]:
        """Do the changes, and say of each whether it was done; blocks the caller."""
        return [(change, self.do(change)) for change in changes]

    def do(self, change: Change) -> bool:
        """Do one change."""
        path = self.folder / f"{change.number:08}{SUFFIX}"
        try:
            if change.data is None:
                path.unlink(missing_ok=True)
            elif change.offset is None:
                fresh = path.with_suffix(".new")
                fresh.write_bytes(change.data)
                os.replace(fresh, path)  # noqa: PTH105  (atomic on purpose)
            else:
                add_at(path, change.offset, change.data)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let the thread go."""
        self.thread.close()


def add_at(path: Path, offset: int, data: bytes) -> None:
    """Write at the end of a file, which is where we left it.

    Raises:
        OSError: it cannot be written, or is not as long as it was.
    """
    with path.open("r+b") as file:
        if file.seek(0, os.SEEK_END) != offset:
            raise OSError("the file has changed")
        file.write(data)
