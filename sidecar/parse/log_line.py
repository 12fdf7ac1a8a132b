"""One raw line of a log, however dirty, -> the records in it, and the signature each one matches.

What users write is never believed: lines that carry request text are deaf whatever they quote, and a
signature counts only at the very start of a message. Nothing of a line leaves but closed names and
numbers.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from sidecar.catalog.log_signatures import (
    LIVE_SCOPES,
    NEEDLES,
    QUIET_STARTS,
    ROWS,
    Scope,
    Signature,
)

LONGEST = 64 * 1024
"""Bytes of a line that are looked at; the rest is cut off."""


@dataclass(frozen=True, slots=True)
class Record:
    """One log record, taken out of its wrappings.

    ``level`` and ``logger_file`` are None where the line has no logger's head. ``stamp`` is the time
    of its head in seconds since the year began, by the server's own clock and zone: good for
    differences only.
    ``deaf``: it may carry users' text and matches nothing. ``unfinished``: it is deaf and stops in
    the midst of that text, so that a line after it may go on with it.
    """

    message: str
    origin: str = "unknown"
    level: str | None = None
    logger_file: str | None = None
    stamp: float | None = None
    headed: bool = False
    deaf: bool = False
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    """A record that has a signature, with what it counts; its text is gone."""

    signature: Signature
    origin: str = "unknown"
    amount: float = 1.0
    numbers: Mapping[str, float] = field(default_factory=dict)
    stamp: float | None = None


_ESC = r"(?:\x1b|\^\[|#033|\\033|\\x1b|\\u001b|\\e)"
_COLOUR = re.compile(
    rf"{_ESC}\[[0-9;?]*[A-Za-z]|{_ESC}\][^\x07\x1b]{{0,200}}(?:\x07|{_ESC}\\)?|{_ESC}[()][A-Z0-9]"
    r"|(?<![\w\]])\[(?:\d{1,3}(?:;\d{1,3}){0,4})m|(?<=[\w\])])\[0(?:;0)?m"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufeff\ufffd]+")
_LEVELS = "DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL"
_HEAD_TEXT = (
    rf"(?P<level>{_LEVELS}) +(?:\d{{4}}-)?(?P<month>\d\d)-(?P<day>\d\d) "
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,]\d{1,9})? +"
    r"(?:\[(?P<file>[^\]\s'\"]{1,120}?):\d{1,6}\]|(?P<bare>[\w./-]{1,120}?):\d{1,6}\])"
)
_HEAD = re.compile(_HEAD_TEXT + r"(?: |$)")
_HEAD_AHEAD = re.compile(
    r"(?:[^'\"{}\n:]|:(?! )){1,60}?(?=" + _HEAD_TEXT.replace("?P<", "?P<x_") + r"(?: |$))"
)
_FILE_HEAD = re.compile(r"\[(?P<file>[\w./-]{1,120}?\.(?:py|rs)):\d{1,6}\] ")
_UVICORN = re.compile(rf"(?P<level>{_LEVELS}):\s+(?=\S)")
_TAG = re.compile(
    r"\((?P<name>[A-Za-z][\w.:/-]{0,60})(?: rank=\d+)?(?:,? ?pid=\d+)?(?:,? ip=[\w.:]+)?\)(?: +|$)"
)
_TAG_AT_END = re.compile(r"\([A-Za-z][\w.:/-]{0,60}(?: rank=\d+)?,? ?pid=\d+[^()]{0,40}\) *$")
_MONTH_DAYS = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)

_DATE = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_SYSLOG = (
    r"[^\W\d_]{2,9}\.? +\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,9})?(?: \d{4})? "
    r"(?:[\w.-]{1,64} )?(?=[\w./@:-]{1,64}(?:\[\d+\])?: )"
)
_PROGRAM = (
    r"(?:[\w.-]{1,64} )?(?:kernel|dmesg|systemd|systemd-oomd|dockerd|containerd|kubelet|vllm[\w-]{0,24}"
    r"|python3?|earlyoom|conmon|docker|raylet|crio|podman|bash|sh)(?:\[\d+\])?: (?!segfault at)"
)
_PIPED = (
    rf"(?:{_LEVELS}) *\|(?: *stderr *\|| *stdout *\|| *{_DATE} *\|)?"
    r"(?: *[\w.<>]+:[\w.<>]*:?\d+ +- )?"
)
_PEELS = tuple(
    re.compile(text)
    for text in (
        r"(?:\*{1,2}(?=[A-Za-z(])|[>`|\s])+",
        r"(?:E {2,}|(?:FAILED|ERROR) \S{1,200}::\S{1,120} - )(?=\S)",
        r"<\d{1,3}>(?:\d )?",
        r"\d{1,3},\d+,\d+,[^;]{1,40};",
        r"\[\s*[+<]?\s*\d{1,9}\.\d{1,9}>?\](?:\[\s*[TC]\d+\])?",
        r"\[\s*[TC]\d+\]",
        r"\[(?:[^\W\d_]{2,4}\.? )?[^\W\d_]{3,5}\.? +\d{1,2} \d\d:\d\d:\d\d(?:[.,]\d+)? \d{4}\]",
        rf"\[?{_DATE}(?: [A-Z](?: \d+){{1,3}})?(?: \(\w+\))?\](?:\s*\|)?",
        rf"{_DATE}(?:,? ?\||\s+-|[:,])?(?=\s|$)",
        r"\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?(?=\s)",
        r"std(?:out|err) [FP](?: |$)",
        r"(?:stdout|stderr)\s*\|",
        _SYSLOG,
        _PROGRAM,
        r"[\w.-]{1,64} [\w.@/-]{1,64}\[\d+\]: (?!segfault at)",
        r"kern(?: +:\w+ +|\.\w+): ",
        r"[\w.@/-]{1,64}\[\d+\]: (?!segfault at)",
        r"[a-z0-9][\w.-]{0,62} [a-z0-9][\w.-]{0,62} (?=\d{4}-\d\d-\d\dT)",
        r"\[\d+,\d+\]<std(?:err|out)>:",
        r"(?:rank ?)?\d{1,4}: ",
        r"\[ *(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|debug|info|warning|error|Error|Info) *\]",
        rf"(?:{_LEVELS}) [\w./-]{{1,80}}\.py:\d+ -- ",
        r"\[pod/[\w.-]+/[\w.-]+\]",
        r"[\w][\w.-]{0,62} +\| ",
        r"\[[\w./-]{0,24}\](?=\s*(?:\(|\[|[A-Z]))",
        r"\w{6,24}\[(?:error|info|warning|debug|stderr|stdout)\]",
        r"##\[(?:error|warning|debug)\]",
        r"\(\w+\)(?= \()",
        r"\[(?:rank|Rank ?|local_rank)\d+\]:?",
        r"\[[IWEF]\d{0,4} ?(?:\d\d:\d\d:\d\d\.\d+ )?[\w./-]+\.(?:cpp|cc|cu|h):\d+\](?: Warning:)?",
        r"[\w/.-]{1,60}\.(?:cc|cpp|cu|h):\d+: ",
        r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+\.(?:go|cc|cpp|py):\d+\]",
        r"[\w.-]{1,64}:\d+:\d+ \[\d+\] (?:[\w./]{1,60}:\d+ )?(?=NCCL )",
        _PIPED,
        r"[\w.<>]{1,80}:[\w.<>]{0,60}:\d+ +- ",
        rf"[\w.]{{1,60}} +- +(?=(?:{_LEVELS}) +- )",
        r"(?:\d )?[\w.-]{1,64} [\w./-]{1,48} (?:\d+|-) [\w-]{1,32} - ",
        rf"(?:{_LEVELS}) +- ",
        rf"(?:{_LEVELS}):[\w.]{{1,60}}:",
        rf"(?:{_LEVELS})\s+(?=[A-Z]|\()(?!\d)",
    )
)
_PROGRESS = re.compile(r"it/s|s/it|%\||\d% Completed")
_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\].*$")

_EXCEPTION = (
    r"(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|OutOfResources|Dead|Died|Interrupt|Exit|Timeout|Pool)"
    r"(?:: |\(['\"])"
)
_DOING = (
    r"(?:Error|Exception|Failed) (?:in|while|during|when) (?:worker|executing|running|initializing"
    r"|calling)[\w ./]{0,60}: "
)
_LEADS = tuple(
    re.compile(text)
    for text in (
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
        r"\w{1,40}(?:\.\w{1,40}){1,6}: ",
        r"NCCL error in: \S{1,200}, (?=Cuda failure|HIP failure)",
        r"Last error: ?",
        r"\"?Failed to process the request\(s\)[^,]{0,120}, message: ",
    )
)
_MOST_LEADS = 6

_DEAF_FILES = frozenset(
    {"dump_input.py", "logger.py", "protocol.py", "request_logger.py", "validation.py"}
)
_DEAF = re.compile(
    r"Received request |Added request |Aborted request |Finished request |Generated response"
    r"|Request \S.{0,200}?(?: JSON body| details|: )|non-default args|args: Namespace|Dumping "
    r"|[\da-fA-F:.\[\]]{3,45}(?::\d+)? - \"[A-Z]{3,8} "
)
_OPEN = re.compile(r"Received request |Request |Generated response|Dumping ")
_FINISHED = (".", "None", ")", "]", "}", '"', "...")

_ORIGINS = (
    ("APIServer", "api_server"),
    ("ApiServer", "api_server"),
    ("RustFrontend", "api_server"),
    ("MainProcess", "api_server"),
    ("DPCoordinator", "api_server"),
    ("EngineCore", "engine"),
    ("DPEngineCore", "engine"),
    ("VllmWorker", "worker"),
    ("Worker", "worker"),
    ("RayWorker", "worker"),
    ("RayGPUExecutor", "worker"),
)

_MESSAGE_KEYS = ("message", "log", "MESSAGE", "msg", "textPayload")
_LEVEL_KEYS = ("levelname", "level", "severity")
_ERROR_KEYS = ("exc_info", "exc_text", "exception", "stack", "stack_info", "error")
_QUIET_LEVELS = frozenset({"DEBUG", "INFO"})


@dataclass(frozen=True, slots=True)
class _Row:
    """A signature with its pattern compiled."""

    signature: Signature
    pattern: re.Pattern[str]


_ROWS = tuple(_Row(row, re.compile(row.pattern)) for row in ROWS)


def text_of(raw: str | bytes) -> str:
    """The line as text: cut to ``LONGEST``, without colours, control characters and line ends."""
    text = raw[:LONGEST].decode("utf-8", "replace") if isinstance(raw, bytes) else raw[:LONGEST]
    if "\r" in text:
        # A progress bar draws over itself: what stands is what was written last.
        text = text.rstrip("\r\n").rsplit("\r", 1)[-1] or text
    if "[" in text:
        text = _COLOUR.sub("", text)
    return _CONTROL.sub("", text).strip()


def records(raw: str | bytes) -> tuple[Record, ...]:
    """The records in one line, in order; none if the line is empty."""
    text = text_of(raw)
    if text.startswith("{") and text.endswith("}"):
        found = _from_json(text)
        if found is not None:
            return found
    return _from_text(text) if text else ()


def _from_json(text: str) -> tuple[Record, ...] | None:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(fields, dict) and isinstance(fields.get("jsonPayload"), dict):
        fields = fields["jsonPayload"]
    if not isinstance(fields, dict):
        return None
    message = next((_as_text(fields[key]) for key in _MESSAGE_KEYS if key in fields), "")
    if not message:
        return None
    lines = [*message.splitlines(), *_more_lines(fields)]
    found: list[Record] = []
    for line in lines:
        clean = text_of(line)
        found += [_with_fields(record, fields) for record in _from_text(clean) if clean]
        if found and found[-1].deaf:
            # Whatever follows in the same record is the users' text too.
            break
    return tuple(found)


def _as_text(value: object) -> str:
    # journald gives a message with control bytes as a list of numbers.
    if isinstance(value, list):
        numbers = [item for item in value if isinstance(item, int) and 0 <= item < 256]  # noqa: PLR2004 - bytes
        return bytes(numbers).decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def _more_lines(fields: Mapping[str, object]) -> Iterator[str]:
    for key in _ERROR_KEYS:
        yield from _as_text(fields.get(key)).splitlines()


def _with_fields(record: Record, fields: Mapping[str, object]) -> Record:
    """The record, with level and logger of the JSON formatter where its text has no head."""
    name = fields.get("name", fields.get("logger"))
    if record.level is not None or not isinstance(name, str):
        return record
    level = next((str(fields[key]).upper() for key in _LEVEL_KEYS if key in fields), None)
    file = name.rsplit(".", 1)[-1] + ".py"
    return Record(
        message=record.message,
        origin=record.origin,
        level=level,
        logger_file=file,
        stamp=record.stamp,
        headed=True,
        deaf=record.deaf or file in _DEAF_FILES,
    )


_MOST_RECORDS = 8
"""Records that are told apart in one line; what is glued behind them is not looked at."""


def _from_text(text: str) -> tuple[Record, ...]:
    found: list[Record] = []
    while len(found) < _MOST_RECORDS and (glued := _glued(text)) is not None:
        first = _record(text[:glued])
        if first.deaf:
            break
        found.append(first)
        text = text[glued:]
    return (*found, _record(text))


def _glued(text: str) -> int | None:
    """Where a second record begins: behind a progress bar, or an error behind a whole record."""
    for found in _HEAD.finditer(text, 1):
        before = text[: found.start()]
        if tag := _TAG_AT_END.search(before):
            before = before[: tag.start()]
        if before.strip() and _may_end(before, found["level"]):
            return len(before)
    begin = text.find("(raylet")
    return begin if begin > 0 and _PROGRESS.search(text[:begin]) else None


def _may_end(before: str, next_level: str) -> bool:
    head = _HEAD.search(before)
    if head is None:
        return _PROGRESS.search(before) is not None
    return next_level == "ERROR" and not any(mark in before[head.end() :] for mark in "'\"{")


@dataclass(slots=True)
class _Peeled:
    """What is left of a line, and what was learned from what was taken off."""

    rest: str
    origin: str = "unknown"
    level: str | None = None
    file: str | None = None
    stamp: float | None = None
    headed: bool = False

    def drop(self, found: re.Match[str]) -> None:
        self.rest = self.rest[found.end() :].lstrip()


_MOST_PEELS = 16


def _record(text: str) -> Record:
    """One record of text that holds one."""
    peeled = _Peeled(text)
    for _ in range(_MOST_PEELS):
        if not peeled.rest or not (_peel_head(peeled) or _peel_wrapper(peeled)):
            break
    rest = _REPEATED.sub("", peeled.rest) if "[repeated " in peeled.rest else peeled.rest
    deaf = peeled.file in _DEAF_FILES or _DEAF.match(rest) is not None
    return Record(
        message=rest,
        origin=peeled.origin,
        level=peeled.level,
        logger_file=peeled.file,
        stamp=peeled.stamp,
        headed=peeled.headed,
        deaf=deaf,
        unfinished=deaf and _OPEN.match(rest) is not None and _is_unfinished(rest),
    )


def _is_unfinished(message: str) -> bool:
    prompt = max(message.find("prompt: '"), message.find('prompt: "'))
    if prompt >= 0 and "params" not in message[prompt:]:
        return True
    return not message.endswith(_FINISHED)


def _peel_head(peeled: _Peeled) -> bool:
    """Take off a logger's head or a process tag, if one stands in front."""
    rest = peeled.rest
    if peeled.level in _QUIET_LEVELS and peeled.headed:
        # What stands behind such a head is passed over by the prefilter.
        return False
    if peeled.file is None and (found := _HEAD.match(rest)):
        peeled.level = peeled.level or found["level"]
        peeled.file = _file_name(found["file"] or found["bare"])
        peeled.stamp = _stamp(found)
        peeled.headed = True
    elif found := _TAG.match(rest):
        peeled.origin = _origin(found["name"], peeled.origin)
        peeled.headed = True
    elif peeled.file is None and (found := _FILE_HEAD.match(rest)):
        peeled.file = _file_name(found["file"])
        peeled.headed = True
    elif peeled.level is None and (found := _UVICORN.match(rest)):
        peeled.level = found["level"]
        peeled.headed = True
    else:
        return False
    peeled.drop(found)
    return True


def _peel_wrapper(peeled: _Peeled) -> bool:
    if peeled.file is not None or peeled.level is not None:
        # Behind a head of vLLM's the message begins; only Ray and torch put a second one there.
        return _peel_first(peeled, _INNER)
    if _peel_first(peeled, _PEELS):
        return True
    # VLLM_LOGGING_PREFIX may put any short text in front.
    found = _HEAD_AHEAD.match(peeled.rest)
    if found is None or _DEAF.match(peeled.rest):
        return False
    peeled.drop(found)
    return True


_INNER = tuple(
    re.compile(text)
    for text in (
        r"\[(?:rank|Rank ?)\d+\]:?",
        r"\[[IWEF]\d{0,4} ?(?:\d\d:\d\d:\d\d\.\d+ )?[\w./-]+\.(?:cpp|cc|cu|h):\d+\](?: Warning:)?",
    )
)


def _peel_first(peeled: _Peeled, peels: Iterable[re.Pattern[str]]) -> bool:
    for peel in peels:
        found = peel.match(peeled.rest)
        if found and found.end():
            peeled.drop(found)
            return True
    return False


def _file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _stamp(head: re.Match[str]) -> float:
    """Seconds since the beginning of the year, by the head's own clock."""
    month = min(max(int(head["month"]), 1), 12)
    days = _MONTH_DAYS[month - 1] + int(head["day"])
    hours = days * 24 + int(head["hour"])
    return float((hours * 60 + int(head["minute"])) * 60 + int(head["second"]))


def _origin(name: str, known: str) -> str:
    for start, origin in _ORIGINS:
        if name.startswith(start):
            return origin
    return known


def _meanings(message: str) -> Iterator[str]:
    """The message, then what is left as exception names and the like are taken off its front."""
    yield message
    for _ in range(_MOST_LEADS):
        for lead in _LEADS:
            if found := lead.match(message):
                message = message[found.end() :].lstrip()
                yield message
                break
        else:
            return


def match(record: Record, scopes: frozenset[Scope] = LIVE_SCOPES) -> Match | None:
    """What a record means, if one of the wordings of ``scopes`` stands at its start."""
    if record.deaf or not record.message:
        return None
    quiet = record.level in _QUIET_LEVELS
    rows = [
        row
        for row in _ROWS
        if row.signature.needle in record.message and row.signature.scope in scopes
    ]
    for meaning in _meanings(record.message) if rows else ():
        for row in rows:
            if (found := row.pattern.match(meaning)) and _is_believed(row.signature, record, quiet):
                return _matched(row.signature, record, found)
    return None


def _is_believed(row: Signature, record: Record, quiet: bool) -> bool:  # noqa: FBT001 - private
    if quiet and not row.quiet:
        return False
    return not row.files or record.logger_file is None or record.logger_file in row.files


def _matched(row: Signature, record: Record, found: re.Match[str]) -> Match:
    groups = {name: float(text) for name, text in found.groupdict().items() if text is not None}
    amount = groups.pop("amount", 1.0)
    return Match(row, record.origin, amount, groups, record.stamp)


def read_line(raw: str | bytes, scopes: frozenset[Scope] = LIVE_SCOPES) -> tuple[Match, ...]:
    """Everything one line says; by default only what is believed in vLLM's own log."""
    found = (match(record, scopes) for record in records(raw))
    return tuple(said for said in found if said is not None)


BEFORE = 8
"""How many lines above one may decide whether it is a record of its own."""
looks_headed = re.compile(
    rb"\s*(?:\x1b\[|\^\[\[|#033\[|\(|\[|\{|\||INFO|DEBUG|WARNING|ERROR|CRITICAL"
    rb"|\d{4}-\d\d-\d\d|[A-Z][a-z]{2} +\d+ \d\d:)"
).match
"""Whether a line begins as a record does, and not as the rest of the line above it."""
_CRI_PART = re.compile(rb"\S{20,40} (?P<stream>stdout|stderr) (?P<flag>[FP]) ").match
_DOCKER_PART = re.compile(rb'\{"log": ?".*"stream": ?"(?P<stream>\w+)"').match


def is_continued(lines: Sequence[bytes], at: int) -> bool:
    """Whether a line goes on with the one above it, so that it may begin amid users' text.

    Container runtimes cut lines of more than 16 KiB, terminals wrap them.
    """
    line = lines[at]
    found = _CRI_PART(line) or _DOCKER_PART(line)
    if found is not None:
        return _is_cut_above(lines, at, found["stream"])
    return not looks_headed(line) and _continues_users_text(lines, at)


def _is_cut_above(lines: Sequence[bytes], at: int, stream: bytes) -> bool:
    for above in range(at - 1, max(-1, at - 1 - BEFORE), -1):
        if found := _CRI_PART(lines[above]):
            if found["stream"] == stream:
                return found["flag"] == b"P"
        elif (found := _DOCKER_PART(lines[above])) and found["stream"] == stream:
            return b'\\n","stream"' not in lines[above].replace(b'", "', b'","')
    return False


def _continues_users_text(lines: Sequence[bytes], at: int) -> bool:
    for above in range(at - 1, max(-1, at - 1 - BEFORE), -1):
        if looks_headed(lines[above]):
            found = records(lines[above])
            return bool(found) and found[-1].unfinished
    return False


def holds_users_text(line: bytes) -> bool:
    """Whether a line may carry what users wrote, or what must stay secret."""
    return any(record.deaf for record in records(line))


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
