"""Every cause, kind and lever has words, and look-alikes have different ones."""

import pytest

from sidecar.model.advice import Lever
from sidecar.model.vocabulary import Cause, Kind
from sidecar.telling.words import CAUSES, KINDS, LEVERS, say_kind


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("kind", Kind)
def test_every_cause_and_kind_has_words(cause: Cause, kind: Kind) -> None:
    words = say_kind(cause, kind)
    assert words == KINDS.get((cause, kind), CAUSES[cause])
    assert words.isprintable()
    assert not words.endswith(".")


def test_no_two_kinds_of_one_cause_are_said_alike() -> None:
    assert len(set(KINDS.values())) == len(KINDS)


@pytest.mark.parametrize("lever", Lever)
def test_every_lever_has_words(lever: Lever) -> None:
    assert LEVERS[lever].isprintable()


def test_look_alike_levers_are_told_apart() -> None:
    assert len(set(LEVERS.values())) == len(Lever)
