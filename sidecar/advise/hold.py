"""Advice that holds still: noise in the evidence must not turn it back and forth."""

from dataclasses import dataclass, field, replace

from sidecar.advise.choose import advise_again, must_go
from sidecar.advise.facts import Facts
from sidecar.model.advice import Advice, Lever
from sidecar.model.vocabulary import Cause

HOLD_WINDOWS = 3
"""Windows in a row that another lever must be called for before it takes the place."""
QUIET_WINDOWS = 4
"""Windows in a row that call for nothing and end the advice: a sustained thrash has single ones, V1
counts late, and a load that comes in bursts is calm between them."""
HORIZON_WINDOWS = 12
"""Windows for which a lever that was left does not come back, while it is about preemption."""
NEAR = 1 / 2
"""Figures that differ by less are the same step: a mean over one window moves by as much."""
HELD = "not called for by this window alone; of a window shortly before:"
SETTLING = "the evidence changes from window to window: no lever until it holds still"


@dataclass(slots=True)
class Steady:
    """The advice about preemption that is shown, and what presses to take its place.

    ``last``: the lever that was shown last, ``idle`` windows ago; it outlives windows that show none.
    ``rival`` was called for instead in ``held`` windows in a row; ``stale``: windows in a row in which
    ``last`` was not. ``left``: levers that gave way, with the windows since. ``far``: windows in a row
    in which the figure of the step was quite another than the one that is shown.
    """

    shown: Advice = field(default_factory=lambda: Advice(Lever.NONE))
    last: Lever = Lever.NONE
    idle: int = 0
    rival: Lever | None = None
    held: int = 0
    stale: int = 0
    far: int = 0
    left: dict[Lever, int] = field(default_factory=dict)

    def reset(self) -> None:
        """Forget: the configuration has changed, or a failure has."""
        self.shown, self.last, self.idle = Advice(Lever.NONE), Lever.NONE, 0
        self.rival, self.held, self.stale, self.far = None, 0, 0, 0
        self.left.clear()

    def settle(self, fresh: Advice, facts: Facts) -> Advice:
        """The advice to show for one more window, given what this window alone calls for."""
        self.age()
        before, self.shown = self.shown, self.decide(fresh, facts)
        if self.shown.lever is Lever.NONE:
            return self.shown
        self.last, self.idle = self.shown.lever, 0
        if self.shown is before:
            return with_words(before, (HELD,))
        self.shown = self.keep_figure(before, self.shown)
        return self.shown

    def keep_figure(self, before: Advice, now: Advice) -> Advice:
        """The step as it was said before, until another figure has held for several windows."""
        if not is_same_step(before, now):
            self.far = 0
            return now
        self.far = self.far + 1 if is_far(before, now) else 0
        if self.far >= HOLD_WINDOWS:
            self.far = 0
            return now
        return replace(now, step=before.step, step_words=before.step_words)

    def age(self) -> None:
        """A window has passed."""
        self.idle += 1
        if self.idle > HORIZON_WINDOWS:
            self.last = Lever.NONE
        self.left = {lever: age + 1 for lever, age in self.left.items() if age < HORIZON_WINDOWS}

    def decide(self, fresh: Advice, facts: Facts) -> Advice:
        """What is called for now, what is shown, and for how long one has pressed the other."""
        before = self.last
        if before is Lever.NONE or fresh.lever is before:
            self.rival, self.held, self.stale = None, 0, 0
            return fresh
        self.held = self.held + 1 if fresh.lever is self.rival else 1
        self.rival = fresh.lever
        if fresh.lever is Lever.NONE:
            return self.let_fade(fresh, facts)
        if must_go(before, facts):
            return self.give_way(before, fresh)
        again = advise_again(before, facts)
        self.stale = 0 if again is not None else self.stale + 1
        return self.weigh(before, fresh, again)

    def let_fade(self, fresh: Advice, facts: Facts) -> Advice:
        """Nothing is called for: at once where the server is gone, else after a few such windows."""
        if not facts.serving or self.held >= QUIET_WINDOWS or must_go(self.shown.lever, facts):
            return fresh
        return self.shown if self.shown.lever is not Lever.NONE else fresh

    def weigh(self, before: Lever, fresh: Advice, again: Advice | None) -> Advice:
        """The former lever, by what this window shows of it, or the one that presses.

        A former lever that is not called for any more is shown a few windows longer, but does not
        come back after windows that showed none.
        """
        still = self.shown if self.shown.lever is before and self.stale < QUIET_WINDOWS else None
        kept = again or still
        if fresh.lever in self.left:
            return kept or Advice(Lever.NONE, because=(SETTLING,))
        if kept is None or self.held >= HOLD_WINDOWS:
            return self.give_way(before, fresh)
        return kept

    def give_way(self, before: Lever, fresh: Advice) -> Advice:
        """The rival takes the place; what it replaces does not come back for a while."""
        self.left[before] = 0
        self.left.pop(fresh.lever, None)
        self.rival, self.held, self.stale = None, 0, 0
        return fresh


def is_same_step(before: Advice, now: Advice) -> bool:
    """Whether a figure that was shown may stand for the present one, near or far.

    What may be taken of free memory is always the present figure, and a context must never be shorter
    than the requests that were seen since.
    """
    was, step = before.step, now.step
    if now.lever is Lever.RAISE_KV_CACHE_MEMORY or before.lever is not now.lever:
        return False
    if was is None or step is None or was.value is None:
        return False
    if was.setting is not step.setting or was.now != step.now:
        return False
    longer = step.value is not None and step.value > was.value
    return not (now.lever is Lever.LOWER_MAX_MODEL_LEN and longer)


def is_far(before: Advice, now: Advice) -> bool:
    """Whether the two figures of one step differ by more than half of the one that is shown."""
    was, step = before.step, now.step
    if was is None or step is None or was.value is None or step.value is None:
        return False
    return abs(was.value - step.value) > NEAR * was.value


def is_about_pressure(facts: Facts) -> bool:
    """Whether the advice may be held still: a failure's lever shows at once."""
    return facts.first is None or facts.first.cause is Cause.PREEMPTION


def with_words(advice: Advice, words: tuple[str, ...]) -> Advice:
    """The advice with more in front of its reasons."""
    return replace(advice, because=(*words, *advice.because)) if words else advice
