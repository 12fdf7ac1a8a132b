"""A window -> what is odd about where the server runs."""

from dataclasses import replace

import pytest

from sidecar.catalog import vllm_metrics as roles
from sidecar.derive.placement import Placement, find_placement, placement
from sidecar.model.budget import GpuBudget, Sight
from sidecar.model.vocabulary import Phase, ServerState
from sidecar.model.window import EngineWindow, Spread, Window

HOME = GpuBudget(index=0, utilization=0.0, expected=True, sight=Sight.SEEN)
EMPTY = GpuBudget(index=1, utilization=0.0, sight=Sight.SEEN)


@pytest.mark.parametrize(
    ("gpus", "flow", "configured", "found"),
    [
        ((HOME,), True, None, (Placement.IDLE_WHILE_SERVING,)),
        ((HOME,), False, None, ()),
        ((HOME, replace(HOME, index=1, utilization=0.01)), True, None, ()),
        ((replace(HOME, utilization=None),), True, None, ()),
        ((EMPTY,), True, None, ()),
        ((), True, None, ()),
        ((replace(HOME, utilization=1.0),), True, (1,), (Placement.MEMORY_ELSEWHERE,)),
        ((HOME,), False, (0,), ()),
        ((EMPTY,), True, (1,), (Placement.MEMORY_ELSEWHERE,)),
        ((EMPTY,), False, (1,), ()),
        ((EMPTY,), True, (1, 2), ()),
        ((replace(EMPTY, sight=Sight.OTHER_NAMESPACE),), True, (1,), ()),
        ((), True, (), ()),
        ((HOME,), True, (1,), (Placement.IDLE_WHILE_SERVING, Placement.MEMORY_ELSEWHERE)),
    ],
)
def test_odd_places_are_told_in_closed_words(
    gpus: tuple[GpuBudget, ...],
    flow: bool,  # noqa: FBT001  (a parameter of the test)
    configured: tuple[int, ...] | None,
    found: tuple[Placement, ...],
) -> None:
    assert placement(gpus, tokens_flow=flow, configured=configured) == found


BUSY = EngineWindow(
    deltas={roles.GENERATION_TOKENS: 500.0}, gauges={roles.RUNNING: Spread(1.0, 3.0, 6.0, 2.0)}
)
WINDOW = Window(
    start=0.0,
    end=10.0,
    partial=False,
    state=ServerState.SERVING,
    phase=Phase.RUNTIME,
    engines={"0": BUSY},
    evidence=(),
    sources={},
    found=frozenset(),
    served=True,
    gpus=(HOME,),
)


def test_an_idle_gpu_is_odd_only_where_work_went_on_all_through_the_window() -> None:
    idle = replace(BUSY, gauges={roles.RUNNING: Spread(0.0, 3.0, 6.0, 2.0)})
    assert find_placement(WINDOW) == (Placement.IDLE_WHILE_SERVING,)
    for other in (
        replace(WINDOW, engines={"0": idle}),
        replace(WINDOW, engines={"0": replace(BUSY, deltas={})}),
        replace(WINDOW, engines={"0": replace(BUSY, gauges={})}),
        replace(WINDOW, engines={}),
        replace(WINDOW, stalled_s=2.0),
        replace(WINDOW, partial=True),
        replace(WINDOW, restarted=True),
        replace(WINDOW, gpus=(replace(HOME, utilization=0.01),)),
    ):
        assert find_placement(other) == ()
