"""``vllm-sidecar check``: which causes can be observed from here, and what would show the others."""

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import uvloop

from sidecar.app import close_all, open_all
from sidecar.assemble.window import blindness
from sidecar.classify.decide import find_observable
from sidecar.classify.policy import Policy
from sidecar.clock import Clock
from sidecar.config import Settings, read_cluster
from sidecar.export.results import encode
from sidecar.export.tls import ClientAuth, TlsRules
from sidecar.export.values import Json
from sidecar.export.web_config import WebConfig
from sidecar.export.web_file import load
from sidecar.model.readings import CgroupReading
from sidecar.model.samples import Sample, Tick
from sidecar.model.vocabulary import Cause, Fault, Source, Way
from sidecar.pipeline import Pipeline
from sidecar.sources.base import SourceLike
from sidecar.sources.cgroup import CgroupSource
from sidecar.sources.cgroup_places.attempt import Attempt
from sidecar.wiring import asked_for, build_sources, is_here

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
ELSEWHERE = (
    "the target is no address of this host, whose processes, cgroups and kernel say nothing of it:"
    " run us beside the server, or name --cgroup, --pid or --kernel-log PATH if it is here"
)
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
    Source.KUBERNETES: "there is no service account of a cluster",
}
WAY_WORDS: dict[Way, str] = {
    Way.PATH: "the path that was given",
    Way.PID: "the server's process and the mounts of this host",
    Way.CONTAINER_ID: "the container's id, looked for below the mounts",
    Way.PROCESS_ROOT: "the server's process, in its own mounts",
    Way.POD: "our pod, which holds the server's container and others",
    Way.OWN: "our own container, which other processes share",
}
ATTEMPT_WORDS: dict[Attempt, str] = {
    Attempt.FOUND: "found",
    Attempt.NO_PROCESS: "no process of the server is seen",
    Attempt.DENIED: "we have no right to look",
    Attempt.NO_CONTROLLER: "no memory controller is told",
    Attempt.OUTSIDE: "the cgroup is in no mount that we see",
    Attempt.NO_ID: "the name holds no container's id",
    Attempt.NO_POD: "nothing shows that we are in a pod",
    Attempt.UNCOUNTED: "on cgroup v1 it does not count the kills in the cgroups below it",
    Attempt.ALONE: "nobody but ourselves is in it",
    Attempt.ABSENT: "it is not there",
}


class Right(StrEnum):
    """What can be given to us, and would show more."""

    HOST_CGROUP = "host_cgroup"
    KERNEL_LOG = "kernel_log"
    PROCESSES = "processes"
    POD_STATUS = "pod_status"


@dataclass(frozen=True, slots=True)
class Finding:
    """One look at everything."""

    observable: dict[Cause, bool]
    sources: dict[Source, Fault | None]
    cgroup: CgroupReading | None = None
    attempts: Mapping[Way, Attempt] = field(default_factory=dict)
    in_cluster: bool = False
    is_here: bool = True


def misses_cgroup_above(finding: Finding) -> bool:
    """Whether a cgroup above the server's exists, by its name, that we cannot see."""
    if Source.CGROUP not in finding.sources:
        return False
    reading = finding.cgroup
    if reading is None:
        return Attempt.OUTSIDE in finding.attempts.values()
    # From a namespace our own part is "/" and what is beside it begins with "/..".
    parts = [part for part in reading.path.split("/") if part]
    has_one_above = len(parts) != 1
    return reading.version != 1 and reading.witness is None and has_one_above


def misses_processes(finding: Finding) -> bool:
    """Whether a server answers of which no process is seen."""
    answers = finding.sources.get(Source.VLLM_METRICS, Fault.ABSENT) is None
    return answers and finding.sources.get(Source.PROCESS) is Fault.ABSENT


def misses_pod(finding: Finding) -> bool:
    """Whether our pod's status is refused, or we are in a cluster without a service account."""
    fault = finding.sources.get(Source.KUBERNETES)
    return fault is Fault.DENIED or (fault is Fault.ABSENT and finding.in_cluster)


@dataclass(frozen=True, slots=True)
class RightRow:
    """A right, when it is missing, how it is given, and what it adds."""

    right: Right
    is_missing: Callable[[Finding], bool]
    adds: str


RIGHTS: tuple[RightRow, ...] = (
    RightRow(
        Right.HOST_CGROUP,
        misses_cgroup_above,
        "mount the host's /sys/fs/cgroup read-only: a kill is then known also after the container"
        " was removed",
    ),
    RightRow(
        Right.KERNEL_LOG,
        lambda finding: finding.sources.get(Source.KERNEL_LOG) is Fault.DENIED,
        "run as root or with CAP_SYSLOG: it is then known who was killed, and for whose limit",
    ),
    RightRow(
        Right.PROCESSES,
        misses_processes,
        "share the process namespace (shareProcessNamespace, hostPID, --pid host): the server's own"
        " cgroup and the deaths of its processes are then known",
    ),
    RightRow(
        Right.POD_STATUS,
        misses_pod,
        "give our service account get and watch on our own pod: exit codes and restarts of the"
        " server's container are then known",
    ),
)


def missing_rights(finding: Finding) -> Iterable[RightRow]:
    """The rights that would add something here."""
    return (row for row in RIGHTS if row.is_missing(finding))


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
        sources={sample.source: sample.fault or blindness(sample.reading) for sample in samples},
        cgroup=cgroup_of(samples),
        attempts=attempts_of(sources),
        in_cluster=read_cluster().host is not None,
        is_here=is_here(settings),
    )


def cgroup_of(samples: Iterable[Sample]) -> CgroupReading | None:
    """What was read of the server's cgroup."""
    for sample in samples:
        if isinstance(sample.reading, CgroupReading):
            return sample.reading
    return None


def attempts_of(sources: Iterable[SourceLike]) -> Mapping[Way, Attempt]:
    """What each way to the cgroup gave."""
    for source in sources:
        if isinstance(source, CgroupSource):
            return source.attempts
    return {}


def run_check(settings: Settings, *, output: Literal["text", "json"]) -> int:
    """Print what can be observed; 1 if a cause cannot.

    Raises:
        ConfigError: the web configuration cannot be honoured.
    """
    web = None if settings.web_config_file is None else load(settings.web_config_file).config
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        finding = runner.run(look(settings))
    if output == "json":
        sys.stdout.write(f"{encode({**as_json(finding), 'web': web_as_json(web)})}\n")
    else:
        lines = [*as_text(finding), *say_web(web)]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0 if all(finding.observable.values()) else 1


def as_json(finding: Finding) -> dict[str, Json]:
    """The finding as one object."""
    return {
        "observable": {cause.value: seen for cause, seen in finding.observable.items()},
        "remedies": {
            cause.value: remedy(finding, cause)
            for cause, seen in finding.observable.items()
            if not seen
        },
        "sources": {
            source.value: None if fault is None else fault.value
            for source, fault in finding.sources.items()
        },
        "cgroup": {
            "way": None if way_of(finding) is None else str(way_of(finding)),
            "witness": finding.cgroup is not None and finding.cgroup.witness is not None,
        },
        "rights": [{"right": row.right.value, "adds": row.adds} for row in missing_rights(finding)],
    }


def remedy(finding: Finding, cause: Cause) -> str:
    """What would make a cause observable."""
    return ELSEWHERE if cause is Cause.HOST_OOM and not finding.is_here else REMEDIES[cause]


def way_of(finding: Finding) -> Way | None:
    """The way that led to the cgroup."""
    return None if finding.cgroup is None else finding.cgroup.way


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
    lines.extend(say_cgroup(finding))
    for cause, seen in finding.observable.items():
        shown = "can be observed" if seen else f"cannot be observed: {remedy(finding, cause)}"
        lines.append(f"{cause.value}: {shown}")
    lines.extend(f"right {row.right.value}: {row.adds}" for row in missing_rights(finding))
    return lines


def say_cgroup(finding: Finding) -> Iterable[str]:
    """Which way led to the cgroup, or why none did."""
    way = way_of(finding)
    if way is not None:
        above = (
            "is seen" if finding.cgroup is not None and finding.cgroup.witness else "is not seen"
        )
        yield f"cgroup: found by {WAY_WORDS[way]}; the cgroup above it {above}"
        return
    for tried, attempt in finding.attempts.items():
        yield f"cgroup: not found by {WAY_WORDS[tried]}: {ATTEMPT_WORDS[attempt]}"


def web_as_json(web: WebConfig | None) -> Json:
    """How clients of ours are met, None without a configuration of it."""
    if web is None:
        return None
    rules = None if web.tls is None else web.tls.rules
    return {
        "tls": None if rules is None else say_version(rules),
        "client_auth": None if rules is None else rules.client_auth.value,
        "users": len(web.users),
    }


def say_version(rules: TlsRules) -> str:
    """The oldest version of TLS that is spoken."""
    return rules.min_version.name.removeprefix("TLSv").replace("_", ".")


def say_web(web: WebConfig | None) -> Iterable[str]:
    """How clients of ours are met, if that is configured; a user's name is half of a secret."""
    if web is None:
        return
    met = "plain HTTP" if web.tls is None else f"TLS {say_version(web.tls.rules)} or later"
    if web.tls is not None and web.tls.rules.client_auth is ClientAuth.REQUIRED:
        met += " with a client's certificate"
    count = len(web.users)
    users = {0: "no passwords", 1: "1 user with a password"}.get(
        count, f"{count} users with passwords"
    )
    yield f"web: {met}, {users}"
