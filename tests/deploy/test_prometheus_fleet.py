"""Two hundred sidecars in one real Prometheus: what the rules promise of their series, and the limits.

Their expositions come from our own export code; one small server shows them all.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from sidecar.catalog.exported import INFO_LABELS, LATENCY_ROLES
from sidecar.catalog.signals import EVIDENCE
from sidecar.export.metrics import Exposition, Format
from sidecar.model.report import Report
from sidecar.model.vocabulary import Verdict
from tests.deploy.prometheus_files import RECORDS, quick_config, quicken, scrape_config
from tests.export.reports import make_report
from tests.fakes.live_prometheus import HOST, LivePrometheus, free_port
from tests.fakes.prometheus_stack import Host, host, prometheus

pytestmark = [pytest.mark.component("prometheus"), pytest.mark.timeout(120)]

SERVERS = 200
CLUSTERS = ("", "north", "south")
MODELS = 20
"""Models of all clusters together; every cluster serves each of them."""
PER_CLUSTER, PER_MODEL = 56, 11
"""The promise at the head of the recording rules."""
ALWAYS, PER_ENGINE, PER_GPU = 300, 25, 12
"""Our budget: with one engine and one GPU, for each further engine, for each further GPU."""


def exposition(report: Report) -> bytes:
    """The report as a scrape gets it."""
    form = Format.TEXT
    return Exposition(EVIDENCE).payload(report, form, compressed=False).body


def with_all(report: Report) -> Report:
    """The report of a server that shows every histogram, and tells everything of itself."""
    judgement = report.last_window
    assert judgement is not None
    engines = {
        name: replace(
            engine,
            histograms=dict.fromkeys(LATENCY_ROLES, next(iter(engine.histograms.values()))),
        )
        for name, engine in judgement.window.engines.items()
    }
    window = replace(judgement.window, engines=engines)
    info = {**dict.fromkeys(INFO_LABELS, "x"), **report.info}
    return replace(report, last_window=replace(judgement, window=window), info=info)


def fleet(generation: int) -> dict[str, bytes]:
    """A page for each server; every generation has other models, and counters that begin anew.

    The last server of each cluster has not told its model, and the second last not even that it is.
    """
    shapes = islice(cycle((verdict, n) for n, verdict in enumerate(Verdict)), SERVERS)
    pages = {}
    for number, (verdict, size) in enumerate(shapes):
        is_up = number % 9 != 4
        report = make_report(verdict, engines=1 + size % 3, gpus=size, up=is_up)
        model = f"model-{number % MODELS}-of-{generation}"
        info = {**report.info, "model_name": model, "vllm_version": f"0.{generation}.{number}"}
        if number >= SERVERS - len(CLUSTERS):
            info.pop("model_name")
        elif number >= SERVERS - 2 * len(CLUSTERS):
            info.clear()
        counted = dict.fromkeys(report.evidence_total, float(1000 * (number % 2) + generation))
        shown = with_all(report) if is_up else report
        pages[f"/{number}"] = exposition(replace(shown, info=info, evidence_total=counted))
    return pages


def targets(port: int) -> list[dict[str, Any]]:
    """Every server as a target of its own on the one port."""
    listed = []
    for number in range(SERVERS):
        labels = {"__metrics_path__": f"/{number}", "instance": f"server-{number}"}
        if cluster := CLUSTERS[number % len(CLUSTERS)]:
            labels["cluster"] = cluster
        listed.append({"targets": [f"{HOST}:{port}"], "labels": labels})
    return listed


@dataclass(frozen=True, slots=True)
class Stage:
    prometheus: LivePrometheus
    shown: Host

    def number(self, expr: str) -> float:
        """The only value of an expression, 0 without one."""
        result = self.prometheus.ask("query", query=expr)["result"]
        return float(result[0]["value"][1]) if result else 0.0

    def recorded(self) -> int:
        """Series that the recording rules make now."""
        return int(self.number('count({__name__=~".+:vllm_sidecar_.+:.+"})'))

    def rows(self, kind: str) -> list[Mapping[str, Any]]:
        """Every rule of a kind, as Prometheus knows it."""
        groups = self.prometheus.ask("rules", type=kind)["groups"]
        return [row for group in groups for row in group["rules"]]

    def until_served(self, generation: int) -> None:
        """Wait until nothing but this generation is scraped, and every rule has seen it."""
        told = SERVERS - 2 * len(CLUSTERS)
        of = f'model_name=~".+-of-{generation}"'
        self.prometheus.until(f"count(vllm_sidecar_target_info{{{of}}}) == {told}", 60)
        now = datetime.now(UTC).isoformat()
        while any(row["lastEvaluation"] <= now for row in self.rows("record")):
            time.sleep(0.2)

    def until_recorded(self, wanted: int) -> None:
        """Wait for so many series of recording rules, and never see more."""
        end = time.monotonic() + 30
        while (seen := self.recorded()) != wanted:
            assert seen < wanted
            assert time.monotonic() < end, seen
            time.sleep(0.2)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("fleet")
    port = free_port()
    jobs = [scrape_config(targets(port))]
    config = quick_config(jobs, "2s") | {"rule_files": quicken(folder)}
    with host(port) as shown, prometheus(folder, config) as running:
        shown.pages = fleet(1)
        yield Stage(running, shown)


def test_the_series_of_the_rules_are_as_many_as_promised_also_while_models_change(
    stage: Stage,
) -> None:
    promised = len(CLUSTERS) * (PER_CLUSTER + PER_MODEL * MODELS)
    stage.until_served(1)
    stage.until_recorded(promised)
    # Every server is restarted with another model, and every sidecar with it.
    stage.shown.pages = fleet(2)
    most = 0
    while stage.number('count(vllm_sidecar_target_info{model_name=~".+-of-1"})'):
        most = max(most, stage.recorded())
    assert most <= len(CLUSTERS) * (PER_CLUSTER + PER_MODEL * 2 * MODELS)
    stage.until_served(2)
    stage.until_recorded(promised)
    for row in (*stage.rows("record"), *stage.rows("alert")):
        assert (row["health"], row.get("lastError", "")) == ("ok", ""), row["name"]
    assert len(stage.rows("record")) == len(RECORDS)


def jobs_of(page: str, limits: Mapping[str, Mapping[str, Any]], port: int) -> list[dict[str, Any]]:
    """A job on this page for each row of limits, under the row's name."""
    target = [{"targets": [f"{HOST}:{port}"]}]
    return [
        scrape_config(target, job_name=name, metrics_path=page, **changed)
        for name, changed in limits.items()
    ]


def test_the_published_budget_is_a_limit_that_holds_and_less_is_not(tmp_path: Path) -> None:
    port = free_port()
    engines, gpus = 4, 8
    pages = {
        "/one": exposition(with_all(make_report(Verdict.PREEMPTION))),
        "/more": exposition(with_all(make_report(engines=engines, gpus=gpus))),
        "/most": exposition(with_all(make_report(engines=3_000, gpus=500))),
    }
    series = {page: count_series(text) for page, text in pages.items()}
    budget = ALWAYS + PER_ENGINE * (engines - 1) + PER_GPU * (gpus - 1)
    jobs = [
        *jobs_of(
            "/one",
            {
                "one-budget": {"sample_limit": ALWAYS},
                "one-exact": {"sample_limit": series["/one"]},
                "one-less": {"sample_limit": series["/one"] - 1},
                "labels-exact": {"label_limit": 6 + len(("__name__", "instance", "job"))},
                "labels-less": {"label_limit": 5 + len(("__name__", "instance", "job"))},
            },
            port,
        ),
        *jobs_of(
            "/more",
            {
                "more-budget": {"sample_limit": budget},
                "more-less": {"sample_limit": series["/more"] - 1},
            },
            port,
        ),
        *jobs_of(
            "/most", {"example": {}, "most-less": {"sample_limit": series["/most"] - 1}}, port
        ),
    ]
    with host(port) as shown, prometheus(tmp_path, quick_config(jobs, "1s")) as running:
        shown.pages = pages
        running.until(f"count(up) == {len(jobs)}")
        states = {
            row["labels"]["job"]: (row["health"], row["lastError"])
            for row in running.ask("targets")["activeTargets"]
        }
    assert {job for job, (health, _) in states.items() if health == "up"} == {
        "one-budget", "one-exact", "labels-exact", "more-budget", "example",
    }  # fmt: skip
    assert {states[job][1] for job in ("one-less", "more-less", "most-less")} == {
        "sample limit exceeded"
    }
    assert "label_limit exceeded" in states["labels-less"][1]


def count_series(text: bytes) -> int:
    return sum(1 for line in text.splitlines() if not line.startswith(b"#"))
