"""A value of a limit is a number that can be, or nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog.vllm_settings import Unit
from sidecar.parse.limit_values import limit_value

MIB = 1 << 20
GIB = 1 << 30


@pytest.mark.parametrize(
    ("unit", "value", "number"),
    [
        (Unit.COUNT, "32", 32),
        (Unit.COUNT, 32, 32),
        (Unit.COUNT, 32.0, 32),
        (Unit.COUNT, "8_192", 8192),
        (Unit.COUNT, "1k", 1000),
        (Unit.COUNT, "1K", 1024),
        (Unit.COUNT, "25.6k", 25_600),
        (Unit.COUNT, "1.1m", 1_100_000),
        (Unit.COUNT, "2M", 2 * MIB),
        (Unit.BYTES, "64M", 64 * MIB),
        (Unit.BYTES, "8g", 8_000_000_000),
        (Unit.BYTES, "8G", 8 * GIB),
        (Unit.BYTES, 67108864, 64 * MIB),
        (Unit.GIB, "4", 4 * GIB),
        (Unit.GIB, "0.5", GIB // 2),
        (Unit.GIB, 0, 0),
        (Unit.SHARE, "0.92", 0.92),
        (Unit.SHARE, 1, 1),
        (Unit.RESERVE, "1e-05", 1e-05),
        (Unit.RESERVE, 0.0, 0),
        (Unit.FLAG, True, 1),
        (Unit.FLAG, "False", 0),
        (Unit.PRECISION, "auto", 0),
        (Unit.PRECISION, "bfloat16", 0),
        (Unit.PRECISION, "torch.float16", 0),
        (Unit.PRECISION, "fp8", 1),
        (Unit.PRECISION, "fp8_e4m3", 1),
        (Unit.PRECISION, "fp8_ds_mla", 1),
        (Unit.PRECISION, "int8_per_token_head", 1),
        (Unit.PRECISION, "nvfp4", 1),
        (Unit.PRECISION, "turboquant_k8v4", 1),
        (Unit.POLICY, "priority", 1),
        (Unit.POLICY, "fcfs", 0),
    ],
    ids=repr,
)
def test_what_vllm_reads_is_read(unit: Unit, value: object, number: float) -> None:
    assert limit_value(unit, value) == number


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        (Unit.COUNT, "-1"),
        (Unit.COUNT, -1),
        (Unit.COUNT, "0"),
        (Unit.COUNT, "auto"),
        (Unit.COUNT, "2.5"),
        (Unit.COUNT, "1.5K"),
        (Unit.COUNT, "nan"),
        (Unit.COUNT, float("nan")),
        (Unit.COUNT, math.inf),
        (Unit.COUNT, "1" + "0" * 30),
        (Unit.COUNT, 10**400),
        (Unit.COUNT, "900T"),
        (Unit.COUNT, True),
        (Unit.COUNT, None),
        (Unit.COUNT, "None"),
        (Unit.COUNT, [32]),
        (Unit.COUNT, "3²"),
        (Unit.COUNT, "٣"),
        (Unit.COUNT, "1__"),
        (Unit.BYTES, "0"),
        (Unit.GIB, "-4"),
        (Unit.GIB, "9999999999"),
        (Unit.SHARE, "0"),
        (Unit.SHARE, "1.01"),
        (Unit.RESERVE, "1"),
        (Unit.FLAG, "maybe"),
        (Unit.FLAG, None),
        (Unit.PRECISION, "quantum"),
        (Unit.PRECISION, 8),
        (Unit.POLICY, "idealized"),
    ],
    ids=repr,
)
def test_what_cannot_be_is_left_out(unit: Unit, value: object) -> None:
    assert limit_value(unit, value) is None


@given(
    st.sampled_from(Unit),
    st.one_of(
        st.text(max_size=40),
        st.from_regex(r"[-+]?[0-9_]{1,30}(\.[0-9]*)?([eE][-+]?[0-9]{1,4})?[kKmMgGtT]?"),
        st.integers(),
        st.floats(),
        st.none(),
    ),
)
def test_any_value_gives_a_finite_number_or_nothing(unit: Unit, value: object) -> None:
    number = limit_value(unit, value)
    assert number is None or (type(number) is float and 0 <= number <= 1 << 60)
