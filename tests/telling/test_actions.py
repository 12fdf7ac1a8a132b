"""Every cause has something to do, and look-alikes have opposite remedies."""

import pytest

from sidecar.model.vocabulary import Cause, Kind
from sidecar.telling.actions import ACTIONS, action_for


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_an_action(cause: Cause) -> None:
    kinds = [kind for one, kind in ACTIONS if one is cause] or [Kind.UNSPECIFIED]
    for kind in kinds:
        assert action_for(cause, kind) is not None


def test_the_two_kinds_of_cuda_oom_have_opposite_remedies() -> None:
    failed = ACTIONS[Cause.CUDA_OOM, Kind.ALLOCATION_FAILURE]
    refused = ACTIONS[Cause.CUDA_OOM, Kind.CAPACITY_REJECTION]
    assert "lower --gpu-memory-utilization" in failed.do
    assert "raise --gpu-memory-utilization" in refused.do
    assert "raise --gpu-memory-utilization" in failed.never
    assert "lower --gpu-memory-utilization" in refused.never
