"""Program: parts of the daemon that do nothing with what they get, to show what is the least.

``gets URL`` is a loop with a timer of a second and the two GETs. ``sources URL LOG`` samples every
source once a second, by the daemon's own clock, and throws the samples away.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping

import aiohttp
import uvloop

from sidecar.clock import Clock
from sidecar.config import load
from sidecar.heap import keep_small
from sidecar.model.samples import Tick
from sidecar.ticker import Ticker
from sidecar.wiring import build_sources

INTERVAL_S = 1.0


async def gets(url: str) -> None:
    """Two GETs a second, with connections that are kept."""
    clock = Clock()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def get(path: str) -> None:
            async with session.get(url + path) as answer:
                await answer.read()

        while True:
            await asyncio.gather(get("/metrics"), get("/health"))
            await clock.pause(INTERVAL_S)


async def sources(url: str, log: str) -> None:
    """Every source, sampled each second."""
    settings, clock = load({"target": url, "log": (log,), "interval": "1s"}), Clock()
    built = build_sources(settings, clock)
    await asyncio.gather(*(source.open() for source in built))

    async def forget(_tick: Tick) -> None:
        return

    await Ticker(clock, settings.interval, built, forget, asyncio.Event()).run()


PARTS: Mapping[str, Callable[..., Awaitable[None]]] = {"gets": gets, "sources": sources}


async def main() -> None:
    """Run one part until it is killed."""
    await PARTS[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    keep_small()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
