"""``vllm-sidecar check``: which causes can be observed from here, and what would show the others."""

import asyncio
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
from sidecar.model.vocabulary import Cause, Way
from sidecar.pipeline import Pipeline
from sidecar.sources.base import SourceLike
from sidecar.sources.cgroup import CgroupSource
from sidecar.sources.cgroup_places.attempt import Attempt
from sidecar.telling.blind_spots import Standpoint, missing_rights, remedy, say_fault
from sidecar.wiring import asked_for, build_sources, is_here

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


@dataclass(frozen=True, slots=True)
class Finding:
    """One look at everything."""

    observable: dict[Cause, bool]
    standpoint: Standpoint
    attempts: Mapping[Way, Attempt] = field(default_factory=dict)


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
    attempts = attempts_of(sources)
    return Finding(
        observable=dict(find_observable(judgement.window)),
        standpoint=Standpoint(
            sources={
                sample.source: sample.fault or blindness(sample.reading) for sample in samples
            },
            cgroup=cgroup_of(samples),
            outside=Attempt.OUTSIDE in attempts.values(),
            in_cluster=read_cluster().host is not None,
            is_here=is_here(settings),
        ),
        attempts=attempts,
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
            cause.value: remedy(finding.standpoint, cause)
            for cause, seen in finding.observable.items()
            if not seen
        },
        "sources": {
            source.value: None if fault is None else fault.value
            for source, fault in finding.standpoint.sources.items()
        },
        "cgroup": {
            "way": None if way_of(finding) is None else str(way_of(finding)),
            "witness": finding.standpoint.cgroup is not None
            and finding.standpoint.cgroup.witness is not None,
        },
        "rights": [
            {"right": row.right.value, "adds": row.adds}
            for row in missing_rights(finding.standpoint)
        ],
    }


def way_of(finding: Finding) -> Way | None:
    """The way that led to the cgroup."""
    return None if finding.standpoint.cgroup is None else finding.standpoint.cgroup.way


def as_text(finding: Finding) -> list[str]:
    """The finding as lines for people."""
    lines = [
        f"source {source.value}: {'works' if fault is None else say_fault(source, fault)}"
        for source, fault in finding.standpoint.sources.items()
    ]
    lines.extend(say_cgroup(finding))
    for cause, seen in finding.observable.items():
        shown = (
            "can be observed"
            if seen
            else f"cannot be observed: {remedy(finding.standpoint, cause)}"
        )
        lines.append(f"{cause.value}: {shown}")
    lines.extend(
        f"right {row.right.value}: {row.adds}" for row in missing_rights(finding.standpoint)
    )
    return lines


def say_cgroup(finding: Finding) -> Iterable[str]:
    """Which way led to the cgroup, or why none did."""
    way = way_of(finding)
    if way is not None:
        above = (
            "is seen"
            if finding.standpoint.cgroup is not None and finding.standpoint.cgroup.witness
            else "is not seen"
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
