"""Waiting for what must come, with a generous deadline."""

import asyncio
from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], Awaitable[bool] | bool], seconds: float = 10) -> None:
    """Return once ``condition`` holds; fail the test if it does not within ``seconds``."""
    async with asyncio.timeout(seconds):
        while True:
            held = condition()
            if held if isinstance(held, bool) else await held:
                return
            await asyncio.sleep(0.001)
