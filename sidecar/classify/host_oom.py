"""The kernel or a user-space killer took a process, or refused memory, for want of host memory."""

from sidecar.classify.oom import by_kind, roots_of
from sidecar.model.evidence import Evidence
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import Cause, Confidence, Kind, Severity, Source
from sidecar.model.window import Window


def find_host_oom(window: Window) -> tuple[CauseFound, ...]:
    """The cause, once for each kind. A kill that the server survived is a warning."""
    roots = roots_of(Cause.HOST_OOM, window.evidence)
    if any(e.is_refused_start for e in window.evidence):
        # A kill that may be another's then is another's.
        roots = tuple(e for e in roots if e.confidence is Confidence.CONFIRMED)
    recorded = {e.kind for e in roots if e.source is Source.KERNEL_LOG}

    def kind_of(evidence: Evidence) -> Kind:
        # A cgroup counts kills of its processes by any OOM killer; whose limit it was, only the
        # kernel's record tells (cgroup-v2.rst, memory.events oom_kill).
        if evidence.source is Source.CGROUP and recorded == {Kind.SYSTEM}:
            return Kind.SYSTEM
        return evidence.kind

    severity = Severity.WARNING if window.survived else Severity.CRITICAL
    return by_kind(
        Cause.HOST_OOM,
        roots,
        phase=window.phase,
        kind_of=kind_of,
        severity_of=lambda _kind: severity,
    )
