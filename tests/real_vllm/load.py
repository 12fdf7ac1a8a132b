"""Users of a server: each asks, waits for the whole answer, and asks again."""

import asyncio
import contextlib
import json
import random
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.real_vllm.server import NAME, VllmServer
from tools.make_tiny_model import WORDS

ANSWER_S = 300.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What a user asks for: tokens in and out, and whatever else the request holds."""

    prompt_tokens: int
    output_tokens: int
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def fill(self, draw: random.Random) -> dict[str, Any]:
        """A request with a prompt that no other one begins with, so that no cache shortens it."""
        words = draw.choices(WORDS[:500], k=self.prompt_tokens)
        return {
            "model": NAME,
            "prompt": " ".join(words),
            "max_tokens": self.output_tokens,
            "ignore_eos": True,
            **self.body,
        }


@dataclass(slots=True)
class Tally:
    """How many requests were begun, and what came of them: how many of each status; None: no answer."""

    begun: int = 0
    answers: Counter[int | None] = field(default_factory=Counter)


async def be_user(url: str, ask: Ask, tally: Tally, number: int) -> None:
    """Ask until nobody answers."""
    draw = random.Random(number)
    limit = aiohttp.ClientTimeout(total=ANSWER_S)
    async with aiohttp.ClientSession(timeout=limit, headers=ask.headers) as session:
        while True:
            tally.begun += 1
            try:
                async with session.post(f"{url}/v1/completions", json=ask.fill(draw)) as answer:
                    await answer.read()
                    tally.answers[answer.status] += 1
                    is_served = answer.status == 200
            except (aiohttp.ClientError, OSError):
                tally.answers[None] += 1
                return
            if not is_served:
                return


def send(server: VllmServer, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> int:
    """One request for a few tokens; the status of its answer."""
    told = json.dumps({"model": NAME, "max_tokens": 4, **body}).encode()
    request = urllib.request.Request(
        f"{server.url}{path}", told, {"Content-Type": "application/json", **headers}
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@contextlib.contextmanager
def users(server: VllmServer, count: int, ask: Ask) -> Iterator[Tally]:
    """So many users for as long as the block takes; requests that still run then are given up."""
    tally = Tally()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def ask_all() -> None:
        async with asyncio.TaskGroup() as group:
            asking = [
                group.create_task(be_user(server.url, ask, tally, number))
                for number in range(count)
            ]
            await stop.wait()
            for task in asking:
                task.cancel()

    thread = threading.Thread(target=loop.run_until_complete, args=(ask_all(),))
    thread.start()
    try:
        yield tally
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
