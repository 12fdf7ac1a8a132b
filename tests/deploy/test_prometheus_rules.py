"""What is shipped for Prometheus and Alertmanager, checked by their own tools and by our tables."""

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.catalog import exported, series_budget
from sidecar.catalog.family import FamilyType
from sidecar.catalog.signals import EVIDENCE
from sidecar.model.vocabulary import Cause, Severity
from tests.deploy.prometheus_files import ALERTS, FOLDER, RECORDS, RULES, TESTS, Rule, load
from tests.deploy.promql_names import grouping_labels, selectors
from tools import make_prometheus_rule

ROOT = Path(__file__).parents[2]
SERVER = {"cluster", "namespace", "job", "instance"}
OF_PROMETHEUS = {"up": {"job"}, "scrape_samples_scraped": SERVER}
"""Metrics that Prometheus makes for every target, and what we may ask of their labels."""
OPEN = {"signal": tuple({key.signal for key in EVIDENCE})}
"""Labels whose values another table closes."""
FAMILIES = {
    family.name: {label.name: label.values or OPEN.get(label.name, ()) for label in family.labels}
    for family in exported.FAMILIES
}
COUNTERS = {f.name for f in exported.FAMILIES if f.type is FamilyType.COUNTER}
ALERT_KINDS = {"fires", "quiet", "absent", "sidecar restart", "server restart"}
EACH = pytest.mark.parametrize("rule", [*ALERTS, *RECORDS], ids=lambda rule: rule.name)
EACH_ALERT = pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule.name)


def run(*command: str | Path) -> None:
    """A command that must find nothing wrong."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


# Prometheus' and Alertmanager's own tools


@pytest.mark.component("promtool")
@pytest.mark.parametrize("path", sorted(TESTS.glob("*.yml")), ids=lambda path: path.stem)
def test_promtool_finds_the_rules_to_do_what_their_tests_say(path: Path) -> None:
    run("promtool", "test", "rules", path)


@pytest.mark.component("promtool")
@pytest.mark.parametrize("takes_all", [False, True], ids=["as it is", "with all that it offers"])
def test_promtool_accepts_the_example(takes_all: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """The settings in comments are settings, too."""
    text = (FOLDER / "prometheus.example.yml").read_text()
    if takes_all:
        text, taken = re.subn(r"(?m)^( *)#(\S)", r"\1\2", text)
        assert taken >= 10
        for name in set(re.findall(r"/etc/prometheus/(\S+)", text)):
            (tmp_path / name).touch()
        text = text.replace("/etc/prometheus", str(tmp_path))
    (tmp_path / "prometheus.yml").write_text(text)
    (tmp_path / "rules").symlink_to(RULES)
    run("promtool", "check", "config", tmp_path / "prometheus.yml")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert {"tls_config", "basic_auth", "file_sd_configs"} <= set(job) or not takes_all


@pytest.mark.component("alertmanager")
def test_amtool_accepts_the_example_and_routes_by_severity() -> None:
    path = FOLDER / "alertmanager.example.yml"
    run("amtool", "check-config", path)
    for severity, receiver in (("critical", "page"), ("warning", "ticket")):
        run(
            *("amtool", "config", "routes", "test", f"--config.file={path}"),
            *(f"--verify.receivers={receiver}", "alertname=VLLMHostOOM", f"severity={severity}"),
        )


# Tests of the rules: every rule has every kind of case


def cases() -> Iterator[tuple[set[str], str, Mapping[str, Any]]]:
    """Every group of the promtool tests: the alerts in its name, its kind, the group."""
    for path in sorted(TESTS.glob("*.yml")):
        for group in load(path)["tests"]:
            names, _, kind = group["name"].rpartition(": ")
            yield set(filter(None, names.split(", "))), kind, group


def asked(group: Mapping[str, Any]) -> str:
    """All that a group asks for, as one text."""
    return "\n".join(
        [
            *(f'"{one["alertname"]}"' for one in group.get("alert_rule_test", ())),
            *(one["expr"] for one in group.get("promql_expr_test", ())),
        ]
    )


@EACH_ALERT
def test_every_alert_has_each_kind_of_case(rule: Rule) -> None:
    kinds = defaultdict(list)
    for names, kind, group in cases():
        if rule.name in names:
            kinds[kind].append(group)
            assert re.search(rf'["|]{rule.name}["|]', asked(group)), group["name"]
    assert set(kinds) >= ALERT_KINDS
    (fires,) = kinds["fires"]
    before, then = fires["alert_rule_test"]
    assert "exp_alerts" not in before
    assert then["exp_alerts"]
    (quiet,) = kinds["quiet"]
    assert not any("exp_alerts" in one for one in quiet.get("alert_rule_test", ()))
    reads_counter = {s.metric for s in selectors(rule.expr)} & COUNTERS
    assert not reads_counter, "a rule on a counter needs a case of its reset"


@pytest.mark.parametrize("rule", RECORDS, ids=lambda rule: rule.name)
def test_every_recording_rule_has_each_kind_of_case(rule: Rule) -> None:
    kinds = {kind for _, kind, group in cases() if rule.name in asked(group)}
    reads_counter = {s.metric for s in selectors(rule.expr)} & COUNTERS
    restarts = {"counter reset"} if reads_counter else {"sidecar restart", "server restart"}
    assert kinds == {"figures", "absent"} | restarts


# Names


def test_the_series_of_the_tests_are_such_as_we_export() -> None:
    """A test on a series that nobody shows would prove nothing."""
    for _, _, group in cases():
        for series in group["input_series"]:
            (selector,) = selectors(series["series"])
            known = FAMILIES.get(selector.metric, {})
            assert selector.metric in FAMILIES or selector.metric in OF_PROMETHEUS
            for matcher in selector.matchers:
                if matcher.label not in SERVER | {"pod"}:
                    assert matcher.label in known, series["series"]
                    assert set(matcher.values) <= set(known[matcher.label] or matcher.values)


@EACH
def test_expressions_speak_of_families_labels_and_values_that_there_are(rule: Rule) -> None:
    queries = re.findall(r'"([^"]*)" \$labels', "\n".join(rule.annotations.values()))
    assert len(queries) == "\n".join(rule.annotations.values()).count("query")
    found = [s for expr in (rule.expr, *queries) for s in selectors(expr.replace("%q", '""'))]
    labels = set(SERVER)
    for selector in found:
        known: Mapping[str, Any] = FAMILIES.get(selector.metric, {})
        assert selector.metric in FAMILIES or selector.metric in OF_PROMETHEUS, selector.metric
        labels |= set(known)
        for matcher in selector.matchers:
            if matcher.label in SERVER:
                continue
            assert matcher.label in known, selector
            assert set(matcher.values) <= set(known[matcher.label]), selector
    assert grouping_labels(rule.expr) <= labels


def test_a_name_that_is_not_there_is_found_out() -> None:
    """The check above, of expressions that it must not let pass."""
    (renamed,) = selectors('max by (cluster) (vllm_sidecar_kv_usage{stat="max"})')
    assert renamed.metric not in FAMILIES
    (valued,) = selectors('vllm_sidecar_alert{cause="disk_full",severity=~"warning|fatal"} == 1')
    assert [m.values for m in valued.matchers] == [("disk_full",), ("warning", "fatal")]
    assert grouping_labels("sum by (cluster, model) (a) * on (pod) group_left (x) b") == {
        "cluster", "model", "pod", "x",
    }  # fmt: skip
    with pytest.raises(ValueError, match="job"):
        list(selectors("vllm_sidecar_alert{job}"))


def test_the_labels_of_every_target_are_kept_by_every_alert() -> None:
    """Inhibition compares them: an alert without its instance would silence other servers' alerts."""
    for rule in ALERTS:
        assert not re.search(r"\bby \(|\bon \(", rule.expr), rule.name
        left_out = {
            label.strip()
            for listed in re.findall(r"\b(?:without|ignoring) \(([^()]*)\)", rule.expr)
            for label in listed.split(",")
        }
        assert not left_out & SERVER, rule.name


def test_recording_rules_are_named_by_their_labels_metric_and_operation() -> None:
    for rule in RECORDS:
        level, metric, operation = rule.name.split(":")
        (labels, *_) = re.findall(r"^\w+ by \(([^()]*)\)", rule.expr)
        assert level.split("_") == "_".join(labels.split(", ")).split("_"), rule.name
        assert any(s.metric.removesuffix("_total") == metric for s in selectors(rule.expr))
        shown = rule.expr.split(" ", 1)[0] if "rate(" not in rule.expr else "rate5m"
        assert operation == shown, rule.name


def test_the_promise_of_series_is_the_product_of_the_labels_values() -> None:
    """Each recording rule by the labels that it keeps, and does not fix to one value."""
    per_cluster = per_model = 0
    for rule in RECORDS:
        (listed, *_) = re.findall(r"^\w+ by \(([^()]*)\)", rule.expr)
        labels = set(listed.split(", ")) - {"cluster"}
        (metric,) = {s.metric for s in selectors(rule.expr)} - {exported.TARGET_INFO.name} or {
            exported.TARGET_INFO.name
        }
        known = FAMILIES[metric]
        series = 1
        for label in labels - {"model_name"}:
            is_fixed = re.search(rf'\b{label}="', rule.expr) is not None
            series *= 1 if is_fixed else len(known[label])
        per_model += series if "model_name" in labels else 0
        per_cluster += series
    told = re.search(
        r"#   (\d+) for each cluster \+ (\d+) for each model", (RULES / "recording.yml").read_text()
    )
    assert told is not None
    assert (int(told[1]), int(told[2])) == (per_cluster, per_model)


# What an alert tells


@EACH_ALERT
def test_an_alert_says_what_it_is_and_the_one_thing_to_do(rule: Rule) -> None:
    assert set(rule.annotations) == {"summary", "description", "action", "runbook"}
    assert "{{" in rule.annotations["description"], "no figure"
    assert "{{ $labels.instance }}" in rule.annotations["summary"]
    shown = rule.labels.get("severity") or "|".join(
        value
        for selector in selectors(rule.expr)
        for matcher in selector.matchers
        if matcher.label == "severity"
        for value in matcher.values
    )
    assert shown in {"warning", "critical", "warning|critical"}
    assert Severity.INFO not in shown


def test_there_is_one_alert_for_each_cause() -> None:
    told = [
        value
        for rule in ALERTS
        for selector in selectors(rule.expr)
        if selector.metric == exported.ALERT.name
        for matcher in selector.matchers
        if matcher.label == "cause"
        for value in matcher.values
    ]
    assert sorted(told) == sorted(Cause)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    titles = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


@EACH_ALERT
def test_the_runbook_of_an_alert_is_there(rule: Rule) -> None:
    page, _, anchor = rule.annotations["runbook"].partition("#")
    assert page == "README.md"
    assert anchor in anchors((ROOT / page).read_text())


def test_inhibition_speaks_of_alerts_that_there_are_and_of_one_server() -> None:
    names = {rule.name for rule in ALERTS}
    for rule in load(FOLDER / "alertmanager.example.yml")["inhibit_rules"]:
        assert set(rule["equal"]) >= SERVER
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            label, operator, value = re.fullmatch(r'(\w+)(=~?)"(.+)"', matcher).groups()  # type: ignore[union-attr]
            if label == "alertname" and operator == "=":
                assert value in names
            elif label == "alertname" and value != "VLLM.+":
                for part in value.removeprefix("VLLM(").removesuffix(")").split("|"):
                    assert f"VLLM{part}" in names


# Files made from others


def test_the_rule_for_the_operator_is_up_to_date_and_holds_the_same_groups() -> None:
    assert make_prometheus_rule.main(["--check"]) == 0, "run tools/make_prometheus_rule.py"
    made = yaml.safe_load(make_prometheus_rule.TARGET.read_text())
    assert made["kind"] == "PrometheusRule"
    groups = [
        group for part in ("recording", "alerts") for group in load(RULES / f"{part}.yml")["groups"]
    ]
    assert made["spec"]["groups"] == groups


def test_the_limits_of_the_example_are_our_budget() -> None:
    (job,) = load(FOLDER / "prometheus.example.yml")["scrape_configs"]
    assert job["sample_limit"] == series_budget.SERIES_LIMIT
    most = max(len(family.labels) for family in exported.FAMILIES)
    assert most + len(("__name__", "instance", "job")) < job["label_limit"]
