"""The part of the Kubernetes API that lists, gets and watches the one pod of a namespace."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.fakes.kubelet import FakePod

SELECTOR = "metadata.name=vllm-0"


class PodTable:
    """``events`` are kept by their version; watches begin behind the one that they name.

    ``forbidden``: verbs that are refused. ``expired``: versions up to which events are forgotten.
    ``body``: what a list or get answers instead. ``asked``: verb and query of every request.
    """

    def __init__(self, is_known: Callable[[web.Request], bool]) -> None:
        self.pod: FakePod | None = FakePod()
        self.forbidden: set[str] = set()
        self.expired = 0
        self.status: int | None = None
        self.body: bytes | None = None
        self.asked: list[tuple[str, dict[str, str]]] = []
        self._is_known = is_known
        self._events: list[tuple[int, bytes]] = []
        self._watches: set[asyncio.Event] = set()
        self._raw: list[bytes] = []
        self._cut = self._ended = self._is_stopped = False

    @property
    def watching(self) -> int:
        return len(self._watches)

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.asked]

    def change(self, kind: str = "MODIFIED") -> None:
        """Tell what the pod is now."""
        assert self.pod is not None
        self.pod.version += 1
        self._events.append((self.pod.version, event(kind, self.pod.json())))
        self._notify()

    def bookmark(self, version: int) -> None:
        body = {"kind": "Pod", "metadata": {"resourceVersion": str(version)}}
        self._events.append((version, event("BOOKMARK", body)))
        self._notify()

    def expire(self) -> None:
        """Forget all events, and tell the watches so as the API does: by an event."""
        assert self.pod is not None
        self.expired = self.pod.version
        self.say(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}))

    def say(self, raw: bytes) -> None:
        """Send anything down the watches."""
        self._raw.append(raw)
        self._notify()

    def cut(self) -> None:
        """Break all watches off amid an event."""
        self._cut = True
        self._notify()

    def end(self) -> None:
        """End all watches in good order, as when their time is over."""
        self._ended = True
        self._notify()

    def stop(self) -> None:
        self._is_stopped = True
        self._notify()

    def _notify(self) -> None:
        for watch in self._watches:
            watch.set()

    async def list(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        verb = "watch" if query.get("watch") == "1" else "list"
        refused = self._refused(request, verb)
        if refused is not None:
            return refused
        # Nobody else's pod is our business.
        assert query["fieldSelector"] == SELECTOR
        if verb == "watch":
            return await self._watch(request, query)
        version = "1" if self.pod is None else str(self.pod.version)
        items = [] if self.pod is None else [self.pod.json()]
        return self._answer({"metadata": {"resourceVersion": version}, "items": items})

    async def get(self, request: web.Request) -> web.StreamResponse:
        refused = self._refused(request, "get")
        if refused is not None:
            return refused
        if self.pod is None or request.match_info["pod"] != "vllm-0":
            return web.Response(status=404)
        return self._answer(self.pod.json())

    def _refused(self, request: web.Request, verb: str) -> web.Response | None:
        self.asked.append((verb, dict(request.query)))
        if not self._is_known(request):
            return web.Response(status=401)
        if verb in self.forbidden:
            return web.Response(status=403)
        return None if self.status is None else web.Response(status=self.status)

    def _answer(self, value: object) -> web.Response:
        text = json.dumps(value).encode() if self.body is None else self.body
        return web.Response(body=text, content_type="application/json")

    async def _watch(self, request: web.Request, query: dict[str, str]) -> web.StreamResponse:
        assert query["allowWatchBookmarks"] == "true"
        since = int(query["resourceVersion"])
        if since < self.expired:
            return web.Response(status=410)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        changed = asyncio.Event()
        self._watches.add(changed)
        try:
            await self._follow(request, response, changed, since)
        finally:
            self._watches.discard(changed)
        return response

    async def _follow(
        self,
        request: web.Request,
        response: web.StreamResponse,
        changed: asyncio.Event,
        since: int,
    ) -> None:
        while not self._is_stopped:
            changed.clear()
            for version, line in [one for one in self._events if one[0] > since]:
                await response.write(line)
                since = version
            while self._raw:
                await response.write(self._raw.pop(0))
            if self._ended:
                self._ended = False
                return
            if self._cut:
                self._cut = False
                await response.write(b'{"type": "MODI')
                assert request.transport is not None
                request.transport.abort()
                return
            await changed.wait()


def event(kind: str, body: Any) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"
