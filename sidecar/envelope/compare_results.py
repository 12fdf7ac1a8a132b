"""A comparison as text for people and as JSON for machines."""

from collections.abc import Iterable, Iterator

from sidecar.envelope.compare import Comparison, Confidence, Effect, StagePair
from sidecar.envelope.figures import Repeats
from sidecar.envelope.report_server import say_time
from sidecar.envelope.settings import Difference
from sidecar.envelope.wording import say, say_load
from sidecar.export.values import Json, number
from sidecar.telling.figures import plain, say_number

SHOWN = frozenset(
    {
        "preemptions_per_request",
        "unserved",
        "cache_peak",
        "ttft_mean",
        "ttft_p95",
        "inter_token_mean",
        "inter_token_p95",
        "e2e_mean",
        "e2e_p95",
        "queue_p95",
        "output_tokens_per_second",
        "waiting_peak",
    }
)
"""Figures that the text shows in any case; the others only where they clearly changed."""


# --- Text ---------------------------------------------------------------------------------------


def say_difference(one: Difference) -> str:
    """A setting with what it was and is."""
    was, now = ("not given" if side is None else side for side in (one.before, one.after))
    origin = "" if one.follows is None else f" (follows from {plain(one.follows)})"
    return f"{plain(one.setting)}: {was} -> {now}{origin}"


def difference_lines(comparison: Comparison) -> Iterator[str]:
    """What differs, and what of it counts."""
    found = comparison.differences
    if not (found.causes or found.followers):
        yield "no setting that counts differs"
    for title, group in (
        ("differs", found.causes),
        ("with it", found.followers),
        ("does not count", found.neutral),
    ):
        for one in group:
            yield f"{title}: {say_difference(one)}"
    for untold in found.unknown:
        yield f"not known of both: {untold}"


def say_outcome(comparison: Comparison) -> str:
    """To what the effects are attributed."""
    if comparison.refusal:
        return f"no effect is attributed: {comparison.refusal}"
    if comparison.cause is None:
        return "nothing that counts differs: what changed below, changed for another reason"
    return f"effect of {plain(comparison.cause)}:"


def say_ratio(ratio: float) -> str:
    """Two places, as a hundredth is the least that anybody sees; large ones whole."""
    return f"{ratio:.2f}" if ratio < 100 else say_number(ratio)  # noqa: PLR2004 - three digits


def say_confidence(effect: Effect) -> str:
    """How sure the change is, and whether it is a good one."""
    if effect.confidence is not Confidence.CLEAR or effect.better is None:
        return effect.confidence.value
    return f"{effect.confidence.value}: {'better' if effect.better else 'worse'}"


def effect_lines(pair: StagePair, comparison: Comparison) -> Iterator[str]:
    """One load: its figures, or why they are not compared."""
    where = f"  {plain(pair.before.name, 60)} at {say_load(comparison.before, pair.before.load)}"
    if pair.refusal:
        yield f"{where}: not compared: {pair.refusal}"
        return
    counts = f"{len(pair.before.runs)} and {len(pair.after.runs)} repeats"
    yield f"{where}, {counts}"
    for effect in pair.effects:
        if effect.figure.name not in SHOWN and effect.confidence is not Confidence.CLEAR:
            continue
        was, now = (say(side.median, effect.figure.unit) for side in (effect.before, effect.after))
        ratio = "" if effect.ratio is None else f"x{say_ratio(effect.ratio)}"
        yield f"    {effect.figure.label:<34}{was:>10} -> {now:<10} {ratio:<8} {say_confidence(effect)}"


def bound_lines(comparison: Comparison) -> Iterator[str]:
    """What follows for operation on both sides; it moves in steps of whole stages."""
    sides = (comparison.before, comparison.after)
    loads = [side.bounds.safe_load for side in sides]
    safe = [
        "none shown" if load is None else say_load(side, load)
        for side, load in zip(sides, loads, strict=True)
    ]
    knee = [plain(side.bounds.first_preempting or "none", 60) for side in sides]
    yield f"safe load: {safe[0]} -> {safe[1]} (in steps of stages)"
    yield f"first preempting stage: {knee[0]} -> {knee[1]}"
    if comparison.before.objectives != comparison.after.objectives:
        yield "they were judged by different objectives: compare figures, not safe loads"


def compare_text(comparison: Comparison) -> str:
    """The comparison for people."""
    lines = [
        f"{word}: {plain(side.name, 60)}, {say_time(side.created)}"
        for word, side in (("before", comparison.before), ("after", comparison.after))
    ]
    lines += difference_lines(comparison)
    lines.append(say_outcome(comparison))
    for pair in comparison.pairs:
        lines += effect_lines(pair, comparison)
    lines += bound_lines(comparison)
    if not comparison.refusal and is_thin(comparison):
        lines.append(
            "with two repeats a few figures look clear by chance (1 in 16 with one shared load, 1 in 60 "
            "with five): repeat three times before you rely on a single one"
        )
    return "".join(f"{line}\n" for line in lines)


def is_thin(comparison: Comparison) -> bool:
    """Whether something is clear by two repeats alone."""
    return any(
        effect.confidence is Confidence.CLEAR
        and min(len(effect.before.values), len(effect.after.values)) == 2  # noqa: PLR2004 - as told
        for pair in comparison.pairs
        for effect in pair.effects
    )


# --- JSON ---------------------------------------------------------------------------------------


def difference_results(found: Iterable[Difference]) -> list[Json]:
    """Settings with what they were and are."""
    return [
        {
            "setting": plain(one.setting),
            "before": one.before,
            "after": one.after,
            "follows": one.follows,
        }
        for one in found
    ]


def repeats_result(repeats: Repeats) -> dict[str, Json]:
    """A figure over its repeats."""
    return {
        "median": number(repeats.median),
        "least": number(repeats.least),
        "greatest": number(repeats.greatest),
        "repeats": len(repeats.values),
    }


def effect_result(effect: Effect) -> dict[str, Json]:
    """One figure before and after, in base units."""
    return {
        "figure": effect.figure.name,
        "before": repeats_result(effect.before),
        "after": repeats_result(effect.after),
        "ratio": number(effect.ratio),
        "confidence": effect.confidence.value,
        "better": effect.better,
    }


def side_result(comparison: Comparison, *, is_after: bool) -> dict[str, Json]:
    """What is told of one envelope."""
    side = comparison.after if is_after else comparison.before
    return {
        "name": plain(side.name),
        "created": number(side.created),
        "accepted": side.acceptance.accepted,
        "safe_load": number(side.bounds.safe_load),
        "last_good": side.bounds.last_good and plain(side.bounds.last_good),
        "first_preempting": side.bounds.first_preempting and plain(side.bounds.first_preempting),
    }


def compare_result(comparison: Comparison) -> dict[str, Json]:
    """The comparison as an object; latencies in seconds."""
    found = comparison.differences
    return {
        "before": side_result(comparison, is_after=False),
        "after": side_result(comparison, is_after=True),
        "unit": plain(comparison.before.unit),
        "differs": difference_results(found.causes),
        "follows": difference_results(found.followers),
        "does_not_count": difference_results(found.neutral),
        "unknown": list(found.unknown),
        "attributed_to": comparison.cause and plain(comparison.cause),
        "refusal": comparison.refusal or None,
        "stages": [
            {
                "stage": plain(pair.before.name),
                "load": number(pair.before.load),
                "refusal": pair.refusal or None,
                "effects": [effect_result(effect) for effect in pair.effects],
            }
            for pair in comparison.pairs
        ],
    }
