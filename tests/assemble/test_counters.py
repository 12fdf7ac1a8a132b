"""Counters rise, reset, vanish and appear; a rise is never negative and never invented."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.assemble.counters import Counters
from sidecar.assemble.window import EngineSpan
from sidecar.catalog import vllm_metrics as roles
from sidecar.model.readings import EngineReading, Histogram, MetricsReading


def reading(
    preemptions: float | None, *, epoch: float | None = None, engine: str = "0"
) -> MetricsReading:
    values = {roles.RUNNING: 1.0}
    if preemptions is not None:
        values[roles.PREEMPTIONS] = preemptions
    return MetricsReading(
        naming="vllm:",
        found=frozenset(values),
        engines={engine: EngineReading(values=values)},
        epoch={} if epoch is None else {"preemptions/0": epoch},
    )


def rises(*readings: MetricsReading) -> list[float]:
    counters = Counters()
    steps = [counters.advance(r) for r in readings]
    return [
        sum(e.deltas.get(roles.PREEMPTIONS, 0.0) for e in step.engines.values()) for step in steps
    ]


def test_the_first_reading_is_the_baseline() -> None:
    assert rises(reading(7)) == [0]


def test_a_counter_that_appears_later_rose_from_zero() -> None:
    assert rises(reading(None), reading(24)) == [0, 24]


def test_a_reset_counter_counts_from_zero() -> None:
    assert rises(reading(100), reading(3)) == [0, 3]


def test_a_restart_shows_by_its_marks_even_when_the_counter_is_higher() -> None:
    assert rises(reading(3, epoch=1.0), reading(5, epoch=2.0)) == [0, 5]


def test_a_counter_that_is_missing_for_a_while_goes_on_from_where_it_was() -> None:
    assert rises(reading(10), reading(None), reading(12)) == [0, 0, 2]


def test_a_blind_reading_is_no_baseline() -> None:
    blind = MetricsReading(naming=None, found=frozenset(), engines={})
    assert rises(blind, reading(50), reading(51)) == [0, 0, 1]


def test_a_new_engine_rose_from_zero() -> None:
    assert rises(reading(10), reading(4, engine="1")) == [0, 4]


def test_a_sum_that_falls_because_a_replica_is_gone_is_no_restart() -> None:
    counters = Counters()
    steps = [
        counters.advance(replace(reading(value), layout=layout))
        for value, layout in ((120, 1), (100, 2), (101, 2))
    ]
    assert not any(step.restarted for step in steps)
    assert [step.engines["0"].deltas[roles.PREEMPTIONS] for step in steps[1:]] == [0, 1]


def test_a_restart_is_told_once() -> None:
    counters = Counters()
    steps = [counters.advance(reading(n, epoch=e)) for n, e in ((1, 1.0), (1, 2.0), (2, 2.0))]
    assert [step.restarted for step in steps] == [False, True, False]


@given(st.lists(st.integers(0, 1000) | st.none(), min_size=1, max_size=30))
def test_no_rise_is_negative_and_growth_is_counted_whole(values: list[int | None]) -> None:
    got = rises(*(reading(value) for value in values))
    assert all(rise >= 0 for rise in got)
    known = [value for value in values if value is not None]
    if known == sorted(known) and known and values[0] is not None:
        assert sum(got) == known[-1] - known[0]


def histogram(*counts: float) -> Histogram:
    return Histogram(
        buckets=tuple(zip((0.1, 1.0, float("inf")), counts, strict=True)),
        count=counts[-1],
        total=counts[-1] / 2,
    )


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (histogram(1, 2, 3), histogram(2, 4, 6), (1, 2, 3)),
        (histogram(9, 9, 9), histogram(1, 1, 2), (1, 1, 2)),
    ],
    ids=["grown", "reset"],
)
def test_a_histogram_is_taken_apart_bucket_by_bucket(
    before: Histogram, now: Histogram, expected: tuple[float, ...]
) -> None:
    counters = Counters()

    def step(h: Histogram) -> tuple[float, ...]:
        engines = {"0": EngineReading(values={}, histograms={roles.TTFT: h})}
        rise = counters.advance(MetricsReading(naming="vllm:", found=frozenset(), engines=engines))
        seen = rise.engines.get("0")
        return tuple(n for _, n in seen.histograms[roles.TTFT].measure().buckets) if seen else ()

    assert step(before) == ()
    assert step(now) == expected


STEPS = st.lists(
    st.tuples(st.sampled_from(["rise", "same", "reset", "replaced"]), st.integers(0, 9)),
    max_size=12,
)


@given(STEPS)
def test_a_window_holds_what_rose_from_reading_to_reading(steps: list[tuple[str, int]]) -> None:
    counters, span, expected = Counters(), EngineSpan(), (0.0, 0.0, 0.0)
    now = histogram(5, 6, 7)
    for how, more in (("rise", 0), *steps):
        if how == "reset":
            now = histogram(0, 0, 0)
        elif how != "same":
            counts = [n for _, n in now.buckets]
            now = histogram(counts[0], counts[1] + more / 2, counts[2] + more)
        engines = {"0": EngineReading(values={}, histograms={roles.TTFT: now})}
        rise = counters.advance(MetricsReading(naming="vllm:", found=frozenset(), engines=engines))
        for engine in rise.engines.values():
            span.add_rise(engine)
            risen = engine.histograms[roles.TTFT].measure().buckets
            expected = tuple(n + m for n, (_, m) in zip(expected, risen, strict=True))  # type: ignore[assignment]
        counters.see_root(replaced=how == "replaced")
    found = span.close().histograms
    assert len(span.histograms.get(roles.TTFT, ())) <= 1 + sum(
        how in {"reset", "replaced"} for how, _ in steps
    )
    assert tuple(n for _, n in found[roles.TTFT].buckets) == expected if steps else not found


@pytest.mark.parametrize(
    ("readings", "looks", "total"),
    [
        # The new server's counter is above the old one's; seen to be another before and after.
        ((100, 130), {0: False, 1: True}, 130),
        ((100, 120, 130), {0: False, 1: True}, 130),
        ((100, 120, 125, 130), {0: False, 2: True}, 130),
        # It is below: the fall has told.
        ((100, 20, 30), {0: False, 1: True}, 30),
        # It is another again.
        ((100, 120, 130, 140), {0: False, 1: True, 2: True}, 120 + 130 + 10),
        # The same server all the while.
        ((100, 120, 130), {0: False, 1: False, 2: False}, 30),
        # Never looked at before.
        ((100, 120), {0: True}, 20),
    ],
)
def test_a_server_without_marks_that_was_replaced_counts_from_zero(
    readings: tuple[int, ...], looks: dict[int, bool], total: float
) -> None:
    counters, rise = Counters(), 0.0
    for place, value in enumerate(readings):
        step = counters.advance(reading(value))
        rise += sum(e.deltas.get(roles.PREEMPTIONS, 0.0) for e in step.engines.values())
        if place in looks:
            # Looked at after the reading of the same moment, which came from the new server then.
            counters.see_root(replaced=looks[place])
    missing = looks.get(len(readings) - 1, False)
    if missing:
        rise += sum(
            e.deltas.get(roles.PREEMPTIONS, 0.0)
            for e in counters.advance(reading(readings[-1])).engines.values()
        )
    assert rise == total


def test_a_replaced_server_shows_as_a_restart_once() -> None:
    counters = Counters()
    counters.advance(reading(100))
    counters.see_root(replaced=False)
    counters.see_root(replaced=True)
    assert [counters.advance(reading(n)).restarted for n in (130, 131)] == [True, False]


def test_marks_are_surer_than_looks() -> None:
    counters = Counters()
    counters.advance(reading(100, epoch=1.0))
    counters.see_root(replaced=False)
    counters.see_root(replaced=True)
    step = counters.advance(reading(130, epoch=1.0))
    assert not step.restarted
    assert step.engines["0"].deltas[roles.PREEMPTIONS] == 30


def test_observations_before_a_look_at_a_replaced_server_count_with_the_next_reading() -> None:
    def observed(count: float) -> MetricsReading:
        histogram = Histogram(buckets=((float("inf"), count),), count=count, total=count)
        made = reading(None)
        engine = replace(
            made.engines["0"], histograms={roles.TTFT: histogram}, outcomes={"stop": count}
        )
        return replace(made, engines={"0": engine})

    counters = Counters()
    counters.advance(observed(10))
    counters.see_root(replaced=False)
    first = counters.advance(observed(14)).engines["0"]
    counters.see_root(replaced=True)
    second = counters.advance(observed(15)).engines["0"]
    assert first.histograms[roles.TTFT].count + second.histograms[roles.TTFT].count == 15
    assert first.outcomes["stop"] + second.outcomes["stop"] == 15
