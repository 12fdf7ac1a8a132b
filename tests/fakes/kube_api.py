"""A TLS server that answers for one pod, and the log of one container, as the Kubernetes API does."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tests.fakes.kube_pods import PodTable

Line = tuple[str, str]
"""Time as the runtime wrote it, and text."""


class KubeApi:
    """``runs`` are the logs of the container's runs; the last one is written to now."""

    def __init__(self, account: Path) -> None:
        self.account = account
        self.runs: list[list[Line]] = [[]]
        self.tokens = {"first"}
        self.status: int | None = None
        self.asked: list[dict[str, str]] = []
        self.chunk = 0
        self.port = 0
        self.pods = PodTable(self.is_known)
        self._cut: bytes | None = None
        self._ended = False
        self._is_stopped = False
        self._changed = asyncio.Event()

    def say(self, *lines: Line) -> None:
        """Add lines to the present run."""
        self.runs[-1] += lines
        self._notify()

    def restart(self, *last: Line) -> None:
        """Let the container end with ``last`` words that no stream carries, and run again."""
        self.runs[-1] += last
        self.runs.append([])
        self._ended = True
        self._notify()

    def cut(self, half: bytes = b"") -> None:
        """Break all streams off after ``half`` a line."""
        self._cut = half
        self._notify()

    def give_token(self, token: str) -> None:
        """Renew the service account's token."""
        (self.account / "token.new").write_text(token)
        (self.account / "token.new").replace(self.account / "token")

    def stop(self) -> None:
        """End all streams."""
        self._is_stopped = True
        self.pods.stop()
        self._notify()

    def is_known(self, request: web.Request) -> bool:
        """Whether a request bears a token that is valid now."""
        return request.headers.get("Authorization") in {f"Bearer {t}" for t in self.tokens}

    def _notify(self) -> None:
        self._changed.set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.asked.append(query)
        if not self.is_known(request):
            return web.Response(status=401)
        if self.status is not None:
            return web.Response(status=self.status)
        if request.match_info["pod"] != "vllm-0" or query["container"] != "vllm":
            return web.Response(status=404)
        previous = query.get("previous") == "true"
        if previous and len(self.runs) < 2:
            return web.Response(status=400, text="previous terminated container not found")
        run = self.runs[-2] if previous else self.runs[-1]
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await self._send(request, response, run, query)
        return response

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        run: list[Line],
        query: dict[str, str],
    ) -> None:
        since = query.get("sinceTime", "")[:19]
        sent = max(0, len(run) - int(query["tailLines"])) if "tailLines" in query else 0
        while True:
            for time, text in run[sent:]:
                if time[:19] >= since:
                    await self._write(response, f"{time} {text}\n".encode())
            sent = len(run)
            if query.get("follow") != "true":
                return
            await self._changed.wait()
            if self._is_stopped:
                return
            if self._ended:
                self._ended = False
                self._changed.clear()
                return
            if self._cut is not None:
                half, self._cut = self._cut, None
                self._changed.clear()
                await response.write(half or b" ")
                assert request.transport is not None
                request.transport.abort()
                return
            self._changed.clear()

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        step = self.chunk or len(data)
        for at in range(0, len(data), step):
            await response.write(data[at : at + step])
            if self.chunk:
                await asyncio.sleep(0)


def make_account(folder: Path) -> ssl.SSLContext:
    """A service account in ``folder``, and the server's side of its authority, by openssl."""
    folder.mkdir()
    (folder / "token").write_text("first\n")
    (folder / "namespace").write_text("lab")
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=IP:127.0.0.1\n")
    name, fast = ["-subj", "/CN=lab"], ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    for command in (
        [
            "req",
            "-x509",
            *fast,
            "-nodes",
            "-keyout",
            "ca.key",
            "-out",
            "ca.crt",
            *name,
            "-days",
            "2",
        ],
        ["req", *fast, "-nodes", "-keyout", "server.key", "-out", "server.csr", *name],
        [
            *("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key"),
            *("-days", "2", "-CAcreateserial", "-extfile", "extensions", "-out", "server.crt"),
        ],
    ):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    return context


@asynccontextmanager
async def running_api(folder: Path) -> AsyncIterator[KubeApi]:
    """The server, and the service account that it knows."""
    context = make_account(folder)
    api = KubeApi(folder)
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/lab/pods/{pod}/log", api.answer)
    app.router.add_get("/api/v1/namespaces/lab/pods/{pod}", api.pods.get)
    app.router.add_get("/api/v1/namespaces/lab/pods", api.pods.list)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    api.port = runner.addresses[0][1]
    try:
        yield api
    finally:
        # Handlers end by themselves, since a task that is cancelled is left for a moment.
        api.stop()
        await runner.cleanup()
        await handshakes_end()


async def handshakes_end() -> None:
    """Let connections end that were broken off while they were made: asyncio does so by tasks."""
    for _ in range(1000):
        names = {getattr(task.get_coro(), "__name__", "") for task in asyncio.all_tasks()}
        if "_accept_connection2" not in names:
            return
        await asyncio.sleep(0.001)
