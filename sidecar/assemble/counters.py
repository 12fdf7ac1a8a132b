"""Two expositions of one server -> how much each counter rose between them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sidecar.catalog.vllm_metrics import ROLES, Shape
from sidecar.model.readings import Histogram, MetricsReading

COUNTERS = frozenset(role.role for role in ROLES if role.shape is Shape.COUNTER)


@dataclass(frozen=True, slots=True)
class HistogramRise:
    """A histogram at two readings. What it rose by is worked out when it is asked for.

    ``before``: None where it began at zero. Otherwise it holds no more than ``now``, in as many buckets.
    """

    before: Histogram | None
    now: Histogram

    @classmethod
    def between(cls, before: Histogram | None, now: Histogram) -> "HistogramRise":
        """The rise between two readings; from zero where it fell, or has other buckets."""
        is_same = (
            before is not None
            and now.count >= before.count
            and len(now.buckets) == len(before.buckets)
        )
        return cls(before if is_same else None, now)

    @property
    def count(self) -> float:
        """Observations."""
        return self.now.count - (0.0 if self.before is None else self.before.count)

    def followed_by(self, later: "HistogramRise") -> "HistogramRise | None":
        """Both as one, if the later one begins where this one ends."""
        return HistogramRise(self.before, later.now) if later.before is self.now else None

    def measure(self) -> Histogram:
        """The observations between the readings."""
        return subtract(self.now, self.before)


@dataclass(frozen=True, slots=True)
class EngineRise:
    """What rose of one engine; as in ``EngineWindow``."""

    deltas: Mapping[str, float] = field(default_factory=dict)
    outcomes: Mapping[str, float] = field(default_factory=dict)
    histograms: Mapping[str, HistogramRise] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rise:
    """What rose between two readings. ``restarted``: the counters began anew in between."""

    engines: Mapping[str, EngineRise]
    restarted: bool = False


@dataclass(frozen=True, slots=True)
class Baseline:
    """The values of a moment, by engine and role or reason."""

    values: Mapping[tuple[str, str], float]
    outcomes: Mapping[tuple[str, str], float]
    histograms: Mapping[tuple[str, str], Histogram]


@dataclass(slots=True)
class Counters:
    """The last known value of every counter of one server, kept over gaps and vanished series.

    A counter that appears after the first reading rose from zero: V0 shows none of them before its
    first request, and an engine that appears late has just started. ``at_look``: the values when the
    server's process was last seen, kept where the exposition has no marks.
    """

    epoch: dict[str, float] = field(default_factory=dict)
    values: dict[tuple[str, str], float] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], float] = field(default_factory=dict)
    histograms: dict[tuple[str, str], Histogram] = field(default_factory=dict)
    started: bool = False
    layout: int = 0
    at_look: "Baseline | None" = None
    restarted_since_look: bool = False
    replaced: bool = False

    def advance(self, reading: MetricsReading) -> Rise:
        """Take in a reading; the first one is the baseline and shows no rise."""
        if reading.naming is None:
            return Rise({})
        fell = self.started and self.began_anew(reading)
        restarted, self.replaced = fell or self.replaced, False
        self.restarted_since_look |= fell
        if fell:
            self.values.clear()
            self.outcomes.clear()
            self.histograms.clear()
        rises = {
            engine: EngineRise(
                deltas={
                    role: max(0.0, value - self.values.get((engine, role), 0.0))
                    for role, value in seen.values.items()
                    if role in COUNTERS
                },
                outcomes={
                    reason: max(0.0, value - self.outcomes.get((engine, reason), 0.0))
                    for reason, value in seen.outcomes.items()
                },
                histograms={
                    role: HistogramRise.between(self.histograms.get((engine, role)), now)
                    for role, now in seen.histograms.items()
                },
            )
            for engine, seen in reading.engines.items()
        }
        first = not self.started
        self.remember(reading)
        return Rise({} if first else rises, restarted)

    def see_root(self, *, replaced: bool) -> None:
        """The server's first process was seen to live; ``replaced``: it is another one than before.

        A hint for expositions without marks. A counter that is above its old value again did not rise
        from there: what the new server counted before this look is taken back from the baseline, and
        counts with the next reading.
        """
        if self.epoch:
            self.at_look = None
            return
        before = self.at_look
        self.at_look = Baseline(dict(self.values), dict(self.outcomes), dict(self.histograms))
        if replaced and before is not None and not self.restarted_since_look:
            self.replaced = True
            for key, value in self.values.items():
                self.values[key] = max(0.0, value - before.values.get(key, 0.0))
            for key, value in self.outcomes.items():
                self.outcomes[key] = max(0.0, value - before.outcomes.get(key, 0.0))
            for key, histogram in self.histograms.items():
                self.histograms[key] = subtract(histogram, before.histograms.get(key))
        self.restarted_since_look = False

    def began_anew(self, reading: MetricsReading) -> bool:
        """Whether the server restarted: another start mark, or a counter that fell.

        Where other series are there than before, a sum over them falls by itself (a replica of Ray
        that is gone), and only the marks can tell.
        """
        if any(self.epoch.get(mark, at) != at for mark, at in reading.epoch.items()):
            return True
        return reading.layout == self.layout and any(
            value < self.values.get((engine, role), 0.0)
            for engine, seen in reading.engines.items()
            for role, value in seen.values.items()
            if role in COUNTERS
        )

    def remember(self, reading: MetricsReading) -> None:
        """Keep the reading's values as the next one's baseline."""
        self.started = True
        self.layout = reading.layout
        self.epoch = dict(reading.epoch)
        for engine, seen in reading.engines.items():
            for role, value in seen.values.items():
                if role in COUNTERS:
                    self.values[engine, role] = value
            for reason, value in seen.outcomes.items():
                self.outcomes[engine, reason] = value
            for role, histogram in seen.histograms.items():
                self.histograms[engine, role] = histogram


def subtract(now: Histogram, before: Histogram | None) -> Histogram:
    """The observations between two readings; from zero where the bounds changed or fell."""
    if before is None or now.count < before.count or len(now.buckets) != len(before.buckets):
        return now
    # Hundreds of buckets: one plain loop, in which bounds that differ leave a bucket out.
    buckets = [
        (bound, n - m if n > m else 0.0)
        for (bound, n), (earlier, m) in zip(now.buckets, before.buckets, strict=True)
        if bound == earlier
    ]
    if len(buckets) != len(now.buckets):
        return now
    return Histogram(
        buckets=tuple(buckets),
        count=now.count - before.count,
        total=max(0.0, now.total - before.total),
    )


def add(first: Histogram | None, second: Histogram) -> Histogram:
    """The observations of two spans of time together; the second's where the bounds changed."""
    if first is None or len(first.buckets) != len(second.buckets):
        return second
    buckets = [
        (bound, n + m)
        for (bound, n), (other, m) in zip(first.buckets, second.buckets, strict=True)
        if bound == other
    ]
    if len(buckets) != len(second.buckets):
        return second
    return Histogram(
        buckets=tuple(buckets),
        count=first.count + second.count,
        total=first.total + second.total,
    )


def total(rises: Iterable[HistogramRise]) -> Histogram:
    """The observations of all rises, of which there is one at least.

    Raises:
        ValueError: there is none.
    """
    found: Histogram | None = None
    for rise in rises:
        found = add(found, rise.measure())
    if found is None:
        raise ValueError("no rise")
    return found
