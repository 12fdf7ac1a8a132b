"""Two envelopes in, the effect of the one setting that differs out; or that none can be told, and why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from sidecar.envelope.figures import (
    FIGURES,
    Figure,
    Repeats,
    Wanted,
    repeats_of,
    whole_runs,
)
from sidecar.envelope.settings import Differences, find_differences
from sidecar.model.envelope import Envelope, Stage
from sidecar.telling.figures import plain, say_list


class Confidence(StrEnum):
    """Whether a change is more than repeats differ anyway."""

    CLEAR = "clear"
    WITHIN = "within the spread"
    TOO_FEW = "too few repeats"


FEWEST_REPEATS = 2
USUAL_FACTOR: Mapping[int, float] = {2: 3.0}
"""By the fewest repeats of either side: so many times the figure's usual spread a change must be. Two
repeats can fall together by chance; of figures that did not change, 6% pass with one shared stage and
1.5% with five (simulated, normal noise). From three repeats on once is enough: 1%."""
SAME_MIX = 0.1
"""Mean lengths of requests so far apart, as a share, are still the same requests."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One figure at one stage, before and after. ``better``: None where it is not clear, or neither is."""

    figure: Figure
    before: Repeats
    after: Repeats
    confidence: Confidence
    better: bool | None

    @property
    def ratio(self) -> float | None:
        """After through before, of the medians; None where there was nothing before."""
        return self.after.median / self.before.median if self.before.median else None


@dataclass(frozen=True, slots=True)
class StagePair:
    """A load that both were given. ``refusal``: why its figures cannot be compared, "" if they can."""

    before: Stage
    after: Stage
    refusal: str
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs, and what it did. ``refusal``: why nothing is attributed to anything, "" if it is."""

    before: Envelope
    after: Envelope
    differences: Differences
    refusal: str
    pairs: tuple[StagePair, ...]

    @property
    def cause(self) -> str | None:
        """The only setting that differs; None if none does, or nothing is attributed."""
        causes = self.differences.causes
        return causes[0].setting if len(causes) == 1 and not self.refusal else None


# --- May it be compared? ------------------------------------------------------------------------


def mix_of(stage: Stage) -> dict[str, float]:
    """Mean lengths of the stage's requests, in tokens, those that were told."""
    views = [run.server for run in whole_runs(stage)]
    lengths = {
        "prompts": [view.prompt.mean for view in views],
        "outputs": [view.output.mean for view in views],
    }
    known = {
        name: [value for value in values if value is not None] for name, values in lengths.items()
    }
    return {name: median(values) for name, values in known.items() if values}


def refuse_stage(before: Stage, after: Stage) -> str:
    """Why the two were not given the same requests, "" if they were."""
    was, now = mix_of(before), mix_of(after)
    untold = [name for name in ("prompts", "outputs") if name not in was or name not in now]
    if untold:
        return f"the lengths of {say_list(untold)} are not known of both"
    other = [
        f"{name} of {was[name]:.0f} and {now[name]:.0f} tokens"
        for name in was
        if abs(was[name] - now[name]) > SAME_MIX * max(was[name], now[name])
    ]
    return f"the requests were others: {say_list(other)} on average" if other else ""


def refuse(before: Envelope, after: Envelope, found: Differences) -> str:
    """Why no effect is attributed to one setting, "" if it is."""
    if before.unit != after.unit:
        return "their loads are counted in different units"
    if not shared_stages(before, after):
        return "they share no load"
    if found.unknown:
        return f"it is not known of both: {say_list(found.unknown)}"
    if len(found.causes) > 1:
        names = [plain(one.setting) for one in found.causes]
        return f"{len(names)} settings differ: {say_list(names)}; change one at a time"
    return ""


def shared_stages(before: Envelope, after: Envelope) -> list[tuple[Stage, Stage]]:
    """Stages of the same load, whatever they are called."""
    loads = {stage.load: stage for stage in after.stages}
    return [(stage, loads[stage.load]) for stage in before.stages if stage.load in loads]


# --- The effect ---------------------------------------------------------------------------------


def floor_of(figure: Figure, before: Envelope, after: Envelope) -> float:
    """Smaller changes of the figure are none; preemptions within both tolerances are none either."""
    if figure.name != "preemptions_per_request":
        return figure.floor
    tolerated = (one.objectives.preemptions_per_request for one in (before, after))
    return max(figure.floor, *tolerated)


def usual_spread(figure: Figure, pairs: list[tuple[Stage, Stage]]) -> float:
    """How far apart the repeats of a stage usually lie, as a share of their median: the middle one."""
    found = (repeats_of(stage, figure) for pair in pairs for stage in pair)
    shares = [
        one.width / abs(one.median)
        for one in found
        if one is not None and len(one.values) >= FEWEST_REPEATS and one.median
    ]
    return median(shares) if shares else 0.0


def weigh(before: Repeats, after: Repeats, usual: float, floor: float) -> Confidence:
    """Whether two sides lie further apart than their repeats.

    Clear is only what leaves a gap between all repeats of both sides that is wider than either's
    spread, and than what the figure usually spreads.
    """
    fewest = min(len(before.values), len(after.values))
    if fewest < FEWEST_REPEATS:
        return Confidence.TOO_FEW
    gap = max(after.least - before.greatest, before.least - after.greatest)
    change = abs(after.median - before.median)
    least = max(abs(before.median), abs(after.median)) * usual * USUAL_FACTOR.get(fewest, 1.0)
    is_clear = gap > max(before.width, after.width) and change > least and change >= floor
    return Confidence.CLEAR if is_clear else Confidence.WITHIN


def is_better(figure: Figure, before: Repeats, after: Repeats) -> bool | None:
    """Whether the figure went the way that is wanted of it."""
    match figure.wanted:
        case Wanted.LOW:
            return after.median < before.median
        case Wanted.HIGH:
            return after.median > before.median
        case Wanted.NEITHER:
            return None


def measure_effects(
    before: Envelope, after: Envelope, pair: tuple[Stage, Stage], usual: Mapping[str, float]
) -> Iterator[Effect]:
    """Every figure that both sides of a stage tell."""
    for figure in FIGURES:
        was, now = (repeats_of(stage, figure) for stage in pair)
        if was is None or now is None:
            continue
        confidence = weigh(was, now, usual[figure.name], floor_of(figure, before, after))
        is_clear = confidence is Confidence.CLEAR
        better = is_better(figure, was, now) if is_clear else None
        yield Effect(figure, was, now, confidence, better)


def compare(before: Envelope, after: Envelope) -> Comparison:
    """What differs between two envelopes, and what the one difference did; or why that cannot be told."""
    found = find_differences(before.identity, after.identity)
    refusal = refuse(before, after, found)
    shared = shared_stages(before, after)
    pairs = []
    if not refusal:
        refusals = [refuse_stage(*pair) for pair in shared]
        same = [pair for pair, why in zip(shared, refusals, strict=True) if not why]
        usual = {figure.name: usual_spread(figure, same) for figure in FIGURES}
        for pair, why in zip(shared, refusals, strict=True):
            effects = () if why else tuple(measure_effects(before, after, pair, usual))
            pairs.append(StagePair(*pair, why, effects))
        if not same:
            refusal = "at no load were both given the same requests"
    return Comparison(before, after, found, refusal, tuple(pairs))
