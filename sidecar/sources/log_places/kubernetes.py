"""A container's log by the Kubernetes API, with the service account that the pod was given.

``GET /api/v1/namespaces/NS/pods/POD/log``. The API takes ``sinceTime`` in whole seconds only, so what
was read before is told again after each reconnect; times may repeat, so the lines of the last one are
counted.
"""

import http.client
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from sidecar.model.vocabulary import Fault
from sidecar.sources.kube_api import Access, KubeApi, Refusal, fault_of
from sidecar.sources.log_places.base import LOOKBACK_BYTES
from sidecar.sources.log_places.channel import Block, Channel
from sidecar.sources.log_places.lines import LineCutter
from sidecar.sources.log_places.position import PodPosition

__all__ = ["Access", "Container", "KubernetesFeed"]

_CHUNK_BYTES: Final = 64 * 1024
_LOOKBACK_LINES: Final = 2000
_BEGIN: Final = PodPosition("1970-01-01T00:00:00Z", 0)
_STATUS_FAULTS: Final = {
    # 400: the container has not begun yet, or there is no such container in the pod.
    400: Fault.ABSENT,
    401: Fault.DENIED,
    403: Fault.DENIED,
    404: Fault.ABSENT,
}


@dataclass(frozen=True, slots=True)
class Container:
    """Whose log. ``namespace`` None: our own."""

    name: str
    pod: str | None
    namespace: str | None = None


class KubernetesFeed:
    """Follows one container of a pod through restarts of it, of the API and of tokens."""

    def __init__(self, access: Access, container: Container) -> None:
        self._api = KubeApi(access)
        self._container = container

    def run(self, channel: Channel) -> Fault | None:
        """Look back once; then tell the end of the run before, if there is one, and follow."""
        try:
            return self._run(channel)
        except (OSError, http.client.HTTPException) as error:
            return fault_of(error)

    def interrupt(self) -> None:
        """Break the connection."""
        self._api.interrupt()

    def _run(self, channel: Channel) -> Fault | None:
        at = channel.position
        fault = None
        if not isinstance(at, PodPosition):
            fault = self._look_back(channel)
        elif at.lines:
            # A container that was started again has a log of its own; the end of the one before
            # may not have come. There is none in most cases, and that is no fault.
            fault = self._tell({"previous": "true"}, channel)
            fault = None if fault is Fault.ABSENT else fault
        return fault or self._tell({"follow": "true"}, channel)

    def _look_back(self, channel: Channel) -> Fault | None:
        answer = self._get({"tailLines": str(_LOOKBACK_LINES)})
        if isinstance(answer, Fault):
            if answer is Fault.ABSENT:
                # What comes to be while we look for it is told from its begin.
                channel.position = _BEGIN
            return answer
        told = _Told(None)
        last: deque[bytes] = deque()
        size = 0
        with answer:
            for lines in _lines_of(answer, LineCutter(), to_end=True):
                new = told.new(lines)
                last.append(new)
                size += len(new)
                while size > LOOKBACK_BYTES:
                    size -= len(last.popleft())
        channel.position = told.position() or _BEGIN
        channel.opened(b"".join(last))
        return None

    def _tell(self, how: Mapping[str, str], channel: Channel) -> Fault | None:
        """Hand over what is new in one answer."""
        at = channel.position if isinstance(channel.position, PodPosition) else None
        since = {} if at is None else {"sinceTime": at.time[: len("2006-01-02T15:04:05")] + "Z"}
        answer = self._get({**how, **since})
        if isinstance(answer, Fault):
            return answer
        channel.opened()
        told, cutter = _Told(at), LineCutter()
        with answer:
            # A line without an end is the last one only where nobody follows.
            for lines in _lines_of(answer, cutter, to_end="follow" not in how):
                block = Block(told.new(lines), told.position(), overlong=cutter.take_overlong())
                if (block.data or block.overlong) and not channel.put(block):
                    return None
        return None

    def _get(self, how: Mapping[str, str]) -> "http.client.HTTPResponse | Fault":
        namespace = self._container.namespace or self._api.namespace()
        if self._container.pod is None or not self._api.is_in_cluster:
            return Fault.ABSENT
        if isinstance(namespace, Fault):
            return namespace
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(self._container.pod)}/log"
        query = {"container": self._container.name, "timestamps": "true", **how}
        answer = self._api.get(path, query, endless=True)
        if isinstance(answer, Refusal):
            return _STATUS_FAULTS.get(answer.status, Fault.HTTP_STATUS)
        return answer


def _lines_of(
    answer: http.client.HTTPResponse, cutter: LineCutter, *, to_end: bool
) -> Iterator[bytes]:
    """The complete lines of an answer as they come."""
    while data := answer.read1(_CHUNK_BYTES):
        yield cutter.feed(data)
    if to_end:
        yield cutter.finish()


class _Told:
    """Takes the times off the lines of one answer, and leaves out what was told before ``at``."""

    def __init__(self, at: PodPosition | None) -> None:
        self._time = "" if at is None else _comparable(at.time)
        self._raw = "" if at is None else at.time
        self._count = 0 if at is None else at.lines
        self._known = self._count
        self._is_repeating = at is not None

    def position(self) -> PodPosition | None:
        """The place behind the last line."""
        return PodPosition(self._raw, self._count) if self._raw else None

    def new(self, lines: bytes) -> bytes:
        """The lines among ``lines`` that were not told, without their times."""
        kept = []
        for line in lines.split(b"\n")[:-1]:
            stamp, _, text = line.partition(b" ")
            raw = stamp.decode("ascii", "replace")
            if self._is_new(_comparable(raw), raw):
                kept.append(text + b"\n")
        return b"".join(kept)

    def _is_new(self, time: str, raw: str) -> bool:
        if self._is_repeating:
            if time < self._time:
                return False
            if time == self._time and self._known > 0:
                self._known -= 1
                return False
            self._is_repeating = time == self._time
        if time > self._time:
            self._time, self._raw, self._count = time, raw, 1
        elif time == self._time:
            self._count += 1
        return True


def _comparable(time: str) -> str:
    """A time of RFC 3339 in UTC such that text order is the order of time: without its zeros cut."""
    seconds, _, fraction = time.rstrip("Z").partition(".")
    return f"{seconds}.{fraction.ljust(9, '0')}"
