"""A whole log -> the matches in its lines, in whatever portions its bytes come."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sidecar.catalog.signatures import Scope
from sidecar.parse.log_candidates import places
from sidecar.parse.log_cuts import BEFORE, WIDEST, Continuations, Rejoiner, looks_headed
from sidecar.parse.log_line import LONGEST, records
from sidecar.parse.log_match import Match, match, read_line
from sidecar.parse.log_windows import AFTER, begin_of_last, numbers_of, windows

EVERYWHERE = frozenset(Scope)
_HALF = LONGEST // 2
_SHORTEST_WRAPPED = 40

Search = Callable[[bytes, int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Said:
    """A match and the number of its line, from 1."""

    line: int
    match: Match


@dataclass(slots=True)
class LineReader:
    """Bytes in any portions -> the matches in their lines, with flat memory.

    ``search``: where the lines begin that may match, in a text from a place on. ``cut``: lines that
    were longer than ``LONGEST``, of which only the begin was read.
    """

    lines: int = 0
    cut: int = 0
    search: Search = places
    _begun: bytes = b""
    _parts: Rejoiner = field(default_factory=Rejoiner)
    _kept: bytes = b""
    _kept_from: int = 0
    _untold: int = 0
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
        pieces: list[bytes | memoryview] = [self._kept]
        if last:
            pieces += (self._begun, memoryview(chunk)[:last])
            self._begun = chunk[last:]
        else:
            self._begun += chunk
        if len(self._begun) > LONGEST:
            # The begin of a line that is too long is read as if it were whole.
            pieces += (self._begun[:LONGEST], b"\n")
            self._begun = b""
            self._skipping = True
            self.cut += 1
        if len(pieces) == 1:
            return iter(())
        text = self._cut_to_length(b"".join(pieces))
        if not self._parts.passes(text, len(self._kept)):
            text = self._kept + self._parts.feed(text[len(self._kept) :])
        return self._read(text, begin_of_last(text, AFTER))

    def finish(self) -> Iterator[Said]:
        """The matches of what is left, a last line without an end included."""
        rest = self._parts.feed(self._begun + b"\n") if self._begun else b""
        lines = self._parts.lines
        # What is left of records in parts stands behind the last line, and is told in its first.
        text = self._kept + rest + self._parts.finish()
        found = self._read(text, len(text))
        self.lines = lines
        return found

    def _cut_to_length(self, text: bytes) -> bytes:
        """The text without what stands behind the first ``LONGEST`` bytes of a new line."""
        new = len(self._kept)
        # Such a line covers one of the places where we look, and half its length behind that.
        for at in range(new, len(text) - _HALF, _HALF):
            if text.find(b"\n", at, at + _HALF) < 0:
                break
        else:
            return text
        lines = text[new:].split(b"\n")
        self.cut += sum(len(line) > LONGEST for line in lines)
        return text[:new] + b"\n".join([line[:LONGEST] for line in lines])

    def _read(self, text: bytes, up_to: int) -> Iterator[Said]:
        """The matches in the lines that begin before ``up_to`` and were not told before."""
        first, untold = self._kept_from, self._untold
        begin = begin_of_last(self._kept, 2 * AFTER + 1)
        chosen = [at for at in self.search(text, begin) if untold <= at < up_to]
        numbers, lines = numbers_of(text, chosen)
        self.lines = self._parts.lines = first + lines
        keep = begin_of_last(text, BEFORE + AFTER)
        self._kept, self._untold = text[keep:], up_to - keep
        if keep:
            self._kept_from = self.lines - BEFORE - AFTER
        self._told = {key for key in self._told if key[0] > first - BEFORE}
        return self._match(text, chosen, numbers, first) if chosen else iter(())

    def _match(
        self, text: bytes, chosen: Sequence[int], numbers: Sequence[int], first: int
    ) -> Iterator[Said]:
        for window in windows(text, chosen, numbers):
            continued = Continuations(window.lines)
            joins: dict[tuple[int, int], Match | None] = {}
            for at in window.chosen:
                if continued.holds(at):
                    continue
                for begin, said in _meanings(window.lines, at, joins):
                    # Both lines of a wrapped wording are looked at: it is told once.
                    line = first + window.above + begin + 1
                    key = (self._parts.begins.get(line, line), said.signature.id)
                    if key not in self._told or begin == at:
                        self._told.add(key)
                        yield Said(key[0], said)


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
