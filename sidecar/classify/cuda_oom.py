"""A GPU allocation failed, or vLLM refused to start for lack of GPU memory."""

from sidecar.classify.oom import by_kind, roots_of
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import Cause, Kind, Severity
from sidecar.model.window import Window


def find_cuda_oom(window: Window) -> tuple[CauseFound, ...]:
    """The cause, once for each kind: the two kinds look alike and need opposite levers."""

    def severity_of(kind: Kind) -> Severity:
        caught = kind is Kind.ALLOCATION_FAILURE and window.survived
        return Severity.WARNING if caught else Severity.CRITICAL

    return by_kind(
        Cause.CUDA_OOM,
        roots_of(Cause.CUDA_OOM, window.evidence),
        phase=window.phase,
        kind_of=lambda evidence: evidence.kind,
        severity_of=severity_of,
    )
