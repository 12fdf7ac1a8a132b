"""Budgets of real servers whose sizes and loads are known (``tests/data/README.md``)."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from sidecar.catalog import vllm_metrics as roles
from sidecar.classify.policy import Policy
from sidecar.commands.replay import judge_recording
from sidecar.model.budget import Binding, Budget
from sidecar.model.limits import Limit
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Verdict
from sidecar.recording.folder import Recording

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"


@cache
def replay(name: str) -> Sequence[Judgement]:
    recording = Recording(RECORDINGS / name)
    return tuple(judge_recording(recording, interval_s=1.0, window_s=10.0, policy=Policy()))


def thrash_of(name: str) -> list[Budget]:
    """The budgets of windows in which requests were preempted while the load was on."""
    return [
        judgement.budgets["0"]
        for judgement in replay(name)
        if judgement.verdict is Verdict.PREEMPTION and (judgement.budgets["0"].waiting or 0) > 1
    ]


@pytest.mark.parametrize(
    ("name", "told", "usable"),
    [
        ("c_preempt_thrash", 4128, 4096),
        ("0.26.0_watermark0p05_preempt_thrash", 4128, 4096),
        ("0.8.5_preempt_thrash", 4112, 4112),
    ],
    ids=["V1", "V1 with a watermark", "V0"],
)
def test_thrash_is_a_demand_near_the_capacity_at_14_users(
    name: str, told: float, usable: float
) -> None:
    found = thrash_of(name)
    assert len(found) >= 6
    for budget in found:
        assert budget.capacity == told
        assert budget.demand_peak is not None
        assert 0.95 * usable < budget.demand_peak <= usable
        assert budget.headroom == pytest.approx(usable - budget.demand_peak)
        assert budget.safe_concurrency is not None
        assert 4 < budget.safe_concurrency < 8, "and 14 want to run"
        assert budget.per_running is not None
        assert 46 < budget.per_running < 1246, "a request of 46 + 1200 tokens is half done"
        assert budget.recomputed is not None
        assert budget.recomputed > budget.per_running
        assert budget.binding is Binding.CACHE


def test_lengths_of_the_load_are_found() -> None:
    for budget in thrash_of("c_preempt_thrash"):
        assert budget.prompt.mean == pytest.approx(46, abs=2)
        assert budget.output.mean == 1200
        assert budget.output.p50 == 1200
        assert budget.largest_share == pytest.approx(1246 / 4096, rel=0.2)
        assert budget.prefill_share is not None
        assert budget.prefill_share < 0.1


def test_two_engines_have_a_budget_each() -> None:
    told = [one for one in replay("j_dp2") if one.budgets]
    busy = [one for one in told if all(budget.running for budget in one.budgets.values())]
    assert len(busy) >= 2
    for judgement in busy:
        assert set(judgement.budgets) == {"0", "1"}
        for budget in judgement.budgets.values():
            assert budget.capacity == 4128
            assert budget.demand is not None
            assert 0 < budget.demand < 4096
    one, other = busy[0].budgets["0"], busy[0].budgets["1"]
    assert one.demand != other.demand


def test_a_front_end_that_shows_no_configuration_has_no_capacity_of_its_own() -> None:
    for judgement in replay("0.32.0-rust_healthy"):
        told = judgement.window.limits.get(Limit.KV_CAPACITY_TOKENS)
        for budget in judgement.budgets.values():
            assert budget.capacity == (None if told is None else told.value)
            assert (budget.demand is None) == (told is None)


@pytest.mark.parametrize("name", ["a_healthy", "0.32.0-rust_healthy", "e_prompt_injection_info"])
def test_nothing_binds_a_healthy_server(name: str) -> None:
    found = [one for judgement in replay(name) for one in judgement.budgets.values()]
    assert any(budget.running for budget in found)
    assert {budget.binding for budget in found} <= {Binding.NONE, Binding.UNKNOWN}
    assert sum(budget.binding is Binding.UNKNOWN for budget in found) <= 1, "the first window"


def test_waiting_is_told_by_reason_and_never_added_to_waiting() -> None:
    for judgement in replay("c_preempt_thrash"):
        for name, budget in judgement.budgets.items():
            waiting = judgement.window.engines[name].gauges[roles.WAITING]
            assert budget.waiting == waiting.mean
            assert sum(budget.waiting_by_reason.values()) == pytest.approx(waiting.mean)
    assert any(b.waiting for b in thrash_of("c_preempt_thrash"))
    assert all(not b.waiting_by_reason for b in thrash_of("0.8.5_preempt_thrash"))


def test_a_server_that_shows_no_statistics_has_no_budget() -> None:
    for judgement in replay("j_two_names_disable_log_stats"):
        assert judgement.budgets == {}
