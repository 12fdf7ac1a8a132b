"""Growth is told once it is certain, and a time only where a limit is near enough to matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.derive.host_growth import (
    FAR_S,
    POINTS,
    Growth,
    HostGrowth,
    foresee,
    headroom_of,
    needed,
)
from sidecar.model.readings import CgroupReading, Witness
from sidecar.model.samples import Instant, Sample, Tick
from sidecar.model.vocabulary import Fault, LimitOwner, Source

MIB = 1024**2
GIB = 1024**3
SURE = Growth(rate=1.0 * MIB, error=0.0)


def fed(points: list[tuple[float, float]]) -> HostGrowth:
    growth = HostGrowth()
    for at, used in points:
        growth.feed(at, used)
    return growth


def rate_of(growth: HostGrowth) -> float | None:
    found = growth.measure()
    return None if found is None else found.rate


def test_steady_growth_is_measured_exactly() -> None:
    growth = fed([(float(at), GIB + at * 3.0 * MIB) for at in range(60)])
    assert rate_of(growth) == pytest.approx(3 * MIB)


def test_nothing_is_told_before_twenty_seconds_of_points() -> None:
    assert rate_of(fed([(at / 2, at) for at in range(39)])) is None
    assert rate_of(fed([(at / 2, at) for at in range(41)])) == pytest.approx(2)
    assert rate_of(fed([(0, 1), (30, 2)])) is None
    assert rate_of(HostGrowth()) is None


def test_only_the_last_minute_counts() -> None:
    grown = [(float(at), at * 1.0 * MIB) for at in range(100)]
    flat = [(float(at), 100.0 * MIB) for at in range(100, 170)]
    assert rate_of(fed([*grown, *flat])) == pytest.approx(0, abs=1)


def test_a_fast_clock_still_covers_the_minute_with_few_points() -> None:
    growth = fed([(n * 0.05, n * 0.05 * MIB) for n in range(1201)])
    assert rate_of(growth) == pytest.approx(MIB)
    assert len(growth._points) <= POINTS
    assert growth._points[-1][0] - growth._points[0][0] > 50


def test_another_cgroup_begins_anew() -> None:
    growth = HostGrowth()
    for at in range(60):
        growth.feed(at, at * MIB, owner="one")
    growth.feed(60, 10, owner="other")
    assert rate_of(growth) is None


def test_a_step_back_of_the_clock_begins_anew() -> None:
    growth = fed([(float(at), float(at)) for at in range(60)])
    growth.feed(5, 5)
    assert rate_of(growth) is None


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e15)), max_size=200))
def test_any_points_give_a_finite_rate_or_none(points: list[tuple[float, float]]) -> None:
    found = fed(points).measure()
    assert found is None or (abs(found.rate) < 1e18 and found.error >= 0)


def test_what_goes_up_and_down_does_not_grow_for_certain() -> None:
    saw = fed([(float(at), GIB + (at % 17) * 8.0 * MIB) for at in range(60)])
    found = saw.measure()
    assert found is not None
    assert not found.is_clear


def reading(**parts: object) -> CgroupReading:
    values = {"current": 3 * GIB, "limit": 4 * GIB, "reclaimable": GIB, **parts}
    return CgroupReading(2, "/c", **values)  # type: ignore[arg-type]


def test_a_tick_feeds_what_cannot_be_reclaimed_and_a_gone_cgroup_is_forgotten() -> None:
    growth = HostGrowth()

    def see(at: float, seen: CgroupReading | None) -> None:
        instant = Instant(at, at)
        fault = Fault.DENIED if seen is None else None
        growth.see(Tick(instant, (Sample(Source.CGROUP, instant, reading=seen, fault=fault),)))

    for at in range(40):
        see(at, reading(current=3 * GIB + at * MIB, identity=7))
    assert rate_of(growth) == pytest.approx(MIB)
    see(40, None)
    assert rate_of(growth) == pytest.approx(MIB)
    see(41, reading(identity=8))
    assert rate_of(growth) is None
    for at in range(42, 90):
        see(at, reading(identity=8))
    assert rate_of(growth) == pytest.approx(0)
    see(90, reading(gone=True))
    assert rate_of(growth) is None


def test_each_limit_that_is_known_has_a_headroom() -> None:
    above = Witness("/", 1, 0, current=9 * GIB, limit=10 * GIB, reclaimable=2 * GIB)
    assert headroom_of(reading(witness=above, host_available=5 * GIB)) == {
        LimitOwner.OWN: 2 * GIB,
        LimitOwner.ABOVE: 3 * GIB,
        LimitOwner.HOST: 5 * GIB,
    }


@pytest.mark.parametrize("part", ["current", "limit", "reclaimable"])
def test_what_is_unknown_or_unlimited_has_no_headroom(part: str) -> None:
    above = Witness("/", 1, 0)
    assert headroom_of(reading(witness=above, **{part: None})) == {}


def test_a_use_above_the_limit_leaves_no_room_and_not_less_than_none() -> None:
    assert headroom_of(reading(current=9 * GIB, reclaimable=0)) == {LimitOwner.OWN: 0}
    assert needed(3, 5) == 0


def test_the_nearest_limit_gives_the_time() -> None:
    outlook = foresee(reading(host_available=GIB), SURE)
    assert outlook is not None
    assert outlook.growth == MIB
    assert outlook.time_to_limit_s == 1024


@pytest.mark.parametrize(
    "growth",
    [
        None,
        Growth(rate=0.0, error=0.0),
        Growth(rate=-1.0 * MIB, error=0.0),
        Growth(rate=1.0 * MIB, error=0.5 * MIB),
        Growth(rate=2 * GIB / FAR_S * 0.99, error=0.0),
    ],
)
def test_no_time_is_told_without_growth_that_is_certain_and_matters(growth: Growth | None) -> None:
    outlook = foresee(reading(), growth)
    assert outlook is not None
    assert outlook.time_to_limit_s is None


def test_no_time_is_told_without_a_limit_and_nothing_without_a_cgroup() -> None:
    outlook = foresee(reading(limit=None), SURE)
    assert outlook is not None
    assert (outlook.time_to_limit_s, outlook.growth) == (None, MIB)
    assert foresee(None, SURE) is None
    assert foresee(reading(gone=True), SURE) is None
