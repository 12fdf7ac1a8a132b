"""The rows of the last hours in a few hundred kilobytes: packed, bounded by time and by number."""

import math
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any

from sidecar.history.row import LOUDNESS, WORST_FIRST, Figure, Row, merge

FIGURES = tuple(Figure)
HEAD = Struct("<ddIBB")
PACKED = Struct(f"<ddIBB{len(FIGURES)}f")
MOST_ROWS = 6_000
"""24 hours of 15 seconds each are 5,760."""
LONGEST = 8
"""Times ``least_s``: two minutes of a day."""
LEAST_ROOM = MOST_ROWS // 32
"""Rows that are gained when there are too many: to look for some costs as much as a hundred rows."""
EDGE = 1e-3
UNMEASURED = -math.inf
COUNTED = 5 + FIGURES.index(Figure.PREEMPTIONS)
"""Its place in what is packed."""
Packed = tuple[Any, ...]


def pack(row: Row) -> bytes:
    """A row in a fixed number of bytes; minus infinity is a figure that nobody measured."""
    return PACKED.pack(
        row.start,
        row.end,
        min(row.windows, 2**32 - 1),
        WORST_FIRST.index(row.verdict),
        LOUDNESS.index(row.severity),
        *(row.figures.get(name, UNMEASURED) for name in FIGURES),
    )


def unpack(packed: tuple[float, ...]) -> Row:
    """The row again; its figures have seven digits."""
    start, end, windows, verdict, severity, *figures = packed
    return Row(
        start=start,
        end=end,
        verdict=WORST_FIRST[int(verdict)],
        severity=LOUDNESS[int(severity)],
        windows=int(windows),
        figures={
            name: value for name, value in zip(FIGURES, figures, strict=True) if value > UNMEASURED
        },
    )


class Timeline:
    """The rows of the last ``horizon_s`` seconds before the newest, at most ``MOST_ROWS``.

    Short windows that follow each other and are judged alike are one row. Where there are too many,
    the older half is merged pair by pair, whatever they say: the worse of two speaks for both.
    """

    def __init__(self, horizon_s: float) -> None:
        self.horizon_s = horizon_s
        self.least_s = horizon_s / MOST_ROWS
        self.packed = bytearray()
        self.newest = -math.inf

    def __len__(self) -> int:
        return len(self.packed) // PACKED.size

    def add(self, row: Row) -> None:
        """Take in the newest row, and forget what is too old."""
        last = self.last()
        if last is not None and last.badness == row.badness and self.belongs(last, row):
            del self.packed[-PACKED.size :]
            row = merge(last, row)
        self.packed += pack(bounded(row))
        # A clock that stepped back from a far future must not forget everything that follows.
        self.newest = row.end
        while self.packed and PACKED.unpack_from(self.packed)[1] <= self.newest - self.horizon_s:
            del self.packed[: PACKED.size]
        if len(self) > MOST_ROWS:
            self.make_room()

    def belongs(self, last: Row, row: Row) -> bool:
        """Whether a row follows the last one at once, and both together are short."""
        return abs(row.start - last.end) <= EDGE and 0 < row.end - last.start <= self.least_s + EDGE

    def make_room(self) -> None:
        """Merge the older half pair by pair; forget the oldest rows if too few can be merged."""
        half = len(self) // 2 * PACKED.size
        kept: list[Row] = []
        for row in map(unpack, PACKED.iter_unpack(bytes(self.packed[:half]))):
            before = kept[-1] if kept else None
            if before is not None and before.windows <= row.windows and self.follows(before, row):
                kept[-1] = merge(before, row)
            else:
                kept.append(row)
        gained = half // PACKED.size - len(kept)
        del kept[: max(0, LEAST_ROOM - gained)]
        self.packed[:half] = b"".join(pack(bounded(row)) for row in kept)

    def follows(self, one: Row, other: Row) -> bool:
        """Whether two rows may be one: without a gap, and not so long that a plot would show it."""
        return (
            abs(other.start - one.end) <= EDGE and other.end - one.start <= LONGEST * self.least_s
        )

    def last(self) -> Row | None:
        """The newest row."""
        if not self.packed:
            return None
        return unpack(PACKED.unpack_from(self.packed, len(self.packed) - PACKED.size))

    def oldest(self, now: float = math.inf) -> float | None:
        """When the first row begins that lies before ``now``: a clock may have been ahead."""
        starts = (float(packed[0]) for packed in PACKED.iter_unpack(bytes(self.packed)))
        return next((start for start in starts if start <= now), None)

    def columns(self, since: float, wide: float, count: int) -> tuple[Row | None, ...]:
        """The rows as columns of ``wide`` seconds from ``since`` on; None where nobody watched.

        A row speaks for every column whose middle it covers, and for the one of its own middle, so
        that none is lost however short it is. What is counted belongs to the first of them.
        """
        begun: list[list[Packed]] = [[] for _ in range(count)]
        goes_on: list[list[Packed]] = [[] for _ in range(count)]
        until = since + wide * count
        for packed in PACKED.iter_unpack(bytes(self.packed)):
            start, end = packed[0], packed[1]
            if end <= since or start >= until:
                continue
            first = max(math.ceil((start - since) / wide - 0.5), 0)
            after = min(math.ceil((end - since) / wide - 0.5), count)
            if first >= after:
                middle = int(((start + end) / 2 - since) / wide)
                begun[min(max(middle, 0), count - 1)].append(packed)
                continue
            begun[first].append(packed)
            for at in range(first + 1, after):
                goes_on[at].append(packed)
        return tuple(
            merge_packed(since + wide * at, wide, begun[at], goes_on[at]) for at in range(count)
        )

    def newest_first(self) -> Iterator[Row]:
        """All rows, from the newest back."""
        for at in range(len(self.packed) - PACKED.size, -1, -PACKED.size):
            yield unpack(PACKED.unpack_from(self.packed, at))

    def runs(self) -> Iterator[Row]:
        """Rows that follow each other and are judged alike as one without figures, newest first."""
        newest: Packed | None = None
        start, windows = 0.0, 0
        for at in range(len(self.packed) - PACKED.size, -1, -PACKED.size):
            packed = HEAD.unpack_from(self.packed, at)
            if newest is not None and packed[3:] == newest[3:] and abs(start - packed[1]) <= EDGE:
                start, windows = packed[0], windows + packed[2]
                continue
            if newest is not None:
                yield make_run(start, newest, windows)
            newest, start, windows = packed, packed[0], packed[2]
        if newest is not None:
            yield make_run(start, newest, windows)


def make_run(start: float, newest: Packed, windows: int) -> Row:
    """A run from its beginning to its newest row."""
    _, end, _, verdict, severity = newest
    return Row(start, end, WORST_FIRST[verdict], LOUDNESS[severity], windows)


def bounded(row: Row) -> Row:
    """A row whose figures fit into single precision."""
    greatest = 3e38
    if all(abs(value) <= greatest for value in row.figures.values()):
        return row
    figures = {name: min(max(value, -greatest), greatest) for name, value in row.figures.items()}
    return Row(row.start, row.end, row.verdict, row.severity, row.windows, figures)


def merge_packed(
    start: float, wide: float, begun: Sequence[Packed], goes_on: Sequence[Packed]
) -> Row | None:
    """Rows as one of a given span; None without any. What is counted is that of those begun in it.

    It works on what is packed: a day of rows is drawn in milliseconds.
    """
    packed = (*begun, *goes_on)
    if not packed:
        return None
    _, _, windows, verdicts, severities, *figures = zip(*packed, strict=True)
    verdict = min(verdicts)
    loudest = max(
        severity for one, severity in zip(verdicts, severities, strict=True) if one == verdict
    )
    told = {name: max(values) for name, values in zip(FIGURES, figures, strict=True)}
    counts = [count for one in begun if (count := one[COUNTED]) > UNMEASURED]
    told[Figure.PREEMPTIONS] = sum(counts) if counts else UNMEASURED
    return Row(
        start=start,
        end=start + wide,
        verdict=WORST_FIRST[verdict],
        severity=LOUDNESS[loudest],
        windows=sum(windows),
        figures={name: value for name, value in told.items() if value > UNMEASURED},
    )
