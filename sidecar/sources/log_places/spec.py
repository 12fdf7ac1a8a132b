"""What ``--log SPEC`` may say -> a value. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from sidecar.sources.log_places.container_files import Layout

_FORMS: Final = "a path, cri:PATH, docker:PATH, journald:UNIT, kubernetes:CONTAINER or stdin"
_UNIT: Final = re.compile(r"[\w:.\\@*?\[\]][\w:.\\@*?\[\]-]{0,254}")
_KUBE_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+-]*:")
_LONGEST_PATH: Final = 4096
_PARTS: Final = (1, 3)


@dataclass(frozen=True, slots=True)
class FileSpec:
    """A file, a folder or a pattern with wildcards."""

    path: str
    layout: Layout = Layout.PLAIN


@dataclass(frozen=True, slots=True)
class JournalSpec:
    """The entries of one unit in the journal of this host."""

    unit: str


@dataclass(frozen=True, slots=True)
class KubernetesSpec:
    """A container's log by the Kubernetes API; None stands for the pod that we run in."""

    container: str
    namespace: str | None = None
    pod: str | None = None


@dataclass(frozen=True, slots=True)
class StdinSpec:
    """What is piped into us."""


LogSpec = FileSpec | JournalSpec | KubernetesSpec | StdinSpec


def parse_spec(text: str) -> LogSpec:
    """The place that ``text`` names. A path that looks like another form is written ``./stdin``.

    Raises:
        ValueError: it is of no known form; one line that does not repeat it.
    """
    kind, colon, rest = text.partition(":")
    match kind if colon else text:
        case "stdin" if not colon:
            return StdinSpec()
        case "journald" if colon:
            return _journal(rest)
        case "kubernetes" if colon:
            return _kubernetes(rest)
        case "cri" | "docker" if colon:
            return FileSpec(_path(rest), Layout(kind))
        case _ if _SCHEME.match(text):
            raise ValueError(f"not {_FORMS}; a path with a colon is written with ./ in front")
        case _:
            return FileSpec(_path(text))


def _path(text: str) -> str:
    if not text.strip() or "\0" in text or len(text) > _LONGEST_PATH:
        raise ValueError(f"not {_FORMS}")
    return text


def _journal(unit: str) -> JournalSpec:
    if not _UNIT.fullmatch(unit):
        raise ValueError("not the name of a systemd unit, such as journald:vllm.service")
    return JournalSpec(unit)


def _kubernetes(text: str) -> KubernetesSpec:
    parts = text.split("/")
    if len(parts) not in _PARTS or not all(map(_KUBE_NAME.fullmatch, parts)):
        raise ValueError(
            "not kubernetes:CONTAINER or kubernetes:NAMESPACE/POD/CONTAINER in lower-case names"
        )
    if len(parts) == 1:
        return KubernetesSpec(container=parts[0])
    namespace, pod, container = parts
    return KubernetesSpec(container=container, namespace=namespace, pod=pod)
