"""Judgements as lines for people: plain words and counts, never a line of a log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sidecar.catalog import signals
from sidecar.catalog import vllm_metrics as roles
from sidecar.derive import latency
from sidecar.derive.placement import Placement, find_placement
from sidecar.model.advice import Advice, Lever
from sidecar.model.evidence import Evidence
from sidecar.model.verdict import CauseFound, Judgement
from sidecar.model.vocabulary import (
    Cause,
    Confidence,
    LimitOwner,
    Party,
    ServerState,
    Source,
    Verdict,
)
from sidecar.model.window import Window
from sidecar.telling.figures import count_of, iso_time, say_list
from sidecar.telling.plain import plain_words
from sidecar.telling.words import LEVERS, say_kind

MAX_LINE = 2_000
"""Characters of a line about a lever."""
FULL = 0.9
"""Below this share the sampled cache does not explain a preemption by itself."""
PARTY_WORDS: Mapping[Party | None, str] = {
    Party.API_SERVER: "the API server",
    Party.ENGINE: "an engine",
    Party.WORKER: "a worker",
    Party.OTHER: "a process that is none of vLLM's by its name",
    None: "a process",
}
OWNER_WORDS: Mapping[LimitOwner | None, str] = {
    LimitOwner.OWN: " at the limit of the server's own control group",
    LimitOwner.ABOVE: " at the limit of a control group above the server's",
    LimitOwner.BELOW: " at the limit of a control group below the server's",
    LimitOwner.HOST: " because the host ran out of memory",
    None: "",
}
SIGNAL_WORDS: Mapping[str, str] = {
    signals.OOM_KILL_BELOW: "the kill was in a control group below the server's",
    signals.OOM_KILL_WITNESSED: "the control group above the server's counted the kill",
    signals.USERSPACE_KILL: "systemd-oomd or another monitor marked the control group as killed",
    signals.ENGINE_PROCESS_LOST: "an engine process is gone while the API server still answers",
    signals.SERVER_RESTARTED: "another server has taken its place, and nothing told why",
    signals.CONTAINER_OOM_KILLED: "the kubelet says OOMKilled, which may mean a child alone",
    signals.CONTAINER_TERMINATED: "the kubelet saw the container end",
    signals.ORPHANS_LEFT: (
        "engine processes without an API server are left: they hold their GPU memory until they "
        "are killed"
    ),
}
"""What a sign means, where its name alone would not tell somebody what to do."""
PLACEMENT_WORDS: Mapping[Placement, str] = {
    Placement.IDLE_WHILE_SERVING: "tokens flow, but no GPU that holds the server shows any work",
    Placement.MEMORY_ELSEWHERE: "the server is on other GPUs than those it was given",
}


def list_peaks(window: Window, role: str) -> list[float]:
    """The peak of a gauge on each engine that shows it."""
    return [e.gauges[role].greatest for e in window.engines.values() if role in e.gauges]


def say_preemption(window: Window, found: CauseFound) -> str:
    """How often, for how much work, and how full the cache was."""
    counted = [e.deltas.get(roles.PREEMPTIONS, 0.0) for e in window.engines.values()]
    total = sum(counted) or sum(evidence.amount for evidence in found.evidence)
    finished = sum(latency.count_finished(engine) or 0.0 for engine in window.engines.values())
    usage = [peak for peak in list_peaks(window, roles.KV_USAGE) if 0 <= peak <= 1]
    peak = f", KV cache up to {max(usage):.0%} full" if usage else ""
    if usage and max(usage) < FULL:
        peak += " when sampled (the full moment lay between samples, or up to 4 s before)"
    return (
        f"{count_of(total, 'preemption')} in {round(window.rise_s, 1):.6g} s while "
        f"{count_of(finished, 'request')} finished{peak}"
    )


def say_stalled(window: Window) -> str:
    """How long, and how much work waited."""
    return (
        f"no token moved for {window.stalled_s:.1f} s while up to "
        f"{count_of(sum(list_peaks(window, roles.RUNNING)), 'request')} ran and "
        f"{sum(list_peaks(window, roles.WAITING)):.6g} waited"
    )


def say_cause(window: Window, found: CauseFound) -> str:
    """One cause in plain words, with the count of each sign for it."""
    if found.cause is Cause.PREEMPTION:
        return say_preemption(window, found)
    if found.cause is Cause.STALLED:
        return say_stalled(window)
    last = max((e.at.unix for e in found.evidence), default=window.end)
    if window.state is ServerState.DEAD and last <= window.start:
        return f"still dead since {iso_time(last)}: {say_found(found)}"
    return say_found(found)


def say_found(found: CauseFound) -> str:
    """A failure in plain words, with the count of each sign for it."""
    told = list(say_records(found.evidence)) or [say_kind(found.cause, found.kind)]
    told += [SIGNAL_WORDS[name] for name in names_of(found.evidence) if name in SIGNAL_WORDS]
    amounts: dict[str, float] = {}
    for evidence in found.evidence:
        sign = f"{evidence.source.value} {evidence.signal}"
        amounts[sign] = amounts.get(sign, 0.0) + evidence.amount
    shown = ", ".join(f"{sign} x{amount:.6g}" for sign, amount in amounts.items())
    doubt = "" if found.confidence is Confidence.CONFIRMED else ", suspected only"
    text = "; ".join(told)
    return f"{text}{doubt} ({shown})" if shown else f"{text}{doubt}"


def say_urgent(causes: Sequence[CauseFound], observable: Mapping[Cause, bool]) -> str:
    """What is seen of a window that is still open."""
    told = "; ".join(say_found(found) for found in causes)
    return told + (say_doubt(causes[0].cause, observable) if causes else "")


def names_of(evidence: Iterable[Evidence]) -> list[str]:
    """The signals, each once, in order."""
    return list(dict.fromkeys(one.signal for one in evidence))


def say_records(evidence: Iterable[Evidence]) -> Iterator[str]:
    """Whom the kernel killed for whose limit, by its own records: a line for each limit and trigger."""
    victims: dict[tuple[LimitOwner | None, Party | None], list[str]] = {}
    for one in evidence:
        parties = one.parties
        if parties is not None and (parties.victim or parties.limit_owner):
            killed = victims.setdefault((parties.limit_owner, parties.trigger), [])
            killed.append(PARTY_WORDS[parties.victim])
    for (owner, trigger), killed in victims.items():
        asked = "" if trigger is None else f" when {PARTY_WORDS[trigger]} asked for memory"
        yield f"the kernel killed {say_list(list(dict.fromkeys(killed)))}{OWNER_WORDS[owner]}{asked}"


NOT_EVERYWHERE = frozenset({Source.KUBERNETES, Source.NVML})
"""Where nobody asked for them, it is no reason that they are not there."""


def say_faults(window: Window) -> str:
    """The sources that failed and why, in brackets; those nobody counts on only if no other did."""
    wanted = [item for item in sorted(window.sources.items()) if item[1].wanted]
    others = [item for item in sorted(window.sources.items()) if item[0] not in NOT_EVERYWHERE]
    failed = [item for item in wanted if item[1].faults] or others
    faults = [
        f"{source.value} {fault.value} x{seen.faults[fault]}"
        for source, seen in failed
        for fault in sorted(seen.faults)
    ]
    return f" ({', '.join(faults)})" if faults else ""


def say_unknown(judgement: Judgement) -> str:
    """What could not be seen, and which sources did not speak."""
    window = judgement.window
    hidden = [cause.value for cause in Cause if not judgement.observable.get(cause, False)]
    why = say_faults(window)
    if window.state is ServerState.STARTING:
        return f"the server is starting{why}"
    if window.blind:
        return f"vLLM answered but showed no series that is known{why}"
    if hidden:
        return f"nothing was seen, but {say_list(hidden)} could not have been{why}"
    return f"too little was seen to judge{why}"


def say_none(judgement: Judgement) -> str:
    """That nothing was seen, what could not have been, and the work that was done meanwhile."""
    window = judgement.window
    hidden = [cause.value for cause in Cause if not judgement.observable.get(cause, False)]
    blind = f" ({say_list(hidden)} cannot be observed from here)" if hidden else ""
    counts = [latency.count_finished(engine) for engine in window.engines.values()]
    done = [count for count in counts if count is not None]
    work = f"; {count_of(sum(done), 'request')} finished" if done else ""
    return f"no cause was seen{blind}{work}"


def explain(judgement: Judgement) -> str:
    """One plain sentence that says why the window is judged so."""
    window = judgement.window
    if judgement.verdict is Verdict.NONE:
        return say_none(judgement)
    first = next((c for c in judgement.causes if c.cause.verdict is judgement.verdict), None)
    if judgement.verdict is Verdict.UNKNOWN or first is None:
        return say_unknown(judgement)
    others = [found.cause.value for found in judgement.causes if found is not first]
    also = f"; also {say_list(others)}" if others else ""
    return say_cause(window, first) + also + say_doubt(first.cause, judgement.observable)


def say_doubt(cause: Cause, observable: Mapping[Cause, bool]) -> str:
    """What may be behind a failure and could not have been seen."""
    if cause is Cause.ENGINE_FAILURE and not observable.get(Cause.HOST_OOM, False):
        return "; a kill for lack of host memory could not have been seen: look into the kernel log first"
    return ""


def window_line(judgement: Judgement) -> str:
    """A closed window as one line for people: end in UTC, verdict, severity, why."""
    severity = "" if judgement.severity is None else f" ({judgement.severity.value})"
    partial = ", partial window" if judgement.window.partial else ""
    end = iso_time(judgement.window.end)
    odd = "".join(f"; {PLACEMENT_WORDS[one]}" for one in find_placement(judgement.window))
    return f"{end} {judgement.verdict.value}{severity}: {explain(judgement)}{partial}{odd}"


def lever_lines(advice: Advice) -> list[str]:
    """The lever as lines: what to turn and by how much, why, at what cost, why nothing else.

    None for none; advice that rests, after a change of the configuration, says so.
    """
    if advice.lever is Lever.NONE and not advice.resting:
        return []
    rejected = (f"{lever.value} ({why.rstrip('.')})" for lever, why in advice.rejected.items())
    parts = {
        "step": advice.step_words,
        "because": "; ".join(advice.because),
        "cost": advice.cost,
        "verify": advice.verify,
        "way back": advice.rollback,
        "rejected": "; ".join(rejected),
    }
    told = [f"  {name}: {plain_words(words, MAX_LINE)}" for name, words in parts.items() if words]
    return [f"lever {advice.lever.value}: {LEVERS[advice.lever]}", *told]


def window_text(judgement: Judgement, before: Judgement | None = None) -> str:
    """A closed window for people: its line, and below it the lever that it calls for.

    ``before``: the window that was told last; what it said of the same lever is not said again.
    """
    lever = lever_lines(judgement.advice)
    line = window_line(judgement)
    is_told = before is not None and (before.advice.lever, before.advice.resting) == (
        judgement.advice.lever,
        judgement.advice.resting,
    )
    return "\n  ".join([line, *([] if is_told else lever)])
