"""Which part of a run the server worked in: from the tick before its first sign of work to the last one's.

Load generators take seconds to begin and to end. What lies before and after is no part of the load, and
would dilute every mean and rate.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from sidecar.assemble.counters import COUNTERS
from sidecar.catalog import vllm_metrics as roles
from sidecar.model.readings import MetricsReading
from sidecar.model.samples import Sample, Tick

WORK = (roles.PROMPT_TOKENS, roles.GENERATION_TOKENS, roles.FINISHED, roles.PREEMPTIONS)
"""Counters that rise only if the server works."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A tick and what it is to the run.

    ``before``: nothing has begun; only the counters' state counts. ``ended``: the work ended between
    the tick before and this one, so that its counters count and its gauges, which show an idle server,
    do not.
    """

    tick: Tick
    before: bool = False
    ended: bool = False


@dataclass(slots=True)
class Work:
    """Tells of each tick whether the server worked since the one before."""

    made: dict[tuple[str, str], float] = field(default_factory=dict)

    def see(self, reading: MetricsReading) -> tuple[bool, bool]:
        """Whether a counter rose since the last reading, and whether anything runs or waits now."""
        now = {
            (engine, role): seen.values[role]
            for engine, seen in reading.engines.items()
            for role in WORK
            if role in seen.values
        }
        rose = bool(self.made) and any(
            value > self.made.get(key, value) for key, value in now.items()
        )
        self.made.update(now)
        busy = any(
            seen.values.get(role, 0.0) > 0
            for seen in reading.engines.values()
            for role in (roles.RUNNING, roles.WAITING, roles.SWAPPED)
        )
        return rose, busy


def metrics_of(tick: Tick) -> Sample | None:
    """The tick's sample of vLLM's metrics that holds a reading."""
    return next((s for s in tick.samples if isinstance(s.reading, MetricsReading)), None)


def place(ticks: Iterable[Tick], begun: float) -> Iterator[Placed]:
    """The ticks up to the end of the work, each with its place in the run.

    ``begun``: of the load, unix seconds: what the server did before is not the load's. Ticks without
    work are held back until work follows them, and left out if none does.
    """
    work = Work()
    held: list[tuple[Tick, bool]] = []
    started = False
    for tick in ticks:
        sample = metrics_of(tick)
        rose = busy = False
        if sample is not None and isinstance(sample.reading, MetricsReading):
            rose, busy = work.see(sample.reading)
        if tick.at.unix <= begun or not (started or rose or busy):
            yield Placed(tick, before=True)
            continue
        started = True
        if not (rose or busy):
            held.append((tick, False))
            continue
        yield from (Placed(one) for one, _ in held)
        held.clear()
        if busy:
            yield Placed(tick)
        else:
            held.append((tick, True))
    # The work ended in the interval before the last tick that saw it rise.
    last = max((at for at, (_, saw) in enumerate(held) if saw), default=-1)
    for at, (one, _) in enumerate(held[: last + 1]):
        yield Placed(one, ended=at == last)


def without_gauges(tick: Tick) -> Tick:
    """The tick with nothing of vLLM's metrics but what they count."""
    return replace(tick, samples=tuple(strip(sample) for sample in tick.samples))


def strip(sample: Sample) -> Sample:
    """A sample without gauges."""
    reading = sample.reading
    if not isinstance(reading, MetricsReading):
        return sample
    engines = {
        name: replace(
            engine,
            values={role: value for role, value in engine.values.items() if role in COUNTERS},
        )
        for name, engine in reading.engines.items()
    }
    return replace(sample, reading=replace(reading, engines=engines))
