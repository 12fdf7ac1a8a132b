"""Lines that were cut, and lines of users: what must be joined, not believed, or not kept."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sidecar.catalog.plain_loggers import PLAIN_LOGGERS
from sidecar.parse.log_line import LONGEST, open_text, records, row_of
from sidecar.parse.log_open import OpenText, ends_whole

BEFORE = 32
"""How many lines above one may decide whether it is a record of its own."""

JOURNAL_BYTES = 48 * 1024
"""Where journald cuts a line (``LineMax``): the rest becomes a record of its own."""

PART_BYTES = 16 * 1024
"""Where container runtimes cut a record; a shorter one without its end is cut only in a raw log."""

looks_headed = re.compile(
    rb"\s*(?:\x1b\[|\^\[\[|#033\[|\(|\[|\{|\||INFO|DEBUG|WARNING|ERROR|CRITICAL"
    rb"|\d{4}-\d\d-\d\d|[A-Z][a-z]{2} +\d+ \d\d:)"
).match
"""Whether a line begins as a record does, and not as the rest of the line above it."""

_CRI_PART = re.compile(rb"\S{20,40} (?P<stream>stdout|stderr) (?P<flag>[FP])(?: |$)").match

_JOURNAL_HEAD = re.compile(
    rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d[.\d]* \S{1,64} |\d{4}-\d\d-\d\dT[\d:.]{8,15}\S{0,6} \S{1,64} "
    rb"|\{"
).match

_DOCKER_HEAD = b'{"log":'
_DOCKER_PART = re.compile(
    rb'(?P<head>\{"log": ?")(?P<text>.*)(?P<tail>", ?"stream": ?"(?P<stream>\w+)".*)', re.DOTALL
).match
_DOCKER_ENDS = (b'\\n","stream"', b'\\n", "stream"')


WIDEST = 4096
"""No terminal wraps lines that are longer than this."""


def is_continued(lines: Sequence[bytes], at: int) -> bool:
    """Whether a line goes on with the one above it, so that it may begin amid users' text.

    For more than one line of the same ``lines`` ask one ``Continuations``, which does not read the
    lines above again.
    """
    return Continuations(lines).holds(at)


@dataclass(slots=True)
class _Open:
    """An unheaded row's record: where it begins, and how its text stands behind that row."""

    head: int
    text: OpenText


@dataclass(slots=True)
class Continuations:
    """Which of some lines go on with the one above them, so that they may begin amid users' text.

    Container runtimes cut lines of more than 16 KiB, journald those of more than 48 KiB, terminals
    wrap them. ``wrapped``: whether the lines may come out of a terminal; else a newline ends a
    record that ends as a whole one does, however its request's name looks.
    """

    lines: Sequence[bytes]
    wrapped: bool = True
    _known: dict[int, _Open | None] = field(default_factory=dict)
    _docker_ends: list[bool] = field(default_factory=list)

    def holds(self, at: int) -> bool:
        """Whether line ``at``, from 0, is such a line; each line is looked at only once."""
        lines, line = self.lines, self.lines[at]
        found = _CRI_PART(line) or _DOCKER_PART(line)
        if found is not None:
            return self._is_cut_above(at, found["stream"])
        if at and len(lines[at - 1]) >= JOURNAL_BYTES and _is_cut_by_journal(lines, at):
            return True
        if not at or looks_headed(line):
            return False
        above = self._open(at - 1)
        return above is not None and at - above.head <= BEFORE

    def _is_cut_above(self, at: int, stream: bytes) -> bool:
        lines = self.lines
        for above in range(at - 1, max(-1, at - 1 - BEFORE), -1):
            if found := _CRI_PART(lines[above]):
                if found["stream"] == stream:
                    return found["flag"] == b"P"
            elif (found := _DOCKER_PART(lines[above])) and found["stream"] == stream:
                # A shipper may take the ends off all records: then none of them is a part.
                return not _is_ended(found) and (
                    len(lines[above]) >= PART_BYTES or self._is_raw_docker(at)
                )
        return False

    def _is_raw_docker(self, at: int) -> bool:
        if not self._docker_ends:
            self._docker_ends = [any(end in line for end in _DOCKER_ENDS) for line in self.lines]
        return any(self._docker_ends[max(0, at - BEFORE) : at + BEFORE])

    def _open(self, at: int) -> _Open | None:
        """The record that stands open behind a row; None if there is none."""
        begin = at
        while begin not in self._known and begin > max(0, at - BEFORE):
            if looks_headed(self.lines[begin]):
                break
            begin -= 1
        for row in range(begin, at + 1):
            if row not in self._known:
                self._known[row] = self._behind(row)
        return self._known[at]

    def _behind(self, row: int) -> _Open | None:
        line = self.lines[row]
        if looks_headed(line):
            return self._begun(row)
        above = self._known.get(row - 1)
        if above is None or row - above.head >= BEFORE or not self._may_be_cut(line):
            return None
        text = replace(above.text)
        text.feed(row_of(line))
        return _Open(above.head, text) if self._is_open(text, line) else None

    def _begun(self, row: int) -> _Open | None:
        line = self.lines[row]
        if not self._may_be_cut(line):
            return None
        text = open_text(line)
        return _Open(row, text) if text is not None and self._is_open(text, line) else None

    def _may_be_cut(self, line: bytes) -> bool:
        # What was longer than LONGEST was cut by us: its newline was its own end.
        longest = WIDEST if self.wrapped else LONGEST - 1
        return len(line) <= longest or len(line) == PART_BYTES

    def _is_open(self, text: OpenText, line: bytes) -> bool:
        if self.wrapped:
            return text.is_open
        return not ends_whole(line[-8:].decode("utf-8", "replace").rstrip())


def _is_cut_by_journal(lines: Sequence[bytes], at: int) -> bool:
    if not _is_journal_row(lines[at - 1], lines[at]):
        return False
    above = at - 1
    while above > max(0, at - BEFORE) and len(lines[above - 1]) >= JOURNAL_BYTES:
        above -= 1
    return holds_users_text(lines[above])


def _is_journal_row(above: bytes, line: bytes) -> bool:
    """Whether both lines are of a journal: its own heads, or cut just where it cuts."""
    heads = _JOURNAL_HEAD(above), _JOURNAL_HEAD(line)
    return all(heads) or (not any(heads) and len(above) == JOURNAL_BYTES)


def _is_ended(docker: re.Match[bytes]) -> bool:
    # An even number of backslashes is the users' own backslash before an n.
    text = docker["text"]
    stem = text.removesuffix(b"\\n")
    return stem != text and (len(stem) - len(stem.rstrip(b"\\"))) % 2 == 0


def holds_users_text(line: bytes) -> bool:
    """Whether a line may carry what users wrote, or what must stay secret."""
    return any(record.deaf for record in records(line))


PLAIN_LEVELS = frozenset({"INFO", "WARNING"})
"""Below them vLLM writes what clients sent, above them what others' exceptions say."""


def is_plainly_vllms(line: bytes) -> bool:
    """Whether all of a line is vLLM's own words: it may be shown to anybody."""
    found = tuple(records(line))
    return bool(found) and all(
        not record.deaf
        and not record.quoted
        and record.level in PLAIN_LEVELS
        and (record.logger_file or "").rpartition("/")[2] in PLAIN_LOGGERS
        for record in found
    )


# --- parts of one record -> one line ------------------------------------------------------------

_MOST_JOINED = LONGEST - 2048
_KNOWN_BEGINS = 64


@dataclass(slots=True)
class _Cut:
    """A record of which the last part is still to come. ``is_full``: the rest of it is let go."""

    head: bytes
    begun: int
    texts: list[bytes] = field(default_factory=list)
    size: int = 0
    is_full: bool = False
    tail: bytes = b""

    def add(self, text: bytes, tail: bytes) -> None:
        self.tail = tail
        self.is_full = self.is_full or self.size + len(text) > _MOST_JOINED
        if not self.is_full:
            self.texts.append(text)
            self.size += len(text)

    def joined(self) -> bytes:
        return b"".join((self.head, *self.texts, self.tail))


_LOOK_BYTES = 16 * 1024


def _line_begins(text: bytes, begin: int) -> Iterator[int]:
    """Where some lines begin, so that no long run of lines of one form is missed."""
    for at in range(begin + _LOOK_BYTES, len(text), _LOOK_BYTES):
        if (end := text.find(b"\n", at, at + _LOOK_BYTES)) >= 0:
            yield end + 1


@dataclass(slots=True)
class Rejoiner:
    """Joins the parts in which a container runtime wrote one record of a stream.

    As many lines go out as come in: a record stands in the line of its last part, and the lines of
    its other parts are empty. ``lines``: how many came in. ``begins``: the line, from 1, in which a
    joined record of late begins.
    """

    lines: int = 0
    begins: dict[int, int] = field(default_factory=dict)
    _cuts: dict[bytes, _Cut] = field(default_factory=dict)
    _is_raw: bool = False
    _unended: int = 0

    def feed(self, data: bytes) -> bytes:
        """The lines of ``data``, which holds complete lines only."""
        if not data:
            return data
        if self.begins:
            last = self.lines - _KNOWN_BEGINS
            self.begins = {line: begun for line, begun in self.begins.items() if line > last}
        if self.passes(data, 0):
            self.lines += data.count(b"\n")
            return data
        return b"\n".join(self._rejoin(line) for line in data.split(b"\n")[:-1]) + b"\n"

    def finish(self) -> bytes:
        """Lines for the records whose last part never came."""
        lines = []
        for cut in self._cuts.values():
            self.lines += 1
            self.begins[self.lines] = cut.begun
            lines.append(cut.joined() + b"\n")
        self._cuts.clear()
        return b"".join(lines)

    def passes(self, text: bytes, begin: int) -> bool:
        """Whether no line from ``begin`` on belongs to a record in parts: ``feed`` would change none."""
        return not self._cuts and not self._may_hold_parts(text, begin)

    def _may_hold_parts(self, text: bytes, begin: int) -> bool:
        places = {begin, *_line_begins(text, begin), text.rfind(b"\n", begin, -1) + 1 or begin}
        if any(text.startswith(_DOCKER_HEAD, at) for at in places):
            begun, ended = text.count(_DOCKER_HEAD, begin), 0
            for end in _DOCKER_ENDS:
                if ended < begun:
                    ended += text.count(end, begin) - text.count(b"\\" + end, begin)
            self._is_raw = self._is_raw or ended > 0
            wanted = self._is_raw or self._unended <= BEFORE or len(text) - begin >= PART_BYTES
            if begun != ended and wanted:
                return True
        if not any(_CRI_PART(text, at) for at in places):
            return False
        return text.find(b" stdout P ", begin) >= 0 or text.find(b" stderr P ", begin) >= 0

    def _rejoin(self, line: bytes) -> bytes:
        self.lines += 1
        if found := _CRI_PART(line):
            head = line[: found.start("flag")] + b"F "
            stream, text, tail = found["stream"], line[found.end() :], b""
            is_part = found["flag"] == b"P"
        elif line.startswith(_DOCKER_HEAD) and (found := _DOCKER_PART(line)):
            stream, head, text, tail = found["stream"], found["head"], found["text"], found["tail"]
            is_part = not _is_ended(found) and self._is_docker_part(line, stream)
        else:
            return line
        cut = self._cuts.get(stream)
        if cut is None and not is_part:
            return line
        if cut is None:
            cut = self._cuts[stream] = _Cut(head, self.lines)
        cut.add(text, tail)
        if is_part:
            return b""
        del self._cuts[stream]
        self.begins[self.lines] = cut.begun
        return cut.joined()

    def _is_docker_part(self, line: bytes, stream: bytes) -> bool:
        """Whether a record without an end goes on, or is of a log whose ends were taken off."""
        if self._is_raw or len(line) >= PART_BYTES:
            return True
        self._unended += 1
        if self._unended <= BEFORE:
            return stream in self._cuts or any(record.unfinished for record in records(line))
        self._cuts.pop(stream, None)
        return False
