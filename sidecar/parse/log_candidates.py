"""Places in a big log where a line may mean something; all others are passed over unread."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from sidecar.catalog.signatures import NEEDLES, QUIET_STARTS
from sidecar.catalog.signatures.needles import LEAD_STARTS

# No possessive groups: Python before 3.11.5 misreads them; single classes it reads rightly.
_ENCODED = ('"MESSAGE":[', '"MESSAGE": [')
"""journald gives a message with control bytes as numbers: no needle could be found in it."""

_NEEDLES = tuple(needle.encode() for needle in (*NEEDLES, *_ENCODED))

_STARTS = sorted((*QUIET_STARTS, *LEAD_STARTS))
_FIRST = "".join(sorted({re.escape(start[0]) for start in _STARTS}))
_QUIET = rf"(?=[{_FIRST}])(?:{'|'.join(map(re.escape, _STARTS))})|[^ :(\n]*+(?:: |\(['\"])"

_PAINT = r"(?:(?:\x1b|\\u001b)\[[\d;]*+m)*"

_TAGGED = r"(?:\([A-Za-z][\w .:/=,-]*+\) )?"

_UVICORN = (
    r":[ \t]++(?:[0-9a-f.:\[\]]{3,45}+ - \\?+\"[A-Z]{3,8}+ "
    rf"|(?!{_QUIET})(?=[^%/\n]*+(?:\n|\Z)))"
)
"""Behind uvicorn's head, a client's request; or a message to which no progress bar is glued."""

_DULL_RUN = re.compile(
    (
        rf"(?:{_TAGGED}(?:INFO|DEBUG)"
        rf"(?:{_UVICORN}| ++\d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]++:\d++\] (?!{_QUIET}))"
        r".*+(?:\n|\Z))*"
    ).encode()
).match

_PAINTED_TAG = rf"(?:\([A-Za-z][\w .:/=,-]*+\){_PAINT} {_PAINT})?"

_SYSTEM_HEAD = r"[A-Z][a-z][a-z] [ \d]\d \d\d:\d\d:\d\d [\w.-]++ [\w.@-]++(?:\[\d++\])?: "

_WRAPPED_RUN = re.compile(
    (
        r"(?:"
        rf'(?:\{{"log": ?"|{_SYSTEM_HEAD})?'
        r"(?:\d{4}-\d\d-\d\d[T ][\d:.,]{8,18}+(?:Z|[+-]\d\d:\d\d)? (?:std(?:out|err) F )?)?"
        rf"{_PAINT}{_PAINTED_TAG}(?:INFO|DEBUG){_PAINT}"
        rf"(?:{_UVICORN}| ++{_PAINT}\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d++)?{_PAINT} ++"
        rf"{_PAINT}\[?+[\w./-]++:\d++\]{_PAINT} (?!{_QUIET}))"
        r".*+(?:\n|\Z))*"
    ).encode()
).match

# Sets are spelt out where many characters are read: re has no fast path for \d or \w in a set.
# No row and none of the words before one begins like an address and the quote behind it.
_ACCESS = r'INFO:     [.-:]++ - "'
_PLAIN_TAG = r"\([A-Za-z][A-Za-z0-9_.:/-]{0,60}+ pid=[0-9]++\)"
_CRI_HEAD = r"\d\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.[0-9]{1,9}+Z std(?:out|err) F "
_COMPOSE_HEAD = r"[a-z][a-z0-9_.-]{0,60}+ ++\| "
_JOURNAL_HEAD = (
    r"[A-Z][a-z][a-z] [ 0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9] [A-Za-z0-9_.-]++"
    r" [A-Za-z0-9_.@-]++(?:\[[0-9]++\])?: "
)
_CALM_STATISTICS = (
    r"(?:Engine [0-9]++: )?Avg prompt throughput: "
    r"(?!0\.0 tokens/s, Avg generation throughput: 0\.0 tokens/s, Running: [1-9])"
    r"[0-9.]++ tokens/s, Avg generation throughput: [0-9.]++ tokens/s"
    r"(?:, [RSPW][a-z]++: [0-9]++ reqs)*(?:, [A-Z][A-Za-z ]++: [0-9.]++%)*\.?+\r?+(?=\n)"
)
_RECORD = (
    r"INFO \d\d-\d\d \d\d:\d\d:\d\d \[?+[A-Za-z0-9_./-]{1,80}+:[0-9]{1,6}+\] "
    rf"(?:Received request |Added request |{_CALM_STATISTICS})"
)
_PASSED_OVER = (
    rf"(?:{_ACCESS}|{_PLAIN_TAG} (?:{_RECORD}|{_ACCESS})|{_RECORD}"
    rf"|\x1b\[[0-9;]*+m{_PLAIN_TAG}\x1b\[[0-9;]*+m (?:{_RECORD}|{_ACCESS})"
    rf"|(?:{_CRI_HEAD}|{_COMPOSE_HEAD}|{_JOURNAL_HEAD})(?:{_PLAIN_TAG} )?(?:{_RECORD}|{_ACCESS}))"
)
"""How most lines of a busy log begin: with users' text, of which nothing is believed, whatever comes
behind; or they are statistics, to their end, that tell of work going on."""

_PASSED_RUN = re.compile(rf"(?:{_PASSED_OVER}.*+\n)*".encode()).match
_WHOLE_PASSED_RUN = re.compile(rf"(?:{_PASSED_OVER}[^\r\n]*+\r?+\n)*".encode()).match
"""Where a line is drawn over by what stands behind a carriage return, its head says nothing."""

_EMPTY_LINES = re.compile(rb"\n*+").match
_REDRAWN = re.compile(rb"\r(?!\n|\Z)").finditer

_MOST_OTHERS = 32
"""Other lines in the first part of a text, and what share of it that is: with more, all are looked at."""
_FIRST_PART = 8
_FIRST_BYTES = 8 * 1024

_LOUD = (b"ERROR ", b"(raylet", b"Preemptions: ")
"""What makes an INFO line worth a look: a record glued to it, or preemptions in its statistics."""

_STANDSTILL = b"throughput: 0.0 tokens/s, Running: "


def candidates(text: bytes) -> list[int]:
    """Numbers, from 0, of the lines that may match, alone or joined with a neighbour."""
    numbers: list[int] = []
    number = before = 0
    for begin in places(text):
        number += text.count(b"\n", before, begin)
        before = begin
        numbers.append(number)
    return numbers


def places(text: bytes, begin: int = 0) -> list[int]:
    """Where the lines begin, from the line at ``begin`` on, that may match alone or with a neighbour.

    The others cannot. Lines with users' text are most of any log and are passed over first, then
    INFO and DEBUG records that no row can match. The rest is looked at without its line breaks, so
    that a wording which a terminal wrapped is found too: then both of its lines are named.
    """
    others = _other_lines(text, begin)
    if others is None:
        return [begin + at for at in _of_meaning(text[begin:])]
    if not others:
        return []
    find = text.find
    rest = [text[at : find(b"\n", at) + 1 or None] for at in others]
    known = dict(zip(accumulate(map(len, rest), initial=0), others, strict=False))
    return [known[at] for at in _of_meaning(b"".join(rest))]


def _of_meaning(text: bytes) -> list[int]:
    """Where the lines begin that may match."""
    begins = sorted({*_lively(text), *_loud(text)})
    return sorted(_near_needles(text, begins)) if begins else []


def _other_lines(text: bytes, begin: int) -> list[int] | None:
    """Where the lines begin that are not passed over; None if too many are not."""
    redrawn = text.find(b"\r", begin) >= 0 and next(_REDRAWN(text, begin), None) is not None
    run, find = _WHOLE_PASSED_RUN if redrawn else _PASSED_RUN, text.find
    others: list[int] = []
    at, end = begin, len(text)
    most = begin + min(_FIRST_BYTES, (end - begin) // _FIRST_PART)
    while at < end:
        for passed in (run, _EMPTY_LINES):
            found = passed(text, at)
            at = found.end() if found else at
        if at >= end:
            break
        others.append(at)
        if len(others) == _MOST_OTHERS and at < most:
            return None
        at = find(b"\n", at) + 1 or end
    return others


def _lively(text: bytes) -> Iterator[int]:
    """Where the lines begin that are no dull INFO or DEBUG records."""
    at, end = 0, len(text)
    while at < end:
        if text[at] in _DULL_FIRST:
            for run in (_DULL_RUN, _WRAPPED_RUN):
                found = run(text, at)
                at = found.end() if found else at
            if at >= end:
                return
        if text[at] != _NEWLINE:
            yield at
        after = text.find(b"\n", at)
        at = after + 1 if after >= 0 else end


_DULL_FIRST = frozenset(b"({\x1b\\0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""What a dull record begins with, wrapped or not."""

_NEWLINE = 0x0A


def _loud(text: bytes) -> Iterator[int]:
    for redrawn in _REDRAWN(text) if b"\r" in text else ():
        yield text.rfind(b"\n", 0, redrawn.start()) + 1
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
