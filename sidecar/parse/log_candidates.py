"""Places in a big log where a line may mean something; all others are passed over unread."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from sidecar.catalog.signatures import NEEDLES, QUIET_STARTS

_ENCODED = ('"MESSAGE":[', '"MESSAGE": [')
"""journald gives a message with control bytes as numbers: no needle could be found in it."""

_NEEDLES = tuple(needle.encode() for needle in (*NEEDLES, *_ENCODED))

_QUIET = "|".join(re.escape(start) for start in QUIET_STARTS)

_PAINT = r"(?:(?:\x1b|\\u001b)\[[\d;]*+m)*+"

_TAGGED = r"(?:\([A-Za-z][\w .:/=,-]*+\) )?+"

_DULL_RUN = re.compile(
    (
        rf"(?:{_TAGGED}(?:INFO|DEBUG)"
        r"(?::[ \t]++| ++\d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]++:\d++\] )"
        rf"(?!{_QUIET}).*+(?:\n|\Z))*+"
    ).encode()
).match

_PAINTED_TAG = rf"(?:\([A-Za-z][\w .:/=,-]*+\){_PAINT} {_PAINT})?+"

_SYSTEM_HEAD = r"[A-Z][a-z][a-z] [ \d]\d \d\d:\d\d:\d\d [\w.-]++ [\w.@-]++(?:\[\d++\])?+: "

_WRAPPED_RUN = re.compile(
    (
        r"(?:"
        rf'(?:\{{"log": ?"|{_SYSTEM_HEAD})?+'
        r"(?:\d{4}-\d\d-\d\d[T ][\d:.,]{8,18}+(?:Z|[+-]\d\d:\d\d)?+ (?:std(?:out|err) F )?+)?+"
        rf"{_PAINT}{_PAINTED_TAG}(?:INFO|DEBUG){_PAINT}"
        rf"(?::[ \t]++| ++{_PAINT}\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d++)?+{_PAINT} ++"
        rf"{_PAINT}\[?+[\w./-]++:\d++\]{_PAINT} )"
        rf"(?!{_QUIET}).*+(?:\n|\Z))*+"
    ).encode()
).match

_LOUD = (b"ERROR ", b"Preemptions: ")
"""What makes an INFO line worth a look: a record glued to it, or preemptions in its statistics."""

_STANDSTILL = b"throughput: 0.0 tokens/s, Running: "


def candidates(text: bytes) -> list[int]:
    """Numbers, from 0, of the lines that may match, alone or joined with a neighbour.

    The others cannot. INFO and DEBUG records that no row can match are most of any log and are
    passed over first. The rest is looked at without its line breaks, so that a wording which a
    terminal wrapped is found too: then both of its lines are named.
    """
    begins = sorted({*_lively(text), *_loud(text)})
    if not begins:
        return []
    found = sorted(_near_needles(text, begins))
    numbers: list[int] = []
    number = before = 0
    for begin in found:
        number += text.count(b"\n", before, begin)
        before = begin
        numbers.append(number)
    return numbers


def _lively(text: bytes) -> Iterator[int]:
    """Where the lines begin that are no dull INFO or DEBUG records."""
    at, end = 0, len(text)
    while at < end:
        for run in (_DULL_RUN, _WRAPPED_RUN):
            found = run(text, at)
            at = found.end() if found else at
        if at >= end:
            return
        if text[at] != _NEWLINE:
            yield at
        after = text.find(b"\n", at)
        at = after + 1 if after >= 0 else end


_NEWLINE = 0x0A


def _loud(text: bytes) -> Iterator[int]:
    for literal in _LOUD:
        for at in _places(text, literal):
            yield text.rfind(b"\n", 0, at) + 1
    for at in _places(text, _STANDSTILL):
        if text[at + len(_STANDSTILL) : at + len(_STANDSTILL) + 1] != b"0":
            yield text.rfind(b"\n", 0, at) + 1


def _places(text: bytes, literal: bytes) -> Iterator[int]:
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + len(literal))


def _near_needles(text: bytes, begins: Sequence[int]) -> set[int]:
    """The lines that hold a needle, or a part of one that their neighbour ends."""
    chosen = [text[begin : _end_of(text, begin)] for begin in begins]
    ends = tuple(accumulate(map(len, chosen)))
    joined = b"".join(chosen)
    found: set[int] = set()
    for needle in _NEEDLES:
        at = joined.find(needle)
        while at >= 0:
            first, last = bisect_right(ends, at), bisect_right(ends, at + len(needle) - 1)
            found.update((begins[first], begins[last]))
            at = joined.find(needle, max(ends[first], at + 1))
    return found


def _end_of(text: bytes, begin: int) -> int:
    end = text.find(b"\n", begin)
    return end if end >= 0 else len(text)
