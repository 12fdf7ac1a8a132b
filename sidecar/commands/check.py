"""``vllm-sidecar check``: which causes can be observed from here, and what would show the others."""

import asyncio
import sys
from dataclasses import dataclass
from typing import Literal

import uvloop

from sidecar.app import close_all, open_all
from sidecar.classify.decide import find_observable
from sidecar.classify.policy import Policy
from sidecar.clock import Clock
from sidecar.config import Settings
from sidecar.export.results import Json, encode
from sidecar.model.samples import Sample, Tick
from sidecar.model.vocabulary import Cause, Fault, Source
from sidecar.pipeline import Pipeline
from sidecar.wiring import asked_for, build_sources

REMEDIES: dict[Cause, str] = {
    Cause.PREEMPTION: "let --target and --metrics-path name a vLLM server that runs without"
    " --disable-log-stats",
    Cause.CUDA_OOM: "give vLLM's log with --log, and let it be there and readable",
    Cause.HOST_OOM: "give the server's memory cgroup with --cgroup PATH or its pid with --pid, or"
    " let us read the kernel log",
    Cause.ENGINE_FAILURE: "give vLLM's log with --log PATH, or let --target name a server that"
    " runs",
    Cause.STALLED: "let --target and --metrics-path name a vLLM server that runs",
}
FAULT_WORDS: dict[Fault, str] = {
    Fault.TIMEOUT: "it did not answer in time",
    Fault.REFUSED: "nobody listens there",
    Fault.DISCONNECTED: "the connection broke",
    Fault.HTTP_STATUS: "it answered with an error status",
    Fault.MALFORMED: "what it says cannot be read",
    Fault.TOO_LARGE: "its answer is too large",
    Fault.ABSENT: "it is not there",
    Fault.DENIED: "we have no right to read it",
    Fault.BUSY: "an earlier call still hangs",
    Fault.UNSUPPORTED: "it does not offer what is needed",
    Fault.NO_DRIVER: "the driver is not loaded",
    Fault.DEVICE_LOST: "the GPU is lost",
    Fault.IO_ERROR: "reading it failed",
}


ABSENT_WORDS: dict[Source, str] = {
    Source.VLLM_METRICS: "the host's name is not known",
    Source.VLLM_HEALTH: "the host's name is not known",
    Source.VLLM_LOG: "there is no such log",
    Source.CGROUP: "the server's memory cgroup was not found",
    Source.KERNEL_LOG: "there is no such file",
    Source.PROCESS: "no process of this host listens on the target's port",
    Source.NVML: "there is no NVIDIA driver library",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One look at everything."""

    observable: dict[Cause, bool]
    sources: dict[Source, Fault | None]


async def look(settings: Settings) -> Finding:
    """Sample every source once."""
    clock = Clock()
    sources = build_sources(settings, clock)
    await open_all(sources)
    samples: list[Sample] = list(await asyncio.gather(*(source.sample() for source in sources)))
    await close_all(sources)
    pipeline = Pipeline(window_s=settings.window, policy=Policy(), configured=asked_for(settings))
    pipeline.step(Tick(at=clock.now(), samples=tuple(samples), on_grid=False))
    (judgement,) = pipeline.finish()
    return Finding(
        observable=dict(find_observable(judgement.window)),
        sources={sample.source: sample.fault for sample in samples},
    )


def run_check(settings: Settings, *, output: Literal["text", "json"]) -> int:
    """Print what can be observed; 1 if a cause cannot."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        finding = runner.run(look(settings))
    if output == "json":
        sys.stdout.write(f"{encode(as_json(finding))}\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in as_text(finding)))
    return 0 if all(finding.observable.values()) else 1


def as_json(finding: Finding) -> Json:
    """The finding as one object."""
    return {
        "observable": {cause.value: seen for cause, seen in finding.observable.items()},
        "remedies": {
            cause.value: REMEDIES[cause] for cause, seen in finding.observable.items() if not seen
        },
        "sources": {
            source.value: None if fault is None else fault.value
            for source, fault in finding.sources.items()
        },
    }


def say_fault(source: Source, fault: Fault) -> str:
    """Why a source does not work, in plain words."""
    if fault is Fault.ABSENT and source in ABSENT_WORDS:
        return ABSENT_WORDS[source]
    return FAULT_WORDS[fault]


def as_text(finding: Finding) -> list[str]:
    """The finding as lines for people."""
    lines = [
        f"source {source.value}: {'works' if fault is None else say_fault(source, fault)}"
        for source, fault in finding.sources.items()
    ]
    for cause, seen in finding.observable.items():
        shown = "can be observed" if seen else f"cannot be observed: {REMEDIES[cause]}"
        lines.append(f"{cause.value}: {shown}")
    return lines
