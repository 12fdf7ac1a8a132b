"""JSON of the Kubernetes API about one pod -> what ended in it. Fields as in the core v1 API reference.

Only names, ids, counts, exit codes and one closed word are taken: a message may quote anything.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sidecar.model.readings import Container, PodReading, Termination
from sidecar.model.vocabulary import TerminationReason

MOST_CONTAINERS: Final = 64
"""Containers of one pod that are looked at; the rest are left out."""
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_ID: Final = re.compile(r"[\w.:-]{1,128}", re.ASCII)
_VERSION: Final = re.compile(r"[\w.-]{1,128}", re.ASCII)
_UID: Final = re.compile(r"[\w.-]{1,128}", re.ASCII)
_MOST_NUMBER: Final = 2**31
_REASONS: Final = {
    "OOMKilled": TerminationReason.OOM_KILLED,
    "Error": TerminationReason.ERROR,
    "Completed": TerminationReason.COMPLETED,
}
_GONE: Final = 410

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listed:
    """The answer to a list: the version from which to watch on, and our pod if it is there."""

    version: str
    pod: PodReading | None


@dataclass(frozen=True, slots=True)
class Changed:
    """The pod as it is from now on."""

    version: str
    pod: PodReading


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing changed up to this version."""

    version: str


@dataclass(frozen=True, slots=True)
class Expired:
    """The version from which was watched is forgotten: the pod is to be listed anew."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The API itself failed amid the watch."""


WatchEvent = Changed | Bookmark | Expired | Broken


def parse_pod(text: bytes) -> PodReading:
    """One pod. ``ended`` holds every termination that its status still tells, oldest first.

    Raises:
        ValueError: it is no pod.
    """
    return _pod(_object(text))


def parse_list(text: bytes) -> Listed:
    """A list of at most one pod.

    Raises:
        ValueError: it is no list of pods.
    """
    value = _object(text)
    items = value.get("items")
    if not isinstance(items, list | None) or not isinstance(value.get("metadata"), dict):
        raise ValueError("no list")  # noqa: TRY004  (bad text, not a bug of the caller)
    version = _version(value)
    return Listed(version, _pod(_dict(items[0])) if items else None)


def parse_event(line: bytes) -> WatchEvent:
    """One line of a watch.

    Raises:
        ValueError: it is no event of a watch of pods.
    """
    event = _object(line)
    body = _dict(event.get("object"))
    match event.get("type"):
        case "ADDED" | "MODIFIED":
            return Changed(_version(body), _pod(body))
        case "DELETED":
            return Changed(_version(body), _pod(body, deleting=True))
        case "BOOKMARK":
            return Bookmark(_version(body))
        case "ERROR":
            return Expired() if body.get("code") == _GONE else Broken()
        case _:
            raise ValueError("no event")


def _object(text: bytes) -> Json:
    try:
        return _dict(json.loads(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _dict(value: object) -> Json:
    if not isinstance(value, dict):
        raise ValueError("no object")  # noqa: TRY004  (bad text, not a bug of the caller)
    return value


def _version(value: Json) -> str:
    version = _dict(value.get("metadata")).get("resourceVersion")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ValueError("no version")
    return version


def _pod(value: Json, *, deleting: bool = False) -> PodReading:
    metadata = _dict(value.get("metadata"))
    uid = metadata.get("uid")
    if not isinstance(uid, str) or not _UID.fullmatch(uid):
        raise ValueError("no uid")
    containers: list[Container] = []
    ended: list[tuple[str, Termination]] = []
    for status in _statuses(value):
        container = _container(status)
        if container is None or any(one.name == container.name for one in containers):
            continue
        containers.append(container)
        ended += [(container.name, one) for one in _terminations(status, container.container_id)]
        if len(containers) == MOST_CONTAINERS:
            break
    return PodReading(
        uid=uid,
        containers=tuple(containers),
        ended=tuple(ended),
        deleting=deleting or metadata.get("deletionTimestamp") is not None,
    )


def _statuses(pod: Json) -> Iterator[Json]:
    """Those of regular containers, and of init containers that run on beside them."""
    status, spec = _dict(pod.get("status") or {}), _dict(pod.get("spec") or {})
    yield from _dicts(status.get("containerStatuses"))
    beside = {
        one.get("name")
        for one in _dicts(spec.get("initContainers"))
        if one.get("restartPolicy") == "Always" and isinstance(one.get("name"), str)
    }
    for one in _dicts(status.get("initContainerStatuses")):
        name = one.get("name")
        if isinstance(name, str) and name in beside:
            yield one


def _dicts(value: object) -> Iterator[Json]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())


def _container(status: Json) -> Container | None:
    name, restarts = status.get("name"), _number(status.get("restartCount", 0))
    if not isinstance(name, str) or not _NAME.fullmatch(name) or restarts is None or restarts < 0:
        return None
    state = status.get("state")
    return Container(
        name=name,
        container_id=_id(status.get("containerID")),
        restarts=restarts,
        running=isinstance(state, dict) and isinstance(state.get("running"), dict),
    )


def _terminations(status: Json, present: str | None) -> Iterator[Termination]:
    """Of the run before and of the present one. One of the present one may lack its own id."""
    for field, default in (("lastState", None), ("state", present)):
        state = status.get(field)
        told = state.get("terminated") if isinstance(state, dict) else None
        if isinstance(told, dict):
            reason = told.get("reason")
            yield Termination(
                container_id=_id(told.get("containerID")) or default or "",
                reason=_REASONS.get(reason, TerminationReason.OTHER)
                if isinstance(reason, str)
                else TerminationReason.OTHER,
                exit_code=_number(told.get("exitCode")),
                at_unix=_time(told.get("finishedAt")),
            )


def _id(value: object) -> str | None:
    """The id without the name of its runtime (``containerd://``)."""
    if not isinstance(value, str):
        return None
    found = value.rpartition("://")[2]
    return found if _ID.fullmatch(found) else None


def _number(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _MOST_NUMBER:
        return None
    return value


def _time(value: object) -> float | None:
    """Seconds since 1970; None for the year 1, which stands for no time."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        seconds = moment.timestamp() if moment.tzinfo is not None else 0.0
    except (ValueError, OverflowError):
        return None
    return seconds if seconds > 0 else None
