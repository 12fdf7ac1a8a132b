"""A real Prometheus, asked over its API."""

import contextlib
import json
import random
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HOST = "127.0.0.1"
STEP_S = 1
LISTENED = (10_240, 32_767)
"""Below the ports that Linux gives to connections: one of them is taken before it is listened on."""


def free_port() -> int:
    """A port that nobody listens on, and that no connection of this machine is given."""
    while True:
        port = random.SystemRandom().randint(*LISTENED)
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind((HOST, port))
            return port


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer: its values by their time."""

    labels: Mapping[str, str]
    values: Mapping[float, float]


@dataclass(slots=True)
class LivePrometheus:
    """A Prometheus that runs, asked over its API."""

    port: int
    begun: float

    def ask(self, path: str, **asked: str) -> Any:
        """The data of an answer.

        Raises:
            AssertionError: Prometheus refused, with its own words.
        """
        url = f"http://{HOST}:{self.port}/api/v1/{path}?{urllib.parse.urlencode(asked)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            with refused:
                raise AssertionError(refused.read().decode()) from None

    def over_time(self, expr: str, until: float) -> list[Series]:
        """What an expression gave at each second from the beginning to a moment, in unix seconds."""
        found = self.ask(
            "query_range",
            query=expr,
            start=f"{self.begun:.3f}",
            end=f"{until:.3f}",
            step=str(STEP_S),
        )
        return [
            Series(row["metric"], {float(at): float(value) for at, value in row["values"]})
            for row in found["result"]
        ]

    def label_values(self, label: str, selector: str) -> list[str]:
        """The values of a label among the series of a selector."""
        return list(self.ask(f"label/{label}/values", **{"match[]": selector}))

    def until(self, expr: str, seconds: float = 40) -> None:
        """Return once an expression gives something; fail if it does not."""
        end = time.monotonic() + seconds
        while not self.ask("query", query=expr)["result"]:
            assert time.monotonic() < end, expr
            time.sleep(0.2)


def is_ready(port: int) -> bool:
    """Whether it answers queries."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{HOST}:{port}/-/ready"):
        return True
    return False
