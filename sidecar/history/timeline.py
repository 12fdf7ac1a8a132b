"""The rows of the last hours in a few hundred kilobytes: packed, bounded by time and by number."""

import math
from collections.abc import Iterator
from struct import Struct

from sidecar.history.row import LOUDNESS, WORST_FIRST, Figure, Row, merge

FIGURES = tuple(Figure)
PACKED = Struct(f"<ddIBB{len(FIGURES)}f")
MOST_ROWS = 6_000
"""24 hours of 15 seconds each are 5,760."""
LONGEST = 8
"""Times ``least_s``: two minutes of a day."""
EDGE = 1e-3
COUNTED = FIGURES.index(Figure.PREEMPTIONS)
SEVERITIES = len(LOUDNESS)
UNSPOKEN = len(WORST_FIRST)


def pack(row: Row) -> bytes:
    """A row in a fixed number of bytes; NaN is a figure that nobody measured."""
    return PACKED.pack(
        row.start,
        row.end,
        min(row.windows, 2**32 - 1),
        WORST_FIRST.index(row.verdict),
        LOUDNESS.index(row.severity),
        *(row.figures.get(name, math.nan) for name in FIGURES),
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
            name: value
            for name, value in zip(FIGURES, figures, strict=True)
            if not math.isnan(value)
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
        """Merge the older half pair by pair; forget the oldest row if nothing can be merged."""
        half = len(self) // 2 * PACKED.size
        kept: list[Row] = []
        for row in map(unpack, PACKED.iter_unpack(bytes(self.packed[:half]))):
            before = kept[-1] if kept else None
            if before is not None and before.windows <= row.windows and self.follows(before, row):
                kept[-1] = merge(before, row)
            else:
                kept.append(row)
        if len(kept) * PACKED.size == half:
            del kept[0]
        self.packed[:half] = b"".join(map(pack, kept))

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

    def oldest(self) -> float | None:
        """When the oldest row begins."""
        return float(PACKED.unpack_from(self.packed)[0]) if self.packed else None

    def columns(self, since: float, wide: float, count: int) -> tuple[Row | None, ...]:
        """The rows as columns of ``wide`` seconds from ``since`` on; None where nobody watched.

        A row speaks for every column whose middle it covers, and for the one of its own middle, so
        that none is lost however short it is. What is counted belongs to the first of them.
        """
        columns: list[Column | None] = [None] * count
        for packed in PACKED.iter_unpack(bytes(self.packed)):
            start, end = packed[0], packed[1]
            if end <= since or start >= since + wide * count:
                continue
            middle = int(((start + end) / 2 - since) / wide)
            first = math.ceil((start - since) / wide - 0.5)
            last = math.ceil((end - since) / wide - 0.5)
            places = range(max(first, 0), min(last, count)) or (min(max(middle, 0), count - 1),)
            for at in places:
                column = columns[at]
                if column is None:
                    column = columns[at] = Column()
                column.take(packed, counts=at == places[0])
        return tuple(
            None if column is None else column.row(since + wide * at, since + wide * (at + 1))
            for at, column in enumerate(columns)
        )

    def newest_first(self) -> Iterator[Row]:
        """All rows, from the newest back."""
        for at in range(len(self.packed) - PACKED.size, -1, -PACKED.size):
            yield unpack(PACKED.unpack_from(self.packed, at))


def bounded(row: Row) -> Row:
    """A row whose figures fit into single precision."""
    greatest = 3e38
    if all(abs(value) <= greatest for value in row.figures.values()):
        return row
    figures = {name: min(max(value, -greatest), greatest) for name, value in row.figures.items()}
    return Row(row.start, row.end, row.verdict, row.severity, row.windows, figures)


class Column:
    """Rows that are shown as one. It works on what is packed: a day of rows is drawn in milliseconds."""

    __slots__ = ("badness", "figures", "windows")

    def __init__(self) -> None:
        self.badness = 0
        self.windows = 0
        self.figures = [-math.inf] * len(FIGURES)

    def take(self, packed: tuple[float, ...], *, counts: bool) -> None:
        """Take in a row. ``counts``: it is the first column that does."""
        _, _, windows, verdict, severity, *figures = packed
        self.badness = max(self.badness, (UNSPOKEN - int(verdict)) * SEVERITIES + int(severity))
        self.windows += int(windows)
        for at, value in enumerate(figures):
            if at == COUNTED:
                if counts and value >= 0:
                    self.figures[at] = max(self.figures[at], 0.0) + value
            elif value > self.figures[at]:  # never true of NaN
                self.figures[at] = value

    def row(self, start: float, end: float) -> Row:
        """All of them as one row of this span."""
        verdict, severity = divmod(self.badness, SEVERITIES)
        return Row(
            start=start,
            end=end,
            verdict=WORST_FIRST[UNSPOKEN - verdict],
            severity=LOUDNESS[severity],
            windows=self.windows,
            figures={
                name: value
                for name, value in zip(FIGURES, self.figures, strict=True)
                if value > -math.inf
            },
        )
