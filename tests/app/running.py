"""The whole daemon inside the test, on the test's loop, watched step by step."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import aiohttp

from sidecar import app
from sidecar.clock import Clock, ClockLike
from sidecar.config import Settings, load
from sidecar.model.vocabulary import Source, Verdict
from sidecar.pipeline import Step
from sidecar.reload import Reloads
from tests.fakes.daemon import values
from tests.fakes.patience import until

SERVER_ONLY = {"cgroup": "off", "kernel_log": "off", "gpu": "off", "listen": "127.0.0.1:0"}


@dataclass
class Running:
    """The steps so far, and where the daemon listens."""

    session: aiohttp.ClientSession
    steps: list[Step] = field(default_factory=list)
    port: int = 0

    def listening(self, _host: str, port: int) -> None:
        self.port = port

    def verdicts(self) -> list[Verdict]:
        """Of every window that was closed."""
        return [judgement.verdict for step in self.steps for judgement in step.closed]

    async def windows(self, count: int, seconds: float = 20) -> list[Verdict]:
        """The verdicts of the next ``count`` windows that close."""
        before = len(self.verdicts())
        await until(lambda: len(self.verdicts()) >= before + count, seconds)
        return self.verdicts()[before:]

    async def verdict(self, wanted: Verdict, seconds: float = 20) -> None:
        """Wait until a window closes with this verdict."""
        before = len(self.verdicts())
        await until(lambda: wanted in self.verdicts()[before:], seconds)

    async def get(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.get(url) as response:
            return response.status, await response.text()

    async def metrics(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """The exposition, read by Prometheus' own parser."""
        status, text = await self.get("/metrics")
        assert status == 200
        return values(text)


@contextlib.asynccontextmanager
async def running(
    settings: Settings,
    *,
    clock: ClockLike | None = None,
    without: frozenset[Source] = frozenset({Source.PROCESS}),
    observe: Callable[[Step], None] = lambda _step: None,
    reloads: Reloads | None = None,
) -> AsyncIterator[Running]:
    """``app.run`` for the length of a block; an error of its own is the test's."""
    stop = asyncio.Event()
    async with aiohttp.ClientSession() as session:
        seen = Running(session)

        def watch(step: Step) -> None:
            seen.steps.append(step)
            observe(step)

        task = asyncio.create_task(
            app.run(
                settings,
                clock or Clock(),
                stop,
                without=without,
                listening=seen.listening,
                observe=watch,
                reloads=reloads,
            )
        )
        try:
            await until(lambda: bool(seen.port) or task.done())
            yield seen
        finally:
            stop.set()
            await task


def settings_for(target: str, **options: object) -> Settings:
    """A quick daemon that looks at the server alone."""
    return load(
        {"target": target, "interval": "100ms", "window": "200ms", **SERVER_ONLY, **options}
    )
