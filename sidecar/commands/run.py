"""``vllm-sidecar run``: the daemon."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop

from sidecar import app
from sidecar.clock import Clock
from sidecar.config import Settings, read_supervision
from sidecar.heap import keep_small
from sidecar.model.envelope import Drift
from sidecar.model.report import Report
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import Fault, ServerState, Severity, Source, Verdict
from sidecar.own_log import make_logger
from sidecar.pipeline import Step
from sidecar.reload import Outcome, Reloads
from sidecar.service_manager import ServiceManager
from sidecar.telling.sentences import explain, say_urgent

SAME_WISH_S = 0.1
"""Seconds within which signals count as one."""
ENDING = (signal.SIGTERM, signal.SIGINT)


def run_daemon(read: Callable[[], Settings]) -> int:
    """Run until SIGTERM or SIGINT; SIGHUP has the settings read again. Returns the exit code.

    Raises:
        ConfigError: a setting cannot be honoured.
    """
    keep_small()
    settings, clock, journal = read(), Clock(), Journal()
    manager = ServiceManager(read_supervision(), journal.complain)

    def listening(host: str, port: int) -> None:
        journal.tell_listening(host, port)
        manager.tell_start(settings.interval)

    def observe(step: Step) -> None:
        journal.tell_changes(step)
        manager.tell_report(step.report)

    def tell(outcome: Outcome) -> None:
        journal.tell_reload(outcome)
        manager.tell_reloaded(taken=outcome.why is None)

    reloads = Reloads(read, begin=lambda: manager.tell_reload(clock.now()), tell=tell)

    async def body(stop: asyncio.Event) -> None:
        await app.run(
            settings,
            clock,
            stop,
            listening=listening,
            observe=observe,
            complain=journal.complain,
            reloads=reloads,
        )

    run_until_signal(body, reload=reloads.wish, stopping=manager.tell_stop)
    # The interpreter takes our handlers down before it ends, but leaves what is ignored.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    manager.close()
    journal.note("stopped")
    return 0


def run_until_signal(
    body: Callable[[asyncio.Event], Awaitable[None]],
    *,
    reload: asyncio.Event | None = None,
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Run ``body`` with an event that the first SIGTERM or SIGINT sets; a second one ends us.

    ``reload`` is set by SIGHUP, which never ends us then. Without it SIGHUP is another signal to end,
    as of a terminal that is closed, unless whoever started us has it ignored (nohup).
    ``stopping`` is called once, with the first signal to end.
    """
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    ending = ENDING if reload is not None or is_ignored else (*ENDING, signal.SIGHUP)

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end_next_time() -> None:
            for number in ending:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL)

        def begin_to_stop() -> None:
            if not stop.is_set():
                stop.set()
                stopping()
                # Who signals a process and then its group (timeout(1)) means one wish.
                loop.call_later(SAME_WISH_S, end_next_time)

        for number in ending:
            loop.add_signal_handler(number, begin_to_stop)
        if reload is not None:
            heed_hangups(loop, reload)
        await body(stop)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def heed_hangups(loop: asyncio.AbstractEventLoop, reload: asyncio.Event) -> None:
    """Have every SIGHUP set an event, also one that was held back until now.

    Not by the loop's own means: what it handles ends the process again once the loop is closed.
    """

    def heed(_number: int, _frame: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: we end
            loop.call_soon_threadsafe(reload.set)

    signal.signal(signal.SIGHUP, heed)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))


NEVER = object()


def is_loud(found: CauseFound | None) -> bool:
    """Whether a cause is more than information."""
    return found is not None and found.severity is not Severity.INFO


class Journal:
    """Our own log: a line for each change, none for a tick."""

    def __init__(self) -> None:
        self.log = make_logger()
        self.verdict: Verdict | None = None
        self.state: ServerState | None = None
        self.faults: dict[Source, Fault | object | None] = {}
        self.valid: dict[Drift, bool] = {}

    def note(self, event: str, **fields: str | None) -> None:
        """Write a line. A full disk or a reader that left is no reason to stop watching."""
        with suppress(OSError, ValueError):
            self.log.info(event, **fields)

    def complain(self, event: str, **fields: str | None) -> None:
        """Write a line about something that is wrong, if it can be written."""
        with suppress(OSError, ValueError):
            self.log.warning(event, **fields)

    def tell_listening(self, host: str, port: int) -> None:
        """Say where we listen."""
        shown = f"[{host}]" if ":" in host else host
        self.note("listening", listen=f"{shown}:{port}")

    def tell_reload(self, outcome: Outcome) -> None:
        """Say what came of a reload; of settings their names, never their values."""
        if outcome.why is not None:
            self.complain("settings_not_reloaded", why=outcome.why)
            return
        self.note("settings_reloaded")
        if outcome.needs_restart:
            self.complain("settings_need_restart", settings=", ".join(outcome.needs_restart))

    def tell_changes(self, step: Step) -> None:
        """Say what changed with this step."""
        report = step.report
        if report.state is not self.state:
            self.state = report.state
            self.note("state_changed", state=report.state.value)
        self.tell_sources(report)
        self.tell_envelope(report)
        last = report.last_window
        if report.verdict is not self.verdict and (report.urgent or last):
            self.verdict = report.verdict
            shown = report.urgent or (last.causes if last else ())
            first = shown[0] if shown else None
            tell = self.complain if is_loud(first) else self.note
            tell(
                "verdict_changed",
                verdict=report.verdict.value,
                severity=None if first is None else first.severity.value,
                kind=None if first is None else first.kind.value,
                why=self.explain(report),
                lever=report.advice.lever.value,
            )

    def explain(self, report: Report) -> str:
        """The reason in the words that people read elsewhere too."""
        if report.last_window is None or report.urgent:
            return say_urgent(report.urgent, report.observable)
        return explain(report.last_window)

    def tell_envelope(self, report: Report) -> None:
        """Say when the server leaves what was measured, or comes back to it."""
        for drift, valid in ({} if report.envelope is None else report.envelope.valid).items():
            if self.valid.get(drift, True) is valid:
                continue
            self.valid[drift] = valid
            if valid:
                self.note("envelope_holds", kind=drift.value)
            else:
                self.complain("envelope_left", kind=drift.value)

    def tell_sources(self, report: Report) -> None:
        """Say of each source when it begins to work, and why when it does not."""
        for source, status in report.sources.items():
            if status.last_at is None or self.faults.get(source, NEVER) is status.last_fault:
                continue
            self.faults[source] = status.last_fault
            if status.last_fault is None:
                self.note("source_works", source=source.value)
            else:
                self.complain("source_fails", source=source.value, fault=status.last_fault.value)
