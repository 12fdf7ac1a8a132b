"""vLLM's own log: followed, matched, and forgotten at once; only signatures and numbers are kept."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from sidecar.catalog.signatures import SIGNATURES
from sidecar.clock import ClockLike
from sidecar.model.readings import LogEvent, LogReading
from sidecar.model.samples import Instant, Sample
from sidecar.model.vocabulary import Cause, Fault, Source
from sidecar.parse.log_candidates import candidates
from sidecar.parse.log_cuts import (
    BEFORE,
    Continuations,
    Rejoiner,
    is_plainly_vllms,
    looks_headed,
)
from sidecar.parse.log_line import text_of
from sidecar.parse.log_match import read_line
from sidecar.parse.recorded_log import event_of, match_row
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.log_places.base import LogPlace
from sidecar.sources.log_places.container_files import Layout, finder
from sidecar.sources.log_places.files import FilesPlace
from sidecar.sources.log_places.position import Position, to_json
from sidecar.sources.tail import Portion

INBOX_EVENTS: Final = 32_768
"""Events kept between two samples. Beyond half of it no more is read: what is behind shows as lag."""
URGENT: Final = frozenset({Cause.HOST_OOM, Cause.CUDA_OOM, Cause.ENGINE_FAILURE})
_MOST_STREAMS: Final = 256
"""Streams of one place of which the last lines are kept."""


@dataclass(slots=True)
class _Stream:
    """What must be known of a stream to read on: its last lines, and records cut in parts."""

    context: list[bytes] = field(default_factory=list)
    parts: Rejoiner = field(default_factory=Rejoiner)


@dataclass(slots=True)
class _Followed:
    """One place, and what is known of each of its streams."""

    place: LogPlace
    streams: dict[str, _Stream] = field(default_factory=dict)
    fault: Fault | None = None
    lag_bytes: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class VllmLogSource:
    """Follows the log of one server, in one or more places.

    A place that cannot be read hides what it holds, whatever the others tell.
    """

    name: Final = Source.VLLM_LOG

    def __init__(
        self, clock: ClockLike, places: Sequence[Path | LogPlace], *, tap: Tap | None = None
    ) -> None:
        self._clock = clock
        self._tap = tap
        self._places = [
            _Followed(_place_of(clock, place) if isinstance(place, Path) else place)
            for place in places
        ]
        self._inbox: deque[LogEvent] = deque()
        self._past: tuple[LogEvent, ...] = ()
        self._dropped: Counter[str] = Counter()
        self._lines = 0
        self._bytes = 0
        self._urgent = asyncio.Event()

    async def open(self) -> None:
        """Go to where reading begins; what was written before is not told."""
        await asyncio.gather(*(followed.place.open() for followed in self._places))

    async def close(self) -> None:
        """Give the places back."""
        await asyncio.gather(*(followed.place.close() for followed in self._places))

    async def sample(self) -> Sample:
        """What was written since the last sample."""
        begun = self._clock.now()
        await asyncio.gather(*(self._drain(followed) for followed in self._places))
        faults = [followed.fault for followed in self._places if followed.fault is not None]
        self._past += self._looked_back()
        if faults and not self._inbox and not self._lines and not self._past:
            return sample_of(self.name, begun, self._clock.now(), faults[0])
        reading = replace(self._reading(), hidden=faults[0] if faults else None)
        return sample_of(self.name, begun, self._clock.now(), reading)

    async def wait(self) -> None:
        """Return once the log speaks of a failure or an OOM; all else can wait for the tick."""
        if not self._urgent.is_set():
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._follow(followed)) for followed in self._places]
                await self._urgent.wait()
                for task in tasks:
                    task.cancel()
        self._urgent.clear()

    def positions(self) -> Mapping[str, Position]:
        """How far each place was read, by its name; what the last ``sample`` told is behind it."""
        places = [followed.place for followed in self._places]
        return {place.name: at for place in places if (at := place.position()) is not None}

    def _reading(self) -> LogReading:
        reading = LogReading(
            events=tuple(self._inbox),
            past=self._past,
            lines=self._lines,
            bytes=self._bytes,
            lag_bytes=sum(followed.lag_bytes for followed in self._places),
            dropped=dict(self._dropped),
            positions={name: to_json(at) for name, at in self.positions().items()},
        )
        self._inbox.clear()
        self._past = ()
        self._dropped.clear()
        self._lines = self._bytes = 0
        return reading

    async def _follow(self, followed: _Followed) -> None:
        while True:
            await followed.place.wait()
            await self._drain(followed)

    async def _drain(self, followed: _Followed) -> None:
        async with followed.lock:
            if len(self._inbox) >= INBOX_EVENTS // 2:
                return
            got = await followed.place.read()
            if isinstance(got, Fault):
                if followed.fault is None and got is Fault.IO_ERROR:
                    self._dropped["read_error"] += 1
                followed.fault, followed.lag_bytes = got, 0
                return
            followed.fault = None
            followed.lag_bytes = sum(portion.lag_bytes for portion in got)
            for portion in got:
                self._take(followed.streams, portion)

    def _take(self, streams: dict[str, _Stream], portion: Portion) -> None:
        for reason, count in (
            ("too_long", portion.overlong),
            ("overflow", portion.overflow),
            ("lost", portion.lost),
        ):
            if count:
                self._dropped[reason] += count
        stream = streams.pop(portion.stream, None) or _Stream()
        if portion.above:
            above = portion.above.removesuffix(b"\n") + b"\n"
            stream = _Stream()
            stream.context = stream.parts.feed(above).split(b"\n")[-BEFORE - 1 : -1]
        if portion.data:
            self._read(stream, portion.data)
        streams[portion.stream] = stream
        if len(streams) > _MOST_STREAMS:
            del streams[next(iter(streams))]

    def _read(self, stream: _Stream, data: bytes) -> None:
        """Match new lines below those that are known."""
        known = len(stream.context)
        self._bytes += len(data)
        self._lines += data.count(b"\n")
        text = stream.parts.feed(data).removesuffix(b"\n")
        lines = [*stream.context, *text.split(b"\n")]
        now = self._clock.now()
        continued = Continuations(lines, wrapped=False)
        for number in candidates(text):
            if not continued.holds(known + number):
                self._match(lines[known + number], now)
        self._record(continued, known, now)
        stream.context = lines[-BEFORE:]

    def _match(self, line: bytes, now: Instant) -> None:
        for event in _events(line, now):
            if len(self._inbox) >= INBOX_EVENTS:
                self._dropped["overflow"] += 1
                continue
            self._inbox.append(event)
            if SIGNATURES[event.signature].cause in URGENT:
                self._urgent.set()

    def _looked_back(self) -> tuple[LogEvent, ...]:
        """What the places say of the time before they were opened, each of them once."""
        now = self._clock.now()
        texts = [text for followed in self._places if (text := followed.place.lookback())]
        events = [event for text in texts for event in _past_events(text, now)]
        return tuple(events[-INBOX_EVENTS:])

    def _record(self, continued: Continuations, known: int, now: Instant) -> None:
        """Hand lines over to a recording: those that are plainly vLLM's, of others what was read."""
        if self._tap is None:
            return
        lines = continued.lines
        for at in range(known, len(lines)):
            if not lines[at]:
                continue  # A part of a record that is handed over where it ends.
            is_held = continued.holds(at)
            if not is_held and is_plainly_vllms(lines[at]):
                self._tap(now, {"line": text_of(lines[at])})
                continue
            self._dropped["users_text"] += 1
            said = () if is_held else tuple(read_line(lines[at]))
            if said:
                self._tap(now, {"read": [match_row(match) for match in said]})


def _events(line: bytes, now: Instant) -> Iterator[LogEvent]:
    yield from (event_of(said, now) for said in read_line(line))


def _past_events(text: bytes, now: Instant) -> Iterator[LogEvent]:
    """The events of a log's end. What stands above it is not known: so it begins with a record."""
    lines = text.removesuffix(b"\n").split(b"\n")
    begin = next((at for at, line in enumerate(lines) if looks_headed(line)), len(lines))
    continued = Continuations(lines, wrapped=False)
    for at in candidates(text):
        if at >= begin and not continued.holds(at):
            yield from _events(lines[at], now)


def _place_of(clock: ClockLike, path: Path) -> LogPlace:
    return FilesPlace(clock, str(path), finder(str(path), Layout.PLAIN))
