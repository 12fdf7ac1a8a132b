"""A report made ready to be shown: engines and GPUs cut to what the series budget allows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sidecar.catalog import exported
from sidecar.catalog import vllm_metrics as roles
from sidecar.model.budget import Budget
from sidecar.model.readings import Gpu, Histogram
from sidecar.model.report import EvidenceKey, Report
from sidecar.model.window import EngineWindow, Spread, Window
from sidecar.telling.plain import order_engine, plain_engine

Row = tuple[tuple[str, ...], float | None]
"""Label values in the family's order, and the value; None is not measured and not shown."""

GPU_INDEXES = 10_000
"""NVML numbers GPUs from 0; nothing beyond this is an index."""
RATIO_ROLES = frozenset(role.role for role in roles.ROLES if role.shape is roles.Shape.RATIO)


@dataclass(frozen=True, slots=True)
class Scene:
    """A report made ready to be shown: engines and GPUs within their limits."""

    report: Report
    evidence_keys: tuple[EvidenceKey, ...]
    evidence_labels: tuple[tuple[str, ...], ...]
    engines: Mapping[str, EngineWindow]
    engines_folded: int
    gpus: tuple[Gpu, ...]
    gpus_hidden: int
    budgets: Mapping[str, Budget]
    """Of the engines that are shown apart."""

    @property
    def window(self) -> Window | None:
        """The last closed window."""
        return None if self.report.last_window is None else self.report.last_window.window


Rows = Callable[[Scene], Iterable[Row]]


def add_spreads(role: str, parts: Sequence[Spread]) -> Spread:
    """Several engines' gauges as one: the fullest of ratios, the sum of counts."""
    unite = max if role in RATIO_ROLES else sum
    return Spread(
        least=unite([part.least for part in parts]),
        mean=unite([part.mean for part in parts]),
        greatest=unite([part.greatest for part in parts]),
        last=unite([part.last for part in parts]),
    )


def fold_engines(parts: Sequence[EngineWindow]) -> EngineWindow:
    """Several engines as one, without their histograms (latencies are over all engines anyway)."""
    deltas: dict[str, float] = {}
    outcomes: dict[str, float] = {}
    gauges: dict[str, list[Spread]] = {}
    for part in parts:
        for role, rise in part.deltas.items():
            deltas[role] = deltas.get(role, 0.0) + rise
        for reason, rise in part.outcomes.items():
            outcomes[reason] = outcomes.get(reason, 0.0) + rise
        for role, spread in part.gauges.items():
            gauges.setdefault(role, []).append(spread)
    no_histograms: dict[str, Histogram] = {}
    return EngineWindow(
        deltas=deltas,
        gauges={role: add_spreads(role, spreads) for role, spreads in gauges.items()},
        histograms=no_histograms,
        outcomes=outcomes,
    )


def choose_engines(
    engines: Mapping[str, EngineWindow], limit: int
) -> tuple[Mapping[str, EngineWindow], int]:
    """At most ``limit`` engines by their names, the rest folded into ``other``; how many that is."""
    plain = sorted(
        (name for name in engines if plain_engine(name) == name != exported.OTHER),
        key=order_engine,
    )
    shown = {name: engines[name] for name in plain[:limit]}
    rest = [engine for name, engine in engines.items() if name not in shown]
    if rest:
        shown[exported.OTHER] = fold_engines(rest)
    return shown, len(rest)


def set_scene(
    report: Report,
    evidence_keys: tuple[EvidenceKey, ...],
    limit: int,
    *,
    labels: tuple[tuple[str, ...], ...],
) -> Scene:
    """The report with engines, at most ``limit``, and GPUs cut to what the series budget allows.

    ``labels``: of the ``evidence_keys``, in their order.
    """
    last = report.last_window
    window = None if last is None else last.window
    budgets = {} if last is None else last.budgets
    engines, folded = choose_engines({} if window is None else window.engines, limit)
    watched = () if report.nvml is None else report.nvml.gpus
    by_index = {gpu.index: gpu for gpu in watched}
    gpus = [by_index[index] for index in sorted(by_index) if 0 <= index < GPU_INDEXES]
    return Scene(
        report=report,
        evidence_keys=evidence_keys,
        evidence_labels=labels,
        engines=engines,
        engines_folded=folded,
        gpus=tuple(gpus[: exported.GPU_LIMIT]),
        gpus_hidden=len(watched) - len(gpus[: exported.GPU_LIMIT]),
        budgets={
            name: budgets[name] for name in engines if name in budgets and name != exported.OTHER
        },
    )
