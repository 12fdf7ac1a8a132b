"""With several engines every figure of a decision is of the worst one."""

from collections.abc import Mapping
from dataclasses import replace

from sidecar.advise.facts import Recalled, gather
from sidecar.advise.memory import Advisor
from sidecar.catalog import vllm_metrics as roles
from sidecar.model.advice import Lever
from sidecar.model.budget import Lengths
from sidecar.model.verdict import Judgement
from sidecar.model.window import EngineWindow, Spread
from tests.advise.cases import MIX, thrash, told

HOLDS_MANY = replace(MIX, safe_concurrency=20.5)


def engine(
    preempted: float, *, finished: float = 10.0, usage: float = 1.0, running: float = 12.0
) -> EngineWindow:
    gauges = {
        roles.KV_USAGE: Spread(usage, usage, usage, usage),
        roles.RUNNING: Spread(running, running, running, running),
        roles.WAITING: Spread(0.0, 0.0, 0.0, 0.0),
    }
    deltas = {roles.PREEMPTIONS: preempted, roles.FINISHED: finished}
    return EngineWindow(deltas=deltas, gauges=gauges)


def two(index: int, first: EngineWindow, second: EngineWindow) -> Judgement:
    """Pressure on two engines, whose caches hold 6 and 20 requests."""
    seen = thrash(index, limits=told(max_num_seqs=64.0))
    engines: Mapping[str, EngineWindow] = {"0": first, "1": second}
    window = replace(seen.window, engines=engines)
    return replace(seen, window=window, budgets={"0": MIX, "1": HOLDS_MANY})


def test_every_figure_is_of_the_engine_with_most_preemptions_for_each_request() -> None:
    many = engine(50.0, finished=500.0, running=40.0)
    bad = engine(40.0, finished=10.0, usage=0.95, running=9.0)
    facts = gather(two(0, bad, many), Recalled(), None)
    assert facts.engine == "0"
    assert facts.budget is MIX
    assert (facts.preemptions, facts.per_request) == (40.0, 4.0)
    assert (facts.usage, facts.usage_peak, facts.running_peak) == (0.95, 0.95, 9.0)
    assert facts.waiting is False


def test_preemptions_of_an_empty_cache_are_not_explained_by_a_full_one_beside_it() -> None:
    reset, full = engine(40.0, usage=0.25, running=3.0), engine(0.0)
    advisor = Advisor()
    advice = [advisor.advise(two(i, reset, full)) for i in range(5)][-1]
    assert advice.lever is Lever.NONE
    assert "25% full only" in advice.because[1]


def test_two_engines_that_take_turns_do_not_swing_the_step() -> None:
    some, most = engine(5.0), engine(50.0)
    advisor = Advisor()
    shown = [
        advisor.advise(two(i, *((most, some) if i % 2 == 0 else (some, most)))) for i in range(12)
    ]
    assert {a.lever for a in shown} == {Lever.LOWER_MAX_NUM_SEQS}
    assert {a.step.value for a in shown if a.step} == {6.0}


def test_an_engine_within_the_tolerance_gives_way() -> None:
    advisor = Advisor()
    advisor.advise(two(0, engine(50.0), engine(5.0)))
    assert advisor.memory.worst == "0"
    advisor.advise(two(1, engine(1.0, finished=1000.0), engine(5.0)))
    assert advisor.memory.worst == "1"
    assert list(advisor.memory.holds) == [20.5]


def test_the_longest_requests_are_those_of_any_engine() -> None:
    seen = two(0, engine(50.0), engine(5.0))
    long = replace(HOLDS_MANY, prompt=Lengths(p99=9000.0), output=Lengths(p99=1000.0))
    facts = gather(replace(seen, budgets={"0": MIX, "1": long}), Recalled(), None)
    assert facts.longest == 10_000.0
