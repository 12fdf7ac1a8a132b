"""All causes of a window -> its verdict. Absence is never health."""

from collections.abc import Mapping

from sidecar.catalog import vllm_metrics as roles
from sidecar.catalog.shown_by import SHOWN_BY
from sidecar.classify.cuda_oom import find_cuda_oom
from sidecar.classify.engine_failure import find_engine_failure
from sidecar.classify.host_oom import find_host_oom
from sidecar.classify.policy import Policy
from sidecar.classify.preemption import find_preemption
from sidecar.classify.stalled import find_stalled
from sidecar.model.verdict import CauseFound, Judgement
from sidecar.model.vocabulary import Cause, ServerState, Severity, Source, Verdict
from sidecar.model.window import Window

LOUDNESS = tuple(Severity)
COULD_SHOW_A_CAUSE = (Source.VLLM_LOG, Source.CGROUP, Source.KERNEL_LOG)
"""Sources which, once asked for, leave a cause unseen while they fail."""


def find_failures(window: Window) -> tuple[CauseFound, ...]:
    """The causes that show at once, before the window closes."""
    return (*find_host_oom(window), *find_cuda_oom(window), *find_engine_failure(window))


def judge(
    window: Window,
    policy: Policy,
    *,
    beyond_before: int = 0,
    standing: tuple[CauseFound, ...] = (),
) -> Judgement:
    """The verdict: the first cause by precedence, else ``unknown`` unless health was seen.

    ``standing``: the failures of which the server died before this window. A window in which it
    lay dead suffers from them still, whatever its metrics page goes on to answer.
    """
    dead = window.state is ServerState.DEAD
    failures = find_failures(window) or (standing if dead else ())
    causes = (
        *failures,
        *find_stalled(window),
        *find_preemption(window, policy, beyond_before),
    )
    return Judgement(
        window=window,
        verdict=causes[0].cause.verdict if causes else verdict_without_cause(window),
        severity=loudest(causes),
        causes=causes,
        observable=find_observable(window),
    )


def loudest(causes: tuple[CauseFound, ...]) -> Severity | None:
    """The greatest severity among the causes."""
    return max((c.severity for c in causes), key=LOUDNESS.index, default=None)


def verdict_without_cause(window: Window) -> Verdict:
    """``none`` only where the server was seen well by everything that was asked to look.

    A host OOM or a CUDA OOM that ends a server also ends its answers, so a server that answers to
    the end of the window, with its counters readable, had none that mattered; a source that was
    asked for and failed all the while could have shown one that did.
    """
    if not window.served or not can_see_preemption(window):
        return Verdict.UNKNOWN
    if window.down and window.state is not ServerState.STOPPED:
        return Verdict.UNKNOWN
    if window.state is ServerState.DEAD:
        return Verdict.UNKNOWN
    if window.restart_unexplained or (window.kills_unseen and not can_see_kills(window)):
        return Verdict.UNKNOWN
    for source in COULD_SHOW_A_CAUSE:
        seen = window.sources.get(source)
        if seen is not None and seen.wanted and seen.faults and not seen.readings:
            return Verdict.UNKNOWN
    return Verdict.NONE


def can_see_preemption(window: Window) -> bool:
    """Whether the preemption counter was readable, or cannot exist yet (V0 before its first)."""
    return window.served and (roles.PREEMPTIONS in window.found or window.idle_v0)


def can_see_kills(window: Window) -> bool:
    """Whether a kill for memory would have been seen: by its counter, or by the kernel's record."""

    def reads(source: Source) -> bool:
        return source in window.sources and window.sources[source].readings > 0

    counted = reads(Source.CGROUP) and not window.kills_unseen
    return counted or (reads(Source.KERNEL_LOG) and not window.records_lost)


def find_observable(window: Window) -> Mapping[Cause, bool]:
    """Which causes a working source could have shown in this window."""

    def is_read(cause: Cause) -> bool:
        return any(
            source in window.sources and window.sources[source].readings > 0
            for source in SHOWN_BY[cause]
        )

    return {
        Cause.PREEMPTION: can_see_preemption(window),
        Cause.CUDA_OOM: is_read(Cause.CUDA_OOM),
        Cause.HOST_OOM: can_see_kills(window),
        Cause.ENGINE_FAILURE: is_read(Cause.ENGINE_FAILURE),
        Cause.STALLED: window.served,
    }
