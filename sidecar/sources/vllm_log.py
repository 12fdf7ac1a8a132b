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
from sidecar.parse.log_candidates import candidates, places
from sidecar.parse.log_cuts import (
    BEFORE,
    Continuations,
    Rejoiner,
    is_plainly_vllms,
    looks_headed,
)
from sidecar.parse.log_line import text_of
from sidecar.parse.log_match import read_line
from sidecar.parse.log_windows import begin_of_last, numbers_of, windows
from sidecar.parse.recorded_log import event_of, match_row
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.log_places.base import LogPlace
from sidecar.sources.log_places.container_files import Layout, finder
from sidecar.sources.log_places.files import FilesPlace
from sidecar.sources.log_places.portion import Portion
from sidecar.sources.log_places.position import Position, to_json

INBOX_EVENTS: Final = 32_768
"""Events kept between two samples. Beyond half of it no more is read: what is behind shows as lag."""
MOST_LINES: Final = 1_048_576
MOST_LOOKED_AT: Final = 16_384
"""Lines, and lines that may mean something, after which no more is read until the next sample: so much
takes about half a second, whatever is written."""
SLICE_BYTES: Final = 64 * 1024
TURN_LINES: Final = 65_536
TURN_LOOKED_AT: Final = 1024
"""Lines are looked at in slices, and all else has its turn after so many: some tens of milliseconds."""
URGENT: Final = frozenset({Cause.HOST_OOM, Cause.CUDA_OOM, Cause.ENGINE_FAILURE})
_ROOMY: Final = 8 * 1024
"""Bytes of context that are not worth being cut to ``BEFORE`` lines."""
_MOST_STREAMS: Final = 256
"""Streams of one place of which the last lines are kept."""


@dataclass(slots=True)
class _Stream:
    """What must be known of a stream to read on: its last lines, and records cut in parts."""

    context: bytes = b""
    parts: Rejoiner = field(default_factory=Rejoiner)


@dataclass(slots=True)
class _Followed:
    """One place, and what is known of each of its streams.

    ``waiting``: what was read but not looked at yet, and of which stream it is. ``before_it``: the
    place in front of that.
    """

    place: LogPlace
    streams: dict[str, _Stream] = field(default_factory=dict)
    waiting: deque[tuple[str, bytes]] = field(default_factory=deque)
    before_it: Position | None = None
    fault: Fault | None = None
    lag_bytes: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def position(self) -> Position | None:
        """A place behind which everything is still to be looked at."""
        return self.before_it if self.waiting else self.place.position()


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
        self._looked_at = 0
        self._urgent = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def open(self) -> None:
        """Go to where reading begins; what was written before is not told."""
        await asyncio.gather(*(followed.place.open() for followed in self._places))

    async def close(self) -> None:
        """Give the places back."""
        await asyncio.gather(*(followed.place.close() for followed in self._places))

    async def sample(self) -> Sample:
        """What was written since the last sample."""
        begun = self._clock.now()
        if len(self._places) == 1:
            await self._drain(self._places[0])
        else:
            await asyncio.gather(*map(self._drain, self._places))
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
        return {
            followed.place.name: at
            for followed in self._places
            if (at := followed.position()) is not None
        }

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
        self._lines = self._bytes = self._looked_at = 0
        self._room.set()
        return reading

    async def _follow(self, followed: _Followed) -> None:
        while True:
            # A place that nobody reads has no reason to wait, and nothing else would have its turn.
            await self._room.wait()
            await followed.place.wait()
            await self._drain(followed)

    async def _drain(self, followed: _Followed) -> None:
        async with followed.lock:
            # Whoever waited for lines may have been called away amid those that it had got.
            await self._look_at(followed)
            if self._is_full():
                self._room.clear()
                return
            followed.before_it = followed.place.position()
            got = await followed.place.read()
            if isinstance(got, Fault):
                if followed.fault is None and got is Fault.IO_ERROR:
                    self._dropped["read_error"] += 1
                followed.fault, followed.lag_bytes = got, 0
                return
            followed.fault = None
            # What a late look brings may come with what the next one found: the last lag holds.
            followed.lag_bytes = sum({one.stream: one.lag_bytes for one in got}.values())
            for portion in got:
                self._take(followed, portion)
            await self._look_at(followed)

    def _is_full(self) -> bool:
        """Whether what is still to be read must wait for the next sample."""
        return (
            len(self._inbox) >= INBOX_EVENTS // 2
            or self._lines >= MOST_LINES
            or self._looked_at >= MOST_LOOKED_AT
        )

    def _take(self, followed: _Followed, portion: Portion) -> None:
        for reason, count in (
            ("too_long", portion.overlong),
            ("overflow", portion.overflow),
            ("lost", portion.lost),
        ):
            if count:
                self._dropped[reason] += count
        streams = followed.streams
        stream = streams.pop(portion.stream, None) or _Stream()
        if portion.above:
            stream = _Stream()
            above = stream.parts.feed(portion.above.removesuffix(b"\n") + b"\n")
            stream.context = above[begin_of_last(above, BEFORE) :]
        streams[portion.stream] = stream
        if len(streams) > _MOST_STREAMS:
            del streams[next(iter(streams))]
        followed.waiting += ((portion.stream, piece) for piece in _slices(portion.data))

    async def _look_at(self, followed: _Followed) -> None:
        """Match what waits, slice by slice; where that takes long all else has its turn between two."""
        waiting = followed.waiting
        lines, looked_at = self._lines, self._looked_at
        while waiting:
            name, data = waiting.popleft()
            self._read(followed.streams.get(name) or _Stream(), data)
            if self._lines - lines >= TURN_LINES or self._looked_at - looked_at >= TURN_LOOKED_AT:
                lines, looked_at = self._lines, self._looked_at
                await self._clock.pause(0)

    def _read(self, stream: _Stream, data: bytes) -> None:
        """Match new lines below those that are known."""
        known = len(stream.context)
        lines = stream.parts.lines
        text = stream.context + stream.parts.feed(data)
        self._bytes += len(data)
        self._lines += stream.parts.lines - lines
        # One moment for both: a replay has the lines when they were heard here.
        now = self._clock.now()
        if begins := places(text, known):
            self._looked_at += len(begins)
            self._match(text, begins, now)
        if self._tap is not None:
            self._record(text, known, self._tap, now)
        # More context than is looked at does no harm; to count lines for each new one would cost more.
        stream.context = text if len(text) < _ROOMY else text[begin_of_last(text, BEFORE) :]

    def _match(self, text: bytes, begins: Sequence[int], now: Instant) -> None:
        """Keep what the lines that begin at these places say."""
        for window in windows(text, begins, numbers_of(text, begins)[0]):
            continued = Continuations(window.lines, wrapped=False)
            for at in window.chosen:
                if not continued.holds(at):
                    self._keep(window.lines[at], now)

    def _keep(self, line: bytes, now: Instant) -> None:
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

    def _record(self, text: bytes, known: int, tap: Tap, now: Instant) -> None:
        """Hand lines over to a recording: those that are plainly vLLM's, of others what was read."""
        lines = text.split(b"\n")[:-1]
        continued = Continuations(lines, wrapped=False)
        for at in range(text.count(b"\n", 0, known), len(lines)):
            if not lines[at]:
                continue  # A part of a record that is handed over where it ends.
            is_held = continued.holds(at)
            if not is_held and is_plainly_vllms(lines[at]):
                tap(now, {"line": text_of(lines[at])})
                continue
            self._dropped["users_text"] += 1
            said = () if is_held else tuple(read_line(lines[at]))
            if said:
                tap(now, {"read": [match_row(match) for match in said]})


def _slices(data: bytes) -> Iterator[bytes]:
    """Complete lines in pieces of about ``SLICE_BYTES``."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin + SLICE_BYTES - 1) + 1 or len(data)
        yield data[begin:end]
        begin = end


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
