"""Hypothesis strategies for reports, from ordinary to hostile.

Nothing here is believable: names of engines, models and reasons are any text, numbers may be
endless or no number, and there may be far more engines and GPUs than any machine has.
"""

from dataclasses import replace

from hypothesis import strategies as st

from sidecar.catalog import vllm_metrics as roles
from sidecar.model.advice import Advice, Lever, Step
from sidecar.model.budget import Binding, Budget, GpuBudget, Lengths, Sight
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.limits import Known, Limit, Origin
from sidecar.model.readings import CgroupReading, Gpu, Histogram, NvmlReading
from sidecar.model.report import ClockStatus, EvidenceKey, LogStatus, Report, SourceStatus
from sidecar.model.samples import Instant
from sidecar.model.verdict import CauseFound, Judgement
from sidecar.model.vocabulary import (
    Cause,
    Confidence,
    Fault,
    Kind,
    Phase,
    ServerState,
    Severity,
    Source,
    Verdict,
)
from sidecar.model.window import EngineWindow, Spread, Window

TEXT = st.text(max_size=80)
COUNTS = st.integers(0, 2**70)
BYTES = st.none() | COUNTS | st.just(2**1100)
ROLE_NAMES = st.sampled_from([role.role for role in roles.ROLES]) | TEXT
REASONS = st.sampled_from(["stop", "length", "abort", "error", "repetition"]) | TEXT

INSTANTS = st.builds(Instant, monotonic=st.floats(), unix=st.floats())
SPREADS = st.builds(
    Spread, least=st.floats(), mean=st.floats(), greatest=st.floats(), last=st.floats()
)
HISTOGRAMS = st.builds(
    Histogram,
    buckets=st.lists(st.tuples(st.floats(), st.floats()), max_size=5).map(tuple),
    count=st.floats(),
    total=st.floats(),
)
ENGINES = st.builds(
    EngineWindow,
    deltas=st.dictionaries(ROLE_NAMES, st.floats(), max_size=6),
    gauges=st.dictionaries(ROLE_NAMES, SPREADS, max_size=4),
    histograms=st.dictionaries(ROLE_NAMES, HISTOGRAMS, max_size=3),
    outcomes=st.dictionaries(REASONS, st.floats(), max_size=3),
)
EVIDENCE = st.builds(
    Evidence,
    cause=st.sampled_from(Cause),
    kind=st.sampled_from(Kind),
    source=st.sampled_from(Source),
    signal=st.sampled_from(["oom_kill", "torch_oom", "engine_dead"]),
    at=INSTANTS,
    weight=st.sampled_from(Weight),
    confidence=st.sampled_from(Confidence),
    phase=st.sampled_from(Phase),
    amount=st.floats(),
    engine=st.none() | TEXT,
)
CAUSES_FOUND = st.builds(
    CauseFound,
    cause=st.sampled_from(Cause),
    kind=st.sampled_from(Kind),
    phase=st.sampled_from(Phase),
    confidence=st.sampled_from(Confidence),
    severity=st.sampled_from(Severity),
    evidence=st.lists(EVIDENCE, max_size=3).map(tuple),
)
INFO = st.dictionaries(
    st.sampled_from(["model_name", "vllm_version", "kv_cache_size_tokens", "block_size"]) | TEXT,
    TEXT,
    max_size=4,
)


LIMITS = st.dictionaries(
    st.sampled_from(Limit), st.builds(Known, value=st.floats(), origin=st.sampled_from(Origin))
)
FIGURES = st.none() | st.floats()
LENGTHS = st.builds(Lengths, mean=FIGURES, p50=FIGURES, p95=FIGURES, p99=FIGURES)
BUDGETS = st.builds(
    Budget,
    capacity=FIGURES,
    demand=FIGURES,
    per_running=FIGURES,
    headroom=FIGURES,
    recomputed=FIGURES,
    prompt=LENGTHS,
    output=LENGTHS,
    waiting_by_reason=st.dictionaries(
        st.sampled_from(["capacity", "deferred"]) | TEXT, st.floats(), max_size=3
    ),
    admission_used=FIGURES,
    binding=st.sampled_from(Binding),
)
GPU_BUDGETS = st.builds(
    GpuBudget,
    index=st.integers(-5, 200),
    vllm=BYTES,
    cotenant=BYTES,
    free_durable=BYTES,
    cotenant_durable=BYTES,
    sight=st.sampled_from(Sight),
)
ADVICE = st.builds(
    Advice,
    lever=st.sampled_from(Lever),
    because=st.lists(TEXT, max_size=3).map(tuple),
    cost=TEXT,
    step=st.none()
    | st.builds(Step, setting=st.none() | st.sampled_from(Limit), value=FIGURES, now=FIGURES),
    step_words=TEXT,
    verify=TEXT,
    rollback=TEXT,
    rejected=st.dictionaries(st.sampled_from(Lever), TEXT, max_size=3),
    resting=st.booleans(),
)


@st.composite
def crowds(draw: st.DrawFn) -> dict[str, EngineWindow]:
    """Engines: a few with any name, and up to 400 numbered ones."""
    named = draw(st.dictionaries(TEXT, ENGINES, max_size=3))
    numbered = draw(ENGINES)
    return {**{str(n): numbered for n in range(draw(st.integers(0, 400)))}, **named}


@st.composite
def gpu_racks(draw: st.DrawFn) -> NvmlReading:
    """Up to 200 alike GPUs, one with any index."""
    count, odd = draw(st.tuples(st.integers(0, 200), st.integers(-(2**40), 2**40)))
    gpu = draw(
        st.builds(
            Gpu,
            index=st.just(odd),
            uuid=TEXT,
            name=TEXT,
            total=BYTES,
            used=BYTES,
            free=BYTES,
            reserved=BYTES,
            utilization=st.none() | st.floats(),
            processes=st.none(),
        )
    )
    return NvmlReading("570.1", (*(replace(gpu, index=n) for n in range(count)), gpu))


WINDOWS = st.builds(
    Window,
    start=st.floats(),
    end=st.floats(),
    partial=st.booleans(),
    state=st.sampled_from(ServerState),
    phase=st.sampled_from(Phase),
    engines=crowds(),
    evidence=st.just(()),
    sources=st.just({}),
    found=st.just(frozenset()),
    blind=st.booleans(),
    stalled_s=st.floats(),
    gpu_utilization=st.dictionaries(st.integers(), st.floats(), max_size=4),
    limits=LIMITS,
    gpus=st.lists(GPU_BUDGETS, max_size=3).map(tuple),
    info=INFO,
)
OBSERVABLE = st.dictionaries(st.sampled_from(Cause), st.booleans())
JUDGEMENTS = st.builds(
    Judgement,
    window=WINDOWS,
    verdict=st.sampled_from(Verdict),
    severity=st.none() | st.sampled_from(Severity),
    causes=st.lists(CAUSES_FOUND, max_size=3).map(tuple),
    observable=OBSERVABLE,
    budgets=st.dictionaries(st.integers(0, 90).map(str) | TEXT, BUDGETS, max_size=4),
    advice=ADVICE,
)
STATUSES = st.builds(
    SourceStatus,
    configured=st.booleans(),
    up=st.booleans(),
    last_fault=st.none() | st.sampled_from(Fault),
    last_at=st.none() | INSTANTS,
    duration_s=st.none() | st.floats(),
    errors=st.dictionaries(st.sampled_from(Fault), COUNTS),
)
CGROUPS = st.builds(
    CgroupReading,
    version=st.sampled_from([1, 2]),
    path=TEXT,
    gone=st.booleans(),
    events=st.dictionaries(st.sampled_from(["oom_kill", "max", "sock_throttled"]) | TEXT, COUNTS),
    current=BYTES,
    limit=BYTES,
    peak=BYTES,
    pressure=st.dictionaries(st.sampled_from(["some", "full"]) | TEXT, st.floats()),
)
EVIDENCE_KEYS = st.builds(
    EvidenceKey,
    cause=st.sampled_from(Cause),
    source=st.sampled_from(Source),
    signal=st.sampled_from(["oom_kill", "torch_oom"]) | TEXT,
)
REPORTS = st.builds(
    Report,
    at=INSTANTS,
    verdict=st.sampled_from(Verdict),
    state=st.sampled_from(ServerState),
    state_since=INSTANTS,
    last_window=st.none() | JUDGEMENTS,
    urgent=st.lists(CAUSES_FOUND, max_size=2).map(tuple),
    windows_total=st.dictionaries(st.sampled_from(Verdict), COUNTS),
    evidence_total=st.dictionaries(EVIDENCE_KEYS, st.floats(), max_size=5),
    last_evidence=st.dictionaries(st.sampled_from(Cause), st.floats()),
    alerts=st.dictionaries(st.sampled_from(Cause), st.sampled_from(Severity)),
    observable=OBSERVABLE,
    sources=st.dictionaries(st.sampled_from(Source), STATUSES, max_size=4),
    clock=st.builds(
        ClockStatus, ticks=COUNTS, missed=COUNTS, lateness_s=st.floats(), skew_s=st.floats()
    ),
    log=st.builds(
        LogStatus,
        lines=COUNTS,
        bytes=COUNTS,
        lag_bytes=COUNTS,
        dropped=st.dictionaries(TEXT, COUNTS, max_size=3),
    ),
    found=st.frozensets(ROLE_NAMES, max_size=5),
    info=INFO,
    nvml=st.none() | gpu_racks(),
    cgroup=st.none() | CGROUPS,
)
