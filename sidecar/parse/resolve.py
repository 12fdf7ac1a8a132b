"""Samples of whatever this server calls its metrics -> one reading in canonical roles."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from sidecar.catalog import vllm_metrics as names
from sidecar.catalog.vllm_metrics import NAMINGS, ROLES, Shape
from sidecar.model.readings import EngineReading, Histogram, MetricsReading
from sidecar.parse.exposition import SampleReader

OTHER_ENGINE = "other"
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
SHAPES = {role.role: role.shape for role in ROLES}


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
        role=role,
        name_rank=rank,
        part=part,
        engine=labels.get("engine"),
        model=labels.get("model_name", ""),
        pid=labels.get("pid", ""),
        bound=bound,
        outcome=labels.get("finished_reason") or labels.get("sleep_state"),
        info=keep_info(labels) if role == names.CONFIG_INFO else (),
    )


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


@dataclass(slots=True)
class EngineSums:
    """Samples of one engine while they are being added up."""

    single: dict[str, dict[str, float]] = field(default_factory=dict)
    buckets: dict[str, dict[float, float]] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    outcomes: dict[str, float] = field(default_factory=dict)

    def add(self, series: Series, role: str, value: float) -> None:
        """Add one sample. Several processes' (``pid``) copies of a gauge are one value."""
        match series.part:
            case Part.VALUE:
                self.add_value(series, role, value)
            case Part.BUCKET:
                at = self.buckets.setdefault(role, {})
                at[series.bound] = at.get(series.bound, 0.0) + value
            case Part.COUNT:
                self.counts[role] = self.counts.get(role, 0.0) + value
            case Part.SUM:
                self.totals[role] = self.totals.get(role, 0.0) + value
            case Part.CREATED:
                pass

    def add_value(self, series: Series, role: str, value: float) -> None:
        """Add one counter or gauge sample."""
        cells = self.single.setdefault(role, {})
        if SHAPES.get(role) is Shape.COUNTER:
            cells[""] = cells.get("", 0.0) + value
            if role == names.FINISHED and series.outcome is not None:
                reason = series.outcome
                self.outcomes[reason] = self.outcomes.get(reason, 0.0) + value
        elif SHAPES.get(role) is Shape.RATIO:
            cells[""] = max(cells.get("", 0.0), value)
        else:
            so_far = cells.get(series.model, 0.0)
            cells[series.model] = max(so_far, value) if series.pid else so_far + value

    def reading(self) -> EngineReading:
        """The engine's values."""
        return EngineReading(
            values={role: sum(cells.values()) for role, cells in self.single.items()},
            histograms={
                role: Histogram(
                    buckets=tuple(sorted(self.buckets.get(role, {}).items())),
                    count=count,
                    total=self.totals.get(role, 0.0),
                )
                for role, count in self.counts.items()
            },
            outcomes=dict(self.outcomes),
        )


def is_measured(value: float) -> bool:
    """NaN, infinities and negative numbers are no measurement of any role we read."""
    return math.isfinite(value) and value >= 0


class ExpositionReader:
    """Reads one server's expositions into canonical roles.

    At most ``max_engines`` engines are kept apart; the others are folded into ``other``.
    """

    def __init__(self, *, max_engines: int = 64) -> None:
        self.max_engines = max_engines
        self.samples = SampleReader(name_series)

    def read(self, body: bytes, content_type: str) -> MetricsReading:
        """Read one exposition.

        Raises:
            ValueError: it is not UTF-8, cut short, or no exposition.
        """
        seen = list(self.samples.read(body, content_type))
        naming = choose_naming(series for series, _ in seen)
        ours = [
            (series, value)
            for series, value in seen
            if series.naming == naming and series.role is not None
        ]
        others = sum(1 for series, _ in seen if series.naming == naming and series.role is None)
        if naming is None:
            return MetricsReading(
                naming=None,
                found=frozenset(),
                engines={},
                epoch=process_start(seen),
                samples=len(seen),
            )
        return self.resolve(naming, ours, others, process_start(seen))

    def resolve(
        self,
        naming: str,
        ours: list[tuple[Series, float]],
        others: int,
        epoch: dict[str, float],
    ) -> MetricsReading:
        """Add up the samples of the chosen naming."""
        used = newest_names(ours)
        config = [series for series, _ in ours if series.role == names.CONFIG_INFO]
        rest = [
            (series, value)
            for series, value in ours
            if series.role in SHAPES
            and series.name_rank == used.get(series.role)
            and is_measured(value)
        ]
        engines = self.fold_engines(rest)
        for series, value in ours:
            if series.part is Part.CREATED and is_measured(value):
                epoch[f"{series.role}/{series.engine}"] = value
        return MetricsReading(
            naming=naming,
            found=frozenset(role for e in engines.values() for role in (*e.values, *e.histograms)),
            engines=engines,
            idle_v0=bool(config)
            and not rest
            and not others
            and all(series.engine is None for series in config),
            generation="v1" if any(series.engine is not None for series, _ in ours) else None,
            epoch=epoch,
            info=read_info(config, rest),
            sleeping=any(
                series.role == names.SLEEP_STATE and series.outcome == "awake" and value == 0
                for series, value in ours
            ),
            samples=len(ours) + others,
            series_seen=len(ours) + others,
        )

    def fold_engines(self, samples: list[tuple[Series, float]]) -> dict[str, EngineReading]:
        """One reading per engine, the overflow in ``other``."""
        labels = {engine_of(series) for series, _ in samples if series.engine is not None}
        kept = set(sorted(labels, key=lambda text: (len(text), text))[: self.max_engines])
        default = min(kept, key=lambda text: (len(text), text), default="0")
        sums: dict[str, EngineSums] = {}
        for series, value in samples:
            engine = default if series.engine is None else engine_of(series)
            engine = engine if engine in kept or engine == default else OTHER_ENGINE
            if series.role is not None and series.part is not Part.CREATED:
                sums.setdefault(engine, EngineSums()).add(series, series.role, value)
        return {engine: sums[engine].reading() for engine in sorted(sums)}


def engine_of(series: Series) -> str:
    """The engine's label, ``other`` where it is not a plain short word."""
    text = series.engine or ""
    return text if ENGINE_NAME.fullmatch(text) else OTHER_ENGINE


def newest_names(samples: list[tuple[Series, float]]) -> dict[str, int]:
    """For each role the rank of the newest name present: duplicates of eras are not added."""
    used: dict[str, int] = {}
    for series, value in samples:
        if series.role is not None and series.part is not Part.CREATED and is_measured(value):
            used[series.role] = min(series.name_rank, used.get(series.role, series.name_rank))
    return used


def process_start(samples: list[tuple[Series, float]]) -> dict[str, float]:
    """The start time of the one process that answers, where it tells one."""
    starts = {value for series, value in samples if series.role == names.PROCESS_START}
    return {names.PROCESS_START: starts.pop()} if len(starts) == 1 else {}


def read_info(config: list[Series], samples: list[tuple[Series, float]]) -> dict[str, str]:
    """Facts for ``target_info``: a closed set of keys."""
    info = dict(config[0].info) if config else {}
    model = next((series.model for series, _ in samples if series.model), None)
    if model is not None:
        info["model_name"] = model[:MAX_TEXT]
    return info
