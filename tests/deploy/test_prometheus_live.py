"""Every scenario of the demo, scraped by a real Prometheus that tells a real Alertmanager.

All of them play at once, faster than they were recorded. The last moment of each stays until its alert
was seen, then a healthy server comes back. The waits of the rules are cut; what they are is tried by
promtool.
"""

import contextlib
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands import demo
from tests.deploy.prometheus_files import FOLDER, load, quick_config, quicken, scrape_config
from tests.fakes.live_prometheus import HOST, LivePrometheus, free_port
from tests.fakes.prometheus_stack import (
    Alert,
    Alertmanager,
    Host,
    Play,
    SecondAct,
    alertmanager,
    host,
    played,
    prometheus,
)

pytestmark = [
    pytest.mark.component("prometheus"),
    pytest.mark.component("alertmanager"),
    pytest.mark.timeout(240),
]

CRITICAL, WARNING = "critical", "warning"


@dataclass(frozen=True, slots=True)
class Expected:
    """The alert of a scenario.

    ``before``: what may be told before it. ``held_back``: what it silences. ``factor``: how many times
    as fast the scenario plays: a failure's quiet time is five minutes, of others what shows is short.
    """

    name: str
    severity: str
    before: frozenset[str] = frozenset()
    held_back: frozenset[str] = frozenset()
    factor: float = 20.0

    @property
    def receiver(self) -> str:
        return "page" if self.severity == CRITICAL else "ticket"


UNSEEN = frozenset({"VLLMCauseNotObservable", "VLLMVerdictUnknown"})
EXPECTED = {
    "cuda_oom": Expected("VLLMCudaOOM", CRITICAL),
    "engine_failure": Expected("VLLMEngineFailure", CRITICAL),
    "host_oom": Expected("VLLMHostOOM", CRITICAL),
    "preemption": Expected("VLLMPreemption", WARNING, factor=5),
    # The session of the stall is a thrashing one.
    "stalled": Expected("VLLMStalled", CRITICAL, before=frozenset({"VLLMPreemption"}), factor=5),
    # That the start failed was said before it was said why.
    "startup_rejection": Expected("VLLMCudaOOM", CRITICAL, before=frozenset({"VLLMEngineFailure"})),
    "unknown": Expected("VLLMMetricRoleNotFound", WARNING, UNSEEN, UNSEEN, factor=5),
}
HEALTHY = "healthy"
LIMIT = 300
"""Series with one engine and no more than one GPU."""
LONGEST_S = 120


@dataclass(frozen=True, slots=True)
class Moment:
    """What Alertmanager held, and what Prometheus could not scrape."""

    alerts: tuple[Alert, ...]
    down: frozenset[str]

    def active(self, instance: str) -> set[str]:
        return {a.name for a in self.alerts if (a.instance, a.state) == (instance, "active")}


@dataclass(slots=True)
class Story:
    """All that was seen while the scenarios played, and who was told."""

    moments: list[Moment]
    told: Host
    instances: dict[str, str]
    expositions: dict[str, str]
    most_samples: dict[str, float]

    def of(self, scenario: str) -> list[set[str]]:
        """The alerts that were active at each moment."""
        return [moment.active(self.instances[scenario]) for moment in self.moments]


def notify(port: int) -> dict[str, Any]:
    """The example's Alertmanager configuration, quick, with a receiver that listens."""
    config: dict[str, Any] = load(FOLDER / "alertmanager.example.yml")
    quick = {"group_wait": "300ms", "group_interval": "1s"}
    config["route"] |= quick
    for route in config["route"]["routes"]:
        route.update(quick)
    for receiver in config["receivers"]:
        url = f"http://{HOST}:{port}/{receiver['name']}"
        receiver["webhook_configs"] = [{"url": url, "send_resolved": True}]
    return config


def look(shown: LivePrometheus, managed: Alertmanager) -> Moment:
    """What is the case now."""
    down = shown.ask("query", query="up == 0")["result"]
    return Moment(managed.alerts(), frozenset(row["metric"]["instance"] for row in down))


def fetch(port: int) -> str:
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=10) as page:
        return str(page.read().decode())


def has_shown(expected: Expected, alerts: Iterable[Alert], instance: str) -> bool:
    """Whether all that a scenario is to show is there, so that the server may come back."""
    seen = {(a.name, a.severity, a.state) for a in alerts if a.instance == instance}
    wanted = {(expected.name, expected.severity, "active")}
    return seen >= wanted | {(name, WARNING, "suppressed") for name in expected.held_back}


def watch(
    shown: LivePrometheus, managed: Alertmanager, instances: Mapping[str, str], folder: Path
) -> list[Moment]:
    """Look, and give every scenario its cue, until nothing is alerted any more."""
    begun, moments = time.monotonic(), list[Moment]()
    cue_of(folder, HEALTHY).touch()
    while time.monotonic() - begun < LONGEST_S:
        moments.append(look(shown, managed))
        for scenario, expected in EXPECTED.items():
            if has_shown(expected, moments[-1].alerts, instances[scenario]):
                cue_of(folder, scenario).touch()
        is_quiet = not any(moment.alerts for moment in moments[-4:])
        if is_quiet and all(cue_of(folder, scenario).exists() for scenario in EXPECTED):
            break
        time.sleep(0.2)
    return moments


def plays_in(folder: Path) -> dict[str, Play]:
    """The demo of every scenario, and after it that of a healthy server."""
    return {
        name: Play(
            port=free_port(),
            recording=demo.SCENARIOS / name,
            folder=folder / name,
            factor=EXPECTED[name].factor if name in EXPECTED else 20.0,
            then=SecondAct(demo.SCENARIOS / HEALTHY, cue_of(folder, name)),
        )
        for name in demo.list_scenarios()
    }


def cue_of(folder: Path, scenario: str) -> Path:
    """The file whose being there brings the healthy server."""
    return folder / f"{scenario}.cue"


def configure(folder: Path, targets: Iterable[str], managed: Alertmanager) -> dict[str, Any]:
    """The example's Prometheus configuration, quick. Of a busy machine's late answers it is not told."""
    jobs = [scrape_config([{"targets": list(targets)}], sample_limit=LIMIT)]
    manager = {"static_configs": [{"targets": [f"{HOST}:{managed.port}"]}]}
    return quick_config(jobs) | {
        "rule_files": quicken(folder, but={"VLLMSidecarDown"}),
        "alerting": {"alertmanagers": [manager]},
    }


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """The whole of it, once."""
    folder = tmp_path_factory.mktemp("prometheus")
    plays = plays_in(folder)
    instances = {name: f"{HOST}:{play.port}" for name, play in plays.items()}
    hook = free_port()
    with contextlib.ExitStack() as stack:
        managed = stack.enter_context(alertmanager(folder, notify(hook)))
        config = configure(folder, instances.values(), managed)
        shown = stack.enter_context(prometheus(folder, config))
        # It looks for targets some seconds after its start; the scenarios are short.
        shown.until(f"count(up) == {len(plays)}")
        stack.enter_context(played(plays.values()))
        told = stack.enter_context(host(hook))
        moments = watch(shown, managed, instances, folder)
        most = shown.ask("query", query="max_over_time(scrape_samples_scraped[10m])")["result"]
        expositions = {name: fetch(play.port) for name, play in plays.items()}
        yield Story(
            moments=moments,
            told=told,
            instances=instances,
            expositions=expositions,
            most_samples={row["metric"]["instance"]: float(row["value"][1]) for row in most},
        )


def test_there_is_an_expectation_of_every_scenario() -> None:
    assert {*EXPECTED, HEALTHY} == set(demo.list_scenarios())


@pytest.mark.parametrize("scenario", EXPECTED)
def test_the_right_alert_fires_and_only_that_one_is_not_inhibited(
    story: Story, scenario: str
) -> None:
    expected, seen = EXPECTED[scenario], story.of(scenario)
    first = next((n for n, active in enumerate(seen) if expected.name in active), None)
    assert first is not None, story.moments
    assert set().union(*seen[:first]) <= expected.before
    # What arrives in the same moment may be looked at before the other is known to inhibit it.
    beside = [active - {expected.name} for active in seen[first:] if expected.name in active]
    assert not any(one & two for one, two in pairwise(beside)), beside
    severities = {
        alert.severity
        for moment in story.moments
        for alert in moment.alerts
        if (alert.instance, alert.name) == (story.instances[scenario], expected.name)
    }
    assert expected.severity in severities


def test_of_a_healthy_server_nothing_is_alerted_at_any_moment(story: Story) -> None:
    instance = story.instances[HEALTHY]
    assert not [a for moment in story.moments for a in moment.alerts if a.instance == instance]


@pytest.mark.parametrize("scenario", EXPECTED)
def test_the_alert_is_resolved_once_the_server_is_back(story: Story, scenario: str) -> None:
    assert not story.moments[-1].alerts
    expected = EXPECTED[scenario]
    news = [
        status
        for told, instance, status in story.told.told(expected.receiver)
        if (told, instance) == (expected.name, story.instances[scenario])
    ]
    assert news[0] == "firing"
    assert news[-1] == "resolved"


def test_what_follows_from_another_alert_is_held_back(story: Story) -> None:
    """Whose metrics are not found, of that causes cannot be seen, and windows cannot be judged."""
    held = {
        alert.name
        for moment in story.moments
        for alert in moment.alerts
        if (alert.instance, alert.state) == (story.instances["unknown"], "suppressed")
    }
    assert held == EXPECTED["unknown"].held_back


def test_only_what_is_critical_pages(story: Story) -> None:
    paged = {(name, instance) for name, instance, _ in story.told.told("page")}
    critical, may_be = set(), set()
    for scenario, expected in EXPECTED.items():
        if expected.severity == CRITICAL:
            critical.add((expected.name, story.instances[scenario]))
            may_be |= {(name, story.instances[scenario]) for name in expected.before}
    assert critical <= paged <= critical | may_be


def test_every_scrape_stays_within_the_published_limits(story: Story) -> None:
    """With one engine and no GPU at most 300 series, and the labels' limits of the example.

    Of what is beyond a limit nothing is taken at all; a scrape of a busy machine may come too late.
    """
    assert set(story.most_samples) == set(story.instances.values())
    assert all(200 < most <= LIMIT for most in story.most_samples.values()), story.most_samples
    late = [moment.down for moment in story.moments[-10:]]
    assert not frozenset.intersection(*late)


@pytest.mark.component("promtool")
@pytest.mark.parametrize("scenario", [*EXPECTED, HEALTHY])
def test_promtool_has_nothing_to_say_about_what_was_served(story: Story, scenario: str) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=story.expositions[scenario].encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_a_sidecar_that_is_not_there_is_told(tmp_path: Path) -> None:
    nobody = f"{HOST}:{free_port()}"
    with alertmanager(tmp_path, notify(free_port())) as managed:
        config = configure(tmp_path, [nobody], managed) | {"rule_files": quicken(tmp_path)}
        with prometheus(tmp_path, config):
            end = time.monotonic() + 60
            while not (alerts := managed.alerts()):
                assert time.monotonic() < end
                time.sleep(0.2)
    assert [(a.name, a.instance, a.state) for a in alerts] == [
        ("VLLMSidecarDown", nobody, "active")
    ]
