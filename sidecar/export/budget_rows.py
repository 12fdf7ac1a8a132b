"""Rows about budgets: the cache of each engine, admission, GPU memory, and the lever."""

from collections.abc import Callable, Iterable, Iterator

from sidecar.catalog import exported
from sidecar.export.bounded import Row, Rows, Scene
from sidecar.model.advice import Lever
from sidecar.model.budget import Budget, GpuBudget


def of_engines(figure: Callable[[Budget], float | None]) -> Rows:
    """One figure of each engine that is shown apart; folded engines have none together."""
    return lambda scene: [((name,), figure(budget)) for name, budget in scene.budgets.items()]


def limit_rows(scene: Scene) -> Iterator[Row]:
    """The server's limits that are known."""
    limits = {} if scene.window is None else scene.window.limits
    for limit in exported.ADMISSION_LIMITS:
        if limit in limits:
            yield (limit.value,), limits[limit].value


def lever_rows(scene: Scene) -> Iterable[Row]:
    """Every lever, 1 for the one that is advised; ``none`` before the first window."""
    advised = scene.report.advice.lever
    return [((lever.value,), float(lever is advised)) for lever in Lever]


def budgets_by_gpu(scene: Scene) -> dict[int, GpuBudget]:
    """What the last window tells of each GPU, by its index."""
    return {} if scene.window is None else {gpu.index: gpu for gpu in scene.window.gpus}


def gpu_memory_rows(scene: Scene) -> Iterator[Row]:
    """Memory of each GPU, and whose it is where that is told."""
    budgets = budgets_by_gpu(scene)
    for gpu in scene.gpus:
        index = str(gpu.index)
        yield (index, "total"), gpu.total
        yield (index, "used"), gpu.used
        yield (index, "free"), gpu.free
        yield (index, "reserved"), gpu.reserved
        if gpu.index in budgets:
            yield (index, "vllm"), budgets[gpu.index].vllm
            yield (index, "cotenant"), budgets[gpu.index].cotenant


def gpu_free_rows(scene: Scene) -> Iterable[Row]:
    """What was free on each GPU all the time."""
    budgets = budgets_by_gpu(scene)
    return [
        ((str(gpu.index),), budgets[gpu.index].free_durable)
        for gpu in scene.gpus
        if gpu.index in budgets
    ]


def gpu_utilization_rows(scene: Scene) -> Iterable[Row]:
    """Mean utilization of each GPU that is still shown."""
    means = {} if scene.window is None else scene.window.gpu_utilization
    return [((str(gpu.index),), means.get(gpu.index)) for gpu in scene.gpus]
