"""Samples of whatever this server calls its metrics -> one reading in canonical roles.

Which series are there hardly changes between scrapes: what each of them means for the reading is
worked out once, as a ``Layout``, and the next scrape only fills in its numbers.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from sidecar.catalog import vllm_metrics as names
from sidecar.catalog.vllm_metrics import NAMINGS, ROLES, Shape
from sidecar.model.readings import EngineReading, Histogram, MetricsReading

OTHER = "other"
ENGINE_NAME = re.compile(r"[0-9A-Za-z_.-]{1,32}")
CORE = frozenset(
    {names.RUNNING, names.WAITING, names.KV_USAGE, names.PREEMPTIONS, names.GENERATION_TOKENS}
)
"""Roles that tell a vLLM server from any other exporter."""
CORE_WITHOUT_PREFIX = 3
"""So many core names must stand together before names without any prefix are believed."""
MAX_TEXT = 64


class Part(Enum):
    """Which number of a family a series carries."""

    VALUE = "value"
    BUCKET = "bucket"
    SUM = "sum"
    COUNT = "count"
    CREATED = "created"


@dataclass(frozen=True, slots=True)
class Series:
    """One series of vLLM's. ``role`` None: it has vLLM's prefix, but a name we have no use for."""

    naming: str
    role: str | None
    name_rank: int = 0
    part: Part = Part.VALUE
    engine: str | None = None
    model: str = ""
    pid: str = ""
    bound: float = math.inf
    outcome: str | None = None
    info: tuple[tuple[str, str], ...] = ()


def index_names() -> dict[str, tuple[str, int, Part]]:
    """Every bare name a role can appear under -> role, rank of the name, part."""
    table: dict[str, tuple[str, int, Part]] = {
        names.CONFIG_INFO: (names.CONFIG_INFO, 0, Part.VALUE),
        names.SLEEP_STATE: (names.SLEEP_STATE, 0, Part.VALUE),
    }
    for role in ROLES:
        for rank, name in enumerate(role.names):
            if role.shape is Shape.HISTOGRAM:
                table[f"{name}_bucket"] = (role.role, rank, Part.BUCKET)
                table[f"{name}_sum"] = (role.role, rank, Part.SUM)
                table[f"{name}_count"] = (role.role, rank, Part.COUNT)
            elif role.shape is Shape.COUNTER:
                table[name] = (role.role, rank, Part.VALUE)
                table[f"{name}_total"] = (role.role, rank, Part.VALUE)
                table[f"{name}_created"] = (role.role, rank, Part.CREATED)
            else:
                table[name] = (role.role, rank, Part.VALUE)
    return table


NAME_INDEX = index_names()
PARTS_OF = dict.fromkeys(names.WAITING_REASONS.values(), names.WAITING_BY_REASON)
"""Values that a label of one family keeps apart -> the role of that family."""
NAMES_OF = {role.role: role.names for role in ROLES}
SHAPES = {role.role: role.shape for role in ROLES} | dict.fromkeys(PARTS_OF, Shape.GAUGE)


def split_name(name: str) -> tuple[str, str]:
    """The server's prefix and the bare name. The longest prefix wins; "" if none fits."""
    for naming in sorted(NAMINGS, key=len, reverse=True):
        if naming and name.startswith(naming):
            return naming, name[len(naming) :]
    return "", name


def name_series(name: str, labels: Mapping[str, str]) -> Series | None:
    """What a series means, None for another program's."""
    if name == names.PROCESS_START:
        return Series(naming="", role=names.PROCESS_START)
    naming, bare = split_name(name)
    known = NAME_INDEX.get(bare)
    if known is None:
        return Series(naming=naming, role=None) if naming else None
    role, rank, part = known
    bound = math.inf
    if part is Part.BUCKET:
        try:
            bound = float(labels["le"])
        except (KeyError, ValueError):
            return None
    return Series(
        naming=naming,
        role=tell_part(role, labels),
        name_rank=rank,
        part=part,
        engine=labels.get("engine"),
        model=labels.get("model_name", ""),
        pid=labels.get("pid", ""),
        bound=bound,
        outcome=labels.get("sleep_state") or known_reason(labels.get("finished_reason")),
        info=keep_info(labels) if role == names.CONFIG_INFO else (),
    )


def tell_part(role: str, labels: Mapping[str, str]) -> str | None:
    """What a series is kept as: its role, or the part of it that its reason names; None for others."""
    if role != names.WAITING_BY_REASON:
        return role
    return names.WAITING_REASONS.get(labels.get("reason", ""))


def known_reason(reason: str | None) -> str | None:
    """Why a request finished; a reason of a later release is ``other``."""
    return reason if reason is None or reason in names.FINISHED_REASONS else OTHER


def keep_info(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The configuration that is kept: a closed list of keys, short values, nothing unset."""
    return tuple(
        (key, labels[key][:MAX_TEXT])
        for key in names.CONFIG_KEYS
        if labels.get(key, "None") != "None"
    )


def choose_naming(seen: Iterable[Series]) -> str | None:
    """The one prefix whose names are used; two are never added together."""
    roles: dict[str, set[str]] = defaultdict(set)
    for series in seen:
        if series.role in CORE or series.role == names.CONFIG_INFO:
            roles[series.naming].add(series.role)
    if len(roles.get("", set()) & CORE) < CORE_WITHOUT_PREFIX:
        roles.pop("", None)
    return max(roles, key=lambda naming: (len(roles[naming]), -NAMINGS.index(naming)), default=None)


@dataclass(frozen=True, slots=True)
class Cell:
    """Places whose numbers make one value: added, or the greatest of them taken."""

    places: tuple[int, ...]
    greatest: bool = False

    def value(self, numbers: Sequence[float]) -> float:
        """The value in this scrape."""
        taken = [numbers[place] for place in self.places]
        return max(taken) if self.greatest else sum(taken)


@dataclass(frozen=True, slots=True)
class HistogramCells:
    """Places of one histogram; ``total`` is None where the server shows no sum."""

    buckets: tuple[tuple[float, Cell], ...]
    count: Cell
    total: Cell | None

    def value(self, numbers: Sequence[float]) -> Histogram:
        """The histogram in this scrape."""
        return Histogram(
            buckets=tuple((bound, cell.value(numbers)) for bound, cell in self.buckets),
            count=self.count.value(numbers),
            total=0.0 if self.total is None else self.total.value(numbers),
        )


@dataclass(frozen=True, slots=True)
class EngineLayout:
    """Places of one engine's values. A value is a sum of cells: one for each model."""

    values: Mapping[str, tuple[Cell, ...]]
    histograms: Mapping[str, HistogramCells]
    outcomes: Mapping[str, Cell]

    def reading(self, numbers: Sequence[float]) -> EngineReading:
        """The engine in this scrape."""
        return EngineReading(
            values={
                role: sum(cell.value(numbers) for cell in cells)
                for role, cells in self.values.items()
            },
            histograms={role: cells.value(numbers) for role, cells in self.histograms.items()},
            outcomes={reason: cell.value(numbers) for reason, cell in self.outcomes.items()},
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """What the series of a scrape mean, by their place in it."""

    series: Sequence[Series]
    naming: str | None = None
    engines: Mapping[str, EngineLayout] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    idle_v0: bool = False
    generation: str | None = None
    epoch: Mapping[str, int] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)
    awake: tuple[int, ...] = ()
    ours: int = 0

    def reading(self, numbers: Sequence[float]) -> MetricsReading:
        """The reading with the numbers of one scrape."""
        return MetricsReading(
            naming=self.naming,
            found=frozenset(self.names),
            names=self.names,
            engines={name: engine.reading(numbers) for name, engine in self.engines.items()},
            idle_v0=self.idle_v0,
            generation=self.generation,
            epoch={mark: numbers[place] for mark, place in self.epoch.items()},
            info=self.info,
            sleeping=any(numbers[place] == 0 for place in self.awake),
            samples=len(self.series),
            series_seen=self.ours,
        )


@dataclass(slots=True)
class EngineDraft:
    """An engine's layout while its series are being sorted."""

    values: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    copies: set[tuple[str, str]] = field(default_factory=set)
    buckets: dict[str, dict[float, list[int]]] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=dict)
    totals: dict[str, list[int]] = field(default_factory=dict)
    outcomes: dict[str, list[int]] = field(default_factory=dict)

    def add(self, series: Series, role: str, place: int) -> None:
        """Sort one series in."""
        match series.part:
            case Part.VALUE:
                self.add_value(series, role, place)
            case Part.BUCKET:
                at = self.buckets.setdefault(role, {})
                at.setdefault(series.bound, []).append(place)
            case Part.COUNT:
                self.counts.setdefault(role, []).append(place)
            case Part.SUM:
                self.totals.setdefault(role, []).append(place)
            case Part.CREATED:
                pass

    def add_value(self, series: Series, role: str, place: int) -> None:
        """Sort a counter or gauge in. Several processes' (``pid``) copies of a gauge are one."""
        by_model = self.values.setdefault(role, {})
        if SHAPES[role] is Shape.GAUGE:
            by_model.setdefault(series.model, []).append(place)
            if series.pid:
                self.copies.add((role, series.model))
            return
        by_model.setdefault("", []).append(place)
        if role == names.FINISHED and series.outcome is not None:
            self.outcomes.setdefault(series.outcome, []).append(place)

    def finish(self) -> EngineLayout:
        """The engine's layout."""
        return EngineLayout(
            values={
                role: tuple(
                    Cell(
                        tuple(places),
                        greatest=SHAPES[role] is Shape.RATIO or (role, model) in self.copies,
                    )
                    for model, places in by_model.items()
                )
                for role, by_model in self.values.items()
            },
            histograms={
                role: HistogramCells(
                    buckets=tuple(
                        (bound, Cell(tuple(at)))
                        for bound, at in sorted(self.buckets.get(role, {}).items())
                    ),
                    count=Cell(tuple(places)),
                    total=Cell(tuple(self.totals[role])) if role in self.totals else None,
                )
                for role, places in self.counts.items()
            },
            outcomes={reason: Cell(tuple(places)) for reason, places in self.outcomes.items()},
        )


def lay_out(series: Sequence[Series], engines_of: Callable[[set[str]], Sequence[str]]) -> Layout:
    """Work out what the series of a scrape mean. ``engines_of`` says which engines are shown."""
    naming = choose_naming(series)
    starts = [place for place, one in enumerate(series) if one.role == names.PROCESS_START]
    # Several processes behind one address (Ray) tell no start of a server.
    epoch = {names.PROCESS_START: starts[0]} if len(starts) == 1 else {}
    if naming is None:
        return Layout(series=series, epoch=epoch)
    ours = [(place, one) for place, one in enumerate(series) if one.naming == naming]
    used = newest_names(one for _, one in ours)
    kept = [
        (place, one)
        for place, one in ours
        if one.role in SHAPES and one.name_rank == used.get(one.role)
    ]
    config = [one for _, one in ours if one.role == names.CONFIG_INFO]
    labels = {engine_of(one) for _, one in kept if one.engine is not None}
    engines = draft_engines(kept, engines_of(labels - {OTHER}))
    epoch.update(
        {
            f"{one.role}/{one.engine}/{one.model}/{one.outcome}/{one.pid}": place
            for place, one in ours
            if one.part is Part.CREATED
        }
    )
    return Layout(
        series=series,
        naming=naming,
        engines=engines,
        names={
            PARTS_OF.get(role, role): naming + NAMES_OF[PARTS_OF.get(role, role)][used[role]]
            for engine in engines.values()
            for role in (*engine.values, *engine.histograms)
        },
        idle_v0=bool(config)
        and all(one.role == names.CONFIG_INFO and one.engine is None for _, one in ours),
        generation="v1" if any(one.engine is not None for _, one in ours) else None,
        epoch=epoch,
        info=read_info(config, kept),
        awake=tuple(
            place for place, one in ours if one.role == names.SLEEP_STATE and one.outcome == "awake"
        ),
        ours=len(ours),
    )


def draft_engines(
    kept: Sequence[tuple[int, Series]], shown: Sequence[str]
) -> dict[str, EngineLayout]:
    """One layout per engine that is shown.

    Of the engines beyond the bound, folded into ``other``, gauges are kept only: which engines they
    are may change, and a sum of counters over changing members rises and falls by itself.
    """
    default = shown[0] if shown else "0"
    drafts: dict[str, EngineDraft] = {}
    for place, one in kept:
        engine = default if one.engine is None else engine_of(one)
        engine = engine if engine in shown or engine == default else OTHER
        if one.role is None or one.part is Part.CREATED:
            continue
        if engine == OTHER and SHAPES[one.role] in {Shape.COUNTER, Shape.HISTOGRAM}:
            continue
        drafts.setdefault(engine, EngineDraft()).add(one, one.role, place)
    return {engine: drafts[engine].finish() for engine in sorted(drafts)}


def engine_of(series: Series) -> str:
    """The engine's label, ``other`` where it is not a plain short word."""
    text = series.engine or ""
    return text if ENGINE_NAME.fullmatch(text) else OTHER


def newest_names(series: Iterable[Series]) -> dict[str, int]:
    """For each role the rank of the newest name present: duplicates of eras are not added."""
    used: dict[str, int] = {}
    for one in series:
        if one.role is not None and one.part is not Part.CREATED:
            used[one.role] = min(one.name_rank, used.get(one.role, one.name_rank))
    return used


def read_info(config: Sequence[Series], kept: Sequence[tuple[int, Series]]) -> dict[str, str]:
    """Facts for ``target_info``: a closed set of keys."""
    info = dict(config[0].info) if config else {}
    model = next((one.model for _, one in kept if one.model), None)
    if model is not None:
        info["model_name"] = model[:MAX_TEXT]
    return info
