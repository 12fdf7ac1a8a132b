"""Envelopes as a real run gives them, for tests of what is made from them.

Figures of the first repeats are those of the recording ``m_capacity_stages_vllm_bench`` (vLLM 0.32 on
CPU, 64 tokens in, 700 out), each stage as one window; e2e of the clients' results beside it. The second
repeats are the first ones a few percent off, as repeats on that machine were.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sidecar.model.budget import Binding, Lengths
from sidecar.model.envelope import (
    Acceptance,
    Bounds,
    Client,
    ClientView,
    Criterion,
    Disagreement,
    Envelope,
    Finding,
    Identity,
    Objectives,
    Quantiles,
    ServerView,
    Stage,
    StageRun,
)
from sidecar.model.vocabulary import Verdict

CREATED = 1795987497.857
HOSTILE = (
    '"><script>alert(1)</script>',
    "</style></svg><img src=x onerror=alert(1)>",
    "a|b`c\\d*e_f[g](javascript:alert(1))",
    "{{ .Labels }}{{ end }}{{",
    "line\nbreak\r\x1b[31m\u2028\u202e",
    "' \" $(reboot) `reboot` ; #",
    "- *x: &y !!python/object:os",
    "\U0001f600" * 200,
)
"""Names that somebody could give a stage, a model or an option."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one stage of the recording told."""

    load: float
    completed: float
    seconds: float
    preemptions: float
    cache: tuple[float, float]
    queue: tuple[float, float, float]
    ttft: tuple[float, float, float]
    inter_token: tuple[float, float, float]
    e2e: tuple[float, float, float]
    running: float
    waiting: float
    per_running: float | None
    binding: Binding


QUEUE = (0.15, 0.285, 0.297)
TOLD: Mapping[str, Told] = {
    "c1": Told(
        1, 5, 6.84, 0, (0.172, 0.032), QUEUE, (0.0088, 0.035, 0.039), (0.005, 0.0095, 0.0099),
        (1.31, 1.88, 1.98), 1, 0, None, Binding.NONE,
    ),
    "c2": Told(
        2, 10, 9.3, 0, (0.266, 0.055), QUEUE, (0.0129, 0.0193, 0.0199), (0.005, 0.0096, 0.01),
        (1.81, 4.31, 4.86), 2, 0, 349, Binding.NONE,
    ),
    "c4": Told(
        4, 20, 12.9, 0, (0.742, 0.144), QUEUE, (0.018, 0.0375, 0.0395), (0.0051, 0.0098, 0.02),
        (1.93, 4.38, 4.88), 4, 0, 486, Binding.NONE,
    ),
    "c8": Told(
        8, 32, 12.5, 9, (0.977, 0.118), QUEUE, (0.0161, 0.0364, 0.0393), (0.005, 0.0095, 0.0099),
        (2.03, 4.97, 4.98), 8, 2, 339, Binding.CACHE,
    ),
    "c16": Told(
        16, 48, 14.0, 49, (0.75, 0.103), QUEUE, (0.0217, 0.0563, 0.0593), (0.005, 0.0096, 0.01),
        (2.19, 5.58, 7.16), 16, 10, 320, Binding.CACHE,
    ),
}  # fmt: skip
OUTPUT_TOKENS = 700.0
PREEMPTING = ("c8", "c16")


def quantiles(told: tuple[float, float, float], factor: float) -> Quantiles:
    p50, p95, p99 = (round(value * factor, 6) for value in told)
    return Quantiles(p50, p95, p99, mean=round(p50 * 1.1, 6))


def make_view(told: Told, factor: float = 1.0) -> ServerView:
    """What the server told; times are ``factor`` as long, rates as much lower."""
    seconds = told.seconds * factor
    return ServerView(
        seconds=seconds,
        completed=told.completed,
        aborted=0.0,
        errors=0.0,
        rejected=0.0,
        preemptions=told.preemptions,
        cache_peak=told.cache[0],
        cache_mean=told.cache[1],
        queue=quantiles(told.queue, 1.0),
        ttft=quantiles(told.ttft, factor),
        inter_token=quantiles(told.inter_token, factor),
        e2e=quantiles(told.e2e, factor),
        prompt_tokens_per_second=told.completed * 64.8 / seconds,
        output_tokens_per_second=told.completed * OUTPUT_TOKENS / seconds,
        running_peak=told.running,
        waiting_peak=told.waiting,
        per_running=told.per_running,
        host_headroom=9.0e9,
        prompt=Lengths(64.8, 64.7, 78.0, 79.2),
        output=Lengths(OUTPUT_TOKENS, OUTPUT_TOKENS, 880.0, 896.0),
        drained_s=0.6,
        queue_grew=told.waiting > 4,
        binding=told.binding,
        verdicts={Verdict.PREEMPTION: 2, Verdict.NONE: 1}
        if told.preemptions
        else {Verdict.NONE: 3},
    )


def make_client(view: ServerView) -> ClientView:
    return ClientView(
        client=Client.VLLM_BENCH,
        seconds=view.seconds,
        completed=view.completed,
        failed=0.0,
        ttft=view.ttft,
        inter_token=view.inter_token,
        e2e=view.e2e,
        output_tokens_per_second=view.output_tokens_per_second,
    )


def make_stage(name: str, factors: tuple[float, ...] = (1.0, 1.03)) -> Stage:
    """One stage with a repeat for each factor."""
    told = TOLD[name]
    runs = []
    for repeat, factor in enumerate(factors, start=1):
        view = make_view(told, factor)
        disagreements = (
            (Disagreement("ttft_mean", view.ttft.mean or 0.0, 1.216),) if name == "c8" else ()
        )
        runs.append(StageRun(repeat, view, make_client(view), disagreements, exit_code=0))
    return Stage(name, told.load, tuple(runs))


IDENTITY = Identity(
    vllm_version="0.32.0",
    model_name="tiny",
    cache_dtype="auto",
    cpus=2,
    machine="x86_64",
    capacity=4128.0,
    limits={
        "max_model_len": 2048.0,
        "max_num_seqs": 32.0,
        "gpu_memory_utilization": 0.92,
        "kv_cache_memory_bytes": 67108864.0,
        "kv_capacity_tokens": 4128.0,
    },
    launch=(
        "/opt/vllm/bin/python3", "/opt/vllm/bin/vllm", "serve", "/models/tiny",
        "--served-model-name", "tiny", "--max-model-len", "2048", "--max-num-seqs", "32",
        "--kv-cache-memory-bytes", "67108864", "--api-key", "***", "--port", "8100",
    ),
    environment={"VLLM_CPU_OMP_THREADS_BIND": "0-1"},
)  # fmt: skip
ROLLBACK = "vllm serve /models/tiny --max-model-len 2048 --max-num-seqs 16"
OBJECTIVES = Objectives(ttft_p95=0.5, e2e_p95=5.0)


def make_acceptance(stage: str = "c4") -> Acceptance:
    """What is found of a stage that meets everything."""
    return Acceptance(
        stage,
        accepted=True,
        findings=(
            Finding(Criterion.COMPLETES, 0.0, 0.0, met=True),
            Finding(Criterion.NO_OOM, 0.0, 0.0, met=True),
            Finding(Criterion.PREEMPTION, 0.0, 0.01, met=True),
            Finding(Criterion.TTFT_P95, 0.0381, 0.5, met=True),
            Finding(Criterion.E2E_P95, 4.45, 5.0, met=True),
            Finding(Criterion.QUEUE_STOPS_GROWING, None, None, met=True),
            Finding(Criterion.DRAINS, 0.6, None, met=True),
            Finding(Criterion.REPEATS_AGREE, 0.03, 0.15, met=True),
        ),
    )


REJECTED = Acceptance(
    "c16",
    accepted=False,
    findings=(
        Finding(Criterion.COMPLETES, 0.0, 0.0, met=True),
        Finding(Criterion.NO_OOM, 0.0, 0.0, met=True),
        Finding(Criterion.PREEMPTION, 1.0208, 0.01, met=False, why="49 preemptions, 48 requests"),
        Finding(Criterion.TTFT_P95, 0.0571, 0.5, met=True),
        Finding(Criterion.E2E_P95, 5.66, 5.0, met=False),
        Finding(
            Criterion.QUEUE_STOPS_GROWING,
            None,
            None,
            met=False,
            why="more and more requests waited",
        ),
        Finding(Criterion.DRAINS, None, None, met=None, why="it was not seen"),
        Finding(Criterion.REPEATS_AGREE, 0.03, 0.15, met=True),
    ),
)
BOUNDS = Bounds(
    last_good="c4",
    first_preempting="c8",
    safe_load=3.6,
    running=4.0,
    waiting=0.0,
    cache_peak=0.742,
    per_running=486.0,
    ttft_p95=0.0381,
    inter_token_p95=0.00995,
    e2e_p95=4.45,
    output_tokens_per_second=1070.0,
    prompt=Lengths(64.8, 64.7, 78.0, 79.2),
    output=Lengths(OUTPUT_TOKENS, OUTPUT_TOKENS, 880.0, 896.0),
    binding=Binding.CACHE,
)


def make_envelope(**changes: object) -> Envelope:
    """The five stages, accepted for four concurrent requests; ``changes`` by field."""
    envelope = Envelope(
        name="tiny-64-700",
        created=CREATED,
        identity=IDENTITY,
        objectives=OBJECTIVES,
        unit="concurrency",
        stages=tuple(make_stage(name) for name in TOLD),
        acceptance=make_acceptance(),
        bounds=BOUNDS,
        rollback=ROLLBACK,
    )
    return replace(envelope, **changes)  # type: ignore[arg-type]  # a test's own word


def make_blind() -> Envelope:
    """A run in which the server's metrics could not be read, and one stage was not finished."""
    runs = (StageRun(1, ServerView(seconds=4.0), exit_code=0), StageRun(2, ServerView(seconds=0.5)))
    killed = StageRun(1, ServerView(seconds=1.0), killed=Verdict.HOST_OOM, whole=False)
    return make_envelope(
        identity=Identity(),
        objectives=Objectives(),
        stages=(Stage("first", 1, runs), Stage("second", 2, (killed,))),
        acceptance=Acceptance(
            "second",
            accepted=False,
            findings=(Finding(Criterion.COMPLETES, None, 0.0, met=None, why="not measured"),),
        ),
        bounds=Bounds(),
        rollback=None,
    )


def make_hostile(word: str) -> Envelope:
    """Every name that others choose is this one."""
    stages = tuple(
        replace(stage, name=f"{word}{number}")
        for number, stage in enumerate(make_envelope().stages)
    )
    return make_envelope(
        name=word,
        unit=word,
        identity=replace(
            IDENTITY,
            vllm_version=word,
            model_name=word,
            cache_dtype=word,
            gpus=(word, word),
            machine=word,
            limits={word: 1.0},
            launch=("vllm", "serve", word, f"--{word}", word),
            environment={word: word},
        ),
        stages=stages,
        acceptance=replace(
            REJECTED,
            stage=stages[-1].name,
            findings=tuple(replace(one, why=word) for one in REJECTED.findings),
        ),
        bounds=replace(BOUNDS, last_good=stages[2].name, first_preempting=stages[3].name),
        rollback=word,
    )
