"""A cause that holds over windows. Alert labels come from episodes, so they do not flap."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sidecar.model.samples import Instant
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import Cause, ServerState, Severity

FAILURES = frozenset({Cause.HOST_OOM, Cause.CUDA_OOM, Cause.ENGINE_FAILURE})
FAILURE_QUIET_S = 300.0
"""Seconds a failure stays shown after its last sign: longer than a restart takes (25 to 100 s were
seen), so that a crash loop is one episode."""
PRESSURE_QUIET_WINDOWS = 4
"""Windows without preemption or stall that end their episode: 25 of 79 one-second intervals of a
sustained thrash show none, and single windows of 10 s do too."""
LOUDNESS = tuple(Severity)


@dataclass(slots=True)
class Episode:
    """One cause that is going on. ``levels``: when each severity was last shown."""

    levels: dict[Severity, Instant] = field(default_factory=dict)

    def show(self, severity: Severity, at: Instant) -> None:
        """The cause was seen with this severity."""
        self.levels[severity] = at

    def age_out(self, now: Instant, quiet_s: float) -> None:
        """Forget severities that were not shown for the quiet time."""
        self.levels = {
            level: at for level, at in self.levels.items() if now.monotonic - at.monotonic < quiet_s
        }


@dataclass(slots=True)
class Episodes:
    """The running episode of each cause."""

    window_s: float
    running: dict[Cause, Episode] = field(default_factory=dict)

    def advance(self, causes: Iterable[CauseFound], at: Instant, state: ServerState) -> None:
        """Take in the causes of a closed window. While the server is dead a failure stays."""
        for found in causes:
            self.running.setdefault(found.cause, Episode()).show(found.severity, at)
        for cause, episode in list(self.running.items()):
            if cause in FAILURES and state is ServerState.DEAD:
                continue
            episode.age_out(at, self.quiet_s(cause))
            if not episode.levels:
                del self.running[cause]

    def memory(self) -> dict[Cause, dict[Severity, float]]:
        """When each severity of each episode was last shown, in unix seconds."""
        return {
            cause: {level: at.unix for level, at in episode.levels.items()}
            for cause, episode in self.running.items()
        }

    def remember(self, memory: Mapping[Cause, Mapping[Severity, float]], now: Instant) -> None:
        """Go on with the episodes that ran before our restart."""
        for cause, levels in memory.items():
            shown = {level: now.when(unix) for level, unix in levels.items()}
            self.running[cause] = Episode(levels=shown)

    def quiet_s(self, cause: Cause) -> float:
        """Seconds without a sign that end an episode."""
        return FAILURE_QUIET_S if cause in FAILURES else PRESSURE_QUIET_WINDOWS * self.window_s

    def alerts(self, urgent: Iterable[CauseFound]) -> dict[Cause, Severity]:
        """The severity of each cause now: of its episode and of what is just being seen."""
        levels: dict[Cause, list[Severity]] = {
            cause: list(episode.levels) for cause, episode in self.running.items()
        }
        for found in urgent:
            levels.setdefault(found.cause, []).append(found.severity)
        return {cause: max(seen, key=LOUDNESS.index) for cause, seen in levels.items() if seen}
