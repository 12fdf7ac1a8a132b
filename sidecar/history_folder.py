"""The kept windows on disk: a file for each block, added to as windows close."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sidecar.history.archive import MOST_BYTES, Archive, Block, unpack
from sidecar.history.past import Past
from sidecar.model.vocabulary import Fault
from sidecar.thread import CallThread

LARGEST = 2 * 1024 * 1024
"""Bytes of a file; a larger one is not ours."""
READ_BYTES, READ_CHARACTERS = 2 * MOST_BYTES, 256 * 1024 * 1024
"""Of all files that are read, and of what they unpack to: the older ones beyond are given up."""
LEAST_FILE = 512
"""Bytes that a file counts at least."""
LOAD_LIMIT_S = 5.0
SAVE_LIMIT_S = 0.5
"""Seconds that a step waits for the disk; one that hangs must not stop the clock."""
SUFFIX = ".jsonl.gz"
FRESH = ".jsonl.new"
"""Of a file that is being written."""
NUMBER = re.compile(r"[0-9]{8,12}", re.ASCII)


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
        self.is_known = True
        """Whether the files of the runs before us were seen."""
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
            self.is_known = False
            return
        for number, packed in found:
            past.restore(number, packed or b"")
            if packed is None:
                self.count_failure()
            else:
                self.saved[number] = (0, len(packed))
            # A day of short windows takes seconds: the loop gets a turn, for whoever asks meanwhile.
            await self.thread.call(lambda: True, LOAD_LIMIT_S)
        past.archive.reopen()

    def read(self) -> list[tuple[int, bytes | None]] | Fault:
        """The blocks in the order of their numbers, None for what cannot be read; blocks the caller."""
        numbers = self.list_numbers()
        if isinstance(numbers, Fault):
            return numbers
        found: list[tuple[int, bytes | None]] = []
        room, characters = READ_BYTES, READ_CHARACTERS
        for number in reversed(numbers):
            packed = read_file(self.path_of(number)) if min(room, characters) > 0 else b""
            found.append((number, packed))
            room -= LEAST_FILE + len(packed or b"")
            characters -= sum(map(len, unpack(packed or b"")))
        return found[::-1]

    def list_numbers(self) -> list[int] | Fault:
        """The numbers of the files, rising; what a kill left half written goes. Blocks the caller."""
        numbers = []
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            for path in self.folder.iterdir():
                name = path.name.partition(".")[0]
                if NUMBER.fullmatch(name) is None or name != f"{int(name):08}":
                    continue
                if path.name == f"{name}{FRESH}":
                    with suppress(OSError):
                        path.unlink()
                elif path.name == f"{name}{SUFFIX}":
                    numbers.append(int(name))
        except OSError:
            return Fault.IO_ERROR
        return sorted(numbers)

    def path_of(self, number: int) -> Path:
        """The file of a block."""
        return self.folder / f"{number:08}{SUFFIX}"

    async def look_again(self, archive: Archive) -> bool:
        """Put our blocks behind those of earlier runs, of which none must be written over."""
        numbers = await self.thread.call(self.list_numbers, SAVE_LIMIT_S)
        if isinstance(numbers, Fault):
            self.count_failure()
            return False
        archive.renumber(max(numbers, default=-1) + 1)
        self.is_known = True
        return True

    async def save(self, archive: Archive) -> None:
        """Bring the files to what the archive holds."""
        if not self.is_known and not await self.look_again(archive):
            return
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
        path = self.path_of(change.number)
        try:
            if change.data is None:
                path.unlink(missing_ok=True)
            elif change.offset is None:
                replace_file(path, change.data)
            else:
                add_at(path, change.offset, change.data)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let the thread go."""
        self.thread.close()


def open_plain(path: str, flags: int) -> int:
    """Open a file of ours: a pipe in its place must not hold us up, a link not lead elsewhere."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def read_file(path: Path) -> bytes | None:
    """What a file holds, nothing of one that is too large; None where it is no file or unreadable."""
    try:
        with open(path, "rb", opener=open_plain) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            packed = file.read(LARGEST + 1)
    except OSError:
        return None
    return packed if len(packed) <= LARGEST else b""


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in the place of another, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    try:
        with fresh.open("xb") as file:
            file.write(data)
        os.replace(fresh, path)  # noqa: PTH105  (atomic on purpose)
    except OSError:
        # On a full disk half a file would take what little there is.
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def add_at(path: Path, offset: int, data: bytes) -> None:
    """Write at the end of a file, which is where we left it.

    Raises:
        OSError: it cannot be written, or is not as long as it was.
    """
    with open(path, "r+b", opener=open_plain) as file:
        if file.seek(0, os.SEEK_END) != offset:
            raise OSError("the file has changed")
        file.write(data)
