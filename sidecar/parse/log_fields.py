"""Texts that a line holds in named fields: JSON log records, exports, events, error bodies."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

_MESSAGE_KEYS = (
    *("message", "log", "MESSAGE", "msg", "textPayload", "@message", "LogMessage", "LogEntry"),
    *("Message", "line", "_raw", "full_message", "short_message"),
)
_ENVELOPES = (
    *("jsonPayload", "_source", "fields", "event", "result", "properties", "log", "message"),
    *("logRecord",),
)
_LEVEL_KEYS = ("levelname", "level", "severity")
_ERROR_KEYS = ("exc_info", "exc_text", "exception", "stack", "stack_info", "error", "err")
_MOST_NESTED = 4


@dataclass(frozen=True, slots=True)
class Body:
    """What a JSON log record says, line by line, with the logger's name and level.

    ``quoted``: it is the answer of a server to a client, and not a record of the server.
    """

    lines: tuple[str, ...]
    logger: str | None = None
    level: str | None = None
    quoted: bool = False


def body_of(text: str) -> Body | None:
    """The log record that a JSON object is, or None."""
    fields = _parsed(text)
    for _ in range(_MOST_NESTED):
        if not isinstance(fields, dict):
            return None
        message = next((found for key in _MESSAGE_KEYS if (found := _text(fields.get(key)))), "")
        if message:
            return _body(message, fields)
        value = _text(_mapping(fields.get("body")).get("stringValue"))
        if value:
            return Body(_lines(value))
        fields = next((inner for key in _ENVELOPES if (inner := _mapping(fields.get(key)))), None)
    return None


def _lines(text: str) -> tuple[str, ...]:
    # No other separators than a log's own: a client's header may hold those of Unicode.
    return tuple(text.removesuffix("\n").split("\n"))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _body(message: str, fields: Mapping[str, object]) -> Body:
    name = fields.get("name", fields.get("logger"))
    level = next((str(fields[key]).upper() for key in _LEVEL_KEYS if key in fields), None)
    more = [line for key in _ERROR_KEYS for line in _lines(_text(fields.get(key)))]
    return Body(
        lines=(*_lines(message), *more),
        logger=name if isinstance(name, str) else None,
        level=level,
        quoted=fields.get("object") == "error",
    )


def _text(value: object) -> str:
    # journald gives a message with control bytes as a list of numbers.
    if isinstance(value, list):
        numbers = [item for item in value if isinstance(item, int) and 0 <= item < 256]  # noqa: PLR2004 - bytes
        return bytes(numbers).decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# --- fields in a log of something else than the server ------------------------------------------


@dataclass(frozen=True, slots=True)
class Inner:
    """Lines of one field. ``quoted``: of an answer that a client got from the server."""

    lines: tuple[str, ...]
    quoted: bool = False


_TELLING = (
    r"(?:@?[Mm]essage|MESSAGE|msg|log|line|textPayload|LogMessage|LogEntry|[Rr]eason|stoppedReason"
    r"|statusReason|stateReason|detailStatus|StoppedReason|StatusReason|[Ee]rror|err|stderr|stdout|[Ee]xception"
    r"|exc_info|note|[Dd]escription|DisplayMessage|[Dd]etails?|[Ss]tatus|[Tt]ermination ?[Mm]essage"
    r"|lastError|failureReason|output|exit_?[Dd]etail|error_?[Mm]essage)"
)
_is_telling = re.compile(_TELLING).fullmatch
_FIELD = re.compile(
    rf"(?:[{{\-] ?)?(?P<quote>[\"']?){_TELLING}(?P=quote)(?: *: +| *= ?|:)(?P<value>\S.*)"
)
_PAIR = re.compile(rf"(?:^| ){_TELLING}=\"(?P<value>(?:[^\"\\]|\\.)*)\"")
_PAIRED = re.compile(r"[\w.@]{1,40}=(?:\"[^\"]{0,200}\"|[^\s\"]{1,200}) +[\w.@]{1,40}=")
_ANSWER = re.compile(
    r"[^{}'\"\[\]=]{0,160}\{\\*['\"](?:object\\*['\"]: ?\\*['\"]error\\*['\"], ?|error\\*['\"]: ?\{)"
    r"\\*['\"]message\\*['\"]: ?\\*['\"](?P<value>.*)"
)
_DUMPED = re.compile(
    rf"(?:\[\d+\] )?\S{{1,200}}: \[.{{0,400}}?\"{_TELLING}\"=>\"(?P<value>(?:[^\"\\]|\\.)*)"
)
_CLIENT = re.compile(r"(?:[\w.]{1,80}: ){0,4}\w{1,40}Exception - (?P<value>.*)")
_USERS_KEYS = frozenset(
    {
        "prompt",
        "messages",
        "content",
        "input",
        "inputs",
        "request",
        "stop",
        "tools",
        "query",
        "text",
    }
)
_EXIT_KEYS = frozenset({"exitCode", "ExitCode", "exit_code"})
_OOM_KEYS = frozenset({"OOMKilled", "oomKilled", "oom_killed", "oom"})
_MOST_VALUES = 4000
_MOST_FIELDS = 256
_MOST_LINES = 64


def inner_texts(text: str) -> Iterator[Inner]:
    """What the fields of a line say that is no record of the server itself, at most a few."""
    if found := _ANSWER.match(text):
        yield Inner((found["value"],), quoted=True)
    elif text.startswith(("{", "[")) and (value := _parsed(text)) is not None:
        yield from _from_json(value)
    elif found := _CLIENT.match(text):
        yield Inner((found["value"],), quoted=True)
    elif _PAIRED.match(text):
        for pair in _PAIR.finditer(text):
            yield _inner(_unescaped(pair["value"]))
    elif found := _FIELD.match(text):
        yield _inner(_unquoted(found["value"]))
    elif found := _DUMPED.match(text):
        yield _inner(_unescaped(found["value"]))


def _inner(text: str) -> Inner:
    return Inner(_lines(text)[:_MOST_LINES])


def _from_json(value: object) -> Iterator[Inner]:
    for text in islice(_told(value), _MOST_FIELDS):
        yield _inner(text)


def _told(value: object) -> Iterator[str]:
    """The telling strings of a JSON value, in order; users' fields are not entered."""
    waiting: list[tuple[str, object]] = [("", value)]
    for _ in range(_MOST_VALUES):
        if not waiting:
            return
        key, value = waiting.pop()
        if isinstance(value, dict):
            inside = [(name, value[name]) for name in value if name not in _USERS_KEYS]
            waiting += reversed(inside)
        elif isinstance(value, list):
            waiting += reversed([(_key_of_item(key, value), item) for item in value])
        elif isinstance(value, str) and _is_telling(key):
            yield value
        elif key in _OOM_KEYS and value in (True, "true"):
            yield "OOMKilled: true"
        elif key in _EXIT_KEYS and isinstance(value, int):
            yield f"Exit Code: {value}"


_STAMPED = 2


def _key_of_item(key: str, items: list[object]) -> str:
    # Loki exports lines as pairs of a time in nanoseconds and a text.
    stamp = items[0] if len(items) == _STAMPED else None
    return "line" if isinstance(stamp, str) and stamp.isdecimal() else key


def _unquoted(value: str) -> str:
    """A value without its quotes, and with line ends where it has them escaped."""
    quote = value[0]
    if quote == "'":
        return value.rstrip(",").removesuffix("'")[1:].replace("''", "'")
    if quote != '"':
        return value
    end = re.match(r'"(?:[^"\\]|\\.)*', value)
    return _unescaped(end[0][1:] if end else value[1:])


def _unescaped(value: str) -> str:
    found = _parsed(f'"{value}"') if "\\" in value else value
    return found if isinstance(found, str) else value.replace("\\n", "\n").replace('\\"', '"')
