"""Alert rules of an envelope: real Prometheus takes them, and they fire above the bounds and not below."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog.exported import FAMILIES
from sidecar.envelope.matcher import Matcher, find_labels, is_met, parse_matchers
from sidecar.envelope.rule_files import write_rules
from sidecar.envelope.rules import OTHER_SERVER, build_rules, escape_template
from sidecar.model.envelope import Bounds, Drift, Envelope, Objectives
from tests.envelope import made

CANARY = "sk-canary-0451-abcdef"
FAMILY = {family.name: family for family in FAMILIES}
PLAIN = made.make_envelope()
RATE = replace(PLAIN, unit="requests_per_second", objectives=Objectives(queue_p95=0.2))
UNTOLD = replace(PLAIN, identity=replace(made.IDENTITY, capacity=None, model_name=None))
ENVELOPES = {
    "plain": PLAIN,
    "rate": RATE,
    "untold": UNTOLD,
    "blind": made.make_blind(),
    "strict": replace(PLAIN, objectives=replace(made.OBJECTIVES, preemptions_per_request=0.0)),
    "docker": replace(PLAIN, rollback="docker inspect -f '{{.State.Status}}' {{vllm}} {"),
    **{f"hostile{at}": made.make_hostile(word) for at, word in enumerate(made.HOSTILE)},
}
MATCHERS = 'job="a \\"b\\" \\\\c",instance=~"gpu-.*:9477|z",zone!="a",pod!~"b.*"'


def promtool(folder: Path, *arguments: str) -> tuple[int, str]:
    """Its exit code and what it says."""
    done = subprocess.run(
        ["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def write(folder: Path, envelope: Envelope, matchers: str = "") -> None:
    made_files = write_rules(envelope, "rules.yml", parse_matchers(matchers))
    assert made_files.tests is not None
    (folder / "rules.yml").write_text(made_files.prometheus)
    (folder / "rules.test.yml").write_text(made_files.tests)


def rules_of(envelope: Envelope, matchers: str = "") -> dict[str, dict[str, Any]]:
    """The rules by their alerts, as YAML gives them."""
    text = write_rules(envelope, "rules.yml", parse_matchers(matchers)).prometheus
    (group,) = yaml.safe_load(text)["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


# --- By Prometheus itself -----------------------------------------------------------------------


@pytest.mark.component("promtool")
@pytest.mark.parametrize("name", ENVELOPES)
def test_prometheus_takes_the_rules_and_their_tests_pass(name: str, tmp_path: Path) -> None:
    write(tmp_path, ENVELOPES[name])
    code, said = promtool(tmp_path, "check", "rules", "rules.yml")
    assert code == 0, said
    code, said = promtool(tmp_path, "test", "rules", "rules.test.yml")
    assert code == 0, said
    assert "SUCCESS" in said


@pytest.mark.component("promtool")
def test_matchers_are_in_every_rule(tmp_path: Path) -> None:
    write(tmp_path, PLAIN, MATCHERS)
    code, said = promtool(tmp_path, "test", "rules", "rules.test.yml")
    assert code == 0, said
    for rule in rules_of(PLAIN, MATCHERS).values():
        assert 'job="a \\"b\\" \\\\c",instance=~"gpu-.*:9477|z"' in rule["expr"]
        assert "target_info" not in rule["expr"]


@pytest.mark.component("promtool")
@pytest.mark.parametrize("change", ["bound", "direction", "words", "always"])
def test_the_unit_tests_fail_for_every_rule_that_is_wrong(change: str, tmp_path: Path) -> None:
    write(tmp_path, PLAIN)
    rules = yaml.safe_load((tmp_path / "rules.yml").read_text())
    for rule in rules["groups"][0]["rules"]:
        if change == "bound":
            rule["expr"] = re.sub(r"> [\d.]+", "> 1e9", rule["expr"]).replace("== 0", "== 7")
        elif change == "direction":
            rule["expr"] = rule["expr"].replace(" > ", " < ").replace("== 0", "== 1")
        elif change == "words":
            rule["annotations"]["rollback"] = "rm -r /"
        else:
            rule["expr"] = f"({rule['expr']}) or on () vector(1)"
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    code, said = promtool(tmp_path, "test", "rules", "rules.test.yml")
    assert code != 0
    for rule in build_rules(PLAIN):
        assert f"alertname: {rule.alert}," in said


@pytest.mark.component("promtool")
def test_another_model_another_envelope_and_another_target_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, PLAIN)
    of_b = 'instance="b:9477",job="vllm-sidecar"'
    series = [
        f'vllm_sidecar_target_info{{model_name="other",{of_b}}}',
        f'vllm_sidecar_envelope_info{{envelope="other",{of_b}}}',
        f'vllm_sidecar_requests{{engine="0",state="running",{of_b}}}',
        f'vllm_sidecar_latency_seconds{{metric="ttft",quantile="0.95",{of_b}}}',
        f'vllm_sidecar_latency_seconds{{metric="ttft",quantile="0.99",{of_b}}}',
    ]
    values = [{"series": one, "values": "9x50"} for one in series]
    broken = f'vllm_sidecar_envelope_valid{{reason="version",{of_b}}}'
    values.append({"series": broken, "values": "0x50"})
    expected = {"expr": "count(ALERTS)", "eval_time": "24m", "exp_samples": []}
    tests = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "30s",
        "tests": [{"interval": "30s", "input_series": values, "promql_expr_test": [expected]}],
    }
    (tmp_path / "more.yml").write_text(yaml.safe_dump(tests))
    code, said = promtool(tmp_path, "test", "rules", "more.yml")
    assert code == 0, said
    series[0] = f'vllm_sidecar_target_info{{model_name="tiny",{of_b}}}'
    values[0]["series"] = series[0]
    (tmp_path / "more.yml").write_text(yaml.safe_dump(tests))
    code, said = promtool(tmp_path, "test", "rules", "more.yml")
    assert code != 0


# --- What they say ------------------------------------------------------------------------------


def test_each_bound_is_a_threshold() -> None:
    exprs = {
        alert: rule["expr"].partition(" and on ")[0] for alert, rule in rules_of(PLAIN).items()
    }
    assert exprs == {
        "VLLMEnvelopeLoad": (
            "sum without (engine, state) (avg_over_time(vllm_sidecar_requests[5m])) > 3.6"
        ),
        # 74.2% of 4,128 tokens
        "VLLMEnvelopeTokensHeld": "max without (engine) (vllm_sidecar_kv_demand_tokens) > 3062.98",
        "VLLMEnvelopeTTFT": 'vllm_sidecar_latency_seconds{metric="ttft",quantile="0.95"} > 0.5',
        # 9.95 ms and a tenth: nothing was asked of it
        "VLLMEnvelopeInterToken": (
            'vllm_sidecar_latency_seconds{metric="inter_token",quantile="0.95"} > 0.010945'
        ),
        "VLLMEnvelopeE2E": 'vllm_sidecar_latency_seconds{metric="e2e",quantile="0.95"} > 5',
        "VLLMEnvelopePreemptions": (
            "max without (engine) "
            "(avg_over_time(vllm_sidecar_window_preemptions_per_request[10m])) > 0.01"
        ),
        "VLLMEnvelopeRequestMix": 'vllm_sidecar_envelope_valid{reason=~"lengths"} == 0',
        "VLLMEnvelopeInvalid": (
            'vllm_sidecar_envelope_valid{reason=~"version|model|hardware|cache|limits"} == 0'
        ),
    }


def test_a_rate_of_requests_bounds_those_that_run() -> None:
    expr = rules_of(RATE)["VLLMEnvelopeLoad"]["expr"]
    # Four ran at the last good load of 4 requests/s; 3.6 are safe.
    assert 'vllm_sidecar_requests{state="running"}[5m])) > 3.6 ' in expr
    assert "VLLMEnvelopeQueue" in rules_of(RATE)


def test_what_was_not_measured_has_no_rule() -> None:
    blind = rules_of(made.make_blind())
    assert set(blind) == {
        "VLLMEnvelopePreemptions",
        "VLLMEnvelopeRequestMix",
        "VLLMEnvelopeInvalid",
    }
    full = replace(PLAIN, bounds=replace(made.BOUNDS, cache_peak=1.0))
    assert "VLLMEnvelopeTokensHeld" not in rules_of(full)
    share = rules_of(UNTOLD)["VLLMEnvelopeTokensHeld"]["expr"]
    assert share == (
        'max without (engine, stat) (vllm_sidecar_kv_usage_ratio{stat="mean"}) > 0.742'
    )


def test_every_rule_says_what_to_do_and_the_way_back() -> None:
    for envelope in ENVELOPES.values():
        for rule in rules_of(envelope).values():
            assert rule["labels"]["severity"] in {"warning", "critical"}
            assert set(rule["annotations"]) == {"summary", "description", "action", "rollback"}
            assert all(rule["annotations"].values())
    severities = {alert: rule["labels"]["severity"] for alert, rule in rules_of(PLAIN).items()}
    assert [alert for alert, one in severities.items() if one == "critical"] == [
        "VLLMEnvelopeTTFT",
        "VLLMEnvelopeE2E",
    ], "only what was asked for wakes somebody"


def test_the_operators_object_holds_the_same_rules() -> None:
    for envelope in ENVELOPES.values():
        files = write_rules(envelope, "rules.yml")
        told = yaml.safe_load(files.operator)
        assert told["apiVersion"] == "monitoring.coreos.com/v1"
        assert told["kind"] == "PrometheusRule"
        assert told["spec"] == yaml.safe_load(files.prometheus)
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", told["metadata"]["name"])


def selectors(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    for name, inside in re.findall(r"(vllm_sidecar_\w+)(?:\{((?:[^}\"]|\"[^\"]*\")*)\})?", text):
        yield name, dict(re.findall(r'(\w+)=~?"([^"]*)"', inside))


def test_they_ask_for_nothing_but_what_is_exported() -> None:
    for envelope in (PLAIN, RATE, UNTOLD):
        for rule in rules_of(envelope).values():
            for name, labels in selectors(rule["expr"]):
                known = {label.name: label.values for label in FAMILY[name].labels}
                for label, values in labels.items():
                    assert label in known
                    closed = known[label]
                    assert not closed or set(values.split("|")) <= set(closed)
            folded = re.findall(r"without \(([\w, ]+)\)", rule["expr"])
            for label in (one for names in folded for one in names.split(", ")):
                assert any(
                    label == one.name for one in FAMILY[next(selectors(rule["expr"]))[0]].labels
                )


def test_every_way_to_drift_is_watched() -> None:
    asked = " ".join(rule["expr"] for rule in rules_of(PLAIN).values())
    watched = {
        reason for inside in re.findall(r'reason=~"([^"]*)"', asked) for reason in inside.split("|")
    }
    # Its load has thresholds of its own.
    assert watched == set(Drift) - {Drift.LOAD}
    assert set(OTHER_SERVER) < watched


def test_no_secret_is_in_them() -> None:
    rollback = f"VLLM_API_KEY={CANARY} vllm serve m --api-key {CANARY}"
    files = write_rules(replace(PLAIN, rollback=rollback), "rules.yml")
    for text in (files.prometheus, files.operator, files.tests):
        assert text is not None
        assert CANARY not in text


def test_the_same_envelope_gives_the_same_bytes() -> None:
    assert write_rules(PLAIN, "rules.yml") == write_rules(made.make_envelope(), "rules.yml")


@given(st.text())
def test_a_template_holds_no_action_of_others(text: str) -> None:
    escaped = escape_template(text)
    assert escaped.replace('{{"{"}}', "{") == text
    assert "{" not in escaped.replace('{{"{"}}', "")


@given(st.floats(1e-9, 1e12), st.floats(1e-9, 1e12))
def test_any_bound_gives_a_number_of_promql(load: float, latency: float) -> None:
    bounds = replace(Bounds(), last_good="c4", safe_load=load, ttft_p95=latency, running=load)
    for rule in rules_of(replace(PLAIN, bounds=bounds, objectives=Objectives())).values():
        for number in re.findall(r"> (\S+)", rule["expr"]):
            assert float(number) > 0


# --- Matchers -----------------------------------------------------------------------------------


def test_matchers_are_read_as_promql_writes_them() -> None:
    assert parse_matchers("") == ()
    assert parse_matchers('{job="a, b", x=~"c|d"}') == (
        Matcher("job", "=", "a, b"),
        Matcher("x", "=~", "c|d"),
    )
    assert [one.text for one in parse_matchers(MATCHERS)] == [
        'job="a \\"b\\" \\\\c"',
        'instance=~"gpu-.*:9477|z"',
        'zone!="a"',
        'pod!~"b.*"',
    ]


@pytest.mark.parametrize(
    "text",
    [
        "job",
        "job=a",
        'job="a" x="b"',
        'job="a"}) or vector(1) #',
        'job="a\n"',
        'job=~"("',
        r'job=~"(a)\1"',
        'job=~"(?=a)"',
        'engine="0"',
        'severity="x"',
        'a="' + "b" * 1001 + '"',
        '1a="b"',
        r'a="\x"',
    ],
)
def test_what_is_no_matcher_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"label|matcher"):
        parse_matchers(text)


def test_labels_are_found_that_meet_the_matchers() -> None:
    matchers = parse_matchers(MATCHERS)
    labels = find_labels(matchers)
    assert labels is not None
    assert all(is_met(one, labels[one.label]) for one in matchers)
    assert find_labels(parse_matchers('a="b",a!="b"')) is None
    assert find_labels(parse_matchers('a=~"[x-z]{4}"')) is None
    assert write_rules(PLAIN, "r.yml", parse_matchers('a=~"[x-z]{4}"')).tests is None
