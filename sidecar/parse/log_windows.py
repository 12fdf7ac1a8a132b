"""A text and a few of its lines -> those lines with their neighbours; the rest is never cut up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sidecar.parse.log_cuts import BEFORE

AFTER = 2
"""How many lines below one may belong to its wording."""

_AROUND = BEFORE + AFTER


def numbers_of(text: bytes, begins: Sequence[int]) -> tuple[list[int], int]:
    """The numbers, from 0, of the lines that begin at these places; and how many lines there are."""
    numbers: list[int] = []
    number = before = 0
    for begin in begins:
        number += text.count(b"\n", before, begin)
        before = begin
        numbers.append(number)
    return numbers, number + text.count(b"\n", before)


@dataclass(frozen=True, slots=True)
class Window:
    """Lines of a text, of which some are chosen; ``above``: how many lines of the text stand above."""

    above: int
    lines: list[bytes]
    chosen: list[int]


def windows(text: bytes, begins: Sequence[int], numbers: Sequence[int]) -> Iterator[Window]:
    """The lines that begin at these places, with all lines that may decide what they mean.

    ``numbers`` are theirs. Lines that are near to each other share a window.
    """
    last = 0
    while last < len(begins):
        first = last
        last += 1
        while last < len(begins) and numbers[last] - numbers[last - 1] <= 2 * _AROUND:
            last += 1
        begin, above = _line_above(text, begins[first], _AROUND)
        end = _line_below(text, begins[last - 1], _AROUND)
        number = numbers[first] - above
        lines = text[begin:end].split(b"\n")
        yield Window(number, lines, [one - number for one in numbers[first:last]])


def _line_above(text: bytes, at: int, lines: int) -> tuple[int, int]:
    """Where the line begins that stands so many above the one at ``at``; and how many there are."""
    for above in range(lines):
        if not at:
            return 0, above
        at = text.rfind(b"\n", 0, at - 1) + 1
    return at, lines


def _line_below(text: bytes, at: int, lines: int) -> int:
    """Where the line begins that stands so many below the one at ``at``, or the text ends."""
    for _ in range(lines):
        at = text.find(b"\n", at) + 1
        if not at:
            return len(text)
    return at


def begin_of_last(text: bytes, lines: int) -> int:
    """Where the last lines of a text begin that ends with a newline."""
    return _line_above(text, len(text), lines)[0]
