"""Reports of a believable server, in every verdict."""

import math

from sidecar.catalog import exported
from sidecar.catalog import vllm_metrics as roles
from sidecar.derive import budgets
from sidecar.model.advice import Advice, Lever, Step
from sidecar.model.budget import GpuBudget, Sight
from sidecar.model.envelope import Drift, EnvelopeStatus
from sidecar.model.evidence import Evidence
from sidecar.model.limits import Known, Limit, Origin
from sidecar.model.readings import CgroupReading, Gpu, Histogram, NvmlReading
from sidecar.model.report import (
    ClockStatus,
    EvidenceKey,
    HostOutlook,
    LogStatus,
    ProcessCount,
    ReloadStatus,
    Report,
    SourceStatus,
)
from sidecar.model.samples import Instant
from sidecar.model.verdict import CauseFound, Judgement
from sidecar.model.vocabulary import (
    Cause,
    Confidence,
    Fault,
    Kind,
    LimitOwner,
    Party,
    Phase,
    ServerState,
    Severity,
    Source,
    Verdict,
)
from sidecar.model.window import EngineWindow, SourceWindow, Spread, Window

START = 1_764_480_000.0
AT = Instant(monotonic=1_000.0, unix=START + 15)
GIB = 1024**3

EVIDENCE_KEYS = (
    EvidenceKey(Cause.PREEMPTION, Source.VLLM_METRICS, "preemptions_counter"),
    EvidenceKey(Cause.CUDA_OOM, Source.VLLM_LOG, "torch_oom"),
    EvidenceKey(Cause.HOST_OOM, Source.CGROUP, "oom_kill"),
    EvidenceKey(Cause.HOST_OOM, Source.KERNEL_LOG, "oom_kill_record"),
    EvidenceKey(Cause.ENGINE_FAILURE, Source.VLLM_LOG, "engine_dead"),
    EvidenceKey(Cause.STALLED, Source.VLLM_METRICS, "no_progress"),
)

KINDS = {
    Cause.HOST_OOM: (Kind.CGROUP, Source.CGROUP, "oom_kill"),
    Cause.CUDA_OOM: (Kind.ALLOCATION_FAILURE, Source.VLLM_LOG, "torch_oom"),
    Cause.ENGINE_FAILURE: (Kind.CRASHED, Source.VLLM_LOG, "engine_dead"),
    Cause.STALLED: (Kind.UNSPECIFIED, Source.VLLM_METRICS, "no_progress"),
    Cause.PREEMPTION: (Kind.RECOMPUTE, Source.VLLM_METRICS, "preemptions_counter"),
}


LIMITS = {
    Limit.MAX_NUM_SEQS: Known(16.0, Origin.LOG_ARGUMENTS),
    Limit.MAX_NUM_BATCHED_TOKENS: Known(2048.0, Origin.LOG),
    Limit.MAX_MODEL_LEN: Known(2048.0, Origin.MODELS),
    Limit.WATERMARK: Known(0.05, Origin.COMMAND_LINE),
    Limit.KV_MEMORY_BYTES: Known(2.0 * GIB, Origin.LOG),
}
ADVICE = Advice(
    Lever.RAISE_WATERMARK,
    because=("0.3 preemptions per finished request",),
    cost="TTFT rises while requests wait to be let in",
    step=Step(Limit.WATERMARK, 0.05, 0.0),
    step_words="--watermark 0.05",
    verify="preemptions per request fall",
    rollback="--watermark 0",
    rejected={Lever.RAISE_KV_CACHE_MEMORY: "no free memory is proven"},
)


def make_engine() -> EngineWindow:
    """A busy engine: 12 preemptions, 40 requests ended."""
    return EngineWindow(
        deltas={
            roles.PREEMPTIONS: 12.0,
            roles.PROMPT_TOKENS: 3_000.0,
            roles.GENERATION_TOKENS: 4_500.0,
            roles.FINISHED: 40.0,
            roles.REJECTED: 0.0,
        },
        gauges={
            roles.KV_USAGE: Spread(0.5, 0.75, 0.98, 0.9),
            roles.RUNNING: Spread(4, 6, 8, 7),
            roles.WAITING: Spread(0, 1, 3, 2),
            roles.WAITING_CAPACITY: Spread(0, 1, 3, 2),
            roles.WAITING_DEFERRED: Spread(0, 0, 0, 0),
        },
        histograms={
            roles.TTFT: Histogram(
                ((0.1, 10.0), (0.5, 30.0), (1.0, 40.0), (math.inf, 40.0)), 40, 16
            ),
            roles.REQUEST_PROMPT_TOKENS: Histogram(
                ((50.0, 20.0), (100.0, 40.0), (math.inf, 40.0)), 40, 3_000
            ),
            roles.REQUEST_GENERATION_TOKENS: Histogram(
                ((100.0, 20.0), (200.0, 40.0), (math.inf, 40.0)), 40, 4_500
            ),
        },
        outcomes={"stop": 30.0, "length": 8.0, "abort": 2.0, "error": 0.0},
    )


def make_window(engines: int = 1, *, up: bool = True) -> Window:
    """A window of 15 s."""
    return Window(
        start=START,
        end=START + 15,
        partial=False,
        state=ServerState.SERVING if up else ServerState.DEAD,
        phase=Phase.RUNTIME,
        engines={str(n): make_engine() for n in range(engines)} if up else {},
        evidence=(),
        sources={
            Source.VLLM_METRICS: SourceWindow(
                readings=3 if up else 0, wanted=True, faults={} if up else {Fault.REFUSED: 3}
            ),
            Source.NVML: SourceWindow(faults={Fault.NO_DRIVER: 3}),
        },
        found=frozenset({roles.KV_USAGE, roles.RUNNING}) if up else frozenset(),
        served=up,
        down=not up,
        gpu_utilization=dict.fromkeys(range(100), 0.8),
        naming_generation="v1",
        limits=LIMITS if up else {},
        gpus=tuple(make_gpu_budget(n) for n in range(100)),
        info={"kv_cache_size_tokens": "4096", "block_size": "96"},
    )


def make_gpu_budget(index: int) -> GpuBudget:
    """A GPU of 24 GiB that somebody else uses too."""
    return GpuBudget(
        index,
        total=24 * GIB,
        used=20 * GIB,
        free=4 * GIB,
        reserved=GIB // 2,
        vllm=18 * GIB,
        cotenant=2 * GIB,
        orphans=0,
        free_durable=3 * GIB,
        cotenant_durable=2 * GIB,
        utilization=0.8,
        sight=Sight.SEEN,
        expected=True,
    )


def make_causes(verdict: Verdict) -> tuple[CauseFound, ...]:
    """The cause behind a verdict, if it has one."""
    causes = [cause for cause in Cause if cause.verdict is verdict]
    return tuple(
        CauseFound(
            cause,
            KINDS[cause][0],
            Phase.RUNTIME,
            Confidence.CONFIRMED,
            Severity.CRITICAL,
            (Evidence(cause, *KINDS[cause], at=AT, amount=2.0, engine="0"),),
        )
        for cause in causes
    )


def make_judgement(
    verdict: Verdict = Verdict.NONE, engines: int = 1, *, up: bool = True
) -> Judgement:
    """A judged window."""
    causes = make_causes(verdict)
    window = make_window(engines, up=up)
    return Judgement(
        window=window,
        verdict=verdict,
        severity=Severity.CRITICAL if causes else None,
        causes=causes,
        observable=dict.fromkeys(Cause, verdict is not Verdict.UNKNOWN),
        budgets=budgets.measure(window),
        advice=ADVICE if verdict is Verdict.PREEMPTION else Advice(Lever.NONE),
    )


def make_gpus(count: int) -> NvmlReading:
    """Alike GPUs of 24 GiB."""
    return NvmlReading(
        "570.1",
        tuple(
            Gpu(n, f"GPU-{n}", "NVIDIA L4", 24 * GIB, 20 * GIB, 4 * GIB, GIB // 2, 0.8, ())
            for n in range(count)
        ),
    )


def make_report(
    verdict: Verdict = Verdict.NONE, *, engines: int = 1, gpus: int = 1, up: bool = True
) -> Report:
    """A report in which everything is known that the set-up can know."""
    status = SourceStatus(configured=True, up=up, last_at=AT, duration_s=0.012)
    judgement = make_judgement(verdict, engines, up=up)
    return Report(
        at=AT,
        verdict=verdict,
        state=ServerState.SERVING if up else ServerState.DEAD,
        state_since=AT,
        last_window=judgement,
        urgent=(),
        advice=judgement.advice,
        windows_total={verdict: 3},
        evidence_total=dict.fromkeys(EVIDENCE_KEYS, 2.0),
        last_evidence=dict.fromkeys(Cause, AT.unix),
        alerts={found.cause: found.severity for found in make_causes(verdict)},
        observable=dict.fromkeys(Cause, True),
        sources=dict.fromkeys(Source, status),
        clock=ClockStatus(ticks=10, missed=1, lateness_s=0.001, skew_s=0.002),
        log=LogStatus(lines=100, bytes=10_000, lag_bytes=0, dropped={"too_long": 1}),
        found=frozenset({roles.KV_USAGE, roles.RUNNING}),
        info={
            "model_name": "facebook/opt-125m",
            "vllm_version": "0.32.0",
            "kv_cache_size_tokens": "4096",
        },
        nvml=make_gpus(gpus) if gpus else None,
        cgroup=CgroupReading(
            2,
            "/kubepods/pod1",
            events=dict.fromkeys(("low", "high", "max", "oom", "oom_kill", "oom_group_kill"), 1),
            current=GIB,
            limit=2 * GIB,
            peak=GIB,
            pressure={"some": 0.01, "full": 0.0},
            reclaimable=GIB // 4,
            shmem=GIB // 8,
            unevictable=GIB // 16,
        ),
        outlook=HostOutlook(
            headroom={LimitOwner.OWN: GIB, LimitOwner.ABOVE: 2 * GIB, LimitOwner.HOST: 4 * GIB},
            growth=1024.0,
            time_to_limit_s=GIB / 1024,
        ),
        processes=ProcessCount(
            parties={Party.API_SERVER: 1, Party.ENGINE: 1, Party.WORKER: 2, Party.OTHER: 3},
            orphaned=0,
            pinned=GIB // 2,
        ),
        kernel_lost=0,
        reload=ReloadStatus(successful=True, success_unix=START),
        envelope=EnvelopeStatus(
            name="tiny on a CPU",
            limits=dict.fromkeys(exported.ENVELOPE_LIMITS, 1.5),
            vllm_version="0.26.0",
            model_name="tiny",
            valid={drift: drift is not Drift.LOAD for drift in Drift},
        ),
    )
