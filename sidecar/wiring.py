"""Settings -> sources: the one table of what is watched."""

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from sidecar.clock import ClockLike
from sidecar.config import Settings, read_cluster
from sidecar.errors import ConfigError
from sidecar.model.saved_state import Checkpoint, Position
from sidecar.model.vocabulary import Source
from sidecar.parse.exposition_reader import ExpositionReader
from sidecar.sources.base import SourceLike, Tap
from sidecar.sources.cgroup import CgroupSource
from sidecar.sources.kernel_log import KernelLogSource
from sidecar.sources.kube_api import Access
from sidecar.sources.kubernetes import KubernetesSource, OurPod
from sidecar.sources.log_places.base import LogPlace
from sidecar.sources.log_places.places import Surroundings, places_of
from sidecar.sources.log_places.position import from_json
from sidecar.sources.log_places.spec import KubernetesSpec, parse_spec
from sidecar.sources.nvml import NvmlSource
from sidecar.sources.process import ProcessSource
from sidecar.sources.vllm_health import Asked, VllmHealthSource
from sidecar.sources.vllm_log import VllmLogSource
from sidecar.sources.vllm_metrics import VllmMetricsSource
from sidecar.thread import Crew

SCRAPE_LIMIT_S = 5.0
"""Seconds for one answer of vLLM. Scrapes of 1.5 to 4.8 s were seen on starved servers, so a limit
below the interval would take a slow server for a dead one."""
READ_LIMIT_S = 2.0

TapOf = Callable[[Source], Tap | None]
"""What a source hands its rows to, if it is recorded."""


def build_sources(
    settings: Settings,
    clock: ClockLike,
    checkpoint: Checkpoint | None = None,
    *,
    tap_of: TapOf = lambda _source: None,
) -> tuple[SourceLike, ...]:
    """Every source that the settings ask for; what was read before goes on at the checkpoint.

    Raises:
        ConfigError: a file that is named cannot be read, or a place of the log has no known form.
    """
    for name, file in (("token", settings.target_token_file), ("ca", settings.target_ca_file)):
        if file is not None and not os.access(file, os.R_OK):
            raise ConfigError(f"target-{name}-file: {file}: it is not there, or not to be read")
    positions = {} if checkpoint is None else checkpoint.positions
    crew = Crew()
    sources: list[SourceLike] = [
        VllmMetricsSource(
            clock,
            settings.target + settings.metrics_path,
            ExpositionReader().read,
            limit_s=SCRAPE_LIMIT_S,
            token_file=settings.target_token_file,
            ca_file=settings.target_ca_file,
            tap=tap_of(Source.VLLM_METRICS),
            crew=crew,
        ),
        VllmHealthSource(
            clock,
            settings.target + settings.health_path,
            limit_s=SCRAPE_LIMIT_S,
            asked=Asked.of(settings.target),
            token_file=settings.target_token_file,
            ca_file=settings.target_ca_file,
            tap=tap_of(Source.VLLM_HEALTH),
            crew=crew,
        ),
    ]
    if is_here(settings):
        sources.extend(host_sources(settings, clock, tap_of, crew))
    if settings.log:
        places = log_places(settings, clock, positions, crew)
        sources.append(VllmLogSource(clock, places, tap=tap_of(Source.VLLM_LOG)))
    if settings.kernel_log != "off" and (settings.kernel_log != "auto" or is_here(settings)):
        path = "/dev/kmsg" if settings.kernel_log == "auto" else settings.kernel_log
        resume = {} if checkpoint is None else checkpoint.kernel_position
        tap = tap_of(Source.KERNEL_LOG)
        sources.append(KernelLogSource(clock, path=Path(path), resume=resume, tap=tap))
    if settings.gpu != "off":
        sources.append(
            NvmlSource(
                clock,
                limit_s=READ_LIMIT_S,
                indexes=settings.gpu_indexes,
                tap=tap_of(Source.NVML),
                crew=crew,
            )
        )
    if settings.kubernetes != "off":
        sources.append(kubernetes_source(settings, clock))
    return tuple(sources)


def is_here(settings: Settings) -> bool:
    """Whether the server may run on this host: by its target, its pid or its cgroup.

    Of one elsewhere this host's processes, cgroups and kernel say nothing, not even that it is well.
    """
    is_named = settings.pid != "auto" or settings.cgroup not in {"auto", "off"}
    return is_named or local_port(settings.target) is not None


def host_sources(
    settings: Settings,
    clock: ClockLike,
    tap_of: TapOf = lambda _source: None,
    crew: Crew | None = None,
) -> Iterator[SourceLike]:
    """The server's processes and its cgroup."""
    process = ProcessSource(
        clock,
        limit_s=READ_LIMIT_S,
        pid=None if settings.pid == "auto" else settings.pid,
        port=local_port(settings.target),
        tap=tap_of(Source.PROCESS),
        crew=crew,
    )
    yield process
    if settings.cgroup != "off":
        yield CgroupSource(
            clock,
            limit_s=READ_LIMIT_S,
            path=None if settings.cgroup == "auto" else settings.cgroup,
            pid=lambda: process.root_pid,
            pids=lambda: process.pids,
            here=settings.pid != "auto" or local_port(settings.target) is not None,
            tap=tap_of(Source.CGROUP),
            crew=crew,
        )


def kubernetes_source(settings: Settings, clock: ClockLike) -> KubernetesSource:
    """Our own pod; the server's container is the one that is named, else the one whose log is read."""
    cluster = read_cluster()
    # The places of the log were checked before: a spec that is none has ended the start.
    specs = [parse_spec(text) for text in settings.log]
    logs = {spec.container for spec in specs if isinstance(spec, KubernetesSpec) and not spec.pod}
    named = None if settings.kubernetes == "auto" else settings.kubernetes
    return KubernetesSource(
        clock,
        access=Access(host=cluster.host, port=cluster.port),
        pod=OurPod(
            name=cluster.pod,
            given=named or (logs.pop() if len(logs) == 1 else None),
            ours=cluster.container,
        ),
    )


def local_port(target: str) -> int | None:
    """The port of a target on this host, None for one elsewhere: its port says nothing here.

    On this host are ``localhost`` and the addresses of its own interfaces, as a pod's own is. Other
    names are elsewhere: no resolver is asked, for it may hang, and may say another thing later.
    """
    parts = urlsplit(target)
    if not is_own_address(parts.hostname or ""):
        return None
    return parts.port or (443 if parts.scheme == "https" else 80)


def is_own_address(host: str) -> bool:
    """Whether an address is one of this host's, in the network namespace that we are in."""
    if host.removesuffix(".") == "localhost":
        return True
    try:
        found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)
        family, _, _, _, address = found[0]
        ip = ip_address(plain(address))
        if ip.is_loopback or ip.is_unspecified:
            return True
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Nothing is sent: the kernel only chooses the address from which it would be sent, and
            # that is the address itself where it is our own.
            probe.settimeout(0)
            probe.connect(address)
            return plain(probe.getsockname()) == plain(address)
    except (OSError, ValueError):
        return False


def plain(address: Sequence[object]) -> str:
    """The address in what a socket calls one, without the interface."""
    return str(address[0]).partition("%")[0]


def asked_for(settings: Settings) -> frozenset[Source]:
    """The sources that were asked for by name: their failure leaves a window ``unknown``."""
    asked = {Source.VLLM_METRICS, Source.VLLM_HEALTH}
    if settings.log:
        asked.add(Source.VLLM_LOG)
    for source, value in (
        (Source.CGROUP, settings.cgroup),
        (Source.KERNEL_LOG, settings.kernel_log),
        (Source.NVML, settings.gpu),
        (Source.KUBERNETES, settings.kubernetes),
    ):
        if value not in {"auto", "off"}:
            asked.add(source)
    return frozenset(asked)


def log_places(
    settings: Settings,
    clock: ClockLike,
    positions: Mapping[str, Position],
    crew: Crew | None = None,
) -> tuple[LogPlace, ...]:
    """The places of vLLM's log, each where it was left.

    Raises:
        ConfigError: a place is of no form that we know.
    """
    known = {name: at for name, value in positions.items() if (at := from_json(value)) is not None}
    cluster = read_cluster()
    surroundings = Surroundings(
        access=Access(host=cluster.host, port=cluster.port), pod=cluster.pod, crew=crew
    )
    try:
        return places_of(settings.log, clock, surroundings=surroundings, positions=known)
    except ValueError as error:
        raise ConfigError(f"log: {error}") from None
