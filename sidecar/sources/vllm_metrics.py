"""vLLM's exposition: one GET a sample."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from sidecar.clock import ClockLike
from sidecar.model.readings import MetricsReading, Reading
from sidecar.model.samples import Instant, Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.target import HTTP_OK, Answer, Target
from sidecar.thread import CallThread, Crew

BODY_CAP: Final = 16 << 20
AT_ONCE: Final = 384 << 10
"""Bytes of a body that is read where it arrives: what eight engines show, in 2 ms."""
ACCEPT: Final = "text/plain;version=0.0.4"


class VllmMetricsSource:
    """Reads ``url`` within ``limit_s`` seconds; ``read`` turns body and content type into a reading.

    ``read`` raises ValueError for what is no exposition. It runs on a thread for a body of more
    than ``AT_ONCE`` bytes, so that one of ``BODY_CAP`` bytes slows the loop down (the interpreter's
    lock is shared, in turns of 5 ms) and never stops it.
    """

    name: Final = Source.VLLM_METRICS

    def __init__(
        self,
        clock: ClockLike,
        url: str,
        read: Callable[[bytes, str], MetricsReading],
        *,
        limit_s: float,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        tap: Tap | None = None,
        crew: Crew | None = None,
    ) -> None:
        self._clock = clock
        self._read = read
        self._limit_s = limit_s
        self._tap = tap
        self._parser = CallThread("exposition", crew)
        self._target = Target(
            url,
            limit_s=limit_s,
            body_cap=BODY_CAP,
            accept=ACCEPT,
            token_file=token_file,
            ca_file=ca_file,
            crew=crew,
        )

    async def open(self) -> None:
        """Nothing is held before the first sample."""

    async def close(self) -> None:
        """Drop the connection at once, also while an answer is awaited."""
        self._parser.close()
        await self._target.close()

    async def sample(self) -> Sample:
        """The exposition as it is now."""
        begun = self._clock.now()
        answer = await self._target.get()
        self._record(begun, answer)
        left = self._limit_s - (self._clock.now().monotonic - begun.monotonic)
        got = await self._parsed(answer, max(left, 0.05))
        return sample_of(self.name, begun, self._clock.now(), got)

    async def _parsed(self, answer: Answer | Fault, limit_s: float) -> Reading | Fault:
        if isinstance(answer, Fault):
            return answer
        if answer.status != HTTP_OK:
            return Fault.HTTP_STATUS

        def parse() -> MetricsReading | Fault:
            try:
                return self._read(answer.body, answer.content_type)
            except ValueError:
                return Fault.MALFORMED

        if len(answer.body) <= AT_ONCE and not self._parser.busy:
            return parse()
        return await self._parser.call(parse, limit_s)

    def _record(self, begun: Instant, answer: Answer | Fault) -> None:
        if self._tap is None:
            return
        if isinstance(answer, Fault):
            self._tap(begun, {"status": None, "error": answer.value})
            return
        row: dict[str, object] = {"status": answer.status}
        if answer.status == HTTP_OK:
            row["content_type"] = answer.content_type
            row["body"] = answer.body.decode("utf-8", "replace")
        self._tap(begun, row)
