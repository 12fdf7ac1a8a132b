"""The status code of vLLM's health endpoint; and once in a server's life, its version and its limits."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.clock import ClockLike
from sidecar.model.limits import Limits
from sidecar.model.readings import HealthReading, Reading
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.parse.recorded_limits import limits_row
from sidecar.parse.server_config import parse_models, parse_server_info
from sidecar.parse.version import parse_version
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.target import HTTP_OK, Target
from sidecar.thread import Crew

VERSION_CAP: Final = 4096
CONFIG_CAP: Final = 1024 * 1024
MOST_TRIES: Final = 3
"""How often a question is put that met no answer, or a fault of the server's: the configuration is
gathered by running programs, which on a busy host outlasts one limit, and is kept for the next."""
_SERVER_ERROR: Final = 500
_PASSING: Final = frozenset({Fault.TIMEOUT, Fault.REFUSED, Fault.DISCONNECTED, Fault.IO_ERROR})


@dataclass(frozen=True, slots=True)
class Asked:
    """The URLs that are asked once a server answers well; None is not asked.

    ``info`` answers 404 without ``VLLM_SERVER_DEV_MODE=1``.
    """

    version: str | None = None
    models: str | None = None
    info: str | None = None

    @classmethod
    def of(cls, target: str) -> "Asked":
        """Those of vLLM's API below ``target``."""
        return cls(
            version=f"{target}/version",
            models=f"{target}/v1/models",
            info=f"{target}/server_info?config_format=json",
        )


class VllmHealthSource:
    """Asks ``url`` within ``limit_s`` seconds; every answer is a reading, whatever its status.

    What is in ``asked`` is asked after each time the server begins to answer well, within as long.
    """

    name: Final = Source.VLLM_HEALTH

    def __init__(
        self,
        clock: ClockLike,
        url: str,
        *,
        limit_s: float,
        asked: Asked | None = None,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        tap: Tap | None = None,
        crew: Crew | None = None,
    ) -> None:
        def target(url: str, body_cap: int) -> Target:
            return Target(
                url,
                limit_s=limit_s,
                body_cap=body_cap,
                token_file=token_file,
                ca_file=ca_file,
                crew=crew,
            )

        def question(url: str | None, body_cap: int) -> _Question:
            return _Question(None if url is None else target(url, body_cap))

        urls = asked or Asked()
        self._clock = clock
        self._tap = tap
        self._target = target(url, 0)
        self._version = question(urls.version, VERSION_CAP)
        self._models = question(urls.models, CONFIG_CAP)
        self._info = question(urls.info, CONFIG_CAP)

    async def open(self) -> None:
        """Nothing is held before the first sample."""

    async def close(self) -> None:
        """Drop the connections at once, also while an answer is awaited."""
        asked = (self._target, self._version, self._models, self._info)
        await asyncio.gather(*(one.close() for one in asked))

    async def sample(self) -> Sample:
        """The status now."""
        begun = self._clock.now()
        answer = await self._target.get()
        got: Reading | Fault
        row: dict[str, object]
        if isinstance(answer, Fault):
            if answer is not Fault.TIMEOUT:
                self._forget()
            got, row = answer, {"status": None, "error": answer.value}
        else:
            got = await self._reading(answer.status)
            row = {"status": answer.status, **_told(got)}
        if self._tap is not None:
            self._tap(begun, row)
        return sample_of(self.name, begun, self._clock.now(), got)

    async def _reading(self, status: int) -> HealthReading:
        if status != HTTP_OK:
            self._forget()
            return HealthReading(status)
        asked = (self._version, self._models, self._info)
        if all(question.is_settled for question in asked):
            return HealthReading(status)
        version, models, info = await asyncio.gather(*(question.ask() for question in asked))
        limits: Limits = {}
        if models is not None:
            limits = parse_models(models)
        if info is not None:
            limits = {**limits, **parse_server_info(info)}
        return HealthReading(status, None if version is None else parse_version(version), limits)

    def _forget(self) -> None:
        """Whoever answers well next is asked anew: it may be another server."""
        for question in (self._version, self._models, self._info):
            question.tries = 0


def _told(reading: HealthReading) -> dict[str, object]:
    """What the server told of itself, for a recording."""
    told: dict[str, object] = {}
    if reading.version is not None:
        told["version"] = reading.version
    if reading.limits:
        told["limits"] = limits_row(reading.limits)
    return told


class _Question:
    """One thing that is asked of a server that answers well, until it is settled.

    ``tries``: how often it was asked in this life of the server.
    """

    def __init__(self, target: Target | None) -> None:
        self._target = target
        self.tries = 0

    async def close(self) -> None:
        if self._target is not None:
            await self._target.close()

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to ask."""
        return self._target is None or self.tries >= MOST_TRIES

    async def ask(self) -> bytes | None:
        """The body of a good answer, the first time there is one."""
        if self._target is None or self.tries >= MOST_TRIES:
            return None
        self.tries += 1
        answer = await self._target.get()
        if isinstance(answer, Fault):
            self._settle(settled=answer not in _PASSING)
            return None
        self._settle(settled=answer.status < _SERVER_ERROR)
        return answer.body if answer.status == HTTP_OK else None

    def _settle(self, *, settled: bool) -> None:
        if settled:
            self.tries = MOST_TRIES
