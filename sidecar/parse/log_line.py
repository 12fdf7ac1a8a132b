"""One raw line of a log, however dirty, -> the records in it, free of their wrappings.

Lines that carry request text are marked deaf: they match nothing, whatever they quote.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sidecar.parse.log_fields import Body, body_of, inner_texts
from sidecar.parse.log_open import OpenText

QUIET_LEVELS = frozenset({"DEBUG", "INFO"})
LONGEST = 64 * 1024
"""Bytes of a line that are looked at; the rest is cut off."""


@dataclass(frozen=True, slots=True)
class Record:
    """One log record, taken out of its wrappings.

    ``level`` and ``logger_file`` are None where the line has no logger's head. ``stamp`` is the time
    of its head in seconds since the year began, by the server's own clock and zone: good for
    differences only.
    ``deaf``: it may carry users' text and matches nothing. ``unfinished``: it is deaf and stops in
    the midst of that text, so that a line after it may go on with it. ``quoted``: a client of the
    server tells it, out of the server's answer.
    """

    message: str
    origin: str = "unknown"
    level: str | None = None
    logger_file: str | None = None
    stamp: float | None = None
    headed: bool = False
    deaf: bool = False
    unfinished: bool = False
    quoted: bool = False


_ESC = r"(?:\x1b|\^\[|#033|\\033|\\x1b|\\u001b|\\e)"
_COLOUR = re.compile(
    rf"{_ESC}\[[0-9;?]*[A-Za-z]|{_ESC}\][^\x07\x1b]{{0,200}}(?:\x07|{_ESC}\\)?|{_ESC}[()][A-Z0-9]"
    r"|(?<![\w\]])\[(?:\d{1,3}(?:;\d{1,3}){0,4})m|(?<=[\w\])])\[0(?:;0)?m"
)
_may_be_coloured = re.compile(
    r"\x1b|\^\[|#033|\\(?:033|x1b|u001b|e)|\[\d{1,3}(?:;\d{1,3}){0,4}m"
).search
"""What every text holds in which ``_COLOUR`` finds something: it takes a tenth of its time."""

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
_FILE_HEAD = re.compile(
    rf"(?:(?P<level>{_LEVELS}):? +)?\[(?P<file>[\w./-]{{1,120}}?\.(?:py|rs)):\d{{1,6}}\] "
)
_UVICORN = re.compile(rf"(?P<level>{_LEVELS}):\s+(?=\S)")
_TAG = re.compile(
    r"\((?P<name>[A-Za-z][\w.:/-]{0,60})(?: rank=\d+)?(?:,? ?pid=\d+)?(?:,? ip=[\w.:]+)?\)(?: +|$)"
)
_MONTH_DAYS = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)

_DATE = (
    r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]|, )\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
)
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
_PEELS = re.compile(
    "|".join(
        (
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
            r"[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,9})?(?: \d{4})? +(?=\S)",
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
            r"[\w][\w.@-]{0,90} +\| ",
            r"\d{1,3}\|[\w.-]{1,40} *\| ",
            r"\d{1,7}\t",
            r"\d{10}(?:\.\d{1,9})? ",
            r"\d\d[OE][+ ] ?(?=\S)",
            r"[A-Z][a-z]{2} (?=\d{4}-\d\d-\d\d |[A-Z][a-z]{2} +\d{1,2} \d\d:)",
            r"[\w-]{1,40}\[\w{3,20}\] \w{3} \[\w{1,10}\] ?",
            r"(?:INFO|WARN|CRIT|DEBG) (?=exited: )",
            r"PM2 (?:log|error): ",
            r"(?:[\w.-]{1,64} )?[\w-]{1,40}(?:\[\d+\])? (?:kern|user|daemon|local\d)\.(?:err|warn|info|notice|crit) ",
            r"(?:kern|user|daemon|local\d)\.(?:err|warn|info|notice|crit) (?=[\w-]{1,40}\[\d+\]: )",
            r"[a-z][\w-]{0,40}/[\w.-]{1,40}: (?=\S)",
            r"[a-z][\w.-]{0,40}\d: (?=\[rank\d|[\w.]{1,80}Error: |\([A-Z]\w{1,40} pid=)",
            r"[a-z]{3,12}\[[a-z]{1,20}\.\d{1,4}\]: ",
            r"[a-z0-9][a-z0-9.]*-[a-z0-9.-]{1,60} [a-z0-9][a-z0-9-]{0,40} (?=[\w.]{1,80}(?:Error|Exception): )",
            rf"(?:{_LEVELS}) +\w[\w-]{{0,40}}:\d{{1,9}} +(?=\[)",
            r"\(pid=[\w-]{1,40}(?:, ip=[\w.:]+)?\) ",
            r"\{[\w./]{1,60}\.py:\d+\} ",
            r"[\w./-]{1,160}\.(?:log|err|out|txt|gz)(?:\.\d+)?:(?:\d+:)?(?=\S)",
            rf"(?:{_LEVELS}) {_DATE} (?:[\w.:/#-]{{1,80}} ){{1,4}}--? ",
            r"\[[\w./-]{0,40}\](?=\s*(?:\(|\[|[A-Z]|\w+\.\w))",
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
            r"(?:\d )?[\w.-]{1,64} [\w./-]{1,48} (?:\d+|-) [\w-]{1,32} (?:-|\[[\w@]{1,40} [^\]]{1,400}\]) ",
            rf"(?:{_LEVELS}) +- ",
            rf"(?:{_LEVELS}):[\w.]{{1,60}}:",
            rf"(?:{_LEVELS})\s+(?=[A-Z]|\()(?!\d)",
        )
    )
)
_BAR = re.compile(
    rf"(?:(?!{_LEVELS}|Request|Received|Aborted|Added)[A-Za-z][\w ,()./@=-]{{0,80}}:)?\s*"
    r"\d{1,3}%(?:\||\s+Completed\s*\|)[^'\"{}\[\]|]{0,300}\|?\s*[\d.]+[kMG]?/[\d.]+[kMG]? "
    r"\[[^\]'\"{}]{0,160}(?:it/s|s/it)[^\]'\"{}]{0,160}\]\s*"
    r"(?=(?:\([A-Za-z][\w.:/-]{0,60}(?: rank=\d+)?,? ?pid=\d+[^()]{0,40}\) *)?"
    rf"(?:{_LEVELS}) +(?:\d{{4}}-)?\d\d-\d\d |\(raylet)"
)
"""A progress bar from a line's start, behind which a record begins that was glued to it."""

_DRAWN = re.compile(r"[^'\"{}]{0,160}?\d{1,3}%[^'\"{}]{0,400}").fullmatch
_holds_level = re.compile(rf"\b(?:{_LEVELS})\b").search
_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\].*$")


_is_deaf_file = re.compile(
    r"(?:dump_input|logger|protocol|request_logger|validation|exceptions?|middleware|preprocess"
    r"|chat_utils|api_router|serving(?:_\w+)?|\w*tool_parser|\w*reasoning_parser)\.py"
).fullmatch
"""Files that handle requests: their messages may be what a client wrote, with its line ends."""

_DEAF = re.compile(
    r"Received request |Added request |Aborted request|Finished request |Generated response"
    r"|Request (?!\S{1,200} (?:is |was |has been )?preempted)|non-default args|args: Namespace"
    r"|Dumping |[\da-fA-F:.\[\]]{3,45}(?::\d+)? - \"[A-Z]{3,8} "
)
_ACCESS = re.compile(r' - "[A-Z]{3,8} [^"]*" \d{3}\b| - "[A-Z]{3,8} [^"]* HTTP/\d')
"""An access line may begin with an address that the client made up (``X-Forwarded-For``)."""

_OPEN = re.compile(r"Received request |Request |Generated response|Dumping ")

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


def text_of(raw: str | bytes) -> str:
    """The line as text: cut to ``LONGEST``, without colours, control characters and line ends."""
    return row_of(raw).strip()


def row_of(raw: str | bytes) -> str:
    """The same as ``text_of``, with the spaces at both ends: other rows may belong to it."""
    text = raw[:LONGEST].decode("utf-8", "replace") if isinstance(raw, bytes) else raw[:LONGEST]
    if "\r" in text:
        text = _drawn_last(text.rstrip("\r\n")) or text
    if "[" in text and _may_be_coloured(text):
        text = _COLOUR.sub("", text)
    return _CONTROL.sub("", text)


def _drawn_last(text: str) -> str:
    """The line without the progress bars that it draws over; any other text stays in front."""
    pieces = text.split("\r")
    for at, piece in enumerate(pieces[:-1]):
        if piece.strip() and (_holds_level(piece) or not _DRAWN(piece)):
            return " ".join(pieces[at:])
    return pieces[-1]


_MOST_NESTED = 3


def records(raw: str | bytes) -> tuple[Record, ...]:
    """The records in one line, in order; none if the line is empty."""
    return tuple(_records(text_of(raw), _MOST_NESTED))


def open_text(raw: str | bytes) -> OpenText | None:
    """How the users' text in a line stands behind it; None if no other line can go on with it."""
    found = records(raw)
    text = _open_text(found[-1].message) if found and found[-1].deaf else None
    if text is not None:
        row = row_of(raw)
        text.feed(row[len(row.rstrip()) :])
    return text


def inner_records(record: Record) -> Iterator[Record]:
    """Records in the fields of a line that another program wrote, up to a deaf one in each."""
    if record.deaf or record.logger_file is not None or record.level is not None:
        return
    for inner in inner_texts(record.message):
        yield from _from_body(Body(inner.lines, quoted=inner.quoted), 0)


def _records(text: str, nested: int, *, told: bool = False) -> Iterator[Record]:
    """``nested``: how many times JSON may still stand in JSON, or behind another wrapping."""
    body = body_of(text) if nested and _is_object(text) else None
    if body is not None:
        yield from _from_body(body, nested - 1)
        return
    if not text:
        return
    record = _record(text, told=told)
    bare = record.level is None and record.logger_file is None and not record.deaf
    inside = record.message
    if nested and bare and _is_object(inside) and (body := body_of(inside)) is not None:
        yield from _from_body(body, nested - 1)
    else:
        yield record


def _is_object(text: str) -> bool:
    return text.startswith("{") and text.endswith("}")


def _from_body(body: Body, nested: int) -> Iterator[Record]:
    told = body.level is not None or body.logger is not None
    for line in body.lines:
        for record in _records(text_of(line), nested, told=told):
            known = _with_fields(record, body)
            yield known
            if known.deaf:
                # Whatever follows in the same record is the users' text too.
                return


def _with_fields(record: Record, body: Body) -> Record:
    """The record, with level and logger of the JSON formatter where its text has no head."""
    quoted = record.quoted or body.quoted
    if record.level is not None or body.logger is None:
        return replace(record, quoted=quoted) if quoted else record
    file = body.logger.rsplit(".", 1)[-1] + ".py"
    return replace(
        record,
        level=body.level,
        logger_file=file,
        headed=True,
        deaf=record.deaf or _is_deaf_file(file) is not None,
        quoted=quoted,
    )


@dataclass(slots=True)
class _Peeled:
    """What is left of a line, and what was learned from what was taken off.

    ``told``: a level was named already, so that the message begins: no other record may follow.
    """

    rest: str
    origin: str = "unknown"
    level: str | None = None
    file: str | None = None
    stamp: float | None = None
    headed: bool = False
    told: bool = False

    def drop(self, found: re.Match[str]) -> None:
        self.rest = self.rest[found.end() :].lstrip()


_MOST_PEELS = 16


def _record(text: str, *, told: bool) -> Record:
    """One record of text that holds one."""
    peeled = _Peeled(text, told=told)
    for _ in range(_MOST_PEELS):
        if not peeled.rest or not (_peel_head(peeled) or _peel_wrapper(peeled)):
            break
    rest = _REPEATED.sub("", peeled.rest) if "[repeated " in peeled.rest else peeled.rest
    deaf = _is_deaf(peeled.file, rest)
    return Record(
        message=rest,
        origin=peeled.origin,
        level=peeled.level,
        logger_file=peeled.file,
        stamp=peeled.stamp,
        headed=peeled.headed,
        deaf=deaf,
        unfinished=deaf and _open_text(rest) is not None,
    )


def _is_deaf(file: str | None, message: str) -> bool:
    if file is not None and _is_deaf_file(file):
        return True
    if _DEAF.match(message):
        return True
    return ' - "' in message and _ACCESS.search(message) is not None


def _open_text(message: str) -> OpenText | None:
    """What stands open behind a message with users' text; None if no other line can go on."""
    if not _OPEN.match(message):
        return None
    text = OpenText()
    text.feed(message)
    return text if text.is_open else None


def _peel_head(peeled: _Peeled) -> bool:
    """Take off a logger's head or a process tag, if one stands in front."""
    rest = peeled.rest
    if peeled.level in QUIET_LEVELS and peeled.headed:
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
        peeled.level = peeled.level or found["level"]
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
    before = peeled.rest
    if _peel_first(peeled, _PEELS):
        taken = before[: len(before) - len(peeled.rest)]
        peeled.told = peeled.told or _holds_level(taken) is not None
        return True
    if peeled.told:
        return False
    if _peel_first(peeled, _BAR):
        return True
    # VLLM_LOGGING_PREFIX may put any short text in front.
    found = _HEAD_AHEAD.match(peeled.rest)
    if found is None or _DEAF.match(peeled.rest):
        return False
    peeled.drop(found)
    return True


_INNER = re.compile(
    r"\[(?:rank|Rank ?)\d+\]:?"
    r"|\[[IWEF]\d{0,4} ?(?:\d\d:\d\d:\d\d\.\d+ )?[\w./-]+\.(?:cpp|cc|cu|h):\d+\](?: Warning:)?"
)


def _peel_first(peeled: _Peeled, peel: re.Pattern[str]) -> bool:
    found = peel.match(peeled.rest)
    if found is None or not found.end():
        return False
    peeled.drop(found)
    return True


def _file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _stamp(head: re.Match[str]) -> float:
    """Seconds since the beginning of the year, by the head's own clock."""
    month = min(max(int(head["month"]), 1), 12)
    days = _MONTH_DAYS[month - 1] + int(head["day"])
    hours = days * 24 + int(head["hour"])
    return float((hours * 60 + int(head["minute"])) * 60 + int(head["second"]))


def say_stamp(stamp: float) -> str:
    """A head's time as it stood there, ``MM-DD HH:MM:SS``."""
    minutes, seconds = divmod(int(stamp), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    month = max(n for n in range(12) if _MONTH_DAYS[n] < days) + 1 if days else 1
    return f"{month:02}-{days - _MONTH_DAYS[month - 1]:02} {hours:02}:{minutes:02}:{seconds:02}"


def _origin(name: str, known: str) -> str:
    for start, origin in _ORIGINS:
        if name.startswith(start):
            return origin
    return known
