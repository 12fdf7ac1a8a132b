"""The server's life: starting, serving, stopped by wish, dead. Pure bookkeeping of what is seen."""

from dataclasses import dataclass, field

from sidecar.assemble.process_watch import ProcessWatch
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
OUTLIVES_S = 1.5
"""Seconds after which a server that still answers has outlived its engine: one that is stopped closes
its port before its engines end."""
SURE = frozenset({signals.HEALTH_FAILING, signals.ORPHANS_LEFT, signals.ENGINE_PROCESS_LOST})
HEALTHY = 200
ENGINE_DEAD_STATUS = frozenset({500, 503})


@dataclass(slots=True)
class Life:
    """What is known of the server's life. Evidence comes out where a death shows by itself.

    ``lives`` counts the ends that were noticed; ``watched_life`` is the one in which the first process
    was last seen.
    """

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
    watch: ProcessWatch = field(default_factory=ProcessWatch)
    lives: int = 0
    watched_life: int = 0

    @property
    def phase(self) -> Phase:
        """Start-up until the server first serves."""
        if self.has_served:
            return Phase.RUNTIME
        return Phase.STARTUP if self.state is ServerState.STARTING else Phase.UNKNOWN

    @property
    def is_doubted(self) -> bool:
        """Whether the health endpoint said last that the engine is dead; believed once it did so twice."""
        return self.failing_since is not None

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

    def see_tokens(self, since: Instant) -> None:
        """Tokens were made after that moment; some while after what was told, the engine lives on."""
        if self.told is not None and since.monotonic - self.told.monotonic >= SETTLE_S:
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
        self.lives += 1

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

    def explains_restart(self) -> bool:
        """Whether it is known why the server is another one, or the log would have told."""
        ended = self.state in {ServerState.STOPPED, ServerState.DEAD}
        return ended or self.log_is_read or self.stop_wanted is not None or self.told is not None

    def see_failure(self, at: Instant) -> None:
        """Evidence of a failure was accepted; the next refusal is its consequence."""
        self.told = at
        # What is told late of the run before says nothing of the one that starts now.
        is_of_this_run = self.since is None or at >= self.since
        if self.state is ServerState.STARTING and is_of_this_run:
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
        self.watch.see(reading, at)
        is_same_life = self.lives == self.watched_life
        if reading.root is not None:
            self.watched_life = self.lives
        if before is None or self.is_told(at) or self.stop_explains(at):
            self.watch.loss = None
            return ()
        kind = Kind.KILLED
        if self.state is ServerState.STARTING and before.processes and not reading.processes:
            signal, kind = signals.PROCESSES_VANISHED, Kind.START_FAILED
        elif self.watch.replaced and is_same_life and self.is_up():
            return self.judge_replacement(at)
        elif self.lost_its_server(at):
            signal = signals.ORPHANS_LEFT
            kind = Kind.KILLED if self.has_served else Kind.START_FAILED
        else:
            return self.judge_loss()
        self.move(ServerState.DEAD, at)
        self.told = at
        return (self.death(Source.PROCESS, signal, at, kind=kind),)

    def is_up(self) -> bool:
        """Whether it serves, as far as is known."""
        return self.state in {ServerState.SERVING, ServerState.SLEEPING}

    def lost_its_server(self, at: Instant) -> bool:
        """Whether engines live on without an API server: for good, not amid a stop or a start.

        A stop that was wanted explains it for a while only, whatever the server's exit code was.
        """
        since = self.watch.masterless
        if since is None or self.state is ServerState.DEAD:
            return False
        if self.has_served:
            return self.first_refusal is not None
        is_starting = self.state is ServerState.STARTING
        return is_starting and at.monotonic - since.monotonic >= SETTLE_S

    def judge_replacement(self, at: Instant) -> tuple[Evidence, ...]:
        """Another server runs in place of the one that served, and nothing has told why."""
        self.first_refusal = None
        if self.watch.orphans:
            signal = signals.ORPHANS_LEFT
        elif self.log_is_read:
            signal = signals.SERVER_RESTARTED
        else:
            return ()
        self.told = at
        return (self.death(Source.PROCESS, signal, at),)

    def judge_loss(self) -> tuple[Evidence, ...]:
        """An engine vanished, and the server answers on without it."""
        loss, answer = self.watch.loss, self.last_answer
        if loss is None or answer is None or not self.is_up():
            return ()
        if answer.monotonic - loss.at.monotonic < OUTLIVES_S:
            return ()
        self.watch.loss = None
        self.told = loss.at
        return (self.death(Source.PROCESS, signals.ENGINE_PROCESS_LOST, loss.at),)

    def has_processes(self) -> bool:
        """Whether the last listing showed any process of the server."""
        return self.processes is not None and bool(self.processes.processes)

    def has_orphans(self) -> bool:
        """Whether engine processes live on without an API server, holding their memory."""
        return self.watch.masterless is not None

    def death(self, source: Source, signal: str, at: Instant, kind: Kind = Kind.KILLED) -> Evidence:
        """Evidence that the server died, without a cause of its own."""
        sure = signal in SURE
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
