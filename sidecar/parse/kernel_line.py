"""Lines of the kernel log -> the kills they tell of, each told once.

The kernel writes one report at a time (``oom_lock``), but on the way to us records are lost, cut,
held up and mixed. So lines are joined by the pid they name, and only where one of them names none
by their order; where that leaves a choice, what would be guessed stays unknown.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from sidecar.model.readings import KernelKill
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Kind
from sidecar.parse.kernel_record import (
    LINE_CHARACTERS,
    Announced,
    Continued,
    Group,
    Invoked,
    Killed,
    Limits,
    Record,
    Spared,
    Summary,
    is_about_kills,
    read_record,
    read_summary,
)

__all__ = ["KernelFold", "Told", "is_about_kills"]

_JOINED = 2 * LINE_CHARACTERS
"""Characters of a summary put together from its pieces."""
_REPORT_S = 60.0
"""Seconds over which the lines of one report may spread: a slow console holds up its writer."""
_REPEAT_S = 5.0
"""Seconds in which the same line about the same pid is a repetition. A pid comes back only after
all others, 32,768 at the least by default, and many thousand processes a second begin nowhere."""
_PATIENCE_S = 1.0
"""Seconds until a summary that was cut is given without the line that would complete it."""
_GROUP_S = 5.0
_OPEN_MOST = 16
_SEEN_MOST = 256
_TOLD_MOST = 16

V = TypeVar("V")


class _Pool(Generic[V]):
    """What reports said before they named a victim: which is whose is known only while all agree."""

    def __init__(self) -> None:
        self._values: list[tuple[V | None, float, bool]] = []

    def add(self, value: V, moment: float, *, own: bool) -> None:
        """A report said ``value``; a record of the same own time is the same record."""
        if own and (value, moment, True) in self._values:
            return
        self._values = [*self._values, (value, moment, own)][-_OPEN_MOST:]

    def take(self, moment: float) -> V | None:
        """The value of the report that is at hand; None if there is none, or several that differ."""
        self._values = [one for one in self._values if abs(moment - one[1]) < _REPORT_S]
        known = {value for value, _, _ in self._values}
        rest = self._values[1:]
        if len(known) == 1:
            self._values = rest
            return known.pop()
        self._values = [(None, at, own) for _, at, own in rest]
        return None


@dataclass(frozen=True, slots=True)
class _Open:
    """A kill of which a verdict may still come.

    ``at`` is its arrival, ``moment`` the record's own time where it has one. ``rest``: the text of a
    summary that may be continued. ``given``: it was told already.
    """

    at: Instant
    moment: float
    kind: Kind
    pid: int | None = None
    comm: str | None = None
    limit: str | None = None
    victim: str | None = None
    trigger: str | None = None
    rest: str = ""
    given: bool = False

    @property
    def facts(self) -> tuple[object, ...]:
        """What would be told of it beside the victim."""
        return self.kind, self.limit, self.victim, self.trigger, self.given


@dataclass(frozen=True, slots=True)
class Told:
    """A victim that was told while a line about it may still come.

    ``moment``: the record's own time, seconds since boot; None where it bore none. ``killed``: it was
    told by its verdict, and the summary is missing; else the verdict is.
    """

    pid: int
    moment: float | None
    killed: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    """A victim that was told, and which lines about it have come since.

    ``own``: whether ``moment`` is the record's own time.
    """

    moment: float
    announced: bool
    killed: bool
    own: bool = False


class KernelFold:
    """Folds lines, in the order of their arrival, into kills.

    A kill is given with the first line that names its victim for certain: the summary, or the
    verdict where no whole summary stood before it. Later lines about the same victim add nothing.
    An announcement alone is no kill: its process may have ended by itself before.

    ``told``: victims that another fold told from the lines before, as ``told`` gave them then.
    """

    def __init__(self, told: Iterable[Told] = (), at: float = 0.0) -> None:
        """``at``: now, in seconds of the clock of the lines' arrival."""
        self._open: list[_Open] = []
        self._seen: dict[int, _Seen] = {
            one.pid: _Seen(
                at if one.moment is None else one.moment,
                announced=not one.killed,
                killed=one.killed,
                own=one.moment is not None,
            )
            for one in told
        }
        self._triggers: _Pool[str] = _Pool()
        self._limits: _Pool[tuple[str | None, str | None]] = _Pool()
        self._last: _Open | None = None
        self._group: tuple[str, float] | None = None

    @property
    def told(self) -> tuple[Told, ...]:
        """The last victims that another fold, which goes on from here, is not to tell again."""
        waiting = [
            Told(pid, seen.moment if seen.own else None, seen.killed)
            for pid, seen in self._seen.items()
            if not (seen.announced and seen.killed)
        ]
        return tuple(waiting[-_TOLD_MOST:])

    def undecided(self, now: Instant) -> bool:
        """Whether a line that came just now may still become a kill, or be joined by others."""
        return any(now.monotonic - one.at.monotonic < _PATIENCE_S for one in self._open)

    def feed(self, line: str, at: Instant) -> tuple[KernelKill, ...]:
        """The kills that are certain with this line; ``at`` is the moment they are given."""
        read = read_record(line)
        if read is None:
            return ()
        record, stamp = read
        given = self.flush(at)
        moment = at.monotonic if stamp is None else stamp
        return given + tuple(self._take(record, at, moment, own=stamp is not None))

    def flush(self, now: Instant | None = None) -> tuple[KernelKill, ...]:
        """Cut summaries that nothing followed; with ``now``, only those that waited long enough."""
        given = []
        kept = []
        for one in self._open:
            age = now.monotonic - one.at.monotonic if now else _REPORT_S
            if one.rest and not one.given and age >= _PATIENCE_S:
                given.append(_kill(one))
                one = replace(one, given=True)  # noqa: PLW2901
            if age < _REPORT_S:
                kept.append(one)
        self._open = kept
        return tuple(given)

    def _take(
        self, record: Record, at: Instant, moment: float, *, own: bool
    ) -> Iterable[KernelKill]:
        if not isinstance(record, Group | Killed | Spared):
            self._group = None
        match record:
            case Summary():
                return self._summary(record, at, moment)
            case Continued():
                return self._continued(record)
            case Announced():
                return self._announced(record, at, moment)
            case Killed():
                return self._killed(record, at, moment)
            case Spared():
                self._spared(record, moment)
            case _:
                self._note(record, moment, own=own)
        return ()

    def _note(self, record: Invoked | Limits | Group, moment: float, *, own: bool) -> None:
        match record:
            case Invoked():
                if record.trigger is not None:
                    self._triggers.add(record.trigger, moment, own=own)
            case Limits():
                self._limits.add((record.limit, record.victim), moment, own=own)
            case Group():
                self._group = None if record.cgroup is None else (record.cgroup, moment)

    # The lines that name a kill

    def _summary(self, said: Summary, at: Instant, moment: float) -> Iterable[KernelKill]:
        if said.pid is not None and self._repeated(said.pid, moment, announced=True):
            return ()
        return self._hold_or_tell(
            _Open(
                at=at,
                moment=moment,
                kind=said.kind,
                pid=said.pid,
                comm=said.comm,
                limit=said.limit,
                victim=said.victim,
                trigger=self._triggers.take(moment),
                rest=said.text,
            )
        )

    def _continued(self, piece: Continued) -> Iterable[KernelKill]:
        whole = next((one for one in reversed(self._open) if one.rest and one.pid is None), None)
        if whole is None or whole.given or len(whole.rest) + len(piece.text) > _JOINED:
            return ()
        said = read_summary(whole.rest + piece.text, last=piece.text)
        if said is None:
            return ()
        self._open.remove(whole)
        return self._hold_or_tell(
            replace(
                whole,
                kind=said.kind,
                pid=said.pid,
                comm=said.comm,
                limit=said.limit,
                victim=said.victim,
                rest=said.text,
            )
        )

    def _hold_or_tell(self, one: _Open) -> Iterable[KernelKill]:
        if one.pid is None:
            return self._hold(one)
        return self._tell(one, announced=True)

    def _announced(self, said: Announced, at: Instant, moment: float) -> Iterable[KernelKill]:
        if self._repeated(said.pid, moment, announced=True):
            # Told with its summary (5.0), or its lines changed places. A child may die in its place.
            one = _Open(at, moment, said.kind or Kind.SYSTEM, said.pid, said.comm, given=True)
            return () if self._seen[said.pid].killed else self._hold(one)
        if any(one.pid == said.pid for one in self._open):
            return ()
        cut = self._choose(said.kind, unnamed=True)
        if cut is not None:
            return self._hold(replace(cut, pid=said.pid, comm=said.comm, rest=""))
        kind = said.kind or Kind.SYSTEM
        limits = self._limits.take(moment) if kind is Kind.CGROUP else None
        limit, victim = limits or (None, None)
        trigger = self._triggers.take(moment)
        return self._hold(_Open(at, moment, kind, said.pid, said.comm, limit, victim, trigger))

    def _killed(self, said: Killed, at: Instant, moment: float) -> Iterable[KernelKill]:
        one = next((one for one in self._open if one.pid == said.pid), None)
        if one is not None:
            self._open.remove(one)
        elif self._repeated(said.pid, moment, announced=False):
            return ()
        else:
            one = self._choose(said.kind) or self._bare(said, at, moment)
        told = replace(
            one,
            kind=said.kind or one.kind,
            pid=said.pid,
            comm=said.comm or (one.comm if one.pid == said.pid else None),
        )
        if one.given:
            self._remember(said.pid, _Seen(moment, announced=True, killed=True))
            return ()
        return self._tell(told, announced=one.pid is not None or bool(one.rest), killed=True)

    def _bare(self, said: Killed, at: Instant, moment: float) -> _Open:
        """A verdict of which nothing was said before.

        Of more than 10 kills in 5 s the kernel leaves the reports out (``oom_rs``), and the members
        of a group have none of their own.
        """
        group, last = self._group, self._last
        kind = said.kind or Kind.SYSTEM
        if group is None or last is None or abs(moment - group[1]) >= _GROUP_S:
            return _Open(at, moment, kind)
        inside = group[0] if group[0] == last.victim else None
        return replace(last, at=at, moment=moment, pid=None, comm=None, victim=inside, rest="")

    def _spared(self, said: Spared, moment: float) -> None:
        if said.pid is None:
            self._triggers.take(moment)
            return
        named = [one for one in self._open if one.pid == said.pid]
        if named:
            self._open.remove(named[0])
        else:
            self._choose(said.kind, unnamed=True)

    # What is kept

    def _choose(self, kind: Kind | None, *, unnamed: bool = False) -> _Open | None:
        """Take out the open kill to which a line about a pid that none of them bears belongs.

        Of several that differ one is taken, and all lose what they differ in.
        """
        fitting = [
            one
            for one in self._open
            if kind in {None, one.kind} and (one.pid is None or not unnamed)
        ]
        if not fitting:
            return None
        chosen = fitting[0]
        if len({one.facts for one in fitting}) > 1:
            blank = {one: replace(one, limit=None, victim=None, trigger=None) for one in fitting}
            self._open = [blank.get(one, one) for one in self._open]
            chosen = blank[chosen]
        self._open.remove(chosen)
        return chosen

    def _hold(self, one: _Open) -> Iterable[KernelKill]:
        self._open.append(one)
        if len(self._open) <= _OPEN_MOST:
            return ()
        oldest = self._open.pop(0)
        return (_kill(oldest),) if oldest.rest and not oldest.given else ()

    def _tell(
        self, one: _Open, *, announced: bool = False, killed: bool = False
    ) -> Iterable[KernelKill]:
        if one.pid is not None:
            own = one.moment != one.at.monotonic
            self._remember(one.pid, _Seen(one.moment, announced, killed, own))
        self._last = one
        return (_kill(one),)

    def _repeated(self, pid: int, moment: float, *, announced: bool) -> bool:
        """Whether a line about this pid belongs to a kill that was told; it is noted then."""
        seen = self._seen.get(pid)
        if seen is None:
            return False
        again = seen.announced if announced else seen.killed
        if abs(moment - seen.moment) >= (_REPEAT_S if again else _REPORT_S):
            return False
        self._seen[pid] = replace(
            seen, announced=seen.announced or announced, killed=seen.killed or not announced
        )
        return True

    def _remember(self, pid: int, seen: _Seen) -> None:
        self._seen.pop(pid, None)
        self._seen[pid] = seen
        if len(self._seen) > _SEEN_MOST:
            del self._seen[next(iter(self._seen))]


def _kill(one: _Open) -> KernelKill:
    return KernelKill(
        at_monotonic=one.at.monotonic,
        at_unix=one.at.unix,
        kind=one.kind,
        pid=one.pid,
        comm=one.comm,
        limit_cgroup=one.limit,
        victim_cgroup=one.victim,
        trigger=one.trigger,
    )
