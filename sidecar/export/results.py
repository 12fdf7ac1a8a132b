"""Judgements and reports as JSON objects.

The same value gives the same text, byte for byte: keys in fixed order, numbers rounded to
``values.DECIMALS``, times in UTC. Nothing here holds text of a user, a log or a request.
"""

import json
from collections.abc import Mapping

from sidecar.catalog import vllm_metrics as roles
from sidecar.catalog.exported import GPU_LIMIT, INFO_LABELS
from sidecar.derive import latency
from sidecar.export.budget_results import (
    budgets_result,
    gpu_budget_result,
    lever_result,
    limits_result,
    placement_result,
)
from sidecar.export.values import Json, number, numbers
from sidecar.model.evidence import Evidence, Parties
from sidecar.model.readings import CgroupReading, Gpu
from sidecar.model.report import HostOutlook, ProcessCount, Report, SourceStatus
from sidecar.model.verdict import CauseFound, Judgement
from sidecar.model.vocabulary import Cause, Party, Source, Verdict
from sidecar.model.window import EngineWindow, Window
from sidecar.telling.plain import order_engine, plain_engine, plain_text


def encode(value: Json) -> str:
    """One line of JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def evidence_result(evidence: Evidence) -> dict[str, Json]:
    """One piece of evidence, with whom a kill hit where that was told."""
    return {
        "source": evidence.source.value,
        "signal": evidence.signal,
        "amount": number(evidence.amount),
        "at": number(evidence.at.unix),
        "engine": None if evidence.engine is None else plain_engine(evidence.engine),
        **parties_result(evidence.parties),
    }


def parties_result(parties: Parties | None) -> dict[str, Json]:
    """Victim, trigger and owner of the limit, those that are known."""
    if parties is None:
        return {}
    told = {
        "victim": parties.victim,
        "trigger": parties.trigger,
        "limit_owner": parties.limit_owner,
    }
    return {name: word.value for name, word in told.items() if word is not None}


def cause_result(found: CauseFound) -> dict[str, Json]:
    """One cause of a window."""
    return {
        "cause": found.cause.value,
        "kind": found.kind.value,
        "phase": found.phase.value,
        "confidence": found.confidence.value,
        "severity": found.severity.value,
        "evidence": [evidence_result(evidence) for evidence in found.evidence],
    }


def observable_result(observable: Mapping[Cause, bool]) -> dict[str, Json]:
    """Which causes could have been seen; a cause that is not told could not."""
    return {cause.value: observable.get(cause, False) for cause in Cause}


def sort_engines(window: Window) -> list[tuple[str, EngineWindow]]:
    """The engines in the order of their numbers."""
    return sorted(window.engines.items(), key=lambda item: order_engine(item[0]))


def latency_result(window: Window) -> dict[str, Json]:
    """Quantiles of each latency that was observed, in seconds.

    vLLM's queue time ends when a request is first scheduled. Where requests were preempted it is
    marked: what they waited afterwards is in ``inter_token`` and ``e2e``.
    """
    told: dict[str, dict[str, Json]] = {
        role: numbers(
            {
                "count": measured.count,
                "mean": measured.mean,
                **{f"p{share * 100:g}": value for share, value in measured.quantiles.items()},
            }
        )
        for role, measured in latency.measure_latency(window).items()
        if measured.quantiles
    }
    if roles.QUEUE in told and any(
        engine.deltas.get(roles.PREEMPTIONS, 0.0) > 0 for engine in window.engines.values()
    ):
        told[roles.QUEUE]["without_wait_after_preemption"] = True
    return dict(told)


def preemptions_result(window: Window) -> dict[str, Json]:
    """Preemptions in the window by engine, where they are counted."""
    counts: dict[str, float | None] = {}
    for name, engine in sort_engines(window):
        rise = engine.deltas.get(roles.PREEMPTIONS)
        if rise is not None:
            label = plain_engine(name)
            counts[label] = (counts.get(label) or 0.0) + rise
    return numbers(counts)


def window_result(judgement: Judgement) -> dict[str, Json]:
    """A closed window as the object that ``replay`` and ``/api/windows`` give."""
    window = judgement.window
    ended = latency.count_outcomes(window)
    return {
        "window": {"start": number(window.start), "end": number(window.end)},
        "verdict": judgement.verdict.value,
        "severity": None if judgement.severity is None else judgement.severity.value,
        "causes": [cause_result(found) for found in judgement.causes],
        "observable": observable_result(judgement.observable),
        "budgets": budgets_result(window, judgement.budgets),
        "latency": latency_result(window),
        "lever": lever_result(judgement.advice),
        "limits": limits_result(window.limits),
        "gpus": [gpu_budget_result(gpu) for gpu in window.gpus[:GPU_LIMIT]],
        "placement": placement_result(window),
        "state": window.state.value,
        "phase": window.phase.value,
        "partial": window.partial,
        "restarted": window.restarted,
        "preemptions": preemptions_result(window),
        "requests": numbers({name.value: ended[name] for name in sorted(ended)}),
        "throughput": numbers(dict(latency.measure_throughput(window))),
    }


def source_result(status: SourceStatus) -> dict[str, Json]:
    """The health of one source."""
    return {
        "configured": status.configured,
        "up": status.up,
        "last_fault": None if status.last_fault is None else status.last_fault.value,
        "last_at": None if status.last_at is None else number(status.last_at.unix),
        "duration_seconds": number(status.duration_s),
        "errors": numbers({fault.value: status.errors[fault] for fault in sorted(status.errors)}),
    }


def gpu_result(gpu: Gpu) -> dict[str, Json]:
    """One GPU, in bytes."""
    return {
        "index": gpu.index,
        "name": plain_text(gpu.name),
        "memory": numbers(
            {"total": gpu.total, "used": gpu.used, "free": gpu.free, "reserved": gpu.reserved}
        ),
        "utilization": number(gpu.utilization),
        "mig": gpu.mig,
        "lost": gpu.lost,
    }


def host_memory_result(cgroup: CgroupReading | None, outlook: HostOutlook | None) -> Json:
    """The control group's memory in bytes; its path stays here."""
    if cgroup is None or cgroup.gone:
        return None
    return {
        "version": cgroup.version,
        **numbers(
            {
                "current": cgroup.current,
                "limit": cgroup.limit,
                "peak": cgroup.peak,
                "reclaimable": cgroup.reclaimable,
                "shmem": cgroup.shmem,
                "unevictable": cgroup.unevictable,
            }
        ),
        "events": numbers({name: cgroup.events[name] for name in sorted(cgroup.events)}),
        **outlook_result(outlook),
    }


def outlook_result(outlook: HostOutlook | None) -> dict[str, Json]:
    """How near a kill is: bytes to each limit, bytes per second, seconds; what is known."""
    if outlook is None:
        return {}
    return {
        "headroom": numbers({owner.value: room for owner, room in outlook.headroom.items()}),
        **numbers(
            {
                "growth_bytes_per_second": outlook.growth,
                "time_to_limit_seconds": outlook.time_to_limit_s,
            }
        ),
    }


def processes_result(processes: ProcessCount | None) -> Json:
    """The server's processes by role, None while they cannot be seen."""
    if processes is None:
        return None
    return {
        **{party.value: processes.parties.get(party, 0) for party in Party},
        "orphaned": processes.orphaned,
        **numbers({"pinned_bytes": processes.pinned}),
    }


def report_result(report: Report) -> dict[str, Json]:
    """The state of knowledge after the last tick, as ``/api/report`` gives it."""
    last = report.last_window
    alerts = {cause.value: report.alerts.get(cause) for cause in Cause}
    return {
        "at": number(report.at.unix),
        "verdict": report.verdict.value,
        "state": report.state.value,
        "state_since": number(report.state_since.unix),
        "urgent": [cause_result(found) for found in report.urgent],
        "alerts": {name: severity.value for name, severity in alerts.items() if severity},
        "observable": observable_result(report.observable),
        "last_evidence": numbers({c.value: report.last_evidence.get(c) for c in Cause}),
        "windows": numbers({v.value: report.windows_total.get(v, 0) for v in Verdict}),
        "sources": {
            source.value: source_result(report.sources.get(source, SourceStatus()))
            for source in Source
        },
        "clock": numbers(
            {
                "ticks": report.clock.ticks,
                "missed": report.clock.missed,
                "lateness_seconds": report.clock.lateness_s,
                "skew_seconds": report.clock.skew_s,
            }
        ),
        "log": numbers(
            {
                "lines": report.log.lines,
                "bytes": report.log.bytes,
                "lag_bytes": report.log.lag_bytes,
                "dropped": sum(report.log.dropped.values()),
            }
        ),
        "found": [role.role for role in roles.ROLES if role.role in report.found],
        "names": {
            role.role: report.names[role.role] for role in roles.ROLES if role.role in report.names
        },
        "info": {
            name: plain_text(report.info[name]) for name in INFO_LABELS if name in report.info
        },
        "gpus": [gpu_result(gpu) for gpu in report.nvml.gpus] if report.nvml else [],
        "host_memory": host_memory_result(report.cgroup, report.outlook),
        "processes": processes_result(report.processes),
        "lever": lever_result(report.advice),
        "last_window": None if last is None else window_result(last),
    }
