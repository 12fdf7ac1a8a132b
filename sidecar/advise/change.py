"""A change of the server's configuration: seen, waited out, and compared with what was before."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sidecar.advise.facts import figure, total_of
from sidecar.advise.figures import BYTES, say_bytes, say_number
from sidecar.catalog import vllm_metrics as roles
from sidecar.model.limits import FOUND_AT_START, Known, Limit, Limits, Origin
from sidecar.model.saved_state import Work
from sidecar.model.vocabulary import Phase, ServerState
from sidecar.model.window import Window

REST_WINDOWS = 8
"""Windows with work after a change, in which it is measured before there is new advice."""
REST_AT_MOST = 80
"""Served windows after which a rest ends, however little was done in them."""
COMPARED_WINDOWS = 8
"""Windows after the rest that tell the comparison."""
LOOK_WINDOWS = 4
"""Served windows of a new life in which its limits become known, place by place."""
KEPT_WINDOWS = 20
WHOLE = frozenset(set(Origin) - {Origin.LOG, Origin.MODELS})
"""Places that tell all of their limits at once, so that one which is missing there was not set."""
SAME = 1e-3
NOT_SERVING = frozenset({ServerState.STARTING, ServerState.DEAD, ServerState.STOPPED})

Change = Mapping[Limit, tuple[float | None, float | None]]
"""Each limit that changed, before and after; None: not set."""
Told = Mapping[Limit, tuple[float, float]]
"""Each limit of which one place told in both lives, and not the same."""


def sum_work(pieces: Iterable[Work]) -> Work:
    """The work of several windows."""
    listed = list(pieces)
    return Work(
        preemptions=sum(w.preemptions for w in listed),
        finished=sum(w.finished for w in listed),
        tokens=sum(w.tokens for w in listed),
        seconds=sum(w.seconds for w in listed),
    )


def work_of(window: Window) -> Work | None:
    """The work of one window; None where nothing was done, or it cannot be seen."""
    tokens = total_of(window, roles.GENERATION_TOKENS)
    preemptions = total_of(window, roles.PREEMPTIONS)
    seconds = figure(window.rise_s)
    if not tokens or preemptions is None or not seconds:
        return None
    finished = total_of(window, roles.FINISHED) or 0.0
    return Work(preemptions=preemptions, finished=finished, tokens=tokens, seconds=seconds)


def configured(limits: Limits) -> dict[Limit, Known]:
    """What somebody set, without what start-up measured."""
    return {
        limit: known
        for limit, known in limits.items()
        if limit not in FOUND_AT_START and figure(known.value) is not None
    }


def compare(before: Limits, after: Limits) -> Change:
    """What differs between two lives. Only what the same place told of both is compared.

    A setting that appears or vanishes was changed only if its place told others in both lives.
    """
    changed: dict[Limit, tuple[float | None, float | None]] = {}
    places = {known.origin for known in before.values()} & {
        known.origin for known in after.values()
    }
    for limit in Limit:
        was, now = before.get(limit), after.get(limit)
        if was is not None and now is not None:
            same = math.isclose(was.value, now.value, rel_tol=SAME)
            if was.origin is now.origin and not same:
                changed[limit] = (was.value, now.value)
            continue
        one = was or now
        if one is not None and one.origin in WHOLE and one.origin in places:
            changed[limit] = (
                None if was is None else was.value,
                None if now is None else now.value,
            )
    return changed


@dataclass(slots=True)
class Changes:
    """The configuration over the server's lives, and the work before and after it changed.

    ``former``: of the life before; ``latest``: of this one; ``look``: served windows for which the
    two are still compared. ``rest``: windows with work to come without advice, and ``rest_at_most``
    of any. ``told``: windows to come that tell the comparison. ``by_place``: what places told of both
    lives when last asked; ``of_former``: when the life before ended, which tells nothing of this one.
    """

    former: dict[Limit, Known] = field(default_factory=dict)
    latest: dict[Limit, Known] = field(default_factory=dict)
    look: int = 0
    noticed: bool = False
    changed: Change = field(default_factory=dict)
    before: Work | None = None
    done: deque[Work] = field(default_factory=lambda: deque(maxlen=KEPT_WINDOWS))
    rest: int = 0
    rest_at_most: int = 0
    told: int = 0
    by_place: Told = field(default_factory=dict)
    of_former: Told = field(default_factory=dict)

    @property
    def is_resting(self) -> bool:
        """Whether a change was seen a short while ago."""
        return self.rest > 0

    def see(self, window: Window, by_place: Told | None = None) -> None:
        """Take in the next closed window; ``by_place``: what single places told of both lives.

        A limit is known from one place, the surest, which may be another one in the next life: only
        what each place says against itself shows such a change.
        """
        if window.restarted or window.state in NOT_SERVING or window.phase is Phase.STARTUP:
            self.end_life()
        self.by_place = by_place or {}
        if not window.served:
            return
        work = work_of(window)
        self.pass_window(work)
        self.look_for_change(configured(window.limits))
        if work is not None:
            self.done.append(work)

    def pass_window(self, work: Work | None) -> None:
        """One served window more has passed since the last change."""
        if self.rest <= 0:
            self.told = max(0, self.told - 1)
            return
        self.rest_at_most -= 1
        self.rest -= 1 if work is not None else 0
        if self.rest_at_most <= 0:
            self.rest = 0
        if self.rest <= 0:
            self.told = COMPARED_WINDOWS

    def end_life(self) -> None:
        """The server ends, or another one begins: its limits are those of the former life."""
        if self.latest:
            self.former, self.latest = self.latest, {}
            self.look, self.noticed = LOOK_WINDOWS, False
            self.of_former = self.by_place

    def look_for_change(self, limits: dict[Limit, Known]) -> None:
        """Compare the begin of a life with the life before."""
        if self.look > 0 and limits:
            self.look -= 1
            found = {**compare(self.former, limits), **self.new_by_place()}
            if found and not self.noticed:
                self.begin_rest(found)
            elif found:
                self.changed = {**self.changed, **found}
        self.latest = {**self.latest, **limits}

    def new_by_place(self) -> Change:
        """What places told of this life and the one before, without what start-up measures."""
        if self.by_place == self.of_former:
            return {}
        return {limit: both for limit, both in self.by_place.items() if limit not in FOUND_AT_START}

    def begin_rest(self, found: Change) -> None:
        """A change: what was done so far is what was before it."""
        if self.done:
            self.before = sum_work(self.done)
        self.done.clear()
        self.changed, self.noticed = dict(found), True
        self.rest, self.rest_at_most, self.told = REST_WINDOWS, REST_AT_MOST, 0

    def say_resting(self) -> tuple[str, ...]:
        """What changed, and that both sides are measured first."""
        return (f"{say_change(self.changed)}: both sides are measured before there is new advice",)

    def say_compared(self) -> tuple[str, ...]:
        """Both sides of the last change, for some windows after the rest."""
        if self.told <= 0:
            return ()
        return (f"{say_change(self.changed)}: {say_sides(self.before, sum_work(self.done))}",)


def say_change(changed: Change) -> str:
    """``max_num_seqs went from 32 to 16``."""
    return ", ".join(
        f"{limit.value} went from {say_setting(limit, was)} to {say_setting(limit, now)}"
        for limit, (was, now) in changed.items()
    )


def say_setting(limit: Limit, value: float | None) -> str:
    """A value, or that it is not set."""
    if value is None:
        return "its default"
    return say_bytes(value) if limit in BYTES else say_number(value)


def say_sides(before: Work | None, after: Work) -> str:
    """Preemptions per request and throughput on both sides; the loads may differ."""
    if before is None or not before.finished or not after.finished:
        return "too little was done on one of the sides to compare them"
    was, now = before.preemptions / before.finished, after.preemptions / after.finished
    return (
        f"{was:.2g} preemptions for each request before, {now:.2g} after;"
        f" {before.tokens / before.seconds:.0f} output tokens per second before,"
        f" {after.tokens / after.seconds:.0f} after"
    )
