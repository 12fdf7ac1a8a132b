"""The limits of one server, from all that tells of them, over its restarts: numbers of a closed set.

What is told belongs to one life of the server. Lines of a start come before its first answer, so what
was told after the last answer of a life that ended belongs to the next one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from sidecar.catalog.signatures import ARGUMENT_ROWS, SIGNATURES
from sidecar.catalog.vllm_settings import CONFIG_LABELS, Unit
from sidecar.model.limits import Known, Limit, Limits, Origin
from sidecar.model.readings import LogEvent, MetricsReading
from sidecar.model.samples import Instant
from sidecar.parse.limit_values import limit_value

Values = Mapping[Limit, float]
Change = tuple[float, float]
"""A limit's value before and after."""

_NOTHING: Final[Values] = MappingProxyType({})
_OPENING: Final = frozenset({"api_server_version", *ARGUMENT_ROWS})
"""Lines that stand first of all that a start tells of limits."""

_FIRST_COUNTS: Final = frozenset({"using_max_model_len"})
"""Told of the model, and again of a draft model, which may be shorter; later lines know better."""

_SMALLEST: Final = frozenset(
    {Limit.KV_CAPACITY_TOKENS, Limit.KV_MEMORY_BYTES, Limit.KV_MEMORY_ADVICE_BYTES}
)
"""Told once by each engine or worker. The smallest binds: pipeline stages and tensor ranks share the
blocks of the poorest worker, and of several engines that one is full first."""

_MEASURED: Final = frozenset({Limit.KV_CAPACITY_TOKENS, Limit.KV_MEMORY_BYTES})
_NOISE: Final = 0.01
"""Share by which what start-up measures differs from start to start of one configuration."""
_NO_LIMIT: Final = frozenset({Limit.KV_MEMORY_ADVICE_BYTES})
"""Advice, of which nothing is in effect: no change."""

LAG_S: Final = 60.0
"""Seconds after a server's first answer in which lines of its start may still be read."""


@dataclass(slots=True)
class Start:
    """What the log told of one start: the server's findings, and what somebody typed."""

    found: dict[Limit, float] = field(default_factory=dict)
    typed: dict[Limit, float] = field(default_factory=dict)
    first: Instant | None = None

    @property
    def speaks(self) -> bool:
        """Whether it told of any limit so far."""
        return bool(self.found or self.typed)

    def see(self, event: LogEvent, at: Instant) -> None:
        """Take in one line."""
        self.first = self.first or at
        values = {Limit(name): value for name, value in event.numbers.items()}
        if event.signature in ARGUMENT_ROWS:
            self.typed = values
            return
        for limit, value in values.items():
            known = self.found.get(limit)
            if known is None or (limit not in _SMALLEST and event.signature not in _FIRST_COUNTS):
                self.found[limit] = value
            elif limit in _SMALLEST:
                self.found[limit] = min(known, value)


@dataclass(frozen=True, slots=True)
class Told:
    """What one origin told, and when it did first."""

    values: Values
    at: Instant


@dataclass(slots=True)
class KnownLimits:
    """What is known of the server's limits now, and how it differs from the life before.

    ``answer``: the last usable metrics of the life that goes on, ``answered_since`` the first; None
    before it.
    ``next``: a start that the log told of while a server answered. Whether it is this server's own
    start shows when a new life begins.
    """

    told: dict[Origin, Told] = field(default_factory=dict)
    start: Start | None = None
    next: Start | None = None
    answer: Instant | None = None
    answered_since: Instant | None = None
    lives: int = 0
    former: Mapping[Origin, Values] | None = None
    info: Mapping[str, str] | None = None

    # What is told

    def see_event(self, event: LogEvent) -> None:
        """A line of the log told of limits, or that a server begins."""
        row = SIGNATURES.get(event.signature)
        opens = event.signature in _OPENING
        if row is None or (row.facts is None and not opens):
            return
        at = Instant(event.at_monotonic, event.at_unix)
        self.start_of(at, opens=opens).see(event, at)

    def start_of(self, at: Instant, *, opens: bool) -> Start:
        """The start to which a line belongs."""
        latest = self.next or self.start
        if latest is None:
            self.start = latest = Start()
        elif latest.speaks if opens else self.is_of_another_start(at):
            self.next = latest = Start()
        return latest

    def is_of_another_start(self, at: Instant) -> bool:
        """Whether a line comes too late to be of the start after which the server answered."""
        since = self.answered_since
        if self.next is not None or since is None:
            return False
        return at.monotonic - since.monotonic > LAG_S

    def see_past(self, events: Iterable[LogEvent]) -> None:
        """What the log had said before we came; its last start is the one of the server that runs."""
        if self.start is not None:
            return
        past = tuple(events)
        begins = [n for n, event in enumerate(past) if event.signature in _OPENING]
        for event in past[begins[-1] if begins else 0 :]:
            self.see_event(event)

    def see_answers(self, limits: Limits, at: Instant) -> None:
        """The server, asked for its configuration, told of limits."""
        by_origin: dict[Origin, dict[Limit, float]] = {}
        for limit, known in limits.items():
            by_origin.setdefault(known.origin, {})[limit] = known.value
        for origin, values in by_origin.items():
            self.told[origin] = Told(values, at)

    def see_command_line(self, limits: Limits, at: Instant) -> None:
        """The command line of the first process that lives, as it is now."""
        values = {limit: known.value for limit, known in limits.items()}
        before = self.told.get(Origin.COMMAND_LINE)
        if values != (_NOTHING if before is None else before.values):
            self.told[Origin.COMMAND_LINE] = Told(values, at)

    def see_metrics(self, reading: MetricsReading, at: Instant) -> None:
        """Usable metrics of the life that goes on."""
        if reading.naming is None:
            return
        if self.answer is None and self.next is not None:
            self.start, self.next = self.next, None
        self.answer, self.answered_since = at, self.answered_since or at
        if reading.info is not self.info:
            self.info = reading.info
            self.told[Origin.METRICS] = Told(limits_of_config(reading), at)

    # Lives

    def follow(self, lives: int) -> None:
        """The server's life was seen to end, if ``lives`` is another count than before."""
        if lives != self.lives:
            self.lives = lives
            self.begin_anew()

    def begin_anew(self) -> None:
        """Another server is there: forget what was told of the one before, but to compare.

        Several signs tell of one restart; what was told since the last answer is not forgotten.
        """
        answer = self.answer
        if answer is None:
            return
        self.answer = self.answered_since = self.info = None
        ended, following = self.start, self.next
        if following is None and ended is not None and ended.first is not None:
            # Nothing was known of how the life that ended had begun.
            ended, following = (None, ended) if ended.first > answer else (ended, None)
        self.former = {
            **{origin: one.values for origin, one in self.told.items() if one.at <= answer},
            **log_values(ended),
        }
        self.told = {origin: one for origin, one in self.told.items() if one.at > answer}
        self.start, self.next = following, None

    # What is known

    def known(self) -> Limits:
        """Every limit that was told, each from the surest of its origins."""
        by_origin = self.by_origin()
        known: dict[Limit, Known] = {}
        for origin in Origin:
            for limit, value in by_origin.get(origin, _NOTHING).items():
                known.setdefault(limit, Known(value, origin))
        return known

    def changes(self) -> Mapping[Limit, Change]:
        """The limits that are others in this life than in the one before, from its first answer on.

        A limit is compared only where one origin told of it in both lives: to be told for the first
        time is no change, and two origins may differ without one.
        """
        if self.former is None or self.answer is None:
            return {}
        now = self.by_origin()
        found: dict[Limit, Change] = {}
        compared: set[Limit] = set()
        for origin in Origin:
            before, after = self.former.get(origin, _NOTHING), now.get(origin, _NOTHING)
            for limit in before.keys() & after.keys() - compared - _NO_LIMIT:
                compared.add(limit)
                if differ(limit, before[limit], after[limit]):
                    found[limit] = (before[limit], after[limit])
        return {limit: found[limit] for limit in Limit if limit in found}

    def by_origin(self) -> Mapping[Origin, Values]:
        """What each origin tells of this life."""
        begins = self.next is not None and self.answer is None
        start = self.next if begins else self.start
        told = {origin: one.values for origin, one in self.told.items()}
        return {**told, **log_values(start)}


def log_values(start: Start | None) -> Mapping[Origin, Values]:
    """What a start's lines tell, by origin."""
    if start is None:
        return {}
    return {Origin.LOG: dict(start.found), Origin.LOG_ARGUMENTS: dict(start.typed)}


def differ(limit: Limit, before: float, after: float) -> bool:
    """Whether two values of a limit are not the same setting."""
    noise = _NOISE * max(abs(before), abs(after)) if limit in _MEASURED else 0.0
    return abs(before - after) > noise


def limits_of_config(reading: MetricsReading) -> Values:
    """The limits in the labels of ``cache_config_info``.

    ``kv_cache_max_concurrency`` is the capacity divided by the longest request (``kv_cache_utils.py``,
    0.24 on). Before, blocks times their size are the capacity in V0 alone: V1 has models whose layers
    differ, and adds the blocks of all its engines up.
    """
    values: dict[Limit, float] = {}
    for label, setting in CONFIG_LABELS.items():
        value = limit_value(setting.unit, reading.info.get(label))
        if value is not None:
            values[setting.limit] = value
    capacity = values.get(Limit.KV_CAPACITY_TOKENS)
    length = _length(capacity, reading.info.get("kv_cache_max_concurrency"))
    if length is not None:
        values[Limit.MAX_MODEL_LEN] = length
    if capacity is None and reading.generation is None:
        blocks = limit_value(Unit.COUNT, reading.info.get("num_gpu_blocks"))
        size = limit_value(Unit.COUNT, reading.info.get("block_size"))
        if blocks is not None and size is not None:
            values[Limit.KV_CAPACITY_TOKENS] = blocks * size
    return values


def _length(capacity: float | None, concurrency: str | None) -> float | None:
    if capacity is None or concurrency is None:
        return None
    try:
        requests = float(concurrency)
    except ValueError:
        return None
    if not 1e-6 < requests < 1e12:  # noqa: PLR2004  (what a division stays exact enough with)
        return None
    return limit_value(Unit.COUNT, round(capacity / requests))
