"""Our own pod by the Kubernetes API: which of its containers ended, how, and how often.

One list, then a watch from its version on, which is taken up again wherever it breaks; where only
``get`` is allowed, the pod is asked for every few seconds. Nobody else's pod is ever asked for.
"""

import asyncio
import http.client
import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from sidecar.clock import ClockLike
from sidecar.model.readings import PodReading, Termination
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.parse.pod_status import (
    Broken,
    Changed,
    Expired,
    WatchEvent,
    parse_event,
    parse_list,
    parse_pod,
)
from sidecar.sources.base import sample_of
from sidecar.sources.kube_api import ANSWER_LIMIT_S, Access, KubeApi, Refusal, fault_of

MOST_BODY: Final = 4 * 1024 * 1024
"""Bytes of one answer or event. etcd holds no object beyond 1.5 MiB."""
MOST_ENDED: Final = 256
"""Terminations that wait for the next sample; of more, only the count of restarts tells."""
_MOST_SEEN: Final = 1024
_MOST_WAITING: Final = 64
_CHUNK_BYTES: Final = 64 * 1024
_WATCH_S: Final = 290
"""Seconds after which the API ends a watch that brought nothing: below what proxies allow."""
_WATCH_MOST_S: Final = _WATCH_S + 15.0
"""Seconds after which a watch is left that was not ended: its peer is connected, and not there."""
_OPEN_LIMIT_S: Final = 1.5
_GAP_S: Final = 0.5
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
"""Seconds after a failed attempt: doubled from the first to the longest."""
_POLL_S: Final = 5.0
_POLLS: Final = 120
"""Looks without a watch before it is tried whether one is allowed by now."""
_STATUS_FAULTS: Final = {401: Fault.DENIED, 403: Fault.DENIED, 404: Fault.ABSENT}
_FORBIDDEN: Final = 403
_GONE: Final = 410


@dataclass(frozen=True, slots=True)
class OurPod:
    """Which pod is ours, and what is known of the containers in it; names, or None.

    ``given``: the server's container by the settings. ``ours``: the container that we run in.
    """

    name: str | None
    given: str | None = None
    ours: str | None = None


class KubernetesSource:
    """Follows our own pod; a thread does the waiting, so that nothing here ever blocks."""

    name: Final = Source.KUBERNETES

    def __init__(self, clock: ClockLike, *, access: Access, pod: OurPod) -> None:
        self._clock = clock
        self._pod = pod
        self._api = KubeApi(access)
        self._is_there = self._api.is_in_cluster and pod.name is not None
        self._follower = _Follower(self._api, clock, pod.name or "")
        self._box: _Box | None = None
        self._thread: threading.Thread | None = None
        self._due = float("-inf")

    async def open(self) -> None:
        """Begin to follow; returns once the pod was read, or after a while."""
        if not self._is_there:
            return
        box = self._box = _Box(asyncio.get_running_loop())
        self._revive(box)
        try:
            async with asyncio.timeout(_OPEN_LIMIT_S):
                await box.news.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Stop following; a thread that hangs is left to itself."""
        self._api.interrupt()
        if self._box is not None:
            self._box.closed = True
        self._box = None

    async def sample(self) -> Sample:
        """The pod as it was last told, and what ended since the last sample."""
        begun = self._clock.now()
        got: PodReading | Fault = Fault.ABSENT
        if self._box is not None:
            self._revive(self._box)
            got = self._box.take()
            if isinstance(got, PodReading):
                got = replace(got, given=self._pod.given, ours=self._pod.ours)
        return sample_of(self.name, begun, self._clock.now(), got)

    async def wait(self) -> None:
        """Return when a container ended."""
        if self._box is None:
            await asyncio.Event().wait()
        else:
            await self._box.news.wait()
            self._box.news.clear()

    def _revive(self, box: "_Box") -> None:
        """Make another attempt if none runs and its time has come."""
        if self._thread is not None and self._thread.is_alive():
            return
        now = self._clock.now().monotonic
        if self._thread is not None:
            self._thread = None
            self._due = now + self._follower.pause_s
        if now >= self._due:
            self._thread = threading.Thread(
                target=_run, args=(self._follower, box), name="sidecar-kubernetes", daemon=True
            )
            self._thread.start()


class _Box:
    """From the thread to the loop, without a lock that the loop could wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.news = asyncio.Event()
        self.closed = False
        self._loop = loop
        self._readings: deque[PodReading] = deque(maxlen=_MOST_WAITING)
        self._latest: PodReading | None = None
        self._fault: Fault | None = Fault.BUSY
        self._error: BaseException | None = None

    # --- for the thread ---------------------------------------------------------------------

    def put(self, reading: PodReading) -> None:
        """The pod as it is now; ``ended`` holds only what was not told before."""
        is_first, self._fault = self._fault is not None, None
        self._readings.append(reading)
        if reading.ended or is_first:
            self._tell()

    def failed(self, fault: Fault, error: BaseException | None = None) -> None:
        """Tell that the pod cannot be seen; ``error`` is a bug."""
        is_first = self._fault is Fault.BUSY
        self._fault, self._error = fault, error
        if is_first:
            self._tell()

    def _tell(self) -> None:
        if self.closed:
            return
        try:
            self._loop.call_soon_threadsafe(self.news.set)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            self.closed = True

    # --- for the loop -----------------------------------------------------------------------

    def take(self) -> PodReading | Fault:
        """The last reading with all that ended; a fault once all that was read is told."""
        if self._error is not None:
            raise self._error
        fault = self._fault
        ended: list[tuple[str, Termination]] = []
        while self._readings:
            self._latest = self._readings.popleft()
            ended += self._latest.ended
        if self._latest is None or (fault is not None and not ended):
            return fault or Fault.BUSY
        self._latest = replace(self._latest, ended=())
        return replace(self._latest, ended=tuple(ended[-MOST_ENDED:]))


class _TooLargeError(ValueError):
    """An answer is beyond all bounds."""


class _Follower:
    """What is known between two attempts. ``pause_s``: seconds from the last one to the next."""

    def __init__(self, api: KubeApi, clock: ClockLike, pod: str) -> None:
        self.pause_s = _FIRST_PAUSE_S
        self._api = api
        self._clock = clock
        self._pod = pod
        self._version: str | None = None
        self._polls = 0
        self._may_list = True
        self._failures = 0
        self._seen: dict[tuple[str, str], None] = {}

    def run(self, box: _Box) -> Fault | None:
        """One attempt: a watch until it ends, or one look where no watch is allowed."""
        try:
            fault = self._attempt(box)
        except (OSError, http.client.HTTPException) as error:
            fault = fault_of(error)
        except _TooLargeError:
            fault = Fault.TOO_LARGE
        except ValueError:
            fault = Fault.MALFORMED
        if fault is None:
            self._failures = 0
            self.pause_s = _POLL_S if self._polls else _GAP_S
        else:
            self._version, self._polls = None, 0
            self._failures += 1
            self.pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(self._failures, 9) / 2)
        return fault

    def _attempt(self, box: _Box) -> Fault | None:
        namespace = self._api.namespace()
        if isinstance(namespace, Fault):
            return namespace
        pods = f"/api/v1/namespaces/{quote(namespace)}/pods"
        if self._polls:
            self._polls -= 1
            return self._look(pods, box)
        if self._version is None:
            self._may_list = True
            fault = self._look(pods, box)
            if fault is not None:
                return fault
            if not self._may_list:
                self._polls = _POLLS
                return None
        return self._watch(pods, box)

    def _look(self, pods: str, box: _Box) -> Fault | None:
        """Read the pod once: by a list, from whose version can be watched, else by itself."""
        got: bytes | Refusal | Fault = Refusal(_FORBIDDEN)
        if self._may_list:
            got = self._text(pods, {"fieldSelector": f"metadata.name={self._pod}"})
        if isinstance(got, bytes):
            listed = parse_list(got)
            self._version = listed.version
            if listed.pod is None:
                return Fault.ABSENT
            box.put(self._fresh(listed.pod))
            return None
        if got == Refusal(_FORBIDDEN):
            got = self._text(f"{pods}/{quote(self._pod)}", {})
            if isinstance(got, bytes):
                self._may_list = False
                box.put(self._fresh(parse_pod(got)))
                return None
        return _fault(got)

    def _watch(self, pods: str, box: _Box) -> Fault | None:
        query = {
            "fieldSelector": f"metadata.name={self._pod}",
            "watch": "1",
            "resourceVersion": self._version or "",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_S),
        }
        # What was forgotten, or breaks off before it brought anything, is listed anew.
        self._version = None
        answer = self._api.get(pods, query, silent_s=_WATCH_MOST_S)
        if answer == Refusal(_FORBIDDEN):
            self._polls = _POLLS
            return None
        if answer == Refusal(_GONE):
            return None
        if not isinstance(answer, http.client.HTTPResponse):
            return _fault(answer)
        with answer:
            return self._follow(answer, box)

    def _follow(self, answer: http.client.HTTPResponse, box: _Box) -> Fault | None:
        rest = b""
        end = self._clock.now().monotonic + _WATCH_MOST_S
        while self._clock.now().monotonic < end:
            try:
                data = answer.read1(_CHUNK_BYTES)
            except (OSError, http.client.HTTPException):
                # A watch that is cut is no fault: whether the API can be reached, the next one shows.
                return None
            if not data:
                return None
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > MOST_BODY:
                raise _TooLargeError
            for line in filter(None, lines):
                event = parse_event(line)
                if isinstance(event, Expired | Broken):
                    self._version = None
                    return None if isinstance(event, Expired) else Fault.HTTP_STATUS
                self._take(event, box)
        return None

    def _take(self, event: WatchEvent, box: _Box) -> None:
        if not isinstance(event, Expired | Broken):
            self._version = event.version
        if isinstance(event, Changed):
            box.put(self._fresh(event.pod))

    def _fresh(self, reading: PodReading) -> PodReading:
        """The reading with only those terminations that were not told before."""
        fresh = tuple(
            (name, one) for name, one in reading.ended if (name, one.container_id) not in self._seen
        )
        self._seen |= {(name, one.container_id): None for name, one in fresh}
        while len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        return replace(reading, ended=fresh)

    def _text(self, path: str, query: dict[str, str]) -> bytes | Refusal | Fault:
        """A whole answer, bounded in size and time."""
        answer = self._api.get(path, query)
        if not isinstance(answer, http.client.HTTPResponse):
            return answer
        parts, size = [], 0
        end = self._clock.now().monotonic + ANSWER_LIMIT_S
        with answer:
            while data := answer.read1(_CHUNK_BYTES):
                parts.append(data)
                size += len(data)
                if size > MOST_BODY:
                    raise _TooLargeError
                if self._clock.now().monotonic > end:
                    return Fault.TIMEOUT
        return b"".join(parts)


def _fault(got: Refusal | Fault | bytes) -> Fault:
    if isinstance(got, Refusal):
        return _STATUS_FAULTS.get(got.status, Fault.HTTP_STATUS)
    return got if isinstance(got, Fault) else Fault.MALFORMED


def _run(follower: _Follower, box: _Box) -> None:
    try:
        fault = follower.run(box)
        if fault is not None:
            box.failed(fault)
    except BaseException as error:  # noqa: BLE001 - handed over, not swallowed
        box.failed(Fault.IO_ERROR, error)
