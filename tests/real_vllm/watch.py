"""What a daemon showed while something happened to its server."""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tests.fakes.daemon import Daemon

OFTEN = ("--interval", "1s", "--window", "5s")
"""The clock of the daemons that are watched here."""
POLL_S = 0.5
TRIES = 10
PATIENCE_S = 120.0
"""Seconds for what must come: this machine may be busy with other things."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A report at one moment."""

    at: float
    state: str
    verdict: str
    alerts: dict[str, str]
    lever: str
    observable: dict[str, bool]
    report: dict[str, Any] = field(repr=False)


@dataclass(slots=True)
class Phase:
    """A span of time: the reports shown in it, and the windows that lie wholly inside.

    ``edges``: the windows that lie partly inside.
    """

    name: str
    begun: float
    ended: float = 0.0
    shown: list[Shown] = field(default_factory=list)
    windows: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, Any]] = field(default_factory=list)

    @property
    def verdicts(self) -> list[str]:
        """The verdict of each window."""
        return [str(window["verdict"]) for window in self.windows]

    @property
    def read(self) -> list[dict[str, Any]]:
        """The windows in which the server's metrics were read.

        A busy machine may let no scrape through for seconds: such a window must not be called well.
        """
        assert "none" not in verdicts_of(one for one in self.windows if not is_read(one))
        return [window for window in self.windows if is_read(window)]

    @property
    def alerts(self) -> set[tuple[str, str]]:
        """Every alert that was shown, with its severity."""
        return {alert for one in self.shown for alert in one.alerts.items()}

    @property
    def states(self) -> list[str]:
        """The states that were shown, in order, each change once."""
        return [state for state, _ in groupby(one.state for one in self.shown)]

    @property
    def levers(self) -> set[str]:
        """The levers that windows named."""
        return {str(window["lever"]["name"]) for window in self.windows}

    @property
    def causes(self) -> list[dict[str, Any]]:
        """All causes of all windows, those at the edges too."""
        every = (*self.edges, *self.windows)
        return [cause for window in every for cause in window["causes"]]

    def evidence(self, cause: str) -> list[dict[str, Any]]:
        """All evidence for a cause."""
        found = [one["evidence"] for one in self.causes if one["cause"] == cause]
        return [piece for pieces in found for piece in pieces]

    def signals(self, cause: str) -> set[tuple[str, str]]:
        """Source and signal of all evidence for a cause."""
        return {(piece["source"], piece["signal"]) for piece in self.evidence(cause)}

    def total(self, *path: str) -> float:
        """The sum of a figure over the windows that were read: each of them must have it."""
        found = 0.0
        for window in self.read:
            value: Any = window
            for key in path:
                value = value[key]
            found += float(value)
        return found

    def engine(self, *path: str) -> list[Any]:
        """A figure of engine 0 in each window that was read: each of them must have it."""
        found = []
        for window in self.read:
            value: Any = window["budgets"]["0"]
            for key in path:
                value = value[key]
            found.append(value)
        return found

    def tell(self) -> None:
        """Print the phase in some lines, for whoever reads of the run."""
        say(f"{self.name}: {self.ended - self.begun:.0f} s, {len(self.windows)} windows")
        for line, group in groupby(map(say_window, self.windows)):
            say(f"  {len(list(group))} x {line}")
        changes = groupby(self.shown, key=lambda one: (one.state, one.verdict, one.alerts))
        for (state, verdict, alerts), reports in changes:
            say(f"  from {next(reports).at - self.begun:.1f} s: {state}, {verdict}, {alerts}")


def is_read(window: Mapping[str, Any]) -> bool:
    """Whether the server's counters were read in a window."""
    return "0" in window["preemptions"]


def verdicts_of(windows: Iterable[Mapping[str, Any]]) -> set[str]:
    """The verdicts of some windows, each once."""
    return {str(window["verdict"]) for window in windows}


def say(line: str) -> None:
    """Print a line; pytest keeps it, and shows it with ``-rP``."""
    sys.stdout.write(f"{line}\n")


def say_window(window: Mapping[str, Any]) -> str:
    """What matters of a window, in a line."""
    figures = window["budgets"].get("0", {})
    causes = (
        "/".join(one[key] for key in ("cause", "kind", "phase", "confidence", "severity"))
        for one in window["causes"]
    )
    told = {
        "preemptions": window["preemptions"].get("0"),
        "finished": window["requests"].get("success"),
        "tokens/s": window["throughput"].get("generation"),
        "cache": figures.get("kv_usage", {}).get("max"),
        "waiting": figures.get("waiting", {}).get("max"),
        "binding": figures.get("binding"),
        "lever": window["lever"]["name"],
    }
    known = " ".join(f"{name}={value}" for name, value in told.items() if value is not None)
    return f"{window['verdict']} ({window['state']}): {known} [{', '.join(causes)}]"


class Watch:
    """Looks at a daemon all the time, in a thread of its own."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.shown: list[Shown] = []
        self.missed = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_on)
        self._thread.start()

    def _look_on(self) -> None:
        while not self._stop.wait(POLL_S):
            self.look()

    def look(self) -> Shown | None:
        """The report now; None before the first, or if there is no answer in time."""
        try:
            status, text = self.daemon.get("/api/report")
        except OSError:
            self.missed += 1
            return None
        if status != 200:
            return None
        report = json.loads(text)
        shown = Shown(
            at=time.time(),
            state=report["state"],
            verdict=report["verdict"],
            alerts=report["alerts"],
            lever=report["lever"]["name"],
            observable=report["observable"],
            report=report,
        )
        self.shown.append(shown)
        return shown

    def now(self) -> float:
        """Now, in unix seconds."""
        return time.time()

    def windows(self, begun: float, ended: float) -> list[dict[str, Any]]:
        """The closed windows that lie at least partly in a span."""
        every = json.loads(self.page("/api/windows?limit=1000"))
        return [
            one for one in every if one["window"]["end"] > begun and one["window"]["start"] < ended
        ]

    def page(self, path: str) -> str:
        """A page, asked for again where a busy machine let no answer through in time."""
        for _ in range(TRIES):
            with contextlib.suppress(OSError):
                return self.daemon.get(path)[1]
            self.missed += 1
        raise AssertionError((path, self.daemon.said))

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[Phase]:
        """A phase for as long as the block takes; what was shown in it is known at its end."""
        phase = Phase(name, time.time())
        first = len(self.shown)
        try:
            yield phase
        finally:
            phase.ended = time.time()
            phase.shown = [one for one in self.shown[first:] if one.at >= phase.begun]
            for one in self.windows(phase.begun, phase.ended):
                span = one["window"]
                is_inside = span["start"] >= phase.begun and span["end"] <= phase.ended
                (phase.windows if is_inside else phase.edges).append(one)

    def await_windows(self, count: int, *, read: bool = False) -> None:
        """Return once so many windows began after now and are closed; ``read``: and could be read."""
        since = time.time()

        def are_closed() -> bool:
            later = self.windows(since, time.time())
            whole = [one for one in later if one["window"]["start"] >= since]
            return len([one for one in whole if is_read(one) or not read]) >= count

        self.until(are_closed)

    def await_report(self, condition: Callable[[Shown], bool], seconds: float = PATIENCE_S) -> None:
        """Return once a report that is shown from now on is as wanted."""
        first = len(self.shown)
        self.until(lambda: any(condition(one) for one in self.shown[first:]), seconds)

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
        """Return once it holds; fail, with what was shown last, if it does not in time."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, (self.shown[-1:], self.daemon.said)
            assert self.daemon.process.poll() is None, self.daemon.said
            time.sleep(POLL_S)

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()


@contextlib.contextmanager
def watch(daemon: Daemon) -> Iterator[Watch]:
    """A watch over a daemon, ended whatever happens."""
    watching = Watch(daemon)
    try:
        yield watching
    finally:
        watching.close()
