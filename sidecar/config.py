"""Settings of the daemon, read once and frozen: command line, environment, TOML file, defaults.

The only file that reads the environment. Unknown names are refused in all three places: a setting
that is silently ignored is a wrong answer at three in the morning.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from sidecar.errors import ConfigError
from sidecar.parse.quantity import parse_duration

ENV_PREFIX = "VLLM_SIDECAR_"
MAX_PORT = 65535
MOST_DIGITS = 20
"""Of a number of 64 bits."""
GPU_INDEXES = re.compile(r"[0-9]{1,4}(?:,[0-9]{1,4})*")
SERVICE_LINK = re.compile(
    rf"{ENV_PREFIX}(?:SERVICE_HOST|SERVICE_PORT\w*|PORT(?:_\d+_(?:TCP|UDP|SCTP)\w*)?)"
)
"""What Kubernetes puts into every container where a Service bears our name."""


def to_seconds(value: object) -> object:
    """A duration in words as seconds."""
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError("not a duration such as 250ms, 5s or 2m")


def to_list(value: object) -> object:
    """A list as the environment gives it: words with commas between."""
    return [part for part in value.split(",") if part] if isinstance(value, str) else value


def check_url(url: str) -> str:
    """An http(s) address without a path or a password."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("not an address such as http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise ValueError("must not hold a password; use target_token_file")
    if parts.port is not None and not 0 < parts.port <= MAX_PORT:
        raise ValueError("the port is out of range")
    return url.rstrip("/")


def check_path(path: str) -> str:
    """An absolute path of a URL."""
    if not path.startswith("/"):
        raise ValueError("must start with /")
    return path


def split_listen(listen: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT`` or ``[V6]:PORT``.

    Raises:
        ValueError: it is not of that form.
    """
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
        raise ValueError("not an address such as 127.0.0.1:9477")
    return host, int(port)


def check_listen(listen: str) -> str:
    """An address to listen on."""
    split_listen(listen)
    return listen


Seconds = Annotated[float, BeforeValidator(to_seconds)]


class Settings(BaseModel):
    """Everything ``run`` can be told."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=False,  # defaults are values already, not words
    )

    target: Annotated[str, AfterValidator(check_url)] = "http://127.0.0.1:8000"
    """Address of the vLLM server. Default: where ``vllm serve`` listens by default."""

    metrics_path: Annotated[str, AfterValidator(check_path)] = "/metrics"
    """Path of its metrics."""

    health_path: Annotated[str, AfterValidator(check_path)] = "/health"
    """Path of its health endpoint."""

    target_ca_file: Path | None = None
    """PEM file of the authority that signed the server's certificate; None: the system's."""

    target_token_file: Path | None = None
    """File with a bearer token for the server; it is read again when it changes."""

    interval: Seconds = 5.0
    """Seconds between samples. 5 s: four scrapes of a Prometheus interval, 0.1 % of a core."""

    window: Seconds = 15.0
    """Seconds of a window, a multiple of ``interval``. Under 5 s a sustained thrash shows windows
    without a preemption."""

    listen: Annotated[str, AfterValidator(check_listen)] = "127.0.0.1:9477"
    """Where our own HTTP server listens."""

    web_config_file: Path | None = None
    """TLS, users and headers of that server, in the format of Prometheus' exporter-toolkit; it is read
    again when it changes. Default none: plain HTTP for everybody who gets to ``listen``."""

    log: Annotated[list[Annotated[str, Field(min_length=1)]], BeforeValidator(to_list)] = []
    """Where vLLM's log is: ``PATH`` (a file, a folder, a pattern), ``cri:PATH``, ``docker:PATH``,
    ``journald:UNIT``, ``kubernetes:CONTAINER``, ``stdin``. Default none: then CUDA OOM is not
    observable, and ``check`` says so."""

    state_dir: Path | None = None
    """Folder in which the state outlives our own restart: how far logs were read, what was counted.
    Default none: counters begin at 0 and logs at their end."""

    cgroup: str = "auto"
    """``auto``: the server's, by its pid; ``off``; or the directory of a memory cgroup, its name, or a
    container's id as Kubernetes and docker print it (``containerd://...``)."""

    pid: Literal["auto"] | Annotated[int, Field(gt=0)] = "auto"
    """Pid of the server; ``auto``: the process that listens on the target's port."""

    kernel_log: str = "auto"
    """``auto``: /dev/kmsg where we may read it; ``off``; or the path of a file."""

    kubernetes: Annotated[str, Field(min_length=1)] = "auto"
    """``auto``: our own pod by the API where a service account allows it; ``off``; or the name of the
    server's container, which is then asked for. It adds exit codes and restarts."""

    gpu: str = "auto"
    """``auto``: all GPUs if there is a driver; ``off``; or their indexes with commas between."""

    envelope: Path | None = None
    """``envelope.json`` of a benchmark, or its folder: the live server is held against it."""

    max_preemptions_per_request: Annotated[float, Field(ge=0)] = 0.01
    """Preemptions per finished request that are no warning."""

    max_engines: Annotated[int, Field(ge=1, le=64)] = 64
    """Engines shown apart; the others are folded into ``other``."""

    @field_validator("gpu")
    @classmethod
    def check_gpu(cls, value: str) -> str:
        """``auto``, ``off`` or indexes."""
        if value not in {"auto", "off"} and not GPU_INDEXES.fullmatch(value):
            raise ValueError("not auto, off or indexes such as 0,1")
        return value

    @model_validator(mode="after")
    def check_window(self) -> "Settings":
        """Windows are made of whole intervals."""
        ratio = self.window / self.interval
        if self.interval < 0.05 or ratio < 1 or abs(ratio - round(ratio)) > 1e-6:  # noqa: PLR2004
            raise ValueError("window must be a multiple of interval, and interval at least 50ms")
        return self

    @property
    def gpu_indexes(self) -> tuple[int, ...] | None:
        """The GPUs that are watched, None for all."""
        return None if self.gpu == "auto" else tuple(int(part) for part in self.gpu.split(","))


@dataclass(frozen=True, slots=True)
class Cluster:
    """What Kubernetes tells a container of where it runs; None outside of a cluster."""

    host: str | None
    port: int
    pod: str | None
    container: str | None = None


def read_environment() -> Mapping[str, str]:
    """Our whole environment, which the commands that we start inherit."""
    return dict(os.environ)


def read_cluster() -> Cluster:
    """Our cluster: the API's address is in every pod, POD_NAME and CONTAINER_NAME if it is given."""
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return Cluster(
        host=os.environ.get("KUBERNETES_SERVICE_HOST") or None,
        port=int(port) if port.isascii() and port.isdigit() else 443,
        pod=os.environ.get("POD_NAME") or os.environ.get("HOSTNAME") or None,
        container=os.environ.get("CONTAINER_NAME") or None,
    )


@dataclass(frozen=True, slots=True)
class Supervision:
    """What systemd told us of itself.

    ``socket``: where it hears notifications, as ``sd_notify(3)`` writes it. ``watchdog_s``: seconds
    without a sign of life after which it ends us, as ``sd_watchdog_enabled(3)`` has it.
    """

    socket: str | None = None
    watchdog_s: float | None = None


def read_supervision() -> Supervision:
    """Who supervises us. A time that is meant for another process, or for none, is no time."""
    time = os.environ.get("WATCHDOG_USEC", "")
    is_ours = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    is_time = is_ours and len(time) < MOST_DIGITS and time.isascii() and time.isdigit()
    return Supervision(
        socket=os.environ.get("NOTIFY_SOCKET") or None,
        watchdog_s=(int(time) / 1e6 if is_time else 0) or None,
    )


def load(options: Mapping[str, object], *, file: Path | None = None) -> Settings:
    """The settings: ``options`` of the command line, then environment, then file, then defaults.

    Raises:
        ConfigError: a name is unknown or a value cannot be honoured; one line says which.
    """
    fields = Settings.model_fields
    told: dict[str, object] = {}
    for written, value in os.environ.items():
        # Capitals and small letters are the same name.
        name = written.upper()
        if name.startswith(ENV_PREFIX) and not SERVICE_LINK.fullmatch(name):
            name = name.removeprefix(ENV_PREFIX).lower()
            refuse_unknown(name, fields, f"environment: {written}")
            told[name] = value
    below = read_file(file) if file is not None else {}
    for name in below:
        refuse_unknown(name, fields, f"{file}: {name}")
    try:
        # Not pydantic-settings: it costs 6 MB, and finds no more than this.
        return Settings.model_validate({**below, **told, **options})
    except ValidationError as error:
        raise ConfigError(first_fault(error)) from None


def read_file(file: Path) -> dict[str, object]:
    """The values of a TOML file."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{file}: {str(error).splitlines()[0]}") from None


def refuse_unknown(name: str, known: Mapping[str, object], where: str) -> None:
    """Refuse a name that is no setting, with the nearest one that is."""
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ConfigError(f"{where}: unknown setting{hint}")


def first_fault(error: ValidationError) -> str:
    """The first fault as one line, without the value: it may be a secret in the wrong place."""
    fault = error.errors(include_url=False, include_input=False)[0]
    name = str(fault["loc"][0]) if fault["loc"] else ""
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{name.replace('_', '-')}: {message}" if name else message
