"""What every source is: something that is opened, sampled and closed, and whose faults are values."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from sidecar.model.readings import Reading
from sidecar.model.samples import Instant, Sample
from sidecar.model.vocabulary import Fault, Source

Tap = Callable[[Instant, Mapping[str, object]], None]
"""Is given what a source read, before parsing, as one row of a recording without its ``t``."""


class SourceLike(Protocol):
    """One door to the outside.

    ``sample`` and ``open`` never raise for what the outside does, and never take longer than the
    limit the source was built with; whatever they raise is a bug. ``sample`` works before ``open``
    succeeded in finding anything and keeps looking; ``close`` is prompt even while a call hangs.
    """

    @property
    def name(self) -> Source:
        """Which source this is."""
        ...

    async def open(self) -> None:
        """Acquire what the source holds for its lifetime."""
        ...

    async def close(self) -> None:
        """Give back what ``open`` acquired; safe to call twice, or without ``open``."""
        ...

    async def sample(self) -> Sample:
        """One reading or one fault, stamped with the instant at which it was begun."""
        ...


@runtime_checkable
class Waking(Protocol):
    """A source that can tell early that something new may be there."""

    async def wait(self) -> None:
        """Return when a sample may show something new; never, where nothing can tell."""
        ...


def sample_of(source: Source, begun: Instant, done: Instant, got: Reading | Fault) -> Sample:
    """The sample that says what a source ``got`` between two instants."""
    duration = max(0.0, done.monotonic - begun.monotonic)
    if isinstance(got, Fault):
        return Sample(source=source, at=begun, fault=got, duration_s=duration)
    return Sample(source=source, at=begun, reading=got, duration_s=duration)
