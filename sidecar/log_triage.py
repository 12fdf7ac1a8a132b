"""The triage of one whole log: what its lines say together.

The log is read as lives of one server, from a start to its end. Within a life the root cause beats
its consequences, a wanted stop makes the deaths after it harmless, and what one incident prints many
times (per rank, per request, per traceback) counts once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from sidecar.catalog.signatures import PIN_MEMORY_FRAME, SERVER_STOPPING, Mark, Signature
from sidecar.model.evidence import Weight
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase, Verdict
from sidecar.parse.whole_log import LineReader, Said

T = TypeVar("T")

SAME_S = 30.0
SAME_LINES = 300
"""How near two lines of the same root are told apart: by their stamps, else by lines between."""
FOLLOWS_S = 600.0
FOLLOWS_LINES = 3000
"""How near to a root a consequence belongs to it; a dead engine goes on being complained about."""
STALL_LINES = 3
"""How many signs of no progress in a row make a stall: half a minute of statistics."""
STALL_GAP_S = 70.0
STALL_GAP_LINES = 4
PIN_LINES = 12
"""How far above a failed allocation the frame that pins host memory stands."""
_MOST_KEPT = 256
_FATAL_SIGNALS = frozenset({-4.0, -6.0, -7.0, -8.0, -11.0})
_STARTS = frozenset({"engine_initializing", "api_server_version", "systemd_starting"})
_KERNEL_SIGNALS = frozenset({"kernel_kill", "kernel_oom_block"})


@dataclass(frozen=True, slots=True)
class LogCause:
    """One cause found in a log. ``count``: incidents, or preempted requests; not lines or ranks."""

    cause: Cause
    kind: Kind
    phase: Phase
    confidence: Confidence
    count: int
    first_line: int
    signals: tuple[str, ...]
    stamp: float | None = None


@dataclass(frozen=True, slots=True)
class LogTriage:
    """What a log says. ``cut``: lines longer than ``LONGEST``, read in part only.

    ``followed``: signals of what a root led to, which is no cause of its own. A cause's ``stamp`` is
    the time its first line bears, in seconds since the year began.
    """

    lines: int
    cut: int
    verdict: Verdict
    causes: tuple[LogCause, ...]
    followed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _At:
    """Where in the log, and when by the server's clock if the line says so."""

    line: int
    stamp: float | None

    def is_near(self, other: "_At", seconds: float, lines: int) -> bool:
        if self.stamp is not None and other.stamp is not None:
            return abs(self.stamp - other.stamp) <= seconds
        return abs(self.line - other.line) <= lines


@dataclass(slots=True)
class _Tally:
    """Everything known of one cause and kind."""

    first: _At
    last: _At
    life: int
    count: int = 1
    phase: Phase = Phase.UNKNOWN
    confirmed: bool = False
    signals: list[str] = field(default_factory=list)
    pids: set[float] = field(default_factory=set)
    total: float | None = None

    def sign(self, row: Signature, *, quoted: bool = False) -> None:
        if row.signal not in self.signals:
            self.signals.append(row.signal)
        sure = row.confidence is Confidence.CONFIRMED and not quoted
        self.confirmed = self.confirmed or sure


@dataclass(slots=True)
class _Death:
    """Consequences that belong together, until a root is found for them."""

    first: _At
    last: _At
    kinds: list[Kind] = field(default_factory=list)
    phase: Phase = Phase.UNKNOWN
    confirmed: bool = False
    signals: list[str] = field(default_factory=list)

    @property
    def kind(self) -> Kind:
        """A failed start explains a killed process; a killed process explains a dead engine."""
        for kind in (Kind.START_FAILED, Kind.KILLED):
            if kind in self.kinds:
                return kind
        return Kind.CRASHED


@dataclass(slots=True)
class _Life:
    """One life of the server as its log tells it."""

    number: int
    started: bool = False
    ready: bool = False
    stopped: bool = False
    roots: list[_At] = field(default_factory=list)
    deaths: list[_Death] = field(default_factory=list)
    stalls: list[_At] = field(default_factory=list)
    stall_signals: list[str] = field(default_factory=list)

    @property
    def phase(self) -> Phase:
        if self.ready:
            return Phase.RUNTIME
        return Phase.STARTUP if self.started else Phase.UNKNOWN

    @property
    def is_over(self) -> bool:
        return self.ready or self.stopped or bool(self.deaths) or bool(self.roots)


@dataclass(slots=True)
class _Fold:
    """The state of reading a log from its begin to its end."""

    tallies: dict[tuple[Cause, Kind], _Tally] = field(default_factory=dict)
    life: _Life = field(default_factory=lambda: _Life(0))
    unkind: list[Said] = field(default_factory=list)
    followed: dict[str, None] = field(default_factory=dict)
    pinned_at: int | None = None

    def see(self, said: Said) -> None:
        """Take in the next match."""
        row = said.match.signature
        if row.mark is not None:
            self._see_mark(row)
        elif row.signal == SERVER_STOPPING:
            # Printed after a death too: then the stop is no wish.
            self.life.stopped = self.life.stopped or not (self.life.deaths or self.life.roots)
        elif row.signal == PIN_MEMORY_FRAME:
            self.pinned_at = said.line
        elif row.cause is not None:
            self._see_cause(said, row, row.cause)

    def _see_mark(self, row: Signature) -> None:
        if row.mark is Mark.STARTING:
            if row.id in _STARTS and self.life.is_over:
                self._end_life()
            self.life.started = True
        elif row.mark is Mark.READY:
            if self.life.stopped:
                self._end_life()
            self.life.ready = True
        elif row.mark is Mark.STOP_WANTED:
            self.life.stopped = True

    def _see_cause(self, said: Said, row: Signature, cause: Cause) -> None:
        if cause is Cause.ENGINE_FAILURE and self.life.stopped:
            return
        if cause is Cause.STALLED:
            self._see_stall(said, row)
        elif cause is Cause.PREEMPTION:
            self._see_preemption(said, row)
        elif row.weight is Weight.CONSEQUENCE:
            self._see_death(said, row)
        elif cause is Cause.HOST_OOM and (row.kind is None or row.weight is Weight.SUPPORT):
            self._see_unkind(said, row)
        elif row.weight is Weight.ROOT:
            self._see_root(said, row, cause, row.kind or Kind.SYSTEM)

    def _see_root(self, said: Said, row: Signature, cause: Cause, kind: Kind) -> None:
        if cause is Cause.CUDA_OOM and self._is_pinning(said, row):
            cause, kind = Cause.HOST_OOM, Kind.ALLOCATION_FAILURE
        at = _At(said.line, said.match.stamp)
        _keep(self.life.roots, at)
        tally = self._tally(cause, kind, at)
        if not self._is_same(tally, said, at):
            tally.count += 1
        tally.last = at
        tally.sign(row, quoted=said.match.quoted)
        self._note_pid(tally, said)
        if tally.phase is Phase.UNKNOWN:
            tally.phase = row.phase or self.life.phase

    def _is_pinning(self, said: Said, row: Signature) -> bool:
        if row.signal != "runtime_out_of_memory" or self.pinned_at is None:
            return False
        return said.line - self.pinned_at <= PIN_LINES

    def _tally(self, cause: Cause, kind: Kind, at: _At) -> _Tally:
        found = self.tallies.get((cause, kind))
        if found is None:
            found = _Tally(first=at, last=at, life=self.life.number)
            self.tallies[cause, kind] = found
        return found

    def _is_same(self, tally: _Tally, said: Said, at: _At) -> bool:
        """Whether the line tells again of an incident that is counted already."""
        pid = said.match.numbers.get("pid")
        if pid is not None and tally.pids:
            return pid in tally.pids
        if tally.last.stamp is None and tally.life != self.life.number:
            tally.life = self.life.number
            return False
        tally.life = self.life.number
        return at.is_near(tally.last, SAME_S, SAME_LINES)

    def _note_pid(self, tally: _Tally, said: Said) -> None:
        pid = said.match.numbers.get("pid")
        if pid is not None and len(tally.pids) < _MOST_KEPT:
            tally.pids.add(pid)

    def _see_unkind(self, said: Said, row: Signature) -> None:
        """A kill of which the line does not say whose limit it was: its neighbours do."""
        if len(self.unkind) < _MOST_KEPT:
            self.unkind.append(said)
        if row.weight is Weight.ROOT:
            _keep(self.life.roots, _At(said.line, said.match.stamp))

    def _see_preemption(self, said: Said, row: Signature) -> None:
        at = _At(said.line, said.match.stamp)
        known = (Cause.PREEMPTION, row.kind or Kind.UNSPECIFIED) in self.tallies
        tally = self._tally(Cause.PREEMPTION, row.kind or Kind.UNSPECIFIED, at)
        total = said.match.numbers.get("total")
        more = said.match.amount
        if total is not None:
            # V0 warns of the 1st, 51st, 101st ...: the difference of two totals is the number.
            grown = tally.total is not None and total > tally.total
            more = total - (tally.total or 0.0) if grown else 1.0
            tally.total = total
        tally.count = int(more) + (tally.count if known else 0)
        tally.last = at
        tally.phase = Phase.RUNTIME
        tally.sign(row)

    def _see_death(self, said: Said, row: Signature) -> None:
        at = _At(said.line, said.match.stamp)
        deaths = self.life.deaths
        if deaths and at.is_near(deaths[-1].last, FOLLOWS_S, FOLLOWS_LINES):
            death = deaths[-1]
        else:
            death = _Death(first=at, last=at)
            _keep(deaths, death)
        death.last = at
        death.kinds.append(_kind_of_death(said, row))
        death.kinds = list(dict.fromkeys(death.kinds))
        death.confirmed = death.confirmed or row.confidence is Confidence.CONFIRMED
        if death.phase is Phase.UNKNOWN:
            death.phase = row.phase or self.life.phase
        if row.signal not in death.signals:
            death.signals.append(row.signal)

    def _see_stall(self, said: Said, row: Signature) -> None:
        if self.life.phase is Phase.STARTUP:
            return  # Compiling and loading are slow, and no stall.
        at = _At(said.line, said.match.stamp)
        stalls = self.life.stalls
        near = bool(stalls) and at.is_near(stalls[-1], STALL_GAP_S, STALL_GAP_LINES)
        if len(stalls) < STALL_LINES and not near:
            stalls.clear()
        if len(stalls) < STALL_LINES or near:
            _keep(stalls, at)
            if row.signal not in self.life.stall_signals:
                self.life.stall_signals.append(row.signal)

    def _end_life(self) -> None:
        """Decide what only the whole life shows, and begin the next."""
        life = self.life
        self._place_unkind()
        for tally in self.tallies.values():
            if tally.life == life.number and tally.phase is Phase.UNKNOWN and life.deaths:
                tally.phase = life.deaths[0].phase
        for death in life.deaths:
            if any(_explains(root, death) for root in life.roots):
                self.followed.update(dict.fromkeys(death.signals))
            else:
                self._add_death(death)
        if len(life.stalls) >= STALL_LINES:
            self._add_stall(life)
        self.life = _Life(life.number + 1)

    def _place_unkind(self) -> None:
        for said in self.unkind:
            row = said.match.signature
            at = _At(said.line, said.match.stamp)
            key = self._nearest_kill(at, said)
            if key is None and row.weight is Weight.ROOT:
                key = (Cause.HOST_OOM, self._guessed_kind(at))
            if key is None:
                continue
            tally = self._tally(*key, at)
            if at.line < tally.first.line:
                tally.first = at
            if row.weight is Weight.ROOT:
                tally.sign(row)
            if tally.phase is Phase.UNKNOWN:
                tally.phase = self.life.phase
        self.unkind.clear()

    def _nearest_kill(self, at: _At, said: Said) -> tuple[Cause, Kind] | None:
        pid = said.match.numbers.get("pid")
        for key, tally in self.tallies.items():
            if key[0] is Cause.HOST_OOM and pid is not None and pid in tally.pids:
                return key
        near = [
            (abs(tally.first.line - at.line), key)
            for key, tally in self.tallies.items()
            if key[0] is Cause.HOST_OOM and tally.life == self.life.number
        ]
        return min(near)[1] if near else None

    def _guessed_kind(self, at: _At) -> Kind:
        """A kill whose limit nobody names: of a cgroup if its call trace charges one."""
        for said in self.unkind:
            row = said.match.signature
            if row.kind is Kind.CGROUP and abs(said.line - at.line) <= SAME_LINES:
                return Kind.CGROUP
        return Kind.SYSTEM

    def _add_death(self, death: _Death) -> None:
        key = (Cause.ENGINE_FAILURE, death.kind)
        known = key in self.tallies
        tally = self._tally(*key, death.first)
        tally.count += int(known)
        tally.confirmed = tally.confirmed or death.confirmed
        tally.signals = list(dict.fromkeys((*tally.signals, *death.signals)))
        if tally.phase is Phase.UNKNOWN:
            tally.phase = death.phase

    def _add_stall(self, life: _Life) -> None:
        key = (Cause.STALLED, Kind.UNSPECIFIED)
        known = key in self.tallies
        tally = self._tally(*key, life.stalls[0])
        tally.count += int(known)
        tally.phase = life.phase
        tally.signals = list(dict.fromkeys((*tally.signals, *life.stall_signals)))

    def finish(self) -> tuple[LogCause, ...]:
        """The causes of the whole log, first things first."""
        self._end_life()
        order = list(Cause)
        found = [
            LogCause(
                cause=cause,
                kind=kind,
                phase=tally.phase,
                confidence=Confidence.CONFIRMED if tally.confirmed else Confidence.SUSPECTED,
                count=tally.count,
                first_line=tally.first.line,
                signals=tuple(tally.signals),
                stamp=tally.first.stamp,
            )
            for (cause, kind), tally in self.tallies.items()
        ]
        return tuple(sorted(found, key=lambda one: (order.index(one.cause), one.first_line)))


def _keep(items: list[T], item: T) -> None:
    """Append, but never more than a bounded number: the last gives way."""
    if len(items) >= _MOST_KEPT:
        items[-1] = item
    else:
        items.append(item)


def _kind_of_death(said: Said, row: Signature) -> Kind:
    exits = {said.match.numbers.get(name) for name in ("exit", "process_exit", "worker_exit")}
    if exits & _FATAL_SIGNALS:
        return Kind.CRASHED
    return row.kind or Kind.CRASHED


def _explains(root: _At, death: _Death) -> bool:
    return root.is_near(death.first, FOLLOWS_S, FOLLOWS_LINES) or root.is_near(
        death.last, FOLLOWS_S, FOLLOWS_LINES
    )


def triage(chunks: Iterable[bytes]) -> LogTriage:
    """Read a whole log, given in portions of any size, with flat memory."""
    reader, fold = LineReader(), _Fold()
    # No name is kept for a portion: the memory of the last one is taken for the next one again.
    for said in chain.from_iterable(map(reader.feed, chunks)):
        fold.see(said)
    for said in reader.finish():
        fold.see(said)
    causes = fold.finish()
    verdict = causes[0].cause.verdict if causes else Verdict.NONE
    return LogTriage(
        lines=reader.lines,
        cut=reader.cut,
        verdict=verdict,
        causes=causes,
        followed=tuple(fold.followed),
    )
