"""Every expression of the dashboards, asked of a real Prometheus that scrapes the demo scenarios."""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from sidecar.catalog import exported
from sidecar.catalog.family import Family
from sidecar.commands import demo
from sidecar.export.metrics import Exposition, Format
from sidecar.model.vocabulary import Verdict
from tests.app.test_scenarios_live import PROMISED
from tests.deploy.test_grafana import (
    RULES,
    Json,
    board,
    mappings_of,
    panels,
    words_of,
)
from tests.export.reports import EVIDENCE_KEYS, make_report
from tests.fakes.live_prometheus import HOST, LivePrometheus, Series, free_port
from tests.fakes.prometheus_stack import demos, host, prometheus

pytestmark = [pytest.mark.component("prometheus"), pytest.mark.timeout(180)]

FASTER, SCRAPES = 5.0, 20
"""The longest scenario takes a minute; how long a state lasts is looked for every 15 s."""
WITH_GPUS = "with_gpus"
"""A target that no scenario can be: GPUs, processes and a limit of host memory are of a machine."""
GONE = "gone"
"""A target at which nobody answers."""
ONLY_WITH_GPUS = {
    ("Admission in use", "engine {{engine}}"),
    ("Blind spots", "none"),
    ("Failed readings", "none failed"),
    ("GPU memory by holder", "GPU {{gpu}} {{kind}}"),
    ("GPU memory that is free, and stays free", "GPU {{gpu}} free"),
    ("GPU memory that is free, and stays free", "GPU {{gpu}} free for 10 minutes"),
    ("GPU time in use", "GPU {{gpu}}"),
    ("Growth", "growth"),
    ("Memory pressure", "{{scope}}"),
    ("Processes of the server", "orphaned"),
    ("Processes of the server", "{{role}}"),
    ("Requests: running, waiting, safe, let in", "{{limit}}"),
    ("Time to the limit", "time to limit"),
}
"""Panels and legends that no scenario can fill: each more is a panel that shows nothing of it."""
LABELLED = {"cluster": "c1", "namespace": "inference"}
BARE = {"healthy", WITH_GPUS}
"""Targets whose labels are those of a plain static configuration."""
SERVER = {"cluster", "namespace", "job", "instance"}
MAY_LACK = {"cluster", "namespace"}
"""Labels that come from the scraping side, if at all."""
GRAFANAS = {"$__rate_interval": "4s", "$__range": "60s"}


@dataclass(frozen=True, slots=True)
class Stage:
    """The Prometheus, and the targets by the name of what they play."""

    prometheus: LivePrometheus
    ports: dict[str, int]
    seen: float

    def over_time(self, expr: str) -> list[Series]:
        """What an expression gave while the scenarios were played."""
        return self.prometheus.over_time(expr, self.seen)

    def instance(self, target: str) -> str:
        return f"{HOST}:{self.ports[target]}"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """All scenarios at once, to their ends, and one more target that has GPUs."""
    folder = tmp_path_factory.mktemp("grafana")
    ports = {name: free_port() for name in (*PROMISED, WITH_GPUS, GONE)}
    report = make_report(Verdict.PREEMPTION, gpus=2)
    page = Exposition(EVIDENCE_KEYS).payload(report, Format.TEXT, compressed=False).body
    recordings = {ports[name]: demo.SCENARIOS / name for name in PROMISED}
    with contextlib.ExitStack() as stack:
        stack.enter_context(demos(recordings, folder, FASTER))
        stack.enter_context(host(ports[WITH_GPUS])).pages = {"/metrics": page}
        shown = stack.enter_context(prometheus(folder, configure(ports)))
        shown.until(f"min(count_over_time({exported.WINDOW_END.name}[5m])) >= {SCRAPES}")
        yield Stage(shown, ports, time.time())


def configure(ports: Mapping[str, int]) -> dict[str, Any]:
    """Scrapes every second; most targets have the labels that a cluster gives."""
    targets = [
        {"targets": [f"{HOST}:{port}"], "labels": {} if name in BARE else LABELLED}
        for name, port in ports.items()
    ]
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "vllm-sidecar", "static_configs": targets}],
    }


def targets_of(name: str, titled: str | None = None) -> Iterator[tuple[Json, Json]]:
    """The queries of a dashboard, or of one panel, each with its panel."""
    for panel in panels(name):
        if titled is None or panel["title"] == titled:
            for target in panel["targets"]:
                yield panel, target


def filled(expr: str, instance: str, cluster: str = ".*") -> str:
    """An expression as Grafana sends it."""
    for name, value in GRAFANAS.items():
        expr = expr.replace(name, value)
    expr = expr.replace('"$instance"', f'"{instance}"').replace('"$cluster"', f'"{cluster}"')
    expr = re.sub(r'=~"\$(namespace|job)"', '=~".*"', expr)
    assert "$" not in expr
    return expr


def check_legend(target: Json, found: list[Series]) -> None:
    """Every label that a legend names is there."""
    named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    for row in found:
        assert named - MAY_LACK <= set(row.labels), target["expr"]


def test_every_expression_of_a_server_has_data_in_a_scenario(stage: Stage) -> None:
    missing, only_with_gpus = [], set()
    for panel, target in targets_of("server"):
        for name in stage.ports:
            expr = filled(target["expr"], stage.instance(name))
            if found := stage.over_time(expr):
                check_legend(target, found)
                if name == WITH_GPUS:
                    only_with_gpus.add((panel["title"], target["legendFormat"]))
                break
        else:
            missing.append(f"{panel['title']}: {target['expr']}")
    assert not missing, "\n".join(missing)
    assert only_with_gpus <= ONLY_WITH_GPUS


def test_every_expression_of_the_fleet_has_data(stage: Stage) -> None:
    for panel, target in targets_of("fleet"):
        found = stage.over_time(filled(target["expr"], ""))
        assert found, f"{panel['title']}: {target['expr']}"
        check_legend(target, found)
        columns = {
            override["matcher"]["options"]
            for override in panel["fieldConfig"]["overrides"]
            if override["matcher"]["id"] == "byName"
        }
        if panel["type"] == "table" and not target["legendFormat"]:
            (label,) = set(found[0].labels) - SERVER
            assert label in columns | {"model_name"}


def test_episodes_are_drawn_over_the_charts(stage: Stage) -> None:
    (episodes,) = board("server")["annotations"]["list"]
    instance = stage.instance("host_oom")
    found = stage.over_time(filled(episodes["expr"], instance))
    assert "host_oom" in {row.labels["cause"] for row in found}
    assert all(set(row.values.values()) == {1} for row in found)


@pytest.mark.parametrize(
    ("title", "family", "label"),
    [
        ("Verdict", exported.VERDICT, "verdict"),
        ("Server state", exported.TARGET_STATE, "state"),
        ("Lever now", exported.LEVER, "lever"),
    ],
    ids=["verdict", "state", "lever"],
)
@pytest.mark.parametrize("scenario", PROMISED)
def test_a_state_is_shown_by_its_word_at_every_moment(
    stage: Stage, scenario: str, title: str, family: Family, label: str
) -> None:
    instance = stage.instance(scenario)
    ((panel, target),) = targets_of("server", title)
    words = words_of(mappings_of(panel, target))
    (row,) = stage.over_time(filled(target["expr"], instance))
    shown = {at: words[f"{value:.0f}"] for at, value in row.values.items()}
    told = {
        at: series.labels[label]
        for series in stage.over_time(f'{family.name}{{instance="{instance}"}} == 1')
        for at in series.values
    }
    assert shown == told
    if family is exported.VERDICT:
        assert PROMISED[scenario] in shown.values()


def test_of_a_server_that_nobody_watches_nothing_is_shown(stage: Stage) -> None:
    for panel, target in targets_of("server"):
        found = stage.over_time(filled(target["expr"], "nowhere:9477"))
        assert not found, panel["title"]
    for panel, target in targets_of("fleet"):
        found = stage.over_time(filled(target["expr"], "", cluster="nowhere"))
        assert not found, panel["title"]


def test_a_sidecar_that_is_down_is_counted_and_named(stage: Stage) -> None:
    ((_, down),) = targets_of("fleet", "Sidecars down")
    (row,) = stage.over_time(filled(down["expr"], ""))
    assert row.values[max(row.values)] == 1
    asked = [target for _, target in targets_of("fleet", "Servers")]
    (scraped,) = (target for target in asked if target["legendFormat"] == "sidecar")
    found = stage.over_time(filled(scraped["expr"], ""))
    last = {row.labels["instance"]: row.values[max(row.values)] for row in found}
    assert last == {stage.instance(name): float(name != GONE) for name in stage.ports}


def test_the_choices_offer_what_is_scraped(stage: Stage) -> None:
    offered = {}
    for variable in board("server")["templating"]["list"][1:]:
        selector, _, label = variable["definition"][len("label_values(") : -1].rpartition(", ")
        offered[label] = stage.prometheus.label_values(label, filled(selector, ""))
    assert offered == {
        "cluster": [LABELLED["cluster"]],
        "namespace": [LABELLED["namespace"]],
        "job": ["vllm-sidecar"],
        "instance": sorted(stage.instance(name) for name in stage.ports if name != GONE),
    }
