"""A window -> what is odd about where the server runs. Pure."""

from collections.abc import Collection, Iterable
from enum import StrEnum

from sidecar.catalog import vllm_metrics as roles
from sidecar.model.budget import GpuBudget, Sight
from sidecar.model.window import EngineWindow, Window


class Placement(StrEnum):
    """What is odd about where the server runs."""

    IDLE_WHILE_SERVING = "idle_while_serving"
    """Tokens flow, and no GPU that holds the server's processes works."""
    MEMORY_ELSEWHERE = "memory_elsewhere"
    """The server is on other GPUs than those that were configured."""


def find_placement(window: Window) -> tuple[Placement, ...]:
    """What a window shows of it. Which GPUs were configured is not known to a window."""
    flow = (
        not window.partial
        and not window.restarted
        and window.stalled_s == 0
        and any(has_worked(engine) for engine in window.engines.values())
    )
    return placement(window.gpus, tokens_flow=flow)


def has_worked(engine: EngineWindow) -> bool:
    """Whether requests ran at every sample of the window, and tokens were made."""
    running = engine.gauges.get(roles.RUNNING)
    made = engine.deltas.get(roles.GENERATION_TOKENS, 0.0)
    return running is not None and running.least > 0 and made > 0


def placement(
    gpus: Iterable[GpuBudget],
    *,
    tokens_flow: bool,
    configured: Collection[int] | None = None,
) -> tuple[Placement, ...]:
    """What is odd about where the server runs; empty where nothing is, or nothing can be told.

    ``gpus``: of a window, whose ``utilization`` is the mean over its samples. ``tokens_flow``: tokens
    were made all through the window; a single short answer may fall between two samples.
    ``configured``: indexes of the GPUs that the server was given, None where that is not known.
    """
    every = tuple(gpus)
    homes = [gpu for gpu in every if gpu.expected]
    found = []
    if tokens_flow and homes and all(gpu.utilization == 0 for gpu in homes):
        found.append(Placement.IDLE_WHILE_SERVING)
    if configured is not None and is_elsewhere(every, configured, tokens_flow=tokens_flow):
        found.append(Placement.MEMORY_ELSEWHERE)
    return tuple(found)


def is_elsewhere(
    gpus: Collection[GpuBudget], configured: Collection[int], *, tokens_flow: bool
) -> bool:
    """Whether the server is on a GPU outside of those configured.

    It is seen there; or it makes tokens, and every GPU that was configured shows that it is not on
    it, since only those are read.
    """
    if any(gpu.expected and gpu.index not in configured for gpu in gpus):
        return True
    inside = {gpu.index: gpu for gpu in gpus if gpu.index in configured}
    return (
        tokens_flow
        and bool(configured)
        and all(index in inside for index in configured)
        and all(gpu.sight is Sight.SEEN and not gpu.expected for gpu in inside.values())
    )
