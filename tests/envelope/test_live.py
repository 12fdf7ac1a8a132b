"""A measured envelope beside a live server: what was recorded stage by stage is the load."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.classify.policy import Policy
from sidecar.envelope.live import compare_live
from sidecar.model.budget import Lengths
from sidecar.model.envelope import Bounds, Drift, Envelope, Identity
from sidecar.model.report import Report
from sidecar.pipeline import Pipeline
from sidecar.recording.folder import Recording
from sidecar.recording.gridded_ticks import read_ticks
from tests.envelope.made import make_envelope
from tests.export.reports import make_gpus, make_report

STAGES = Path(__file__).parents[1] / "data/recordings/m_capacity_stages_vllm_bench"
LENGTHS = Lengths(mean=64.0, p50=64.0, p95=64.0, p99=64.0)
BOUNDS = Bounds(
    last_good="c4",
    first_preempting="c8",
    running=4.0,
    waiting=0.0,
    per_running=486.0,
    prompt=LENGTHS,
    output=Lengths(mean=700.0),
)


def measured(identity: Identity | None = None, bounds: Bounds = BOUNDS) -> Envelope:
    return replace(
        make_envelope(),
        identity=identity or Identity(model_name="tiny", capacity=4128.0),
        bounds=bounds,
    )


def reports() -> Iterator[Report]:
    """After each window of the recording."""
    pipeline = Pipeline(window_s=5.0, policy=Policy(), configured=Recording(STAGES).sources())
    for tick in read_ticks(Recording(STAGES), 1.0):
        step = pipeline.step(tick)
        if step.closed:
            yield step.report


def test_a_load_beyond_the_last_good_stage_leaves_the_envelope_and_nothing_else_does() -> None:
    seen = [compare_live(measured(), report) for report in reports()]
    load = [status.valid[Drift.LOAD] for status in seen if Drift.LOAD in status.valid]
    assert load[0] is True
    assert False in load
    first = load.index(False)
    # Stages of 1, 2 and 4 come before those of 8 and 16.
    assert all(load[:first])
    assert first > len(load) / 3
    assert all(status.valid.get(Drift.MODEL, True) for status in seen)
    assert all(status.valid[Drift.CACHE] for status in seen if Drift.CACHE in status.valid)
    assert any(Drift.CACHE in status.valid for status in seen)
    assert any(status.valid.get(Drift.LENGTHS) for status in seen)
    assert seen[-1].limits == {"requests_running": 4.0, "tokens_per_running_request": 486.0}


@pytest.mark.parametrize(
    "bounds",
    [replace(BOUNDS, waiting=None), replace(BOUNDS, running=None)],
    ids=["waiting", "running"],
)
def test_a_load_of_which_a_part_was_not_measured_is_not_judged(bounds: Bounds) -> None:
    seen = [compare_live(measured(bounds=bounds), report) for report in reports()]
    assert not any(Drift.LOAD in status.valid for status in seen)


def test_longer_requests_than_measured_leave_it() -> None:
    shorter = replace(BOUNDS, output=Lengths(mean=300.0))
    seen = [compare_live(measured(bounds=shorter), report) for report in reports()]
    told = [status.valid[Drift.LENGTHS] for status in seen if Drift.LENGTHS in status.valid]
    assert told
    assert not any(told)


@pytest.mark.parametrize(
    ("drift", "identity"),
    [
        (Drift.VERSION, Identity(vllm_version="0.31.0")),
        (Drift.MODEL, Identity(model_name="another")),
        (Drift.HARDWARE, Identity(gpus=("NVIDIA H200",))),
        (Drift.HARDWARE, Identity(gpus=("NVIDIA L40S", "NVIDIA L40S"))),
        (Drift.CACHE, Identity(capacity=3000.0)),
        (Drift.LIMITS, Identity(limits={"max_num_seqs": 17.0})),
    ],
)
def test_another_server_than_was_measured_is_told(drift: Drift, identity: Identity) -> None:
    status = compare_live(measured(identity, Bounds()), make_report())
    assert status.valid == {drift: False}


def test_the_same_server_is_valid_in_all_that_can_be_told() -> None:
    report = make_report()
    assert report.last_window is not None
    limits = {one.value: known.value for one, known in report.last_window.window.limits.items()}
    (capacity, *_) = (one.capacity for one in report.last_window.budgets.values())
    identity = Identity(
        vllm_version=report.info["vllm_version"],
        model_name=report.info["model_name"],
        gpus=tuple(gpu.name for gpu in make_gpus(1).gpus),
        capacity=capacity,
        limits={**limits, "kv_memory_bytes": 1.0},
    )
    status = compare_live(measured(identity, Bounds()), report)
    assert set(status.valid) == {
        *(Drift.VERSION, Drift.MODEL, Drift.HARDWARE, Drift.CACHE, Drift.LIMITS)
    }
    assert all(status.valid.values())


def test_what_nobody_knows_is_neither_valid_nor_broken() -> None:
    assert compare_live(measured(Identity(), Bounds()), make_report()).valid == {}
    blind = replace(make_report(), last_window=None, info={}, nvml=None)
    assert compare_live(measured(), blind).valid == {}
