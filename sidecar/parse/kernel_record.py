"""One line of the kernel log -> what it says of a kill: the forms of kernels 4.4 to 6.x.

Forms (``mm/oom_kill.c``, ``mm/memcontrol.c``): who asked for memory (``... invoked oom-killer``);
before 5.0 whose limit it was (``Task in A killed as a result of limit of B``) and an announcement
(``Kill process N (comm) score S or sacrifice child``); since 5.0 a summary
(``oom-kill:constraint=...``); the verdict (``Killed process N (comm) ...``); with
``memory.oom.group`` a headline before the verdicts on the group's members.
"""

import re
from dataclasses import dataclass

from sidecar.model.vocabulary import Kind

_NEEDLES = (
    *("oom-kill", "Kill", "killed", "Skip killing", "no killable"),
    *(",oom_memcg=", ",task_memcg=", ",task="),
)
_KMSG = re.compile(r"(?P<priority>\d{1,10}),\d+,(?P<us>\d{1,18}),[^;]*;")
_KERNEL_FACILITY_END = 8
_PREFIX = re.compile(
    r"(?:<\d{1,3}>|\[[^\]]{1,64}\] ?|kern *:\w+ *: ?|(?:(?!: ).){0,128}? kernel: )+"
)
_STAMP = re.compile(r"\[ *(\d{1,12}\.\d{6})\]")
_INVOKED = re.compile(r"(?P<comm>(?:\\x[0-9a-f]{2}|.){1,15}?) invoked oom-killer: ")
_SUMMARY = re.compile(r"oom-kill:constraint=(?P<constraint>\w+)")
_TASK = re.compile(r"(?P<comm>.*),pid=(?P<pid>\d{1,10}),uid=-?\d{0,10}\s*$")
_OOM_MEMCG, _GLOBAL, _TASK_MEMCG, _TASK_KEY = ",oom_memcg=", ",global_oom", ",task_memcg=", ",task="
_CONTINUED = re.compile(r",(?:cpuset|mems_allowed|oom_memcg|global_oom|task_memcg|task)\b")
_VERDICT = re.compile(
    r"(?:(?P<why>Memory cgroup out of memory|Out of memory)[^:]{0,64}: )?"
    r"(?P<done>Killed|Kill) process (?P<pid>\d{1,10})(?=[ ,])(?:, UID \d{1,10}(?=, \())?"
    r"(?:,? \((?P<comm>.*)\)(?=,| total-vm| score|\s*$))?"
)
_SHARED = re.compile(r"Kill process \d{1,10} \(.*\) sharing same memory\s*$")
_SPARED = re.compile(
    r"(?P<why>Memory cgroup out of memory|Out of memory)[^:]{0,64}: OOM victim (?P<pid>\d{1,10}) "
    r"\(.*\) is already exiting\."
)
_NO_VICTIM = re.compile(r"(?:Memory cgroup out|Out) of memory and no killable processes")
_OF_LIMIT = " killed as a result of limit of "
_LIMITS = re.compile(rf"Task in (?P<victim>/.*){_OF_LIMIT}(?P<limit>/.*)$")
_OF_GROUP = " are going to be killed due to memory.oom.group set"
_GROUP = re.compile(rf"Tasks in (?P<group>/.*){re.escape(_OF_GROUP)}")
_ESCAPED = re.compile(r"(?:\\x[0-9a-f]{2})+")
_ESCAPED_BYTE = re.compile(r"\\x[0-9a-f]{2}")
_KINDS = {"Memory cgroup out of memory": Kind.CGROUP, "Out of memory": Kind.SYSTEM}
LINE_CHARACTERS = 4096
"""Characters of a line that are read: the kernel prints at most about a thousand at once."""
_FULL_BYTES = 930
"""Bytes from which a record may have had no room for its end: 976 and more (``LOG_LINE_MAX``,
``PRINTKRB_RECORD_MAX``), without the longest end, ``,task=...,pid=...,uid=...``."""


@dataclass(frozen=True, slots=True)
class Invoked:
    """A report begins: the process whose allocation met the limit."""

    trigger: str | None


@dataclass(frozen=True, slots=True)
class Limits:
    """The victim's cgroup and the one whose limit was met (before 5.0); None where names mislead."""

    limit: str | None
    victim: str | None


@dataclass(frozen=True, slots=True)
class Summary:
    """All about a kill in one record. ``text`` may be continued.

    A cgroup's name may hold commas and ``=``, and so what looks like other parts of the record. Where
    that leaves a choice, and where the record was cut, the cgroups are None.
    """

    kind: Kind
    pid: int | None
    comm: str | None
    limit: str | None
    victim: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Continued:
    """A further piece of a summary."""

    text: str


@dataclass(frozen=True, slots=True)
class Announced:
    """A process that will be killed, or one of its children in its place (before 5.1)."""

    pid: int
    comm: str | None
    kind: Kind | None


@dataclass(frozen=True, slots=True)
class Killed:
    """A process that was sent SIGKILL. ``kind`` None: the line does not say why (before 5.1)."""

    pid: int
    comm: str | None
    kind: Kind | None


@dataclass(frozen=True, slots=True)
class Spared:
    """A chosen process that was about to end by itself; None: no process could be chosen."""

    pid: int | None
    kind: Kind | None


@dataclass(frozen=True, slots=True)
class Group:
    """The processes of this cgroup and below will be killed with the victim (since 4.19)."""

    cgroup: str | None


Record = Invoked | Limits | Summary | Continued | Announced | Killed | Spared | Group


def read_record(line: str) -> tuple[Record, float | None] | None:
    """What a line says of a kill, and the record's own time in seconds since boot if it bears one.

    None for a line about anything else, and for one that no kernel wrote.
    """
    line = line[:LINE_CHARACTERS]
    if not any(needle in line for needle in _NEEDLES):
        return None
    text, stamp = _message(line)
    record = _read(text)
    return None if record is None else (record, stamp)


def is_about_kills(line: str) -> bool:
    """Whether a line belongs to a report of the OOM killer: what a recording keeps of the log."""
    return read_record(line) is not None


def read_summary(text: str, *, last: str | None = None) -> Summary | None:
    """A summary from its whole text, or from as much of it as there is.

    ``last``: the last of the records of which the text was put together. Kernels 5.0 to 5.2 print
    ``CONSTRAINT_NONE`` for a cgroup's limit too: ``oom_memcg`` tells.
    """
    found = _SUMMARY.match(text)
    if found is None:
        return None
    at, task = text.rfind(_TASK_KEY), None
    if at >= 0 and _has_end(text if last is None else last):
        task = _TASK.match(text, at + len(_TASK_KEY))
    limit, victim = _cgroups(text) if task else (None, None)
    of_cgroup = found["constraint"] == "CONSTRAINT_MEMCG" or _names_limit(text)
    return Summary(
        kind=Kind.CGROUP if of_cgroup else Kind.SYSTEM,
        pid=int(task["pid"]) if task else None,
        comm=_plain(task["comm"]) if task else None,
        limit=_plain(limit),
        victim=_plain(victim),
        text=text,
    )


def _read(text: str) -> Record | None:
    if text.startswith("oom-kill:"):
        return read_summary(text)
    if _CONTINUED.match(text):
        return Continued(text)
    return _read_verdict(text) or _read_header(text)


def _read_header(text: str) -> Record | None:
    if found := _INVOKED.match(text):
        return Invoked(_plain(found["comm"]))
    if found := _LIMITS.match(text):
        if text.count(_OF_LIMIT) > 1 or not _has_end(text):
            return Limits(None, None)
        return Limits(limit=_plain(found["limit"]), victim=_plain(found["victim"]))
    if found := _GROUP.match(text):
        return Group(_plain(found["group"]) if text.count(_OF_GROUP) == 1 else None)
    return Spared(None, None) if _NO_VICTIM.match(text) else None


def _read_verdict(text: str) -> Record | None:
    if found := _SPARED.match(text):
        return Spared(int(found["pid"]), _KINDS[found["why"]])
    found = _VERDICT.match(text)
    # Those that share the victim's memory die with it: one kill, by the kernel's own count too.
    if found is None or _SHARED.match(text):
        return None
    form = Killed if found["done"] == "Killed" else Announced
    kind = _KINDS[found["why"]] if found["why"] else None
    return form(pid=int(found["pid"]), comm=_plain(found["comm"]), kind=kind)


def _cgroups(text: str) -> tuple[str | None, str | None]:
    """The cgroup whose limit was met and the victim's, from a summary that has its end.

    Each part stands in it once and in order, or a name holds what looks like a part: then neither is
    told.
    """
    keys = (_OOM_MEMCG, _GLOBAL, _TASK_MEMCG, _TASK_KEY)
    at = {key: text.find(key) for key in keys if key in text}
    if any(text.count(key) > 1 for key in at) or (_OOM_MEMCG in at) == (_GLOBAL in at):
        return None, None
    if len(at) != len(keys) - 1 or list(at.values()) != sorted(at.values()):
        return None, None
    victim = text[at[_TASK_MEMCG] + len(_TASK_MEMCG) : at[_TASK_KEY]]
    if _GLOBAL in at:
        return None, victim
    return text[at[_OOM_MEMCG] + len(_OOM_MEMCG) : at[_TASK_MEMCG]], victim


def _names_limit(text: str) -> bool:
    """Whether a limit's cgroup stands where else ``global_oom`` would."""
    whole, limited = text.find(_GLOBAL), text.find(_OOM_MEMCG)
    return limited >= 0 and not 0 <= whole < limited


def _has_end(record: str) -> bool:
    """Whether a record is so short that nothing of it was cut off.

    What stands at the end of a longer one may be a part of a name.
    """
    return len(_ESCAPED_BYTE.sub("x", record).encode("utf-8", "replace")) < _FULL_BYTES


def _message(line: str) -> tuple[str, float | None]:
    """The text behind the prefix of kmsg, syslog, journal or dmesg; "" if no kernel wrote it."""
    line = line.partition("\n")[0]
    kmsg = _KMSG.match(line)
    if kmsg:
        # Programs may write to /dev/kmsg, and then get a facility of their own (devkmsg_write).
        if int(kmsg["priority"]) >= _KERNEL_FACILITY_END:
            return "", None
        return line[kmsg.end() :].rstrip(), int(kmsg["us"]) / 1e6
    prefix = _PREFIX.match(line)
    end = prefix.end() if prefix else 0
    stamp = _STAMP.search(line, 0, end)
    return line[end:].strip(), float(stamp[1]) if stamp else None


def _plain(text: str | None) -> str | None:
    r"""The name with kmsg's ``\xNN`` read back; None for a name that is not there."""
    if not text:
        return None
    return _ESCAPED.sub(
        lambda found: bytes.fromhex(found[0].replace("\\x", "")).decode("utf-8", "replace"), text
    )
