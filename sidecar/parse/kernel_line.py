"""Lines of the kernel log -> the kills they tell of, each told once.

One kill prints up to five lines: a summary (``oom-kill:constraint=...``, since 5.0), a verdict
(``... Killed process N (comm) ...``), before 5.0 two announcements (``Task in ... killed as a
result of limit of ...``, ``... Kill process N (comm) score ...``), and with ``memory.oom.group``
a verdict for every member, the victim a second time (``mm/oom_kill.c``, ``mm/memcontrol.c``).
"""

import re
from dataclasses import dataclass

from sidecar.model.readings import KernelKill
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Kind

_NEEDLES = ("oom-kill:", "Kill", "killed", ",oom_memcg=", ",task_memcg=", ",task=")
_KMSG = re.compile(r"(?P<priority>\d{1,10}),\d+,\d+,[^;]*;")
_KERNEL_FACILITY_END = 8
_PREFIX = re.compile(
    r"(?:<\d{1,3}>|\[[^\]]{1,64}\] ?|kern *:\w+ *: ?|(?:(?!: ).){0,128}? kernel: )+"
)
_SUMMARY = re.compile(r"oom-kill:constraint=(?P<constraint>\w+)")
_TASK = re.compile(r"(?P<comm>.*),pid=(?P<pid>\d{1,10}),uid=")
_CONTINUED = re.compile(r",(?:cpuset|mems_allowed|oom_memcg|global_oom|task_memcg|task)\b")
_VERDICT = re.compile(
    r"(?:(?P<why>Memory cgroup out of memory|Out of memory)[^:]{0,64}: )?"
    r"(?P<done>Killed|Kill) process (?P<pid>\d{1,10})(?=[ ,])"
    r"(?:,? \((?P<comm>.*)\)(?=,| total-vm| score|\s*$))?"
)
_OLD_LIMIT = re.compile(r"Task in (?P<victim>/.*) killed as a result of limit of (?P<limit>/.*)$")
_GROUP = re.compile(r"Tasks in (?P<group>/.*) are going to be killed due to memory\.oom\.group set")
_ESCAPED = re.compile(r"(?:\\x[0-9a-f]{2})+")
_LINE = 4096
"""Characters of a line that are read: the kernel prints at most about a thousand at once."""
_JOINED = 2 * _LINE
"""Characters of a summary put together from its pieces."""
_TOLD_S = 60.0
_TOLD_MOST = 256
_PATIENCE_S = 1.0
_GROUP_S = 5.0


@dataclass(frozen=True, slots=True)
class _Told:
    """What one line says about a kill; ``rest`` keeps a summary that may be continued."""

    at: Instant
    kind: Kind
    pid: int | None = None
    comm: str | None = None
    limit: str | None = None
    victim: str | None = None
    rest: str = ""


class KernelFold:
    """Folds lines, in order, into kills.

    A kill is given at the first line that names its victim for certain: the summary, or the
    verdict where no summary stood before it. Later lines about the same victim add nothing.
    """

    def __init__(self) -> None:
        self._open: _Told | None = None
        self._told: dict[int, float] = {}
        self._group: str | None = None
        self._group_at = 0.0
        self._last_victim_cgroup: str | None = None

    @property
    def undecided(self) -> bool:
        """Whether a kill was announced whose victim is not named yet."""
        return self._open is not None

    def feed(self, line: str, at: Instant) -> tuple[KernelKill, ...]:
        """The kills that are certain with this line; ``at`` is the moment they are given."""
        line = line[:_LINE]
        if not any(needle in line for needle in _NEEDLES):
            return ()
        text = _message(line)
        if text is None:
            return ()
        if text.startswith("oom-kill:"):
            return self.flush() + self._summary(text, at)
        given = self.flush(at)
        if self._open is not None and self._open.rest and _CONTINUED.match(text):
            if len(self._open.rest) + len(text) > _JOINED:
                return given
            return given + self._summary(self._open.rest + text, self._open.at)
        if verdict := _VERDICT.match(text):
            return given + self._verdict(verdict, at)
        self._note(text, at)
        return given

    def flush(self, at: Instant | None = None) -> tuple[KernelKill, ...]:
        """An announced kill that nothing followed; with ``at``, only once it has waited long enough."""
        waiting = self._open
        if waiting is None or (at and at.monotonic - waiting.at.monotonic < _PATIENCE_S):
            return ()
        self._open = None
        # "Task in ... killed" alone is a memcg report, which an OOM without a kill prints too.
        if waiting.pid is None and not waiting.rest:
            return ()
        return self._tell(waiting)

    def _summary(self, text: str, at: Instant) -> tuple[KernelKill, ...]:
        found = _SUMMARY.match(text)
        if found is None:
            return ()
        self._group = None
        kind = Kind.CGROUP if found["constraint"] == "CONSTRAINT_MEMCG" else Kind.SYSTEM
        limit, end = _between(text, found.end(), ",oom_memcg=", ",task_memcg=")
        victim, end = _between(text, end, ",task_memcg=", ",task=")
        at_task = text.find(",task=", end)
        task = _TASK.match(text, at_task + len(",task=")) if at_task >= 0 else None
        told = _Told(
            at=at,
            kind=kind,
            pid=_pid(task["pid"]) if task else None,
            comm=_plain(task["comm"]) if task else None,
            limit=_plain(limit),
            victim=_plain(victim),
            rest=text,
        )
        self._last_victim_cgroup = told.victim
        if told.pid is None:
            self._open = told
            return ()
        self._open = None
        return self._tell(told)

    def _verdict(self, found: re.Match[str], at: Instant) -> tuple[KernelKill, ...]:
        pid, waiting = _pid(found["pid"]), self._open
        if at.monotonic - self._group_at > _GROUP_S:
            self._group = None
        told = _Told(
            at=at if waiting is None else waiting.at,
            kind=self._kind(found["why"]),
            pid=pid,
            comm=_plain(found["comm"]) or (waiting.comm if waiting else None),
            limit=waiting.limit if waiting else self._group,
            victim=waiting.victim if waiting else None,
        )
        if found["done"] == "Kill":
            # "or sacrifice child": the one that dies may be another than the one named here.
            self._open = told
            return ()
        self._open = None
        if waiting is None and self._group is not None and self._group == self._last_victim_cgroup:
            # Members of the group in which the victim itself lived: the same kill goes on.
            return ()
        return self._tell(told)

    def _kind(self, why: str | None) -> Kind:
        if why == "Memory cgroup out of memory" or (why is None and self._group):
            return Kind.CGROUP
        if self._open is not None:
            return self._open.kind
        return Kind.SYSTEM

    def _note(self, text: str, at: Instant) -> None:
        if group := _GROUP.match(text):
            self._group, self._group_at = _plain(group["group"]), at.monotonic
        elif old := _OLD_LIMIT.match(text):
            self._open = _Told(
                at=at, kind=Kind.CGROUP, limit=_plain(old["limit"]), victim=_plain(old["victim"])
            )

    def _tell(self, told: _Told) -> tuple[KernelKill, ...]:
        now = told.at.monotonic
        if told.pid is not None:
            before = self._told.get(told.pid)
            if before is not None and now - before < _TOLD_S:
                return ()
            self._told = {pid: at for pid, at in self._told.items() if now - at < _TOLD_S}
            if len(self._told) < _TOLD_MOST:
                self._told[told.pid] = now
        kill = KernelKill(
            at_monotonic=told.at.monotonic,
            at_unix=told.at.unix,
            kind=told.kind,
            pid=told.pid,
            comm=told.comm,
            limit_cgroup=told.limit,
            victim_cgroup=told.victim,
        )
        return (kill,)


def is_about_kills(line: str) -> bool:
    """Whether a line belongs to a report of the OOM killer: what a recording keeps of the log."""
    text = _message(line[:_LINE])
    heads = (_VERDICT, _OLD_LIMIT, _GROUP, _CONTINUED)
    return text is not None and (
        text.startswith("oom-kill:")
        or " invoked oom-killer: " in text
        or any(head.match(text) for head in heads)
    )


def _between(text: str, start: int, key: str, following: str) -> tuple[str | None, int]:
    """The value of ``key`` after ``start``, and where it ends.

    It counts only if the key ``following`` stands behind it: records longer than 1 kB are cut.
    """
    at = text.find(key, start)
    end = text.find(following, at + len(key)) if at >= 0 else -1
    return (None, start) if end < 0 else (text[at + len(key) : end], end)


def _message(line: str) -> str | None:
    """The text after the prefix of kmsg, syslog, journal or dmesg; None if no kernel wrote it."""
    line = line.partition("\n")[0]
    kmsg = _KMSG.match(line)
    if kmsg:
        # Programs may write to /dev/kmsg, and then get a facility of their own (devkmsg_write).
        if int(kmsg["priority"]) >= _KERNEL_FACILITY_END:
            return None
        return line[kmsg.end() :].rstrip()
    prefix = _PREFIX.match(line)
    return line[prefix.end() if prefix else 0 :].strip()


def _pid(text: str | None) -> int | None:
    return int(text) if text else None


def _plain(text: str | None) -> str | None:
    r"""The name with kmsg's ``\xNN`` read back; None for a name that is not there."""
    if not text:
        return None
    return _ESCAPED.sub(
        lambda found: bytes.fromhex(found[0].replace("\\x", "")).decode("utf-8", "replace"), text
    )
