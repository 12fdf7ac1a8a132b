"""The status code of vLLM's health endpoint."""

from pathlib import Path
from typing import Final

from sidecar.clock import ClockLike
from sidecar.model.readings import HealthReading, Reading
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.target import Target


class VllmHealthSource:
    """Asks ``url`` within ``limit_s`` seconds; every answer is a reading, whatever its status."""

    name: Final = Source.VLLM_HEALTH

    def __init__(
        self,
        clock: ClockLike,
        url: str,
        *,
        limit_s: float,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        tap: Tap | None = None,
    ) -> None:
        self._clock = clock
        self._tap = tap
        self._target = Target(
            url, limit_s=limit_s, body_cap=0, token_file=token_file, ca_file=ca_file
        )

    async def open(self) -> None:
        """Nothing is held before the first sample."""

    async def close(self) -> None:
        """Drop the connection at once, also while an answer is awaited."""
        await self._target.close()

    async def sample(self) -> Sample:
        """The status now."""
        begun = self._clock.now()
        answer = await self._target.get()
        got: Reading | Fault
        row: dict[str, object]
        if isinstance(answer, Fault):
            got, row = answer, {"status": None, "error": answer.value}
        else:
            got, row = HealthReading(answer.status), {"status": answer.status}
        if self._tap is not None:
            self._tap(begun, row)
        return sample_of(self.name, begun, self._clock.now(), got)
