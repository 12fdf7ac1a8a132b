"""A checkpoint as JSON and back. What does not read as one is refused whole, never half believed."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from sidecar.catalog.signals import EVIDENCE
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.limits import Known, Limit, Origin
from sidecar.model.report import EvidenceKey
from sidecar.model.samples import Instant
from sidecar.model.saved_state import (
    AdviceMemory,
    CgroupMemory,
    Checkpoint,
    IncidentMemory,
    PodMemory,
    WindowMemory,
    Work,
)
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase, Severity, Source, Verdict, Way

FORMAT = 1
MOST_SETTING = 2.0**60
"""No limit of a server is greater, in bytes, tokens or requests."""
LATEST_UNIX = 1e11
"""In the year 5138: unix seconds with a digit more than any clock shows are of another unit."""
AHEAD_S = 86_400.0
"""Seconds by which a moment may lie after the saving: the end of a window, a clock that was set back."""
KNOWN = frozenset(EVIDENCE)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The checkpoint as one line of JSON. It holds closed names, numbers, and places in logs."""
    incident = checkpoint.incident
    value = {
        "format": FORMAT,
        "saved": checkpoint.saved_unix,
        "positions": checkpoint.positions,
        "evidence": [
            [key.cause, key.source, key.signal, total]
            for key, total in checkpoint.evidence.items()
            if total
        ],
        "windows": checkpoint.windows,
        "last_evidence": checkpoint.last_evidence,
        "episodes": checkpoint.episodes,
        "preemption_total": checkpoint.preemption_total,
        "cgroup": checkpoint.cgroup,
        "kernel_position": checkpoint.kernel_position,
        "processes": {str(pid): comm for pid, comm in checkpoint.processes.items()},
        "pod": checkpoint.pod,
        "advice": checkpoint.advice,
        "rumours": [encode_evidence(one) for one in checkpoint.rumours],
        "strays": [encode_evidence(one) for one in checkpoint.strays],
        "unjudged": [
            {
                "start": window.start,
                "end": window.end,
                "evidence": [encode_evidence(one) for one in window.evidence],
                "kills_unseen": window.kills_unseen,
                "records_lost": window.records_lost,
            }
            for window in checkpoint.unjudged
        ],
        "incident": None
        if incident is None
        else {
            "opened": incident.opened,
            "last": incident.last,
            "stamp": incident.stamp,
            "root": None if incident.root is None else encode_evidence(incident.root),
            "seen": sorted(incident.seen),
        },
    }
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, default=fields_of)
    return text.encode() + b"\n"


def fields_of(memory: CgroupMemory | PodMemory | AdviceMemory | Work | Known) -> dict[str, object]:
    """What one of these holds, by name. Nothing is copied, as ``dataclasses.asdict`` would do."""
    return {each.name: getattr(memory, each.name) for each in fields(memory)}


def encode_evidence(evidence: Evidence) -> dict[str, object]:
    """One piece of evidence."""
    return {
        "cause": evidence.cause,
        "kind": evidence.kind,
        "source": evidence.source,
        "signal": evidence.signal,
        "weight": evidence.weight,
        "confidence": evidence.confidence,
        "phase": evidence.phase,
        "amount": evidence.amount,
        "at": evidence.at.unix,
    }


def decode_checkpoint(text: bytes) -> Checkpoint:
    """The checkpoint that ``encode_checkpoint`` wrote.

    Raises:
        ValueError: it is anything else.
    """
    try:
        value = json.loads(text)
        if value["format"] != FORMAT:
            raise ValueError("a checkpoint of another format")
        checkpoint = Checkpoint(
            saved_unix=number(value["saved"]),
            positions={str(name): dict(at) for name, at in value["positions"].items()},
            evidence=decode_totals(value["evidence"]),
            windows={Verdict(name): int(n) for name, n in value["windows"].items()},
            last_evidence={Cause(n): number(at) for n, at in value["last_evidence"].items()},
            episodes={
                Cause(name): {Severity(level): number(at) for level, at in levels.items()}
                for name, levels in value["episodes"].items()
            },
            incident=decode_incident(value["incident"]),
            preemption_total=optional(value["preemption_total"]),
            cgroup=decode_cgroup(value.get("cgroup")),
            kernel_position=dict(value.get("kernel_position") or {}),
            processes={
                whole(int(pid)): str(comm) for pid, comm in (value.get("processes") or {}).items()
            },
            pod=decode_pod(value.get("pod")),
            rumours=tuple(decode_evidence(one) for one in value.get("rumours") or ()),
            strays=tuple(decode_evidence(one) for one in value.get("strays") or ()),
            advice=decode_advice(value.get("advice")),
            unjudged=tuple(decode_window(window) for window in value.get("unjudged") or ()),
        )
    except (KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError("not a checkpoint") from error
    refuse_impossible_times(checkpoint)
    return checkpoint


def refuse_impossible_times(checkpoint: Checkpoint) -> None:
    """Refuse times that no clock showed: what is to end in a thousand years would never be told.

    Raises:
        ValueError: a moment lies behind all clocks or long after the saving, or a window ends before
            it begins.
    """
    latest = min(checkpoint.saved_unix + AHEAD_S, LATEST_UNIX)
    if any(moment > latest for moment in moments_of(checkpoint)):
        raise ValueError("a moment that is not of this checkpoint's time")
    if any(window.end < window.start for window in checkpoint.unjudged):
        raise ValueError("a window that ends before it begins")


def moments_of(checkpoint: Checkpoint) -> Iterator[float]:
    """Every moment in a checkpoint, unix seconds."""
    yield checkpoint.saved_unix
    yield from checkpoint.last_evidence.values()
    for levels in checkpoint.episodes.values():
        yield from levels.values()
    for window in checkpoint.unjudged:
        yield from (window.start, window.end)
    incident, advice = checkpoint.incident, checkpoint.advice
    if incident is not None:
        yield from (incident.opened, incident.last)
    if advice is not None:
        told = (advice.cuda_oom, advice.failed_start, advice.cotenant)
        yield from (moment for moment in told if moment is not None)
    yield from (one.at.unix for one in evidence_of(checkpoint))


def evidence_of(checkpoint: Checkpoint) -> Iterator[Evidence]:
    """Every piece of evidence in a checkpoint."""
    for window in checkpoint.unjudged:
        yield from window.evidence
    yield from (*checkpoint.rumours, *checkpoint.strays)
    incident = checkpoint.incident
    if incident is not None and incident.root is not None:
        yield incident.root


def decode_totals(rows: list[list[Any]]) -> Mapping[EvidenceKey, float]:
    """Totals by their key; a key that this version does not know any more is left out."""
    found = {}
    for cause, source, signal, total in rows:
        key = EvidenceKey(Cause(cause), Source(source), str(signal))
        if key in KNOWN:
            found[key] = number(total)
    return found


def decode_incident(value: Mapping[str, Any] | None) -> IncidentMemory | None:
    """The running incident, if there was one."""
    if value is None:
        return None
    root = value["root"]
    return IncidentMemory(
        opened=number(value["opened"]),
        last=number(value["last"]),
        stamp=optional(value["stamp"]),
        root=None if root is None else decode_evidence(root),
        seen=frozenset((Cause(cause), str(signal)) for cause, signal in value["seen"]),
    )


def decode_evidence(value: Mapping[str, Any]) -> Evidence:
    """One piece of evidence; its moment is known on the wall clock only."""
    at = number(value["at"])
    return Evidence(
        cause=Cause(value["cause"]),
        kind=Kind(value["kind"]),
        source=Source(value["source"]),
        signal=str(value["signal"]),
        weight=Weight(value["weight"]),
        confidence=Confidence(value["confidence"]),
        phase=Phase(value["phase"]),
        amount=number(value["amount"]),
        at=Instant(at, at),
    )


def decode_window(value: Mapping[str, Any]) -> WindowMemory:
    """A window that was not judged yet."""
    return WindowMemory(
        start=number(value["start"]),
        end=number(value["end"]),
        evidence=tuple(decode_evidence(one) for one in value["evidence"]),
        kills_unseen=bool(value["kills_unseen"]),
        records_lost=bool(value["records_lost"]),
    )


def decode_cgroup(value: Mapping[str, Any] | None) -> CgroupMemory | None:
    """The counters of kills as they were last read, if they were."""
    if value is None:
        return None
    children = value["children"]
    return CgroupMemory(
        boot=text_or_none(value["boot"]),
        path=str(value["path"]),
        identity=whole_or_none(value["identity"]),
        container=text_or_none(value["container"]),
        counts={str(name): whole(n) for name, n in value["counts"].items()},
        gone=bool(value["gone"]),
        way=None if value["way"] is None else Way(value["way"]),
        inner=bool(value["inner"]),
        anchored=bool(value["anchored"]),
        witness_path=text_or_none(value["witness_path"]),
        witness_identity=whole_or_none(value["witness_identity"]),
        witness_kills=whole_or_none(value["witness_kills"]),
        children=None
        if children is None
        else {str(name): whole(n) for name, n in children.items()},
        counted=whole(value["counted"]),
    )


def decode_pod(value: Mapping[str, Any] | None) -> PodMemory | None:
    """The restarts of our pod's containers as they were last seen, if they were."""
    if value is None:
        return None
    restarts = {str(name): whole(n) for name, n in value["restarts"].items()}
    return PodMemory(uid=str(value["uid"]), restarts=restarts)


def decode_advice(value: Mapping[str, Any] | None) -> AdviceMemory | None:
    """What advice remembers, if it does; a limit that this version does not know is left out."""
    if value is None:
        return None
    work = value["work"]
    return AdviceMemory(
        cuda_oom=optional(value["cuda_oom"]),
        failed_start=optional(value["failed_start"]),
        cotenant=optional(value["cotenant"]),
        limits={
            Limit(name): Known(limited(told["value"]), Origin(told["origin"]))
            for name, told in value["limits"].items()
            if name in set(Limit)
        },
        work=None
        if work is None
        else Work(
            preemptions=number(work["preemptions"]),
            finished=number(work["finished"]),
            tokens=number(work["tokens"]),
            seconds=positive(work["seconds"]),
        ),
    )


def limited(value: object) -> float:
    """A number that a setting can have: bytes of a host fit."""
    found = number(value)
    if found > MOST_SETTING:
        raise ValueError("too large for a setting")
    return found


def positive(value: object) -> float:
    """A finite number above zero."""
    found = number(value)
    if not found:
        raise ValueError("zero")
    return found


def whole(value: object) -> int:
    """A whole number from zero that fits into 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("not a whole number")
    if not 0 <= value < 1 << 64:
        raise ValueError("not a whole number from zero")
    return value


def whole_or_none(value: object) -> int | None:
    """A whole number from zero, or None."""
    return None if value is None else whole(value)


def text_or_none(value: object) -> str | None:
    """A text, or None."""
    return None if value is None else str(value)


def number(value: object) -> float:
    """A finite number from zero."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("not a number")
    if not 0 <= value < math.inf:
        raise ValueError("not a number from zero")
    return float(value)


def optional(value: object) -> float | None:
    """A finite number from zero, or None."""
    return None if value is None else number(value)
