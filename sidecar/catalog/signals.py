"""The closed set of evidence: every (cause, source, signal) that can ever be exported."""

from sidecar.catalog.signatures import SIGNATURES, Scope
from sidecar.model.report import EvidenceKey
from sidecar.model.vocabulary import Cause, Source

PREEMPTIONS_COUNTER = "preemptions_counter"
NO_PROGRESS = "no_progress"
SERVER_VANISHED = "server_vanished"
HEALTH_FAILING = "health_failing"
PROCESSES_VANISHED = "processes_vanished"
ORPHANS_LEFT = "orphans_left"
ENGINE_PROCESS_LOST = "engine_process_lost"
SERVER_RESTARTED = "server_restarted"
OOM_KILL = "oom_kill"
OOM_KILL_BELOW = "oom_kill_below"
OOM_KILL_WITNESSED = "oom_kill_witnessed"
OOM_GROUP_KILL = "oom_group_kill"
USERSPACE_KILL = "userspace_kill"
OOM_KILL_RECORD = "oom_kill_record"
CONTAINER_OOM_KILLED = "container_oom_killed"
CONTAINER_TERMINATED = "container_terminated"

FIXED = (
    EvidenceKey(Cause.PREEMPTION, Source.VLLM_METRICS, PREEMPTIONS_COUNTER),
    EvidenceKey(Cause.STALLED, Source.VLLM_METRICS, NO_PROGRESS),
    EvidenceKey(Cause.ENGINE_FAILURE, Source.VLLM_METRICS, SERVER_VANISHED),
    EvidenceKey(Cause.ENGINE_FAILURE, Source.VLLM_HEALTH, HEALTH_FAILING),
    EvidenceKey(Cause.ENGINE_FAILURE, Source.PROCESS, PROCESSES_VANISHED),
    EvidenceKey(Cause.ENGINE_FAILURE, Source.PROCESS, ORPHANS_LEFT),
    EvidenceKey(Cause.ENGINE_FAILURE, Source.PROCESS, ENGINE_PROCESS_LOST),
    EvidenceKey(Cause.ENGINE_FAILURE, Source.PROCESS, SERVER_RESTARTED),
    EvidenceKey(Cause.ENGINE_FAILURE, Source.KUBERNETES, CONTAINER_TERMINATED),
    EvidenceKey(Cause.HOST_OOM, Source.CGROUP, OOM_KILL),
    EvidenceKey(Cause.HOST_OOM, Source.CGROUP, OOM_KILL_BELOW),
    EvidenceKey(Cause.HOST_OOM, Source.CGROUP, OOM_KILL_WITNESSED),
    EvidenceKey(Cause.HOST_OOM, Source.CGROUP, USERSPACE_KILL),
    EvidenceKey(Cause.HOST_OOM, Source.CGROUP, OOM_GROUP_KILL),
    EvidenceKey(Cause.HOST_OOM, Source.KERNEL_LOG, OOM_KILL_RECORD),
    EvidenceKey(Cause.HOST_OOM, Source.KUBERNETES, CONTAINER_OOM_KILLED),
)


def from_log() -> tuple[EvidenceKey, ...]:
    """The evidence that vLLM's own log can give."""
    keys = {
        EvidenceKey(row.cause, Source.VLLM_LOG, row.signal)
        for row in SIGNATURES.values()
        if row.cause is not None and row.scope is not Scope.SYSTEM
    }
    return tuple(sorted(keys, key=lambda key: (key.cause, key.signal)))


EVIDENCE: tuple[EvidenceKey, ...] = (*FIXED, *from_log())
