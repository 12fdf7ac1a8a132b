"""A report as an exposition: rows for every family of the table, rendered once per encoding."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import is_

from isal import isal_zlib
from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest as render_text
from prometheus_client.openmetrics.exposition import generate_latest as render_openmetrics

from sidecar.catalog import exported, series_budget
from sidecar.catalog import vllm_metrics as roles
from sidecar.catalog.family import Family
from sidecar.catalog.source_faults import SHOWN_AS, SOURCE_FAULTS
from sidecar.derive import latency
from sidecar.export import budget_rows, envelope_rows, host_rows
from sidecar.export.bounded import Row, Rows, Scene, set_scene
from sidecar.export.build import build_rows
from sidecar.export.render import Renderer
from sidecar.model.report import EvidenceKey, Report, SourceStatus
from sidecar.model.vocabulary import Fault
from sidecar.model.window import Window
from sidecar.parse.quantity import finite
from sidecar.telling.plain import plain_text

GZIP_LEVEL = 1
GZIP_WINDOW = 31
"""zlib's ``wbits`` of the largest window in gzip's format."""
Tables = Sequence[tuple[Family, Sequence[Row]]]
PROCESS_NAMES = frozenset(name.removesuffix("_total") for name in exported.PROCESS_FAMILIES)


class Format(StrEnum):
    """The content types that are offered."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def single(value: Callable[[Scene], float | None]) -> Rows:
    """The only row of a family without labels."""
    return lambda scene: [((), value(scene))]


def each_state(family: Family, holding: Callable[[Report], Collection[tuple[str, ...]]]) -> Rows:
    """A complete state set: 1 for the combinations that are ``holding``, 0 for all others."""
    combinations = family.combinations

    def rows(scene: Scene) -> Iterable[Row]:
        held = holding(scene.report)
        return [(values, float(values in held)) for values in combinations]

    return rows


def window_end(scene: Scene) -> float | None:
    """The end of the last closed window."""
    return None if scene.window is None else scene.window.end


def windows_rows(scene: Scene) -> Iterable[Row]:
    """Closed windows by verdict."""
    totals = {verdict.value: count for verdict, count in scene.report.windows_total.items()}
    return [(values, totals.get(values[0], 0)) for values in exported.WINDOWS.combinations]


def evidence_rows(scene: Scene) -> Iterable[Row]:
    """Every key of the closed set, from 0."""
    totals = scene.report.evidence_total
    # The totals are mostly kept in the order of the closed set: then no key need be looked up.
    is_ordered = len(totals) == len(scene.evidence_keys) and all(
        map(is_, totals, scene.evidence_keys)
    )
    amounts = totals.values() if is_ordered else map(totals.get, scene.evidence_keys)
    for labels, total in zip(scene.evidence_labels, amounts, strict=True):
        amount = finite(total)
        yield labels, max(0.0, amount or 0.0)


def last_evidence_rows(scene: Scene) -> Iterable[Row]:
    """The causes that evidence was ever seen for."""
    return [((cause.value,), at) for cause, at in sorted(scene.report.last_evidence.items())]


def preemption_rows(scene: Scene) -> Iterable[Row]:
    """Preemptions of each engine."""
    return [
        ((name,), engine.deltas.get(roles.PREEMPTIONS)) for name, engine in scene.engines.items()
    ]


def per_request_rows(scene: Scene) -> Iterable[Row]:
    """Preemptions per finished request of each engine."""
    return [
        ((name,), latency.preemptions_per_request(engine)) for name, engine in scene.engines.items()
    ]


def outcome_rows(scene: Scene) -> Iterable[Row]:
    """Ended requests by outcome."""
    if scene.window is None:
        return []
    ended = latency.count_outcomes(scene.window)
    return [((outcome.value,), ended[outcome]) for outcome in sorted(ended)]


def usage_rows(scene: Scene) -> Iterator[Row]:
    """KV usage of each engine."""
    for name, engine in scene.engines.items():
        spread = engine.gauges.get(roles.KV_USAGE)
        if spread is not None:
            yield (name, "min"), spread.least
            yield (name, "mean"), spread.mean
            yield (name, "max"), spread.greatest


def request_rows(scene: Scene) -> Iterator[Row]:
    """Requests that run and wait on each engine."""
    for name, engine in scene.engines.items():
        for state, role in (("running", roles.RUNNING), ("waiting", roles.WAITING)):
            if role in engine.gauges:
                yield (name, state), engine.gauges[role].last


def latency_rows(scene: Scene) -> Iterator[Row]:
    """Quantiles of each latency."""
    measured = {} if scene.window is None else latency.measure_latency(scene.window)
    for role, found in measured.items():
        for share, value in found.quantiles.items():
            yield (role, str(share)), value


def throughput_rows(scene: Scene) -> Iterable[Row]:
    """Tokens per second by kind."""
    rates = {} if scene.window is None else latency.measure_throughput(scene.window)
    return [((kind,), rate) for kind, rate in rates.items()]


def info_rows(scene: Scene) -> Iterable[Row]:
    """The server's facts, if any is known."""
    info = scene.report.info
    values = tuple(plain_text(info.get(name, "")) for name in exported.INFO_LABELS)
    return [(values, 1.0)] if any(values) else []


def duration_rows(scene: Scene) -> Iterable[Row]:
    """How long each source took."""
    return [
        ((source.value,), status.duration_s)
        for source, status in sorted(scene.report.sources.items())
    ]


def error_rows(scene: Scene) -> Iterable[Row]:
    """Faults of each source; those it should not have count as ``io_error``."""
    totals: dict[tuple[str, ...], float] = dict.fromkeys(exported.SOURCE_ERRORS.combinations, 0.0)
    for source, status in scene.report.sources.items():
        listed = SOURCE_FAULTS.get(source, ())
        for told, count in status.errors.items():
            fault = SHOWN_AS.get(told, told)
            key = (source.value, (fault if fault in listed else Fault.IO_ERROR).value)
            if key in totals:
                totals[key] += count
    return totals.items()


def log_drop_rows(scene: Scene) -> Iterable[Row]:
    """Dropped lines by reason, from 0."""
    totals = dict.fromkeys(exported.LOG_DROPS, 0)
    for reason, count in scene.report.log.dropped.items():
        totals[reason if reason in totals else exported.OTHER] += count
    return [((reason,), count) for reason, count in totals.items()]


def reload_success(scene: Scene) -> float | None:
    """Whether the last settings were taken."""
    reload = scene.report.reload
    return None if reload is None else float(reload.successful)


def reload_time(scene: Scene) -> float | None:
    """When settings were last taken."""
    reload = scene.report.reload
    return None if reload is None else reload.success_unix


def sources_that(holds: Callable[[SourceStatus], bool]) -> Callable[[Report], set[tuple[str]]]:
    """The sources of which something holds, as combinations of labels."""
    return lambda report: {
        (source.value,) for source, status in report.sources.items() if holds(status)
    }


def alerts_held(report: Report) -> set[tuple[str, str]]:
    """The causes that have a running episode, with its severity."""
    return {(cause.value, level.value) for cause, level in report.alerts.items()}


def seen_causes(report: Report) -> set[tuple[str]]:
    """The causes that could be seen now."""
    return {(cause.value,) for cause, seen in report.observable.items() if seen}


ROWS: tuple[tuple[Family, Rows], ...] = (
    (exported.VERDICT, each_state(exported.VERDICT, lambda report: {(report.verdict.value,)})),
    (exported.WINDOWS, windows_rows),
    (exported.WINDOW_END, single(window_end)),
    (
        exported.TARGET_STATE,
        each_state(exported.TARGET_STATE, lambda report: {(report.state.value,)}),
    ),
    (exported.ALERT, each_state(exported.ALERT, alerts_held)),
    (exported.OBSERVABLE, each_state(exported.OBSERVABLE, seen_causes)),
    (exported.EVIDENCE, evidence_rows),
    (exported.LAST_EVIDENCE, last_evidence_rows),
    (exported.LEVER, budget_rows.lever_rows),
    (exported.WINDOW_PREEMPTIONS, preemption_rows),
    (exported.WINDOW_PREEMPTIONS_PER_REQUEST, per_request_rows),
    (exported.WINDOW_RECOMPUTED, budget_rows.of_engines(lambda one: one.recomputed)),
    (exported.WINDOW_REQUESTS, outcome_rows),
    (exported.KV_CAPACITY, budget_rows.of_engines(lambda one: one.capacity)),
    (exported.KV_CAPACITY_BYTES, budget_rows.of_engines(lambda one: one.capacity_bytes)),
    (exported.KV_DEMAND, budget_rows.of_engines(lambda one: one.demand)),
    (exported.KV_HEADROOM, budget_rows.of_engines(lambda one: one.headroom)),
    (exported.KV_USAGE, usage_rows),
    (exported.TOKENS_PER_RUNNING, budget_rows.of_engines(lambda one: one.per_running)),
    (exported.SAFE_CONCURRENCY, budget_rows.of_engines(lambda one: one.safe_concurrency)),
    (exported.REQUESTS, request_rows),
    (exported.ADMISSION_LIMIT, budget_rows.limit_rows),
    (exported.ADMISSION_USED, budget_rows.of_engines(lambda one: one.admission_used)),
    (exported.LATENCY, latency_rows),
    (exported.THROUGHPUT, throughput_rows),
    (exported.GPU_MEMORY, budget_rows.gpu_memory_rows),
    (exported.GPU_FREE_DURABLE, budget_rows.gpu_free_rows),
    (exported.GPU_UTILIZATION, budget_rows.gpu_utilization_rows),
    (exported.GPUS_HIDDEN, single(lambda scene: scene.gpus_hidden)),
    (exported.ENGINES_FOLDED, single(lambda scene: scene.engines_folded)),
    (exported.HOST_MEMORY, host_rows.memory_rows),
    (exported.HOST_HEADROOM, host_rows.headroom_rows),
    (exported.HOST_GROWTH, host_rows.growth_rows),
    (exported.HOST_TIME_TO_LIMIT, host_rows.time_rows),
    (exported.HOST_EVENT, host_rows.event_rows),
    (exported.HOST_PRESSURE, host_rows.pressure_rows),
    (exported.SERVER_PROCESSES, host_rows.process_rows),
    (exported.ORPHANED_PROCESSES, host_rows.orphan_rows),
    (exported.TARGET_INFO, info_rows),
    (
        exported.METRIC_FOUND,
        each_state(exported.METRIC_FOUND, lambda report: {(role,) for role in report.found}),
    ),
    (
        exported.SOURCE_CONFIGURED,
        each_state(exported.SOURCE_CONFIGURED, sources_that(lambda one: one.configured)),
    ),
    (exported.SOURCE_UP, each_state(exported.SOURCE_UP, sources_that(lambda one: one.up))),
    (exported.SOURCE_DURATION, duration_rows),
    (exported.SOURCE_ERRORS, error_rows),
    (exported.TICKS, single(lambda scene: scene.report.clock.ticks)),
    (exported.TICKS_MISSED, single(lambda scene: scene.report.clock.missed)),
    (exported.TICK_LATENESS, single(lambda scene: scene.report.clock.lateness_s)),
    (exported.SAMPLE_SKEW, single(lambda scene: scene.report.clock.skew_s)),
    (exported.LOG_LINES, single(lambda scene: scene.report.log.lines)),
    (exported.LOG_BYTES, single(lambda scene: scene.report.log.bytes)),
    (exported.LOG_LAG, single(lambda scene: scene.report.log.lag_bytes)),
    (exported.LOG_DROPPED, log_drop_rows),
    (exported.KERNEL_LOST, single(lambda scene: scene.report.kernel_lost)),
    (exported.RELOAD_SUCCESSFUL, single(reload_success)),
    (exported.RELOAD_TIME, single(reload_time)),
    (exported.ENVELOPE_INFO, envelope_rows.info_rows),
    (exported.ENVELOPE_LIMIT, envelope_rows.limit_rows),
    (exported.ENVELOPE_VALID, envelope_rows.valid_rows),
    (exported.BUILD_INFO, build_rows),
)


OF_WINDOW = frozenset({outcome_rows, latency_rows, throughput_rows})
"""What depends on the last window alone, and is worked out once for each."""


@dataclass(frozen=True, slots=True)
class Payload:
    """An answer's body and the headers that describe it."""

    body: bytes
    headers: Mapping[str, str]


class Exposition:
    """Renders reports for scrapes, each once per content type and compression.

    ``own_process`` gives the families of our own process; it is asked once per report.
    """

    def __init__(
        self,
        evidence_keys: Sequence[EvidenceKey],
        *,
        max_engines: int = 64,
        proc_root: str = "/proc",
    ) -> None:
        self.evidence_keys = tuple(evidence_keys)
        self.evidence_labels = tuple(
            (key.cause.value, key.source.value, key.signal) for key in evidence_keys
        )
        self.max_engines = max_engines
        self.limits: dict[int, int] = {}
        self.process = ProcessCollector(registry=None, proc=proc_root)
        self.renderers = {
            Format.TEXT: Renderer(render_text),
            Format.OPENMETRICS: Renderer(render_openmetrics, end="# EOF\n"),
        }
        self.report: Report | None = None
        self.window: Window | None = None
        self.of_window: Mapping[Rows, Sequence[Row]] = dict.fromkeys(OF_WINDOW, ())
        self.tables: Tables = ()
        self.own: tuple[Metric, ...] = ()
        self.payloads: dict[tuple[Format, bool], Payload] = {}

    def own_process(self) -> tuple[Metric, ...]:
        """Start, CPU and memory of this process, where /proc shows them."""
        return tuple(m for m in self.process.collect() if m.name in PROCESS_NAMES)

    def adopt(self, report: Report) -> None:
        """Work out the rows of a report that has not been shown yet."""
        scene = set_scene(
            report, self.evidence_keys, self.limit_engines(), labels=self.evidence_labels
        )
        if self.window is not scene.window:
            self.window = scene.window
            self.of_window = {rows: tuple(rows(scene)) for rows in OF_WINDOW}
        known = self.of_window
        self.tables = tuple(
            (family, known[rows] if rows in known else tuple(rows(scene))) for family, rows in ROWS
        )
        self.own = self.own_process()
        self.payloads = {}
        self.report = report

    def limit_engines(self) -> int:
        """How many engines are shown apart; worked out once for each setting."""
        limit = self.limits.get(self.max_engines)
        if limit is None:
            limit = series_budget.limit_engines(self.evidence_keys, self.max_engines)
            self.limits = {self.max_engines: limit}
        return limit

    def payload(self, report: Report, form: Format, *, compressed: bool) -> Payload:
        """The report in one form; rendered at the first call, remembered until the next report."""
        if report is not self.report:
            self.adopt(report)
        key = (form, compressed)
        if key not in self.payloads:
            self.payloads[key] = self.render(form, compressed=compressed)
        return self.payloads[key]

    def render(self, form: Format, *, compressed: bool) -> Payload:
        """The adopted rows as bytes."""
        body = self.renderers[form].render(self.tables, self.own)
        headers = {"Content-Type": form.value, "Vary": "Accept, Accept-Encoding"}
        if compressed:
            body = isal_zlib.compress(body, GZIP_LEVEL, GZIP_WINDOW)
            headers["Content-Encoding"] = "gzip"
        return Payload(body, headers)


def read_preferences(header: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """The items of an Accept header: name, parameters, weight 0 to 1. Unreadable ones are left out."""
    for item in header.lower().split(",")[:64]:
        name, *rest = (part.strip() for part in item.split(";"))
        given = (part.partition("=") for part in rest)
        parameters = {key.strip(): value.strip().strip('"') for key, _, value in given}
        try:
            weight = float(parameters.pop("q", "1"))
        except ValueError:
            continue
        if name and 0 <= weight <= 1:
            yield name, parameters, weight


def choose_format(accept: str) -> Format:
    """The content type the client likes best; text where it does not say or we have none of it."""
    weights: dict[str, float] = {}
    for name, parameters, weight in read_preferences(accept):
        version = parameters.get("version")
        if name == "application/openmetrics-text" and version in {None, "1.0.0"}:
            weights["openmetrics"] = max(weight, weights.get("openmetrics", 0.0))
        elif name == "text/plain" and version in {None, "0.0.4"}:
            weights["text"] = max(weight, weights.get("text", 0.0))
        elif name in {"text/*", "*/*"}:
            weights[name] = weight
    text = weights.get("text", weights.get("text/*", weights.get("*/*", 0.0)))
    wanted = weights.get("openmetrics", 0.0)
    return Format.OPENMETRICS if wanted > 0 and wanted >= text else Format.TEXT


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether the client takes gzip at least as gladly as plain bytes."""
    weights = {name: weight for name, _, weight in read_preferences(accept_encoding)}
    wanted = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    return wanted > 0 and wanted >= weights.get("identity", 0.0)
