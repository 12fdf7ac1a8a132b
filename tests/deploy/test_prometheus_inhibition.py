"""Who silences whom, decided by a real Alertmanager with the shipped rules of inhibition."""

import json
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import pytest

from tests.deploy.prometheus_files import ALERTS, FOLDER, load
from tests.fakes.live_prometheus import HOST
from tests.fakes.prometheus_stack import Alert, Alertmanager, alertmanager

pytestmark = pytest.mark.component("alertmanager")

PRECEDENCE = ("VLLMHostOOM", "VLLMCudaOOM", "VLLMEngineFailure", "VLLMStalled", "VLLMPreemption")
SEVERITIES = ("critical", "warning")
WATCHING: Mapping[str, set[str]] = {
    "VLLMSidecarDown": {
        "VLLMSidecarWindowStale", "VLLMMetricRoleNotFound", "VLLMCauseNotObservable",
        "VLLMVerdictUnknown", "VLLMSidecarConfigReloadFailed",
    },
    "VLLMSidecarWindowStale": {
        "VLLMMetricRoleNotFound", "VLLMCauseNotObservable", "VLLMVerdictUnknown",
    },
    "VLLMMetricRoleNotFound": {"VLLMCauseNotObservable", "VLLMVerdictUnknown"},
    "VLLMCauseNotObservable": {"VLLMVerdictUnknown"},
    "VLLMHostOOM": {"VLLMHostMemoryLow"},
}  # fmt: skip
"""Beside the causes: an alert, and those that it explains."""
SERVER = {"cluster": "north", "namespace": "serving", "job": "vllm-sidecar"}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two alerts that are there at once: does the first silence the second?"""

    source: tuple[str, str]
    target: tuple[str, str]

    @property
    def silenced(self) -> bool:
        """By the order of the causes, and what explains what; a warning never silences a page."""
        (source, loud), (target, soft) = self.source, self.target
        if loud == "warning" and soft == "critical":
            return False
        if source == target:
            return loud == "critical" and soft == "warning"
        if source in PRECEDENCE and target in PRECEDENCE:
            return PRECEDENCE.index(source) < PRECEDENCE.index(target)
        return target in WATCHING.get(source, set())


def severities(name: str) -> tuple[str, ...]:
    return SEVERITIES if name in PRECEDENCE else ("warning",)


def pairs() -> Iterator[Pair]:
    """Every two alerts with every severity that they can have."""
    told = [(rule.name, severity) for rule in ALERTS for severity in severities(rule.name)]
    for source, target in product(told, told):
        if source != target:
            yield Pair(source, target)


def post(managed: Alertmanager, alerts: Iterable[Mapping[str, str]]) -> None:
    """Tell of alerts, as Prometheus does."""
    body = json.dumps([{"labels": dict(labels)} for labels in alerts]).encode()
    url = f"http://{HOST}:{managed.port}/api/v2/alerts"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def labels_of(alert: tuple[str, str], **labels: str) -> dict[str, str]:
    name, severity = alert
    cause = {"cause": "preemption"} if name == "VLLMCauseNotObservable" else {}
    return {"alertname": name, "severity": severity, **cause, **SERVER, **labels}


def settled(managed: Alertmanager, count: int) -> tuple[Alert, ...]:
    """All alerts, once so many are held and what silences them has been seen."""
    end = time.monotonic() + 20
    before: tuple[Alert, ...] = ()
    while True:
        now = managed.alerts()
        if len(now) == count and now == before:
            return now
        assert time.monotonic() < end, len(now)
        before = now
        time.sleep(0.3)


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    config = load(FOLDER / "alertmanager.example.yml")
    with alertmanager(tmp_path_factory.mktemp("inhibition"), config) as running:
        yield running


def test_a_root_cause_silences_its_consequences_on_the_same_server_and_no_page_by_a_warning(
    managed: Alertmanager,
) -> None:
    """Every pair is of a server of its own, and all are told at once."""
    told = {f"server-{number}": pair for number, pair in enumerate(pairs())}
    before = len(managed.alerts())
    post(
        managed,
        [
            labels_of(alert, instance=instance)
            for instance, pair in told.items()
            for alert in (pair.source, pair.target)
        ],
    )
    held = settled(managed, before + 2 * len(told))
    states = {(alert.instance, alert.name, alert.severity): alert.state for alert in held}
    wrong = [
        pair
        for instance, pair in told.items()
        if (states[instance, *pair.target] == "suppressed") != pair.silenced
    ]
    assert not wrong
    assert sum(pair.silenced for pair in told.values()) >= 40


@pytest.mark.parametrize("label", ["cluster", "namespace", "job", "instance"])
def test_another_server_is_never_silenced(managed: Alertmanager, label: str) -> None:
    """Another in one label, and one that lacks a label that the other has."""
    instance = f"here-{label}"
    others = [{"instance": instance, label: "elsewhere"}]
    if label in {"cluster", "namespace"}:
        others.append({"instance": instance, label: ""})
    root = ("VLLMHostOOM", "critical")
    alerts = [labels_of(root, instance=instance)]
    for number, other in enumerate(others):
        alerts.append(labels_of(("VLLMPreemption", "critical"), **{**other, "n": str(number)}))
    before = len(managed.alerts())
    post(managed, alerts)
    held = settled(managed, before + len(alerts))
    mine = {(a.name, a.state) for a in held if a.instance in {instance, "elsewhere"}}
    assert ("VLLMPreemption", "active") in mine
    assert ("VLLMPreemption", "suppressed") not in mine
