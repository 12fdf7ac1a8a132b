"""Records of a log -> the signatures that they match, as closed names and numbers.

A signature counts only at the very start of a message, so that nothing that a line quotes is believed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from sidecar.catalog.signatures import ARGUMENT_ROWS, LIVE_SCOPES, NEEDLES, ROWS, Scope, Signature
from sidecar.parse.log_facts import read_facts
from sidecar.parse.log_line import QUIET_LEVELS, Record, inner_records, records


@dataclass(frozen=True, slots=True)
class Match:
    """A record that has a signature, with what it counts; its text is gone.

    ``quoted``: it stands in an answer of the server that a client shows.
    """

    signature: Signature
    origin: str = "unknown"
    amount: float = 1.0
    numbers: Mapping[str, float] = field(default_factory=dict)
    stamp: float | None = None
    quoted: bool = False


_EXCEPTION = (
    r"(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|OutOfResources|Dead|Died|Interrupt|Exit|Timeout|Pool)"
    r"(?:: |\(['\"])"
)

_DOING = (
    r"(?:Error|Exception|Failed) (?:in|while|during|when) (?:worker|executing|running|initializing"
    r"|calling)[\w ./]{0,60}: "
)

_LEAD = re.compile(
    "|".join(
        (
            _EXCEPTION,
            r"Worker failed with error ['\"]?",
            r"Exception in worker \S{1,60} while processing method \w{1,60}: ",
            r"Call to \w{1,60} method failed: ",
            r"Error in model execution(?: \([^)]{1,200}\))?: ",
            _DOING,
            r"Engine loop is not running\. Inspect the stacktrace to find the original error: ",
            r"what\(\):\s+",
            r"thread '[\w-]{1,40}' panicked at '",
            r"Unable to warmup model: \w{1,20}\(['\"]?",
            r"(?:Caused by|caused by|Reason|Error|error|ERROR|Exception|Fatal|fatal): ",
            r"(?:Message|Details?|Warning): +(?=The node|OOM|Memory)",
            r"\(?[Oo]riginal error: ",
            r"exit status \d{1,3}: (?=\S)",
            r"future: <Task finished .{0,400}? exception=",
            r"\"Failed to initialize Python stub: ",
            r"(?:Failed|FAILED|Aborted): (?=CUDA|Cuda|HIP|hip)",
            r"\w{1,40}(?:\.\w{1,40}){1,6}: ",
            r"NCCL error in: \S{1,200}, (?=Cuda failure|HIP failure)",
            r"Last error: ?",
            r"\"?Failed to process the request\(s\)[^,]{0,120}, message: ",
        )
    )
)

_MOST_LEADS = 6


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Compiled when a message first needs it: most never are, and all take long."""
    return re.compile(text)


def _by_literal() -> tuple[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]], ...]:
    """A literal, and the needles that hold it, each with the places of its rows in ``ROWS``."""
    groups: dict[str, dict[str, list[int]]] = {}
    for place, row in enumerate(ROWS):
        literal = next(literal for literal in NEEDLES if literal in row.needle)
        groups.setdefault(literal, {}).setdefault(row.needle, []).append(place)
    return tuple(
        (literal, tuple((needle, tuple(places)) for needle, places in needles.items()))
        for literal, needles in groups.items()
    )


_BY_LITERAL = _by_literal()
_ARGUMENT_ROWS = tuple(row for row in ROWS if row.id in ARGUMENT_ROWS)


def _rows_in(message: str, scopes: frozenset[Scope]) -> list[Signature]:
    """The rows of ``scopes`` whose needle the message holds, in order."""
    found: list[int] = []
    for literal, needles in _BY_LITERAL:
        if literal in message:
            for needle, places in needles:
                if needle in message:
                    found += places
    found.sort()
    return [ROWS[place] for place in found if ROWS[place].scope in scopes]


def _meanings(message: str) -> Iterator[str]:
    """The message, then what is left as exception names and the like are taken off its front."""
    yield message
    for _ in range(_MOST_LEADS):
        found = _LEAD.match(message)
        if found is None:
            return
        message = message[found.end() :].lstrip()
        yield message


def match(record: Record, scopes: frozenset[Scope] = LIVE_SCOPES) -> Match | None:
    """What a record means, if one of the wordings of ``scopes`` stands at its start."""
    if record.deaf:
        return _arguments(record, scopes)
    if not record.message or (record.quoted and Scope.SYSTEM not in scopes):
        return None
    quiet = record.level in QUIET_LEVELS
    message = record.message
    rows = _rows_in(message, scopes)
    for meaning in _meanings(message) if rows else ():
        for row in rows:
            if (found := _pattern(row.pattern).match(meaning)) and _is_believed(row, record, quiet):
                return _matched(row, record, found)
    return None


def _arguments(record: Record, scopes: frozenset[Scope]) -> Match | None:
    """The facts in a record that lists the server's arguments; of what it quotes nothing is read."""
    if Scope.SERVER not in scopes or record.logger_file is None:
        return None
    for row in _ARGUMENT_ROWS:
        found = _pattern(row.pattern).match(record.message)
        if found and _is_believed(row, record, quiet=True):
            return _matched(row, record, found)
    return None


def _tells_facts(record: Record) -> bool:
    """Whether it is vLLM's own logger that speaks, not somebody who quotes it."""
    return record.logger_file is not None and record.level in QUIET_LEVELS and not record.quoted


def _is_believed(row: Signature, record: Record, quiet: bool) -> bool:  # noqa: FBT001 - private
    if quiet and not row.quiet:
        return False
    if row.levels and record.level not in row.levels:
        return False
    if row.mark is not None and record.level not in {None, "INFO"}:
        return False
    if row.facts is not None and row.mark is None and not _tells_facts(record):
        return False
    return not row.files or record.logger_file is None or record.logger_file in row.files


def _matched(row: Signature, record: Record, found: re.Match[str]) -> Match:
    if row.facts is not None:
        facts = read_facts(row.facts, found) if _tells_facts(record) else {}
        return Match(row, record.origin, numbers=facts, stamp=record.stamp, quoted=record.quoted)
    groups = {name: float(text) for name, text in found.groupdict().items() if text is not None}
    amount = groups.pop("amount", 1.0)
    return Match(row, record.origin, amount, groups, record.stamp, record.quoted)


def read_line(raw: str | bytes, scopes: frozenset[Scope] = LIVE_SCOPES) -> tuple[Match, ...]:
    """Everything one line says; by default only what is believed in vLLM's own log."""
    found: list[Match] = []
    for record in records(raw):
        said = match(record, scopes)
        if said is not None:
            found.append(said)
        elif Scope.SYSTEM in scopes:
            found += _inner(record, scopes)
    return tuple(found)


def _inner(record: Record, scopes: frozenset[Scope]) -> Iterator[Match]:
    """What the fields of a record say, each thing once."""
    told: set[str] = set()
    for inner in inner_records(record):
        said = match(inner, scopes)
        if said is not None and said.signature.id not in told:
            told.add(said.signature.id)
            yield said
