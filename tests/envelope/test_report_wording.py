"""Figures are written so that people read them: with a unit, three digits, and never a made-up nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.envelope.figures import Repeats, Unit
from sidecar.envelope.report_server import say_time
from sidecar.envelope.wording import say, say_repeats
from sidecar.telling.figures import UNKNOWN, plain, say_list


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0123456, Unit.SECONDS, "12.3 ms"),
        (1.0, Unit.SECONDS, "1 s"),
        (123.4, Unit.SECONDS, "123 s"),
        (0.9765, Unit.SHARE, "97.7%"),
        (0.0, Unit.PER_REQUEST, "0"),
        (0.28125, Unit.PER_REQUEST, "0.281"),
        (2401.17, Unit.TOKENS_PER_SECOND, "2,401"),
        (67108864.0, Unit.BYTES, "64 MiB"),
        (9.0e9, Unit.BYTES, "8.38 GiB"),
        (12.0, Unit.BYTES, "12 B"),
        (1e300, Unit.COUNT, "1e+300"),
        (None, Unit.COUNT, UNKNOWN),
        (math.nan, Unit.SECONDS, UNKNOWN),
        (math.inf, Unit.BYTES, UNKNOWN),
    ],
)
def test_a_figure_with_its_unit(value: float | None, unit: Unit, shown: str) -> None:
    assert say(value, unit) == shown


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((1.0,), "1 s"),
        ((1.0, 1.0001), "1 s"),
        ((1.0, 1.2, 1.1), "1.1 s ±9.1%"),
        ((0.0, 0.0, 1.0), "0 ms (0 ms to 1 s)"),
        ((1.0, 1.0, 5.0), "1 s (1 s to 5 s)"),
    ],
)
def test_repeats_with_their_spread(values: tuple[float, ...], shown: str) -> None:
    assert say_repeats(Repeats(values), Unit.SECONDS) == shown


@given(st.floats(), st.sampled_from(Unit))
def test_any_number_is_short(value: float, unit: Unit) -> None:
    assert len(say(value, unit)) <= 24


@given(st.text(), st.integers(1, 50))
def test_names_of_others_are_cut_and_printable(text: str, most: int) -> None:
    shown = plain(text, most)
    assert len(shown) <= most
    assert shown.isprintable()
    assert (shown == text) >= (text.isprintable() and len(text) <= most)


def test_lists_and_times() -> None:
    assert say_list([]) == ""
    assert say_list(["a"]) == "a"
    assert say_list(["a", "b", "c"]) == "a, b and c"
    assert say_time(1795987497.857) == "2026-11-29 21:24 UTC"
    assert say_time(1e300) == UNKNOWN
