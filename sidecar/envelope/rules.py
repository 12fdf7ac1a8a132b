"""An envelope as alert rules: each measured bound as the threshold of an alert on our own families.

A bound that was not measured gives no rule. Whether requests are as long as those it was measured with,
and whether the server is the one that was measured, is judged by the sidecar that was given the envelope.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sidecar.catalog import exported
from sidecar.envelope.figures import Unit, find_stage
from sidecar.envelope.matcher import Matcher, quote
from sidecar.envelope.wording import say, say_load
from sidecar.model.envelope import Drift, Envelope
from sidecar.model.vocabulary import Severity
from sidecar.parse.secrets import hide_forms
from sidecar.telling.figures import plain, say_number
from sidecar.telling.plain import plain_text

OTHER_SERVER = (Drift.VERSION, Drift.MODEL, Drift.HARDWARE, Drift.CACHE, Drift.LIMITS)
"""What makes a server another one than that which was measured; the rest is its load."""
SAME_TARGET = "on (cluster, namespace, job, instance)"
"""A server is one scrape target; a label that is not there is as good as an empty one."""
NEARLY_FULL = 0.99
"""A cache that was nearly full without preemption gives no threshold that could be passed."""
MOST_ROLLBACK = 1000


@dataclass(frozen=True, slots=True)
class Condition:
    """What an alert watches: a family with labels of its own, folded over those in ``without``.

    ``over``: averaged over so long. ``reasons``: it is about the envelope's validity for these, instead
    of being above the bound.
    """

    family: str
    bound: float
    labels: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    fold: str = "max"
    over: str = ""
    reasons: tuple[Drift, ...] = ()

    def expr(self, matchers: tuple[Matcher, ...], scope: str) -> str:
        """The condition in PromQL."""
        own = [f"{name}={quote(value)}" for name, value in self.labels.items()]
        if self.reasons:
            own.append(f"reason=~{quote('|'.join(self.reasons))}")
        inside = ",".join((*own, *(matcher.text for matcher in matchers)))
        selector = f"{self.family}{{{inside}}}" if inside else self.family
        if self.reasons:
            return f"{selector} == 0{scope}"
        if self.over:
            selector = f"avg_over_time({selector}[{self.over}])"
        if self.without:
            selector = f"{self.fold} without ({', '.join(self.without)}) ({selector})"
        return f"{selector} > {say_bound(self.bound)}{scope}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert. ``description``: before and after the value, which is given as ``form``, "" for none."""

    alert: str
    condition: Condition
    lasting: str
    severity: Severity
    summary: str
    description: tuple[str, str]
    form: str
    action: str


def say_bound(value: float) -> str:
    """A number as PromQL takes it, six digits long."""
    return f"{value:.6g}"


def escape_template(text: str) -> str:
    """A text that Prometheus' templates leave as it is."""
    return text.replace("{", '{{"{"}}')


def scope_of(envelope: Envelope, matchers: tuple[Matcher, ...]) -> str:
    """Which servers a rule is about where nobody says it: those that serve the measured model."""
    model = envelope.identity.model_name
    if matchers or not model:
        return ""
    selector = f"{exported.TARGET_INFO.name}{{model_name={quote(plain_text(model))}}}"
    return f" and {SAME_TARGET} {selector}"


def scope_of_validity(envelope: Envelope) -> str:
    """Which sidecars a rule on validity is about: those that were given this envelope."""
    selector = f"{exported.ENVELOPE_INFO.name}{{envelope={quote(plain_text(envelope.name))}}}"
    return f" and {SAME_TARGET} {selector}"


# --- The bounds ---------------------------------------------------------------------------------


def load_rule(envelope: Envelope) -> Iterator[Rule]:
    """Load beyond what is safe: requests in the server, or those that run where load was a rate."""
    bounds = envelope.bounds
    good = find_stage(envelope, bounds.last_good)
    if bounds.safe_load is None or good is None or good.load <= 0:
        return
    if envelope.unit == "concurrency":
        what = "requests run or wait on average of five minutes"
        condition = Condition(
            exported.REQUESTS.name,
            bounds.safe_load,
            without=("engine", "state"),
            fold="sum",
            over="5m",
        )
    elif bounds.running:
        running = bounds.running * bounds.safe_load / good.load
        what = f"requests run on one engine on average of five minutes, {say_number(running)} did"
        labels = {"state": "running"}
        without = ("engine", "state")
        condition = Condition(exported.REQUESTS.name, running, labels, without, over="5m")
    else:
        return
    yield Rule(
        "VLLMEnvelopeLoad",
        condition,
        "5m",
        Severity.WARNING,
        "more load than was measured to be safe",
        ("", f" {what}; safe is up to {say_load(envelope, bounds.safe_load)}."),
        "%.3g",
        "Send this server less, or add a replica.",
    )


def tokens_rule(envelope: Envelope) -> Iterator[Rule]:
    """More of the cache held on average than the last good stage held at most."""
    peak, capacity = envelope.bounds.cache_peak, envelope.identity.capacity
    if not peak or peak >= NEARLY_FULL:
        return
    if capacity:
        condition = Condition(exported.KV_DEMAND.name, peak * capacity, without=("engine",))
        begin, form = "", "%.0f"
        held = f"{say(peak * capacity, Unit.TOKENS)} at most, of {say(capacity, Unit.TOKENS)}"
        what = "tokens"
    else:
        labels, without = {"stat": "mean"}, ("engine", "stat")
        condition = Condition(exported.KV_USAGE.name, peak, labels, without)
        begin, form = "A share of ", "%.3g"
        held = f"{say(peak, Unit.SHARE)} at most"
        what = "of the cache"
    end = f" {what} is held on average of a window; the last good stage held {held}."
    yield Rule(
        "VLLMEnvelopeTokensHeld",
        condition,
        "5m",
        Severity.WARNING,
        "requests hold more of the KV cache than was measured to be safe",
        (begin, end.replace("tokens is", "tokens are")),
        form,
        "Send this server less or shorter requests, or apply the lever that its sidecar names.",
    )


LATENCIES = (
    ("VLLMEnvelopeTTFT", "ttft", "TTFT", "ttft_p95"),
    ("VLLMEnvelopeInterToken", "inter_token", "inter-token latency", "inter_token_p95"),
    ("VLLMEnvelopeE2E", "e2e", "E2E latency", "e2e_p95"),
    ("VLLMEnvelopeQueue", "queue", "queue time", "queue_p95"),
)
"""Alert, label of the family, words, and the field of ``Objectives`` and ``Bounds``."""


def latency_rules(envelope: Envelope) -> Iterator[Rule]:
    """The p95 of each latency beyond its objective, else beyond what was measured and the margin."""
    for alert, metric, label, name in LATENCIES:
        asked = getattr(envelope.objectives, name)
        measured = getattr(envelope.bounds, name, None)
        bound = asked
        why = f"the objective is {say(asked, Unit.SECONDS)}"
        if asked is None:
            if not measured:
                continue
            bound = measured * (1 + envelope.objectives.margin)
            why = f"the last good stage had {say(measured, Unit.SECONDS)}, and the margin is on top"
        yield Rule(
            alert,
            Condition(exported.LATENCY.name, bound, {"metric": metric, "quantile": "0.95"}),
            "5m",
            Severity.WARNING if asked is None else Severity.CRITICAL,
            f"{label} p95 is beyond {'what was measured' if asked is None else 'its objective'}",
            (f"{label[0].upper()}{label[1:]} p95 is ", f" s, window after window; {why}."),
            "%.3g",
            "See whether its load or its preemptions are beyond the envelope too; then send it less.",
        )


def preemption_rule(envelope: Envelope) -> Iterator[Rule]:
    """More preemptions per request than were tolerated."""
    tolerated = envelope.objectives.preemptions_per_request
    family = exported.WINDOW_PREEMPTIONS_PER_REQUEST.name
    yield Rule(
        "VLLMEnvelopePreemptions",
        Condition(family, tolerated, without=("engine",), over="10m"),
        "5m",
        Severity.WARNING,
        "it preempts more than its envelope tolerates",
        (
            "",
            f" preemptions per request in ten minutes; {say_number(tolerated)} are tolerated.",
        ),
        "%.3g",
        "Send this server less, or apply the lever that its sidecar names.",
    )


def validity_rules() -> Iterator[Rule]:
    """The server, or its requests, are no longer those that were measured."""
    valid = exported.ENVELOPE_VALID.name
    yield Rule(
        "VLLMEnvelopeRequestMix",
        Condition(valid, 0.0, reasons=(Drift.LENGTHS,)),
        "15m",
        Severity.WARNING,
        "its requests are longer than those it was measured with",
        (
            "For a quarter of an hour they were: the bounds of the envelope do not hold for them.",
            "",
        ),
        "",
        "Measure again with requests as they are now.",
    )
    yield Rule(
        "VLLMEnvelopeInvalid",
        Condition(valid, 0.0, reasons=OTHER_SERVER),
        "5m",
        Severity.WARNING,
        "its envelope was measured on another server",
        ("Its {{ $labels.reason }} is not what was measured: no bound of the envelope holds.", ""),
        "",
        "Measure again, or go back to what was measured.",
    )


def build_rules(envelope: Envelope) -> tuple[Rule, ...]:
    """Every rule that the envelope gives."""
    return (
        *load_rule(envelope),
        *tokens_rule(envelope),
        *latency_rules(envelope),
        *preemption_rule(envelope),
        *validity_rules(),
    )


# --- As Prometheus takes them -------------------------------------------------------------------


def say_rollback(envelope: Envelope) -> str:
    """The way back, as an annotation holds it."""
    if not envelope.rollback:
        return "The plan names no command to go back to."
    return plain(hide_forms(envelope.rollback), MOST_ROLLBACK)


def rule_object(rule: Rule, envelope: Envelope, matchers: tuple[Matcher, ...]) -> dict[str, object]:
    """One rule; annotations as templates."""
    scope = scope_of_validity(envelope) if rule.condition.reasons else scope_of(envelope, matchers)
    before, after = rule.description
    value = f'{{{{ printf "{rule.form}" $value }}}}' if rule.form else ""
    return {
        "alert": rule.alert,
        "expr": rule.condition.expr(matchers, scope),
        "for": rule.lasting,
        "labels": {
            "severity": rule.severity.value,
            "envelope": escape_template(plain_text(envelope.name)),
        },
        "annotations": {
            "summary": f"{{{{ $labels.instance }}}}: {rule.summary}",
            "description": f"{before}{value}{after}",
            "action": rule.action,
            "rollback": escape_template(say_rollback(envelope)),
        },
    }


def build_groups(envelope: Envelope, matchers: tuple[Matcher, ...] = ()) -> list[dict[str, object]]:
    """The rules as the groups of a rule file."""
    rules = [rule_object(rule, envelope, matchers) for rule in build_rules(envelope)]
    return [{"name": "vllm-sidecar-envelope", "rules": rules}]
