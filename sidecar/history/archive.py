"""The results of closed windows as text, newest last, in a few megabytes.

They lie in blocks, each a gzip stream that is flushed after every window: a window takes about a
hundred bytes, and a block that was cut off by a kill can still be read up to its last window. Beyond
``most_bytes`` the oldest blocks are thinned out: of two windows that follow each other the worse one
speaks for both.
"""

import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

from sidecar.history.row import SPEAKS_FOR, Row, as_object, read_row

BLOCK_WINDOWS = 240
BLOCK_CHARACTERS = 512 * 1024
"""A block is closed after so much."""
MOST_BYTES = 4 * 1024 * 1024
WHOLE_S = 3600.0
"""Windows younger than this are not thinned out."""
MOST_THINNED = 6
"""Halvings of a block, after which it is dropped where room is still missing."""
GZIP = 16 + zlib.MAX_WBITS
BITE = 64
"""Bytes that are unpacked at a time: about a window. What follows a harmed one is lost."""
LARGEST_WINDOW = 256 * 1024
"""Characters of a window's result; one of 64 engines has 30,000."""
EDGE = 1e-3


@dataclass(slots=True, eq=False)
class Block:
    """Windows in the order in which they closed.

    ``number``: rises from block to block. ``first``, ``last``: the least and the greatest end, for a
    clock may step back. ``edition``: rises when what was there is replaced, rather than added to.
    ``packer``: of the block that still grows.
    """

    number: int
    first: float
    last: float
    count: int = 0
    characters: int = 0
    thinned: int = 0
    edition: int = 0
    packed: bytearray = field(default_factory=bytearray)
    packer: "zlib._Compress | None" = None

    def add(self, line: str, end: float) -> None:
        """Add a window; each can be read as soon as it is added."""
        if self.packer is None:
            raise ValueError("the block is closed")
        text = f"{line}\n".encode()
        self.packed += self.packer.compress(text) + self.packer.flush(zlib.Z_SYNC_FLUSH)
        self.first, self.last = min(self.first, end), max(self.last, end)
        self.count += 1
        self.characters += len(text)

    def replace(self, told: Sequence[tuple[str, Row]]) -> None:
        """Hold these windows in place of what was there, and let more be added."""
        self.packer = zlib.compressobj(6, zlib.DEFLATED, GZIP)
        self.packed = bytearray()
        self.first = self.last = told[0][1].end
        self.count = self.characters = 0
        self.edition += 1
        for line, row in told:
            self.add(line, row.end)

    def close(self) -> None:
        """Add nothing more."""
        if self.packer is not None:
            self.packed += self.packer.flush(zlib.Z_FINISH)
            self.packer = None

    @property
    def is_full(self) -> bool:
        """Whether the next window goes into another block."""
        return self.count >= BLOCK_WINDOWS or self.characters >= BLOCK_CHARACTERS

    def lines(self) -> list[str]:
        """Its windows."""
        return list(unpack(bytes(self.packed)))


def unpack(packed: bytes, most: int = BLOCK_CHARACTERS + LARGEST_WINDOW) -> Iterator[str]:
    """The whole lines of a gzip stream, as far as it can be read and at most so many bytes."""
    unpacker = zlib.decompressobj(GZIP)
    text = bytearray()
    with suppress(zlib.error):
        for at in range(0, len(packed), BITE):
            text += unpacker.decompress(packed[at : at + BITE], most - len(text))
            if len(text) >= most or unpacker.eof:
                break
    whole, _, _ = bytes(text).rpartition(b"\n")
    if whole:
        yield from whole.decode("ascii", "replace").split("\n")


def read_lines(lines: Iterable[str]) -> tuple[list[tuple[str, Row]], int]:
    """Each line that is a window's result, with its row; and how many are none."""
    told: list[tuple[str, Row]] = []
    unreadable = 0
    for line in lines:
        try:
            told.append((line, read_row(decode(line))))
        except (ValueError, RecursionError):
            unreadable += 1
    return told, unreadable


def decode(line: str) -> object:
    """A line of JSON as a value.

    Raises:
        ValueError: it is none, or longer than any window.
        RecursionError: it is too deep.
    """
    if len(line) > LARGEST_WINDOW:
        raise ValueError("longer than any window")
    return json.loads(line, parse_constant=refuse)


def refuse(word: str) -> object:
    """``json`` by itself takes NaN and Infinity, which nobody else does.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{word} is no JSON")


def bound(text: str) -> float:
    """A number as a float that JSON can write: of 1e999 the greatest there is."""
    return min(max(float(text), -sys.float_info.max), sys.float_info.max)


@dataclass(slots=True)
class Archive:
    """The windows of the last ``horizon_s`` seconds before the newest."""

    horizon_s: float
    most_bytes: int = MOST_BYTES
    blocks: list[Block] = field(default_factory=list)
    next_number: int = 0

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(len(block.packed) for block in self.blocks)

    def add(self, line: str, row: Row) -> None:
        """Keep a window's result, and make room for it. One beyond every measure is left out."""
        if len(line) > LARGEST_WINDOW:
            return
        newest = self.blocks[-1] if self.blocks else None
        if newest is None or newest.packer is None or newest.is_full:
            if newest is not None:
                newest.close()
            newest = Block(self.next_number, first=row.end, last=row.end)
            newest.replace([(line, row)])
            self.blocks.append(newest)
            self.next_number += 1
        else:
            newest.add(line, row.end)
        self.make_room(row.end)

    def make_room(self, now: float) -> None:
        """Forget what is too old; while there is too much, thin out."""
        self.blocks = [
            block
            for block in self.blocks
            if block.last > now - self.horizon_s or block.packer is not None
        ]
        while self.size > self.most_bytes and len(self.blocks) > 1:
            may_be = [one for one in self.blocks[:-1] if one.last <= now - WHOLE_S]
            least = min(
                (one for one in may_be if one.thinned < MOST_THINNED),
                key=lambda one: one.thinned,
                default=None,
            )
            if least is None or not thin_out(least):
                self.blocks.remove(self.blocks[0] if least is None else least)

    def restore(self, number: int, packed: bytes) -> tuple[Sequence[Row], int]:
        """Go on with a block that was kept: its rows, and how many lines were none.

        To be called in the order of the numbers, before ``add``.
        """
        told, unreadable = read_lines(unpack(packed))
        self.next_number = max(self.next_number, number + 1)
        if told:
            ends = [row.end for _, row in told]
            block = Block(number, first=min(ends), last=max(ends), count=len(told))
            block.packed = bytearray(packed)
            block.thinned = (max(row.windows for _, row in told) - 1).bit_length()
            if unreadable:
                block.replace(told)
                block.close()
            self.blocks.append(block)
        return [row for _, row in told], unreadable

    def reopen(self) -> None:
        """Let the newest block that was restored grow again, if it has room."""
        newest = self.blocks[-1] if self.blocks else None
        if newest is not None and not newest.is_full and not newest.thinned:
            newest.replace(read_lines(newest.lines())[0])

    def renumber(self, first: int) -> None:
        """Let the numbers begin at ``first``, where they began at 0."""
        for block in self.blocks:
            block.number += first
        self.next_number += first

    def last(self, limit: int, before: float | None = None) -> Sequence[str]:
        """The last ``limit`` windows that ended before a moment, newest last."""
        return list(self.walk(limit, before))

    def walk(self, limit: int, before: float | None = None) -> Iterator[str]:
        """The same one by one, as they are now: those of 64 engines have 50 MB, packed a thirtieth."""
        found: list[tuple[bytes | list[str], int]] = []
        for block in reversed(self.blocks):
            if limit <= 0:
                break
            if before is not None and block.first >= before:
                continue
            part: bytes | list[str] = bytes(block.packed)
            count = block.count
            if before is not None and block.last >= before:
                part = [line for line, row in read_lines(block.lines())[0] if row.end < before]
                count = len(part)
            found.append((part, max(0, count - limit)))
            limit -= count
        return unpack_parts(found[::-1])


def unpack_parts(parts: Sequence[tuple[bytes | list[str], int]]) -> Iterator[str]:
    """The lines of blocks, each unpacked when its turn comes, without its first few."""
    for part, left_out in parts:
        yield from islice(part if isinstance(part, list) else unpack(part), left_out, None)


def thin_out(block: Block) -> bool:
    """Keep the worse one of every two windows that follow each other; False if that leaves all."""
    told, _ = read_lines(block.lines())
    kept: list[tuple[str, Row]] = []
    for line, row in told:
        before = kept[-1] if kept else None
        # Of a span that speaks for more already only its equals are taken in.
        if (
            before is not None
            and before[1].windows <= row.windows
            and abs(row.start - before[1].end) <= EDGE
        ):
            kept[-1] = let_worse_speak(before, (line, row))
        else:
            kept.append((line, row))
    if len(kept) == block.count:
        return False
    block.replace(kept)
    block.close()
    block.thinned += 1
    return True


def let_worse_speak(one: tuple[str, Row], other: tuple[str, Row]) -> tuple[str, Row]:
    """The worse of two windows, which says that it speaks for both."""
    line, worse = max(one, other, key=lambda told: told[1].badness)
    windows = one[1].windows + other[1].windows
    both = replace(worse, start=one[1].start, end=other[1].end, windows=windows)
    span = {"start": both.start, "end": both.end, "windows": windows}
    result = {**as_object(json.loads(line, parse_float=bound)), SPEAKS_FOR: span}
    return json.dumps(result, separators=(",", ":"), ensure_ascii=True, allow_nan=False), both
