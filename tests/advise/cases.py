"""Facts and windows of one GPU server, as the rules meet them."""

from dataclasses import replace

from sidecar.advise.facts import Facts, Found
from sidecar.catalog import vllm_metrics as roles
from sidecar.model.budget import Budget, GpuBudget, Lengths, Sight
from sidecar.model.evidence import Evidence
from sidecar.model.limits import Known, Limit, Limits, Origin
from sidecar.model.samples import Instant
from sidecar.model.verdict import CauseFound, Judgement
from sidecar.model.vocabulary import (
    Cause,
    Confidence,
    Kind,
    Phase,
    ServerState,
    Severity,
    Source,
    Verdict,
)
from sidecar.model.window import EngineWindow, SourceWindow, Spread, Window

GIB = 1024**3
CARD = GpuBudget(
    index=0,
    total=80 * GIB,
    used=60 * GIB,
    free=20 * GIB,
    reserved=GIB,
    vllm=60 * GIB,
    cotenant=0,
    orphans=0,
    free_durable=16 * GIB,
    cotenant_durable=0,
    sight=Sight.SEEN,
    expected=True,
)
CROWDED = replace(CARD, free_durable=GIB // 2)
"""A card without anything left for the cache."""
MIX = Budget(
    capacity=4096.0,
    demand=3900.0,
    demand_peak=4096.0,
    per_running=600.0,
    headroom=0.0,
    safe_concurrency=6.8,
    largest_share=0.3,
    prompt=Lengths(mean=46.0, p50=46.0, p95=50.0, p99=50.0),
    output=Lengths(mean=1200.0, p50=1200.0, p95=1200.0, p99=1200.0),
    prefill_share=0.04,
    running=6.2,
    waiting=8.0,
)
"""Long outputs after short prompts, as in the recorded thrash."""
PREFILLS = replace(
    MIX,
    prefill_share=0.9,
    prompt=Lengths(mean=6000.0, p50=6000.0, p95=7000.0, p99=7500.0),
    output=Lengths(mean=100.0, p50=100.0, p95=120.0, p99=130.0),
)


def told(origin: Origin = Origin.SERVER_INFO, **values: float) -> Limits:
    """Limits that one place told."""
    return {Limit(name): Known(value, origin) for name, value in values.items()}


ONE_GPU = told(tensor_parallel_size=1.0, pipeline_parallel_size=1.0)
THRASH = Facts(
    causes=(Found(Cause.PREEMPTION, Kind.RECOMPUTE, Phase.RUNTIME, count=40.0),),
    budget=MIX,
    preemptions=40.0,
    per_request=4.0,
    lasting=True,
    usage=1.0,
    usage_peak=1.0,
    waiting=True,
    running_peak=12.0,
    serving=True,
    limits={
        **told(max_num_seqs=32.0, max_num_batched_tokens=8192.0, max_model_len=2048.0),
        **ONE_GPU,
    },
    gpus=(CROWDED,),
    gpus_fresh=True,
    release=(0, 32, 0),
)
"""Requests are evicted and readmitted; what the watermark is nobody has told."""


def failed(cause: Cause, *kinds: Kind, signals: tuple[str, ...] = (), **more: object) -> Facts:
    """A failure, with what it said."""
    said = frozenset(signals)
    return replace(
        Facts(
            causes=tuple(Found(cause, kind, Phase.STARTUP, signals=said) for kind in kinds),
            signals=said,
            gpus=(replace(CARD, free_durable=None),),
            gpus_fresh=True,
            release=(0, 32, 0),
            limits=ONE_GPU,
        ),
        **more,  # type: ignore[arg-type]
    )


def make_judgement(
    index: int = 0,
    *,
    preemptions: float = 0.0,
    finished: float = 10.0,
    cause: tuple[Cause, Kind, Severity] | None = None,
    limits: Limits | None = None,
    gpus: tuple[GpuBudget, ...] = (),
    budget: Budget = MIX,
    usage: float = 1.0,
    waiting: float = 5.0,
    state: ServerState = ServerState.SERVING,
    phase: Phase = Phase.RUNTIME,
    served: bool = True,
    restarted: bool = False,
    tokens: float = 10_000.0,
    signal: str = "preemptions_counter",
) -> Judgement:
    """The judgement of one window of 10 s."""
    end = 1_000.0 + 10.0 * (index + 1)
    found: tuple[CauseFound, ...] = ()
    if cause is not None:
        evidence = Evidence(
            cause=cause[0],
            kind=cause[1],
            source=Source.VLLM_METRICS,
            signal=signal,
            at=Instant(end, end),
            amount=preemptions or 1.0,
        )
        found = (
            CauseFound(cause[0], cause[1], phase, Confidence.CONFIRMED, cause[2], (evidence,)),
        )
    gauges = {
        roles.KV_USAGE: Spread(usage, usage, usage, usage),
        roles.WAITING: Spread(waiting, waiting, waiting, waiting),
        roles.RUNNING: Spread(12.0, 12.0, 12.0, 12.0),
    }
    deltas = {
        roles.PREEMPTIONS: preemptions,
        roles.FINISHED: finished,
        roles.GENERATION_TOKENS: tokens,
    }
    window = Window(
        start=end - 10.0,
        end=end,
        partial=False,
        state=state,
        phase=phase,
        engines={"0": EngineWindow(deltas=deltas, gauges=gauges)} if served else {},
        evidence=tuple(e for one in found for e in one.evidence),
        sources={Source.NVML: SourceWindow(readings=10)} if gpus else {},
        found=frozenset({roles.PREEMPTIONS}),
        served=served,
        restarted=restarted,
        limits=limits if limits is not None else THRASH.limits,
        gpus=gpus,
    )
    return Judgement(
        window=window,
        verdict=cause[0].verdict if cause else Verdict.NONE,
        severity=cause[2] if cause else None,
        causes=found,
        observable={},
        budgets={"0": budget},
    )


def thrash(index: int = 0, **more: object) -> Judgement:
    """A window of preemption beyond the tolerance."""
    return make_judgement(
        index,
        preemptions=40.0,
        cause=(Cause.PREEMPTION, Kind.RECOMPUTE, Severity.WARNING),
        **more,  # type: ignore[arg-type]
    )
