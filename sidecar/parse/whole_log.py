"""A whole log -> the matches in its lines, in whatever portions its bytes come."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sidecar.catalog.signatures import Scope
from sidecar.parse.log_candidates import candidates
from sidecar.parse.log_cuts import BEFORE, WIDEST, Continuations, Rejoiner, looks_headed
from sidecar.parse.log_line import LONGEST, records
from sidecar.parse.log_match import Match, match, read_line

EVERYWHERE = frozenset(Scope)
_AFTER = 2
_SHORTEST_WRAPPED = 40


@dataclass(frozen=True, slots=True)
class Said:
    """A match and the number of its line, from 1."""

    line: int
    match: Match


@dataclass(slots=True)
class LineReader:
    """Bytes in any portions -> the matches in their lines, with flat memory."""

    lines: int = 0
    cut: int = 0
    _begun: bytes = b""
    _parts: Rejoiner = field(default_factory=Rejoiner)
    _kept: bytes = b""
    _kept_from: int = 0
    _told_up_to: int = 0
    _skipping: bool = False
    _told: set[tuple[int, str]] = field(default_factory=set)

    def feed(self, chunk: bytes) -> Iterator[Said]:
        """The matches of the lines that ``chunk`` completes, but for the last few, which wait."""
        if self._skipping:
            begin = chunk.find(b"\n") + 1
            if not begin:
                return iter(())
            self._skipping, chunk = False, chunk[begin:]
        last = chunk.rfind(b"\n") + 1
        if last:
            whole = b"".join((self._begun, memoryview(chunk)[:last]))
            self._begun = chunk[last:]
        else:
            whole, self._begun = b"", self._begun + chunk
        if len(self._begun) > LONGEST:
            # The begin of a line that is too long is read as if it were whole.
            whole, self._begun = whole + self._begun[:LONGEST] + b"\n", b""
            self._skipping = True
            self.cut += 1
        if not whole:
            return iter(())
        joined = self._parts.feed(whole)
        self.lines = self._parts.lines
        return self._read(self._kept + joined, self.lines - _AFTER)

    def finish(self) -> Iterator[Said]:
        """The matches of what is left, a last line without an end included."""
        rest = self._parts.feed(self._begun + b"\n") if self._begun else b""
        self.lines = self._parts.lines
        # What is left of records in parts stands behind the last line, and is told in its first.
        rest += self._parts.finish()
        return self._read(self._kept + rest, self._parts.lines)

    def _read(self, text: bytes, up_to: int) -> Iterator[Said]:
        first, told = self._kept_from, self._told_up_to
        begin = _begin_of_last(self._kept, 2 * _AFTER + 1)
        above = text.count(b"\n", 0, begin)
        found = (above + at for at in candidates(text[begin:]))
        chosen = [at for at in found if told <= first + at < up_to]
        self._told_up_to = max(told, up_to)
        self._kept, self._kept_from = _last_lines(text, first, self._parts.lines)
        lines = text.split(b"\n", chosen[-1] + BEFORE) if chosen else ()
        return self._match(lines, chosen, first)

    def _match(self, lines: Sequence[bytes], chosen: Sequence[int], first: int) -> Iterator[Said]:
        self._told = {key for key in self._told if key[0] > first - BEFORE}
        continued = Continuations(lines)
        joins: dict[tuple[int, int], Match | None] = {}
        for at in chosen:
            if continued.holds(at):
                continue
            for begin, said in _meanings(lines, at, joins):
                # Both lines of a wrapped wording are looked at: it is told once.
                line = first + begin + 1
                key = (self._parts.begins.get(line, line), said.signature.id)
                if key not in self._told or begin == at:
                    self._told.add(key)
                    yield Said(key[0], said)


def _last_lines(text: bytes, first: int, lines: int) -> tuple[bytes, int]:
    """The lines that those to come may belong to, and the number of the first of them."""
    begin = _begin_of_last(text, BEFORE + _AFTER)
    return (text[begin:], lines - BEFORE - _AFTER) if begin else (text, first)


def _begin_of_last(text: bytes, lines: int) -> int:
    """Where the last lines of a text begin that ends with a newline."""
    at = len(text)
    for _ in range(lines + 1):
        at = text.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _meanings(
    lines: Sequence[bytes], at: int, joins: dict[tuple[int, int], Match | None]
) -> Iterator[tuple[int, Match]]:
    """What the line says, alone or, if it was wrapped, together with its neighbours.

    ``joins``: what neighbours said together so far, so that none are joined twice.
    """
    alone = read_line(lines[at], EVERYWHERE)
    if alone:
        yield from ((at, said) for said in alone)
        return
    for begin, end in ((at - 1, at), (at, at + 1), (at - 2, at), (at - 1, at + 1)):
        if begin < 0 or end >= len(lines) or not _is_wrapped(lines[begin : end + 1]):
            continue
        if (begin, end) not in joins:
            joins[begin, end] = _joined(lines[begin : end + 1])
        if (found := joins[begin, end]) is not None:
            yield begin, found
            return


def _is_wrapped(lines: Sequence[bytes]) -> bool:
    if len(lines[0]) < _SHORTEST_WRAPPED or len(max(lines, key=len)) > WIDEST:
        return False
    return all(line and not looks_headed(line) for line in lines[1:])


def _joined(lines: Sequence[bytes]) -> Match | None:
    parts = [line.rstrip(b"\r") for line in lines]
    for glue in (b"", b" "):
        for record in records(glue.join(parts)):
            if found := match(record, EVERYWHERE):
                return found
    return None
