"""Alert rules as files: for Prometheus, for its operator on Kubernetes, and the unit tests that try them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from sidecar.catalog import exported
from sidecar.envelope.matcher import Matcher, find_labels
from sidecar.envelope.report_server import say_time
from sidecar.envelope.rules import (
    Rule,
    build_groups,
    build_rules,
    say_bound,
    say_rollback,
    scope_of,
)
from sidecar.model.envelope import Envelope
from sidecar.telling.plain import plain_text

INTERVAL_S = 30
SAMPLES = 50
EVALUATED = "24m"
"""Later than any rule averages and waits."""
GONE_AFTER = 4
"""A series that ends after two minutes has let nothing fire."""


@dataclass(frozen=True, slots=True)
class RuleFiles:
    """The texts. ``tests``: None where no labels are found that the matchers let through."""

    prometheus: str
    operator: str
    tests: str | None


def dump(value: object, heading: str) -> str:
    """YAML under comments that say what it is."""
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=1000)
    return "".join(f"# {line}\n" for line in heading.split("\n")) + text


def write_heading(envelope: Envelope, matchers: tuple[Matcher, ...]) -> str:
    """Where the thresholds come from, whom they are for, what has none."""
    name = plain_text(envelope.name)
    lines = [
        f"Bounds of the capacity envelope {name}, measured {say_time(envelope.created)}.",
        "VLLMEnvelopeInvalid and VLLMEnvelopeRequestMix need sidecars that were given it (--envelope).",
    ]
    if envelope.bounds.safe_load is None:
        lines.append("No load was shown to be safe: there are no bounds of load and cache.")
    if matchers:
        lines.append(f"For targets with {', '.join(matcher.text for matcher in matchers)}.")
    elif scope_of(envelope, matchers):
        lines.append("For every server that serves the measured model.")
    else:
        lines.append("For every server: which model was measured is not known.")
    return "\n".join(lines)


def name_object(envelope: Envelope) -> str:
    """The envelope's name as Kubernetes takes one."""
    words = re.sub(r"[^a-z0-9]+", "-", envelope.name.lower()).strip("-")[:40].strip("-")
    return f"vllm-sidecar-envelope-{words}" if words else "vllm-sidecar-envelope"


def write_rules(
    envelope: Envelope, rules_name: str, matchers: tuple[Matcher, ...] = ()
) -> RuleFiles:
    """All files. ``rules_name``: the rule file's own, by which the tests find it beside them."""
    groups = build_groups(envelope, matchers)
    heading = write_heading(envelope, matchers)
    operator = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name_object(envelope)},
        "spec": {"groups": groups},
    }
    labels = find_labels(matchers)
    tests = None
    if labels is not None:
        tested = {
            "rule_files": [rules_name],
            "evaluation_interval": f"{INTERVAL_S}s",
            "tests": list(list_tests(envelope, {"job": "vllm-sidecar", **labels})),
        }
        tests = dump(
            tested,
            f"promtool test rules: each rule above, below and without its figure.\n{heading}",
        )
    return RuleFiles(dump({"groups": groups}, heading), dump(operator, heading), tests)


# --- Tests --------------------------------------------------------------------------------------


def write_labels(labels: Mapping[str, str]) -> str:
    """Labels between braces; values quoted as PromQL quotes them."""
    quoted = (
        '{}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"'))
        for name, value in labels.items()
    )
    return f"{{{','.join(quoted)}}}"


def tested_value(rule: Rule, *, fires: bool) -> float:
    """A figure well on one side of the bound."""
    if rule.condition.reasons:
        return 0.0 if fires else 1.0
    bound = float(say_bound(rule.condition.bound))
    if fires:
        return float(f"{bound * 1.5 + (0 if bound else 1):.3g}")
    return float(f"{bound * 0.5:.3g}")


def write_value(value: float) -> str:
    """A number without an exponent, which the notation of series does not take."""
    return f"{value:.12f}".rstrip("0").rstrip(".") or "0"


def own_labels(rule: Rule) -> dict[str, str]:
    """Labels that the family has beside the target's."""
    labels = dict(rule.condition.labels)
    if "engine" in rule.condition.without:
        labels["engine"] = "0"
    if "state" in rule.condition.without:
        labels.setdefault("state", "running")
    if rule.condition.reasons:
        labels["reason"] = rule.condition.reasons[0].value
    return labels


def kept_labels(rule: Rule) -> dict[str, str]:
    """Those of them that the alert still bears."""
    return {
        name: value
        for name, value in own_labels(rule).items()
        if name not in rule.condition.without
    }


def series_of(rule: Rule, target: Mapping[str, str], values: str) -> dict[str, str]:
    """What a target tells of the rule's family."""
    labels = {**own_labels(rule), **target}
    return {"series": f"{rule.condition.family}{write_labels(labels)}", "values": values}


def info_of(envelope: Envelope, target: Mapping[str, str]) -> list[dict[str, str]]:
    """What the target tells of its server, and of the envelope that it was given."""
    facts = {
        exported.TARGET_INFO.name: {"model_name": plain_text(envelope.identity.model_name or "")},
        exported.ENVELOPE_INFO.name: {"envelope": plain_text(envelope.name)},
    }
    return [
        {"series": f"{name}{write_labels({**labels, **target})}", "values": f"1x{SAMPLES}"}
        for name, labels in facts.items()
    ]


def expected_alert(
    rule: Rule, envelope: Envelope, target: Mapping[str, str], value: float
) -> dict[str, object]:
    """The alert as it is sent."""
    before, after = rule.description
    before = before.replace("{{ $labels.reason }}", own_labels(rule).get("reason", ""))
    return {
        "exp_labels": {
            **kept_labels(rule),
            **target,
            "severity": rule.severity.value,
            "envelope": plain_text(envelope.name),
        },
        "exp_annotations": {
            "summary": f"{target.get('instance', '')}: {rule.summary}",
            "description": f"{before}{rule.form % value if rule.form else ''}{after}",
            "action": rule.action,
            "rollback": say_rollback(envelope),
        },
    }


def list_tests(envelope: Envelope, labels: Mapping[str, str]) -> Iterator[dict[str, object]]:
    """Every rule, for targets whose figures are above its bounds, below, or went away; and without any."""
    # A label that no matcher asks for tells the targets apart.
    case = next(name for name in ("case", "tested", "target") if name not in labels)
    targets = {
        word: {"instance": "a:9477", **labels, case: word} for word in ("above", "below", "gone")
    }
    facts = [one for target in targets.values() for one in info_of(envelope, target)]
    figures: list[dict[str, str]] = []
    alerts: dict[str, dict[str, object]] = {}
    for rule in build_rules(envelope):
        above = write_value(tested_value(rule, fires=True))
        below = write_value(tested_value(rule, fires=False))
        figures += [
            series_of(rule, targets["above"], f"{above}x{SAMPLES}"),
            series_of(rule, targets["below"], f"{below}x{SAMPLES}"),
            series_of(rule, targets["gone"], f"{above}x{GONE_AFTER} stale"),
        ]
        alerts[rule.alert] = expected_alert(rule, envelope, targets["above"], float(above))
    for name, series, fires in (
        (
            "above its bound each rule fires; below, or of a figure that went away, none",
            figures,
            True,
        ),
        ("without figures none fires", [], False),
    ):
        yield {
            "name": name,
            "interval": f"{INTERVAL_S}s",
            "input_series": [*facts, *series],
            "alert_rule_test": [
                {
                    "eval_time": EVALUATED,
                    "alertname": alert,
                    "exp_alerts": [expected] if fires else [],
                }
                for alert, expected in alerts.items()
            ],
        }
