"""Lines that were cut, and lines of users: what must not be believed or kept."""

import re
from collections.abc import Sequence

from sidecar.parse.log_line import records

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
