"""Reads a stream place until it has told what a test expects."""

import pytest

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.base import LogPlace
from sidecar.sources.log_places.portion import Portion
from tests.fakes.patience import until


class Reader:
    """A place, and all that was read from it."""

    def __init__(self, place: LogPlace) -> None:
        self.place = place
        self.data = b""
        self.faults: set[Fault] = set()
        self.portions: list[Portion] = []

    async def look(self) -> None:
        got = await self.place.read()
        if isinstance(got, Fault):
            self.faults.add(got)
            return
        self.portions += got
        self.data += b"".join(portion.data for portion in got)

    async def reads(self, data: bytes) -> None:
        """All that comes is ``data``."""

        async def there() -> bool:
            await self.look()
            return len(self.data) >= len(data)

        try:
            await until(there)
        except TimeoutError:
            pytest.fail(f"{self.data[-500:]!r}, {self.faults}")
        await self.look()
        assert self.data == data

    async def meets(self, fault: Fault) -> None:
        """A read says ``fault``."""

        async def there() -> bool:
            await self.look()
            return fault in self.faults

        await until(there)

    def dropped(self) -> tuple[int, int, int]:
        """Counts of lines that were too long, that found no room, and of losses."""
        told = [(p.overlong, p.overflow, p.lost) for p in self.portions]
        overlong, overflow, lost = zip(*told, strict=True)
        return sum(overlong), sum(overflow), sum(lost)
