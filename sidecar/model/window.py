"""One interval of time, everything that was seen in it, and what it is judged to be."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.model.budget import GpuBudget
from sidecar.model.evidence import Evidence
from sidecar.model.limits import Limits
from sidecar.model.readings import Histogram
from sidecar.model.vocabulary import (
    Fault,
    Phase,
    ServerState,
    Source,
)


@dataclass(frozen=True, slots=True)
class Spread:
    """Least, mean and greatest of a gauge over the window's samples."""

    least: float
    mean: float
    greatest: float
    last: float


@dataclass(frozen=True, slots=True)
class EngineWindow:
    """One engine over a window. A role that was not found is absent, never 0.

    ``deltas``: rises of counters, never negative, across restarts counted from zero.
    ``gauges``: spread of gauges. ``histograms``: rises of cumulative histograms.
    """

    deltas: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, Spread] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    outcomes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceWindow:
    """How one source fared in a window.

    ``wanted``: it was asked for by name, or has worked before; its failure then hides causes.
    """

    readings: int = 0
    wanted: bool = False
    faults: Mapping[Fault, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Window:
    """All that was seen in ``(start, end]`` (unix seconds), before it is judged.

    ``stalled_s``: how long, up to the window's end, work waited or ran while no token moved.
    ``served``: the server answered with usable metrics at least once.
    ``down``: it was seen not to answer after its last answer.
    ``blind``: it answered, but shows no vLLM series that we know.
    ``idle_v0``: it is a V0 server before its first request, whose counters do not exist yet.
    ``survived``: it was seen serving after the last failure evidence of the window.
    ``restart_unexplained``: the server is another one than before, and nothing that is read tells why.
    ``kills_unseen``: the memory cgroup was removed, and nobody tells whether it counted a kill.
    ``records_lost``: the kernel log ran over before it was read, or told of a kill of which nobody can
    say whose it was.
    ``counted_s``: how long before its last reading of the metrics the one lay that its counters rose
    from: longer than the window where readings before it failed.
    ``gpu_utilization``: mean over the window's samples by GPU index, 0 to 1.
    ``limits``: what is known of the server's limits at the window's end. ``gpus``: the GPUs then.
    ``info``: the server's configuration as last shown in the window (closed set of keys).
    """

    start: float
    end: float
    partial: bool
    state: ServerState
    phase: Phase
    engines: Mapping[str, EngineWindow]
    evidence: tuple[Evidence, ...]
    sources: Mapping[Source, SourceWindow]
    found: frozenset[str]
    served: bool = False
    down: bool = False
    blind: bool = False
    idle_v0: bool = False
    survived: bool = False
    stalled_s: float = 0.0
    restarted: bool = False
    restart_unexplained: bool = False
    kills_unseen: bool = False
    records_lost: bool = False
    naming_generation: str | None = None
    limits: Limits = field(default_factory=dict)
    gpus: tuple[GpuBudget, ...] = ()
    counted_s: float = 0.0
    gpu_utilization: Mapping[int, float] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)

    @property
    def rise_s(self) -> float:
        """Seconds in which its counters rose by what they rose: what a rate is to be divided by."""
        return max(self.end - self.start, self.counted_s)
