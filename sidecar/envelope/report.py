"""What a report says, as paragraphs and tables: said once here, written by ``report_text`` and ``report_page``.

Texts are plain: whoever writes them escapes them for the format. Names that others chose come cut
and printable.
"""

from sidecar.envelope.document import MOST_NAME, Facts, Paragraph, Plots, Report, Section, Table
from sidecar.envelope.figures import Unit, find_stage
from sidecar.envelope.report_server import identity_blocks, rollback_blocks
from sidecar.envelope.report_stages import client_blocks, stage_blocks
from sidecar.envelope.wording import say, say_load
from sidecar.model.budget import Binding
from sidecar.model.envelope import Criterion, Envelope, Finding
from sidecar.telling.figures import UNKNOWN, plain, say_list

CRITERIA: dict[Criterion, tuple[str, Unit | None]] = {
    Criterion.COMPLETES: ("requests that failed", Unit.SHARE),
    Criterion.NO_OOM: ("no out-of-memory", None),
    Criterion.PREEMPTION: ("preemptions per request", Unit.PER_REQUEST),
    Criterion.TTFT_P95: ("TTFT p95", Unit.SECONDS),
    Criterion.INTER_TOKEN_P95: ("inter-token latency p95", Unit.SECONDS),
    Criterion.E2E_P95: ("E2E latency p95", Unit.SECONDS),
    Criterion.QUEUE_P95: ("queue time p95", Unit.SECONDS),
    Criterion.QUEUE_STOPS_GROWING: ("the queue stops growing", None),
    Criterion.DRAINS: ("drains after the load", Unit.SECONDS),
    Criterion.REPEATS_AGREE: ("spread of repeats", Unit.SHARE),
}
"""What each criterion is called, and the unit of its figure; None where yes or no is all there is."""
BINDING: dict[Binding, str] = {
    Binding.CACHE: "the KV cache: its capacity held requests back",
    Binding.ADMISSION: "admission: the limit on sequences held requests back",
    Binding.BATCH_TOKENS: "the tokens of one step: long prefills held requests back",
    Binding.NONE: "nothing: no budget held requests back at the loads that were tried",
    Binding.UNKNOWN: "not known",
}
MET = {True: "met", False: "not met", None: "could not be told, so not met"}


def name_stage(envelope: Envelope, name: str | None) -> str:
    """A stage by its name and load."""
    stage = find_stage(envelope, name)
    if stage is None:
        return "none" if name is None else plain(name, MOST_NAME)
    return f"{plain(stage.name, MOST_NAME)} at {say_load(envelope, stage.load)}"


def say_verdict(envelope: Envelope) -> str:
    """Whether the intended load is carried, and which criteria say no."""
    acceptance = envelope.acceptance
    stage = name_stage(envelope, acceptance.stage)
    if acceptance.accepted:
        return f"Accepted: {stage} meets every criterion."
    missed = [CRITERIA[one.criterion][0] for one in acceptance.findings if one.met is False]
    untold = [CRITERIA[one.criterion][0] for one in acceptance.findings if one.met is None]
    why = f" Not met: {say_list(missed)}." if missed else ""
    if untold:
        why += f" Could not be told: {say_list(untold)}."
    return f"Rejected: {stage}.{why}"


def say_safe(envelope: Envelope) -> str:
    """Up to where the load is safe, and how that follows."""
    bounds = envelope.bounds
    if bounds.safe_load is None or bounds.last_good is None:
        return "No load was shown to be safe: no stage met every criterion."
    margin = say(envelope.objectives.margin, Unit.SHARE)
    return (
        f"Safe up to {say_load(envelope, bounds.safe_load)}: {name_stage(envelope, bounds.last_good)} "
        f"is the last stage that met everything, less a margin of {margin}."
    )


def say_knee(envelope: Envelope) -> str:
    """From which stage on the server preempts."""
    if envelope.bounds.first_preempting is None:
        return "none of the stages preempted beyond the tolerance"
    return name_stage(envelope, envelope.bounds.first_preempting)


def say_held(envelope: Envelope) -> str:
    """How full the last good stage had the server."""
    bounds = envelope.bounds
    return (
        f"{say(bounds.running, Unit.COUNT)} running and {say(bounds.waiting, Unit.COUNT)} waiting "
        f"requests at most, KV cache up to {say(bounds.cache_peak, Unit.SHARE)}, "
        f"{say(bounds.per_running, Unit.TOKENS)} tokens held by a running request, "
        f"{say(bounds.output_tokens_per_second, Unit.TOKENS_PER_SECOND)} output tokens/s"
    )


def say_lengths(envelope: Envelope) -> str:
    """The requests for which the bounds hold."""
    prompt, output = envelope.bounds.prompt, envelope.bounds.output
    return (
        f"prompt {say(prompt.mean, Unit.TOKENS)} tokens on average "
        f"(p95 {say(prompt.p95, Unit.TOKENS)}), output {say(output.mean, Unit.TOKENS)} "
        f"(p95 {say(output.p95, Unit.TOKENS)})"
    )


def summary_facts(envelope: Envelope) -> Facts:
    """The bounds that follow for operation."""
    rows = [
        ("first preempting stage", say_knee(envelope)),
        ("what binds", BINDING[envelope.bounds.binding]),
    ]
    if envelope.bounds.last_good is not None:
        rows.append(("at the last good stage", say_held(envelope)))
        rows.append(("requests there", say_lengths(envelope)))
    return Facts(tuple(rows))


def finding_row(finding: Finding) -> tuple[str, ...]:
    """One criterion with its figure and its bound."""
    label, unit = CRITERIA[finding.criterion]
    if unit is None:
        shown = ("yes" if finding.met else "no") if finding.met is not None else UNKNOWN
        figures = (shown, "yes")
    else:
        bound = say(finding.bound, unit)
        figures = (say(finding.figure, unit), bound if bound == UNKNOWN else f"at most {bound}")
    return label, *figures, MET[finding.met], plain(finding.why, 200)


def acceptance_table(envelope: Envelope) -> Table:
    """Every criterion."""
    findings = envelope.acceptance.findings
    return Table(
        ("criterion", "measured", "bound", "result", "why"),
        tuple(finding_row(finding) for finding in findings),
        tuple(finding.met is True for finding in findings),
    )


def build_report(envelope: Envelope) -> Report:
    """All that a report says of an envelope."""
    first = (
        Paragraph(say_verdict(envelope), strong=True),
        Paragraph(say_safe(envelope), strong=True),
        summary_facts(envelope),
        Plots(),
    )
    return Report(
        f"Capacity envelope {plain(envelope.name, MOST_NAME)}",
        envelope.acceptance.accepted,
        (
            Section("", first),
            Section("Acceptance", (acceptance_table(envelope),)),
            Section("Stages", tuple(stage_blocks(envelope))),
            Section("Server and client", tuple(client_blocks(envelope))),
            Section("What was measured", tuple(identity_blocks(envelope))),
            Section("Way back", tuple(rollback_blocks(envelope))),
        ),
    )
