"""Settings of the daemon, read once and frozen: command line, environment, TOML file, defaults.

The only file that reads the environment. Unknown names are refused in all three places: a setting
that is silently ignored is a wrong answer at three in the morning.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from sidecar.errors import ConfigError, hint_at
from sidecar.parse.quantity import parse_duration

ENV_PREFIX = "VLLM_SIDECAR_"
MAX_PORT = 65535
MOST_DIGITS = 20
"""Of a number of 64 bits."""
MOST_PID = 1 << 22
"""The kernel's own bound (``PID_MAX_LIMIT``)."""
MOST_ENGINES = 64
LEAST_INTERVAL_S = 0.05
WHOLE = re.compile(r"[0-9]{1,9}")
NUMBER = re.compile(r"(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,2})?")
GPU_INDEXES = re.compile(r"[0-9]{1,4}(?:,[0-9]{1,4})*")
SERVICE_LINK = re.compile(
    rf"{ENV_PREFIX}(?:SERVICE_HOST|SERVICE_PORT\w*|PORT(?:_\d+_(?:TCP|UDP|SCTP)\w*)?)"
)
"""What Kubernetes puts into every container where a Service bears our name."""


def read_seconds(value: object) -> float:
    """A duration in words as seconds."""
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError("not a duration such as 250ms, 5s or 2m")


def read_text(value: object) -> str:
    """A text."""
    if isinstance(value, str):
        return value
    raise ValueError("not a text")


def read_word(value: object) -> str:
    """A text that is not empty."""
    text = read_text(value)
    if not text:
        raise ValueError("must not be empty")
    return text


def read_path(value: object) -> Path:
    """A path."""
    return value if isinstance(value, Path) else Path(read_text(value))


def read_list(value: object) -> Sequence[str]:
    """Several texts; the environment gives them as words with commas between."""
    if isinstance(value, str):
        return [part for part in value.split(",") if part]
    if isinstance(value, Sequence):
        return [read_word(part) for part in value]
    raise ValueError("not a list")


def read_whole(value: object, least: int, most: int) -> int:
    """A whole number within bounds, as such or in digits."""
    if isinstance(value, str) and WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise ValueError(f"not a whole number from {least} to {most}")


def read_pid(value: object) -> int | Literal["auto"]:
    """A pid or ``auto``."""
    if value == "auto":
        return "auto"
    try:
        return read_whole(value, 1, MOST_PID)
    except ValueError:
        raise ValueError("not auto or the number of a process") from None


def read_tolerance(value: object) -> float:
    """A number from 0, as such or in digits."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    raise ValueError("not a number from 0")


def read_gpus(value: object) -> str:
    """``auto``, ``off`` or indexes."""
    text = read_text(value)
    if text not in {"auto", "off"} and not GPU_INDEXES.fullmatch(text):
        raise ValueError("not auto, off or indexes such as 0,1")
    return text


def read_url(value: object) -> str:
    """An http(s) address without a path or a password."""
    url = read_text(value)
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("not an address such as http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise ValueError("must not hold a password; use target_token_file")
    if parts.port is not None and not 0 < parts.port <= MAX_PORT:
        raise ValueError("the port is out of range")
    return url.rstrip("/")


def read_url_path(value: object) -> str:
    """An absolute path of a URL."""
    path = read_text(value)
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


def read_listen(value: object) -> str:
    """An address to listen on."""
    listen = read_text(value)
    split_listen(listen)
    return listen


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything ``run`` can be told; defaults are values, all else is read from words.

    Raises:
        ConfigError: a value cannot be honoured; one line says which, without the value.
    """

    # Not pydantic: it costs 9 MB and a tenth of a second for these few values.

    target: str = "http://127.0.0.1:8000"
    """Address of the vLLM server. Default: where ``vllm serve`` listens by default."""

    metrics_path: str = "/metrics"
    """Path of its metrics."""

    health_path: str = "/health"
    """Path of its health endpoint."""

    target_ca_file: Path | None = None
    """PEM file of the authority that signed the server's certificate; None: the system's."""

    target_token_file: Path | None = None
    """File with a bearer token for the server; it is read again when it changes."""

    interval: float = 5.0
    """Seconds between samples. 5 s: four scrapes of a Prometheus interval, 0.1 % of a core."""

    window: float = 15.0
    """Seconds of a window, a multiple of ``interval``. Under 5 s a sustained thrash shows windows
    without a preemption."""

    listen: str = "127.0.0.1:9477"
    """Where our own HTTP server listens."""

    web_config_file: Path | None = None
    """TLS, users and headers of that server, in the format of Prometheus' exporter-toolkit; it is read
    again when it changes. Default none: plain HTTP for everybody who gets to ``listen``."""

    log: Sequence[str] = ()
    """Where vLLM's log is: ``PATH`` (a file, a folder, a pattern), ``cri:PATH``, ``docker:PATH``,
    ``journald:UNIT``, ``kubernetes:CONTAINER``, ``stdin``. Default none: then CUDA OOM is not
    observable, and ``check`` says so."""

    state_dir: Path | None = None
    """Folder in which the state outlives our own restart: how far logs were read, what was counted.
    Default none: counters begin at 0 and logs at their end."""

    history: float = 24 * 3600.0
    """How long closed windows are kept, for the page and ``/api/windows``: in a few megabytes at most, and
    over our own restart where there is a ``state_dir``."""

    cgroup: str = "auto"
    """``auto``: the server's, by its pid; ``off``; or the directory of a memory cgroup, its name, or a
    container's id as Kubernetes and docker print it (``containerd://...``)."""

    pid: Literal["auto"] | int = "auto"
    """Pid of the server; ``auto``: the process that listens on the target's port."""

    kernel_log: str = "auto"
    """``auto``: /dev/kmsg where we may read it; ``off``; or the path of a file."""

    kubernetes: str = "auto"
    """``auto``: our own pod by the API where a service account allows it; ``off``; or the name of the
    server's container, which is then asked for. It adds exit codes and restarts."""

    gpu: str = "auto"
    """``auto``: all GPUs if there is a driver; ``off``; or their indexes with commas between."""

    envelope: Path | None = None
    """``envelope.json`` of a benchmark, or its folder: the live server is held against it."""

    max_preemptions_per_request: float = 0.01
    """Preemptions per finished request that are no warning."""

    max_engines: int = 64
    """Engines shown apart; the others are folded into ``other``."""

    def __post_init__(self) -> None:
        """Read what is not a default, and check what goes together."""
        for one in fields(self):
            value = getattr(self, one.name)
            if value is one.default:
                continue
            try:
                object.__setattr__(self, one.name, READERS[one.name](value))
            except ValueError as error:
                raise ConfigError(f"{one.name.replace('_', '-')}: {error}") from None
        # Windows are made of whole intervals.
        ratio = self.window / self.interval if self.interval >= LEAST_INTERVAL_S else 0.0
        if ratio < 1 or abs(ratio - round(ratio)) > 1e-6:  # noqa: PLR2004
            raise ConfigError("window must be a multiple of interval, and interval at least 50ms")

    @property
    def gpu_indexes(self) -> tuple[int, ...] | None:
        """The GPUs that are watched, None for all."""
        return None if self.gpu == "auto" else tuple(int(part) for part in self.gpu.split(","))


READERS: Mapping[str, Callable[[object], object]] = {
    "target": read_url,
    "metrics_path": read_url_path,
    "health_path": read_url_path,
    "target_ca_file": read_path,
    "target_token_file": read_path,
    "interval": read_seconds,
    "window": read_seconds,
    "listen": read_listen,
    "web_config_file": read_path,
    "log": read_list,
    "state_dir": read_path,
    "history": read_seconds,
    "cgroup": read_text,
    "pid": read_pid,
    "kernel_log": read_text,
    "kubernetes": read_word,
    "gpu": read_gpus,
    "envelope": read_path,
    "max_preemptions_per_request": read_tolerance,
    "max_engines": lambda value: read_whole(value, 1, MOST_ENGINES),
}
"""How each setting is read from what line, environment or file say; raises ValueError."""
DEFAULTS: Mapping[str, object] = {one.name: one.default for one in fields(Settings)}
"""Every setting by its name."""


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
    told: dict[str, object] = {}
    for written, value in os.environ.items():
        # Capitals and small letters are the same name.
        name = written.upper()
        if name.startswith(ENV_PREFIX) and not SERVICE_LINK.fullmatch(name):
            name = name.removeprefix(ENV_PREFIX).lower()
            refuse_unknown(name, DEFAULTS, f"environment: {written}")
            told[name] = value
    below = read_file(file) if file is not None else {}
    for name in below:
        refuse_unknown(name, DEFAULTS, f"{file}: {name}")
    return Settings(**{**below, **told, **options})  # type: ignore[arg-type]  # it reads them


def read_file(file: Path) -> dict[str, object]:
    """The values of a TOML file."""
    import tomllib  # noqa: PLC0415 - few have one

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
    raise ConfigError(f"{where}: unknown setting{hint_at(name, known)}")
