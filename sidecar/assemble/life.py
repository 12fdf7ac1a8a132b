"""The server's life: starting, serving, stopped by wish, dead. Pure bookkeeping of what is seen."""

from collections.abc import Iterable
from dataclasses import dataclass

from sidecar.catalog import signals
from sidecar.catalog.signatures import Mark
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.readings import ProcessReading
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause, Confidence, Fault, Kind, Phase, ServerState, Source

GONE = frozenset({Fault.REFUSED, Fault.DISCONNECTED})
"""Faults that say nobody listens any more; a timeout says nothing of the kind."""
SETTLE_S = 2.0
"""Seconds without an answer before a server that served is called gone."""
STOP_HOLDS_S = 60.0
"""Seconds for which a wanted stop explains lines that would otherwise speak of a death."""
TOLD_HOLDS_S = 120.0
"""Seconds for which an earlier failure explains that the server falls silent."""
API_SERVER_COMMS = ("vllm", "VLLM::APIServer")
ENGINE_COMMS = ("VLLM::EngineCor", "VLLM::Worker", "VLLM::DPCoordin")
HEALTHY = 200
ENGINE_DEAD_STATUS = frozenset({500, 503})


@dataclass(slots=True)
class Life:
    """What is known of the server's life. Evidence comes out where a death shows by itself."""

    state: ServerState = ServerState.UNKNOWN
    since: Instant | None = None
    has_served: bool = False
    last_answer: Instant | None = None
    first_refusal: Instant | None = None
    failing_since: Instant | None = None
    stop_wanted: Instant | None = None
    processes: ProcessReading | None = None
    told: Instant | None = None
    log_is_read: bool = False

    @property
    def phase(self) -> Phase:
        """Start-up until the server first serves."""
        if self.has_served:
            return Phase.RUNTIME
        return Phase.STARTUP if self.state is ServerState.STARTING else Phase.UNKNOWN

    def move(self, state: ServerState, at: Instant) -> None:
        """Enter a state."""
        if state is not self.state:
            self.state, self.since = state, at

    def see_answer(self, at: Instant, *, sleeping: bool = False) -> None:
        """The server answered as a live server does.

        With ``VLLM_KEEP_ALIVE_ON_ENGINE_DEATH`` (0.32) the metrics of a dead engine go on being
        served, frozen, while the health endpoint fails: so they prove nothing then.
        """
        if self.failing_since is not None or self.is_before_end(at):
            return
        if self.state in {ServerState.STOPPED, ServerState.DEAD}:
            self.begin_anew()
        self.has_served = True
        self.last_answer = at
        self.first_refusal = None
        self.move(ServerState.SLEEPING if sleeping else ServerState.SERVING, at)

    def see_tokens(self, at: Instant) -> None:
        """Tokens were made; some while after what was told, the engine lives on."""
        if self.told is not None and at.monotonic - self.told.monotonic >= SETTLE_S:
            self.told = None

    def is_before_end(self, at: Instant) -> bool:
        """Whether an answer was given before the server ended, though it is seen after."""
        ended = self.state in {ServerState.STOPPED, ServerState.DEAD}
        return ended and self.since is not None and at.monotonic <= self.since.monotonic

    def is_told(self, at: Instant) -> bool:
        """Whether a failure is known already that explains the server's silence."""
        return self.told is not None and at.monotonic - self.told.monotonic <= TOLD_HOLDS_S

    def begin_anew(self) -> None:
        """Forget the former life."""
        self.has_served = False
        self.stop_wanted = None
        self.first_refusal = None
        self.told = None

    def see_mark(self, mark: Mark, at: Instant) -> None:
        """A line of the log told of the server's life."""
        match mark:
            case Mark.STOP_WANTED:
                # What survives a failure is stopped by the rest of the server: no wish of anybody.
                if not self.is_told(at):
                    self.stop_wanted = at
            case Mark.STARTING:
                if self.state in {ServerState.STOPPED, ServerState.DEAD, ServerState.UNKNOWN}:
                    self.begin_anew()
                    self.move(ServerState.STARTING, at)
            case Mark.READY | Mark.SLEEPING | Mark.AWAKE:
                pass

    def stop_explains(self, at: Instant) -> bool:
        """Whether a wanted stop shortly before makes a death harmless."""
        return (
            self.stop_wanted is not None
            and 0 <= at.monotonic - self.stop_wanted.monotonic <= STOP_HOLDS_S
            and self.state is not ServerState.DEAD
        )

    def see_failure(self, at: Instant) -> None:
        """Evidence of a failure was accepted; the next refusal is its consequence."""
        self.told = at
        if self.state is ServerState.STARTING:
            self.move(ServerState.DEAD, at)

    def see_refusal(self, at: Instant) -> tuple[Evidence, ...]:
        """Nobody listens on the server's port."""
        if self.first_refusal is None:
            self.first_refusal = at
        self.failing_since = None
        if not self.has_served:
            if self.state is ServerState.UNKNOWN and self.has_processes():
                self.move(ServerState.STARTING, at)
            return ()
        if self.state in {ServerState.STOPPED, ServerState.DEAD}:
            return ()
        if self.stop_explains(at):
            self.move(ServerState.STOPPED, at)
            return ()
        if self.is_told(at):
            self.move(ServerState.DEAD, at)
            return ()
        return self.judge_silence(at)

    def judge_silence(self, at: Instant) -> tuple[Evidence, ...]:
        """A server that served answers no more, and nothing has told why."""
        refused = self.first_refusal or at
        if at.monotonic - refused.monotonic < SETTLE_S:
            return ()
        if self.log_is_read or self.has_orphans():
            self.move(ServerState.DEAD, at)
            self.told = at
            return (self.death(Source.VLLM_METRICS, signals.SERVER_VANISHED, refused),)
        self.move(ServerState.UNKNOWN, at)
        return ()

    def see_status(self, status: int, at: Instant) -> tuple[Evidence, ...]:
        """The health endpoint answered. vLLM says 503 (0.11+) or 500 once its engine is dead."""
        if status not in ENGINE_DEAD_STATUS or not self.has_served:
            self.failing_since = None
            if status == HEALTHY:
                self.see_answer(at, sleeping=self.state is ServerState.SLEEPING)
            return ()
        if self.failing_since is None:
            self.failing_since = at
            return ()
        if self.state is ServerState.DEAD or self.stop_explains(at):
            return ()
        self.move(ServerState.DEAD, at)
        if self.is_told(at):
            return ()
        self.told = at
        return (self.death(Source.VLLM_HEALTH, signals.HEALTH_FAILING, at),)

    def see_processes(self, reading: ProcessReading, at: Instant) -> tuple[Evidence, ...]:
        """The server's processes were listed."""
        before, self.processes = self.processes, reading
        if before is None or self.is_told(at) or self.stop_explains(at):
            return ()
        if self.state is ServerState.STARTING and before.processes and not reading.processes:
            self.move(ServerState.DEAD, at)
            self.told = at
            return (
                self.death(Source.PROCESS, signals.PROCESSES_VANISHED, at, kind=Kind.START_FAILED),
            )
        if self.first_refusal is not None and self.has_served and self.has_orphans():
            self.move(ServerState.DEAD, at)
            self.told = at
            return (self.death(Source.PROCESS, signals.ORPHANS_LEFT, at),)
        return ()

    def has_processes(self) -> bool:
        """Whether the last listing showed any process of the server."""
        return self.processes is not None and bool(self.processes.processes)

    def has_orphans(self) -> bool:
        """Whether engine processes live on without an API server, holding their memory."""
        if self.processes is None:
            return False
        comms = [process.comm for process in self.processes.processes]
        return any(starts(comms, ENGINE_COMMS)) and not any(starts(comms, API_SERVER_COMMS))

    def death(self, source: Source, signal: str, at: Instant, kind: Kind = Kind.KILLED) -> Evidence:
        """Evidence that the server died, without a cause of its own."""
        sure = signal in {signals.HEALTH_FAILING, signals.ORPHANS_LEFT}
        return Evidence(
            cause=Cause.ENGINE_FAILURE,
            kind=Kind.CRASHED if signal == signals.HEALTH_FAILING else kind,
            source=source,
            signal=signal,
            at=at,
            weight=Weight.CONSEQUENCE,
            confidence=Confidence.CONFIRMED if sure else Confidence.SUSPECTED,
            phase=self.phase,
        )


def starts(comms: Iterable[str], prefixes: tuple[str, ...]) -> Iterable[bool]:
    """For each name whether it starts with one of the prefixes."""
    return (comm.startswith(prefixes) for comm in comms)
