"""Following a log that grows, rotates, is truncated, vanishes and comes back. Blocking: for a thread.

Only ``stat`` and reads of bounded size, so a call is short wherever the disk is.
"""

import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.chain import Chain, RotatedChain
from sidecar.sources.log_places.lines import LineCutter
from sidecar.sources.log_places.open_file import (
    KNOWN_HEAD,
    OpenFile,
    Pread,
    begins_with,
    fault_of_file,
    is_at,
    open_file,
    opened,
)
from sidecar.sources.log_places.portion import MOST_BYTES, Portion
from sidecar.sources.log_places.position import HEAD_BYTES, FilePosition, fingerprint

_LEAST_BYTES: Final = 64 * 1024
"""Bytes that are asked for at least: what is written meanwhile comes along."""
_MOST_FILES: Final = 4
"""Files that one call goes through at most."""
_LOOKS: Final = 5
"""Calls without news after which a file is left for one that is empty: its writer may still hold it, and
was told of the new one later."""


class Tail:
    """Follows a log, from the end of what is there; one that appears later is read whole.

    A file that was left for a newer one is read to its end before its successor is begun. With
    ``resume`` reading begins there, in whatever file that place is by now. ``above`` is what stands
    in front of the place of the first read, in whole lines; ``stream`` names its portions; ``resumed``
    tells that ``resume`` was found.
    """

    def __init__(
        self,
        log: Path | Chain,
        *,
        from_start: bool = False,
        most: int = MOST_BYTES,
        resume: FilePosition | None = None,
        above_bytes: int = 0,
        stream: str = "",
        pread: Pread = os.pread,
    ) -> None:
        self._chain: Chain = RotatedChain(log) if isinstance(log, Path) else log
        self._from_start = from_start
        self._most = most
        self._resume = resume
        self._above_bytes = above_bytes
        self._stream = stream
        self._pread = pread
        self._file: OpenFile | None = None
        self._offset = 0
        self._head = b""
        self._size = 0
        self._mtime_ns = 0
        self._print = ""
        self._cutter = LineCutter()
        self._looked_for = 0
        self._lost = 0
        self.above = b""
        self.resumed = False
        self.finished: FilePosition | None = None

    @property
    def identity(self) -> tuple[int, int] | None:
        """Device and inode of the file that is read now."""
        return None if self._file is None else self._file.identity

    @property
    def descriptor(self) -> int | None:
        """The descriptor of the file that is read now."""
        return None if self._file is None else self._file.descriptor

    @property
    def is_going_on(self) -> bool:
        """Whether the file is not at the log's path any more, and may soon be left for another one."""
        return 0 < self._looked_for < _LOOKS

    @property
    def is_live(self) -> bool:
        """Whether the file was at the log's path when it was looked at last."""
        return self._file is not None and not self._looked_for

    def read(self, most: int | None = None) -> Portion | Fault:
        """What was written since the last call, or why nothing can be known."""
        most = self._most if most is None else most
        data = b""
        for _ in range(_MOST_FILES):
            try:
                fault = self._opened()
                if fault is not None:
                    return self._portion(data) if data else fault
                new = self._new_bytes(most)
                data += self._cutter.feed(new)
                if new:
                    self._seen_with_news()
                    break
                if not self._is_left():
                    break
                data += self._cutter.finish()
                self._go_on()
            except OSError as error:
                # What was read of it is not to be read again when it can be opened again.
                self._resume = self.position()
                self.close()
                return self._portion(data) if data else fault_of_file(error)
        if not data and self._looked_for > 1 and _is_absent(self._chain.live()):
            return Fault.ABSENT
        return self._portion(data)

    def position(self) -> FilePosition | None:
        """The place behind the last line that was given; None while no file is there."""
        file = self._file
        if file is None:
            return self.finished
        return FilePosition(
            device=file.identity[0],
            inode=file.identity[1],
            offset=self._offset - self._cutter.waiting_bytes,
            head=self._print,
            head_bytes=len(self._head),
        )

    def close(self) -> None:
        """Give the file back; the next call would begin the log's live file anew."""
        if self._file is not None:
            self.finished = self.position()
            self._file.close()
            self._file = None

    def _opened(self) -> Fault | None:
        if self._file is not None:
            return None
        try:
            if self._resume is not None and self._take_up(self._resume):
                return None
            file = open_file(self._chain.live(), self._pread)
        except OSError as error:
            fault = fault_of_file(error)
            # What comes to be while we look for it is read from its begin.
            self._from_start = self._from_start or fault is Fault.ABSENT
            return fault
        if file is None:
            return Fault.UNSUPPORTED
        self._begin(file, 0 if self._from_start else file.extent().size)
        return None

    def _begin(self, file: "OpenFile", offset: int) -> None:
        """Read on in ``file``; the cutter has been emptied."""
        self._file, self._offset = file, offset
        self._from_start = True
        self._looked_for = 0
        self._know(file.pread(HEAD_BYTES, 0))
        extent = file.extent()
        self._size, self._mtime_ns = extent.size, extent.mtime_ns
        self._cutter = _carried(self._cutter)
        if not offset:
            return
        begin = max(0, offset - max(1, self._above_bytes))
        above = file.pread(offset - begin, begin)
        if not above.endswith(b"\n"):
            # Begun amid a line, its rest would be taken for a line.
            self._cutter.skip()
        self.above = _whole_lines(above, amid=begin > 0)

    def _take_up(self, place: FilePosition) -> bool:
        """Begin where reading stopped, if the file of that place is found."""
        for path in reversed(self._chain.generations()):
            file = opened(path, self._pread)
            if file is None:
                continue
            if is_at(file, place):
                self._resume, self.resumed = None, True
                self._begin(file, place.offset)
                return True
            file.close()
        self._resume = None
        self._lost += 1
        return False

    def _new_bytes(self, most: int) -> bytes:
        file = self._file
        if file is None or most <= 0:
            return b""
        extent = file.extent()
        if extent.size == self._offset:
            self._size, self._mtime_ns = extent.size, extent.mtime_ns
            return b""
        if self._is_rewritten(file, extent.size):
            file = self._restarted(file)
            extent = file.extent()
        self._size, self._mtime_ns = extent.size, extent.mtime_ns
        # Not ``most`` at once: memory for so much would be mapped anew to look at a few lines.
        there = extent.size - self._offset
        data = file.pread(min(most, max(there, _LEAST_BYTES)), self._offset)
        self._offset += len(data)
        if data and data.count(0) == len(data):
            self._offset = file.data_from(self._offset)
        return data

    def _is_rewritten(self, file: "OpenFile", size: int) -> bool:
        """Whether the file was truncated, even if it has grown past our place since."""
        head = file.pread(HEAD_BYTES, 0)
        known = self._head
        if size >= self._offset and head.startswith(known):
            self._know(head)
            return False
        return True

    def _restarted(self, file: "OpenFile") -> "OpenFile":
        """What to read now: the file from its begin, but first what it held if that was copied away."""
        copy = self._copy_of(file)
        if copy is not None:
            self._file = copy
            file.close()
            return copy
        self._lost += 1
        self._cutter.finish()
        self._offset = 0
        self._know(file.pread(HEAD_BYTES, 0))
        return file

    def _know(self, head: bytes) -> None:
        """Keep the begin of the file that is read."""
        if head != self._head or not self._print:
            self._head, self._print = head, fingerprint(head)

    def _copy_of(self, file: "OpenFile") -> "OpenFile | None":
        """The newest older generation, if it is what ``file`` was before it was truncated."""
        if len(self._head) < KNOWN_HEAD:
            return None
        with suppress(OSError):
            for path in list(self._chain.generations())[-2:-1]:
                copy = opened(path, self._pread)
                if copy is None:
                    continue
                extent = copy.extent()
                fresh = extent.mtime_ns >= self._mtime_ns and extent.size >= self._offset
                if fresh and copy.identity != file.identity and begins_with(copy, self._head):
                    return copy
                copy.close()
        return None

    def _seen_with_news(self) -> None:
        """Note whether the file is at the log's path: who tells of news may tell of both only once."""
        if self._file is None or self._offset < self._size:
            return
        try:
            there = self._chain.live().stat()
        except OSError:
            self._looked_for = 1
        else:
            self._looked_for = int((there.st_dev, there.st_ino) != self._file.identity)

    def _is_left(self) -> bool:
        """Whether the file at its end was given up for another one.

        The writer may still hold the old one for a moment: so it is looked at once more first, and more
        often while nobody has written to the new one.
        """
        if self._file is None:
            return False
        try:
            there = self._chain.live().stat()
        except OSError as error:
            self._looked_for += 1
            if fault_of_file(error) is Fault.DENIED:
                raise
            return False
        if (there.st_dev, there.st_ino) == self._file.identity:
            self._looked_for = 0
            return False
        self._looked_for += 1
        return self._looked_for > (1 if there.st_size else _LOOKS)

    def _go_on(self) -> None:
        """Begin the next generation; the live one where it is not known which is the next."""
        successor = self._successor()
        file = None if successor is None else opened(successor, self._pread)
        self.close()
        if file is not None:
            self._begin(file, 0)
        elif successor is not None and successor != self._chain.live():
            self._lost += 1

    def _successor(self) -> Path | None:
        file = self._file
        if file is None:
            return None
        try:
            generations = self._chain.generations()
        except OSError:
            return None
        for by_begin in (False, True):
            for path, successor in pairwise(generations):
                if self._is_ours(file, path, by_begin=by_begin):
                    return successor
        # Ours is gone from the folder. What was written to after it is newer than it.
        for path in generations:
            with suppress(OSError):
                if path.stat().st_mtime_ns > file.extent().mtime_ns:
                    return path
        return None

    def _is_ours(self, file: "OpenFile", path: Path, *, by_begin: bool) -> bool:
        """Whether ``path`` is the file that is read; or, known ``by_begin``, that file packed."""
        other = opened(path, self._pread)
        if other is None:
            return False
        try:
            if other.identity == file.identity:
                return True
            if not (by_begin and other.is_packed and begins_with(other, self._head)):
                return False
            # A short begin may be that of many: it is known by all of it.
            is_whole = other.extent().size == self._offset == len(self._head)
            return is_whole or len(self._head.strip(b"\0")) >= KNOWN_HEAD
        finally:
            other.close()

    def _portion(self, data: bytes) -> Portion:
        lost, self._lost = self._lost, 0
        lag = 0 if self._file is None else max(0, self._size - self._offset)
        return Portion(
            data=data,
            lag_bytes=lag,
            overlong=self._cutter.take_overlong(),
            lost=lost,
            stream=self._stream,
        )


def _is_absent(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return fault_of_file(error) is Fault.ABSENT
    return False


def _carried(before: LineCutter) -> LineCutter:
    """A cutter for the next file that still owes the count of what was dropped before."""
    before.finish()
    return before


def _whole_lines(text: bytes, *, amid: bool) -> bytes:
    begin = text.find(b"\n") + 1 if amid else 0
    return text[begin : text.rfind(b"\n") + 1].replace(b"\0", b"")
