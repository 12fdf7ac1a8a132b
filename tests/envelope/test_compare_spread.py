"""What repeats differ by anyway is no effect: nothing is called better by chance."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.envelope.compare import Comparison, Confidence, compare, weigh
from sidecar.envelope.compare_results import compare_text
from sidecar.envelope.figures import Repeats
from sidecar.model.budget import Lengths
from sidecar.model.envelope import Envelope, Identity, ServerView, Stage, StageRun
from tests.envelope import made

BEFORE = made.make_envelope()
OTHER = made.make_envelope(identity=replace(made.IDENTITY, machine="aarch64"))


def effect(comparison: Comparison, stage: str, figure: str) -> tuple[Confidence, bool | None]:
    """One figure at one stage."""
    (pair,) = [pair for pair in comparison.pairs if pair.before.name == stage]
    (found,) = [one for one in pair.effects if one.figure.name == figure]
    return found.confidence, found.better


@pytest.mark.parametrize(
    ("before", "after", "usual", "confidence"),
    [
        ((1.0,), (5.0, 5.1), 0.0, Confidence.TOO_FEW),
        ((1.0, 1.1), (5.0,), 0.0, Confidence.TOO_FEW),
        ((1.0, 1.1), (5.0, 5.1), 0.05, Confidence.CLEAR),
        ((1.0, 2.0), (1.9, 2.9), 0.05, Confidence.WITHIN),  # they overlap
        ((1.0, 2.0), (2.5, 2.6), 0.05, Confidence.WITHIN),  # the gap is narrower than the spread
        ((1.0, 1.0), (1.3, 1.3), 0.2, Confidence.WITHIN),  # usually they spread by more
        ((1.0, 1.0, 1.0), (1.3, 1.3, 1.3), 0.2, Confidence.CLEAR),  # three do not agree by chance
        ((1.0, 1.0), (1.0, 1.0), 0.0, Confidence.WITHIN),
        ((1.0, 1.0), (1.05, 1.05), 0.0, Confidence.WITHIN),  # below the floor
        ((0.0, 0.0), (0.0, 0.0), 0.0, Confidence.WITHIN),
    ],
)
def test_a_change_is_clear_beyond_the_spread_of_repeats(
    before: tuple[float, ...], after: tuple[float, ...], usual: float, confidence: Confidence
) -> None:
    for one, two in ((before, after), (after, before)):
        assert weigh(Repeats(one), Repeats(two), usual, floor=0.1) is confidence


def test_preemptions_within_the_tolerance_are_no_change() -> None:
    def stage(preemptions: float) -> Stage:
        told = replace(made.TOLD["c8"], preemptions=preemptions)
        runs = tuple(StageRun(at, made.make_view(told), exit_code=0) for at in (1, 2))
        return Stage("c8", 8, runs)

    loose = replace(made.OBJECTIVES, preemptions_per_request=0.5)
    sides = [
        replace(BEFORE, stages=(stage(0.0),), objectives=loose),
        replace(OTHER, stages=(stage(9.0),)),
    ]
    found = compare(*sides)
    assert effect(found, "c8", "preemptions_per_request") == (Confidence.WITHIN, None)
    sides[0] = replace(sides[0], objectives=made.OBJECTIVES)
    found = compare(*sides)
    assert effect(found, "c8", "preemptions_per_request") == (Confidence.CLEAR, False)
    assert effect(compare(*reversed(sides)), "c8", "preemptions_per_request")[1] is True


def noisy(rng: random.Random, stages: int, repeats: int) -> Envelope:
    """A server whose latencies and rates are the same every time, but for noise of 5%."""
    return made.make_envelope(
        stages=tuple(
            Stage(
                f"s{at}",
                float(at),
                tuple(
                    StageRun(repeat, made.make_view(made.TOLD["c4"], rng.gauss(1.0, 0.05)))
                    for repeat in range(repeats)
                ),
            )
            for at in range(1, stages + 1)
        )
    )


@pytest.mark.parametrize(
    ("stages", "repeats", "most"), [(1, 2, 0.08), (5, 2, 0.025), (1, 3, 0.02), (5, 3, 0.01)]
)
def test_noise_seldom_looks_clear(stages: int, repeats: int, most: float) -> None:
    rng = random.Random(20261130)
    clear = total = 0
    for _ in range(800 // stages):
        found = compare(noisy(rng, stages, repeats), noisy(rng, stages, repeats))
        assert found.refusal == ""
        for pair in found.pairs:
            (one,) = [one for one in pair.effects if one.figure.name == "e2e_mean"]
            clear += one.confidence is Confidence.CLEAR
            total += 1
    assert clear / total <= most


measured = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=4)


@given(measured, measured)
def test_nothing_is_better_that_is_not_clear(before: list[float], after: list[float]) -> None:
    def side(values: list[float], identity: Identity) -> Envelope:
        runs = tuple(
            StageRun(
                at,
                ServerView(
                    1.0,
                    output_tokens_per_second=value,
                    waiting_peak=value,
                    running_peak=value,
                    prompt=Lengths(1.0),
                    output=Lengths(1.0),
                ),
            )
            for at, value in enumerate(values)
        )
        return made.make_envelope(identity=identity, stages=(Stage("s", 1.0, runs),))

    one = side(before, made.IDENTITY)
    two = side(after, replace(made.IDENTITY, machine="other"))
    there, back = compare(one, two), compare(two, one)
    assert there.cause == back.cause == "machine"
    for effect_there, effect_back in zip(
        there.pairs[0].effects, back.pairs[0].effects, strict=True
    ):
        assert effect_there.confidence is effect_back.confidence
        if (
            effect_there.confidence is not Confidence.CLEAR
            or effect_there.figure.name == "running_peak"
        ):
            assert effect_there.better is effect_back.better is None
        else:
            assert effect_there.better is not effect_back.better
    assert ("better" in compare_text(there)) <= any(e.better for e in there.pairs[0].effects)


def test_the_same_run_compared_with_itself_shows_nothing() -> None:
    found = compare(BEFORE, BEFORE)
    assert found.cause is None
    assert found.refusal == ""
    assert {one.confidence for pair in found.pairs for one in pair.effects} == {Confidence.WITHIN}
