"""The status code of vLLM's health endpoint, and once in a server's life its version."""

from pathlib import Path
from typing import Final

from sidecar.clock import ClockLike
from sidecar.model.readings import HealthReading, Reading
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.parse.version import parse_version
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.target import HTTP_OK, Target

VERSION_CAP: Final = 4096


class VllmHealthSource:
    """Asks ``url`` within ``limit_s`` seconds; every answer is a reading, whatever its status.

    ``version_url`` is asked once after each time the server begins to answer well.
    """

    name: Final = Source.VLLM_HEALTH

    def __init__(
        self,
        clock: ClockLike,
        url: str,
        *,
        limit_s: float,
        version_url: str | None = None,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        tap: Tap | None = None,
    ) -> None:
        self._clock = clock
        self._tap = tap
        self._asked = version_url is None
        self._version: Target | None = None
        if version_url is not None:
            self._version = Target(
                version_url,
                limit_s=limit_s,
                body_cap=VERSION_CAP,
                token_file=token_file,
                ca_file=ca_file,
            )
        self._target = Target(
            url, limit_s=limit_s, body_cap=0, token_file=token_file, ca_file=ca_file
        )

    async def open(self) -> None:
        """Nothing is held before the first sample."""

    async def close(self) -> None:
        """Drop the connection at once, also while an answer is awaited."""
        await self._target.close()
        if self._version is not None:
            await self._version.close()

    async def sample(self) -> Sample:
        """The status now."""
        begun = self._clock.now()
        answer = await self._target.get()
        got: Reading | Fault
        row: dict[str, object]
        if isinstance(answer, Fault):
            got, row = answer, {"status": None, "error": answer.value}
        else:
            version = await self._ask_version(healthy=answer.status == HTTP_OK)
            got, row = HealthReading(answer.status, version), {"status": answer.status}
        if self._tap is not None:
            self._tap(begun, row)
        return sample_of(self.name, begun, self._clock.now(), got)

    async def _ask_version(self, *, healthy: bool) -> str | None:
        if self._version is None or not healthy:
            self._asked = self._version is None
            return None
        if self._asked:
            return None
        self._asked = True
        answer = await self._version.get()
        if isinstance(answer, Fault) or answer.status != HTTP_OK:
            return None
        return parse_version(answer.body)
