"""``vllm-sidecar run``: the daemon."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop

from sidecar import app
from sidecar.clock import Clock
from sidecar.config import Settings
from sidecar.export.sentences import explain, say_found
from sidecar.model.report import Report
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import Fault, ServerState, Severity, Source, Verdict
from sidecar.own_log import make_logger
from sidecar.pipeline import Step

SAME_WISH_S = 0.1
"""Seconds within which signals count as one."""
ENDING = (signal.SIGTERM, signal.SIGINT)


def run_daemon(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    journal = Journal()

    async def body(stop: asyncio.Event) -> None:
        await app.run(
            settings,
            Clock(),
            stop,
            listening=journal.tell_listening,
            observe=journal.tell_changes,
            complain=journal.complain,
        )

    run_until_signal(body)
    journal.note("stopped")
    return 0


def run_until_signal(body: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run ``body`` with an event that the first SIGTERM or SIGINT sets; a second one ends us."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end_next_time() -> None:
            for number in ENDING:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL)

        def begin_to_stop() -> None:
            if not stop.is_set():
                stop.set()
                # Who signals a process and then its group (timeout(1)) means one wish.
                loop.call_later(SAME_WISH_S, end_next_time)

        for number in ENDING:
            loop.add_signal_handler(number, begin_to_stop)
        await body(stop)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


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

    def tell_changes(self, step: Step) -> None:
        """Say what changed with this step."""
        report = step.report
        if report.state is not self.state:
            self.state = report.state
            self.note("state_changed", state=report.state.value)
        self.tell_sources(report)
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
            return "; ".join(say_found(found) for found in report.urgent)
        return explain(report.last_window)

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
