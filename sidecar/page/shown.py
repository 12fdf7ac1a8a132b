"""What the page is made of, and the questions that several of its parts ask."""

from collections.abc import Iterator
from dataclasses import dataclass

from sidecar.derive.episodes import FAILURE_QUIET_S, FAILURES, PRESSURE_QUIET_WINDOWS
from sidecar.history.timeline import Timeline
from sidecar.model.report import Report
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import Cause, Fault, Source, Verdict
from sidecar.telling.blind_spots import Standpoint


@dataclass(frozen=True, slots=True)
class Span:
    """How far back the page looks: its word in the address, and seconds."""

    word: str
    seconds: float


QUARTER, HOUR = Span("15m", 900.0), Span("1h", 3600.0)
SPANS = (QUARTER, HOUR, Span("6h", 6 * 3600.0), Span("24h", 24 * 3600.0))
"""Those that can be asked for."""
LEAST_S = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where we run, as the page needs it: what does not change while we run.

    ``target``: address of the server. ``host``: what the machine, or the pod, that we run on is called.
    """

    interval_s: float
    window_s: float
    in_cluster: bool = False
    is_here: bool = True
    version: str = ""
    target: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """All that a page is made of.

    ``now``: unix seconds. ``alive``: the clock ticks. ``live``: the page can be asked for again; a page
    in a file is not.
    """

    report: Report
    timeline: Timeline
    place: Place
    now: float
    alive: bool = True
    live: bool = True

    @property
    def causes(self) -> tuple[CauseFound, ...]:
        """What the verdict rests on, the one that it names first."""
        report = self.report
        last = report.last_window
        found = report.urgent or (last.causes if last is not None else ())
        return tuple(sorted(found, key=lambda one: one.cause.verdict is not report.verdict))

    @property
    def is_blind(self) -> bool:
        """Whether vLLM's metrics answer, but show nothing that is known."""
        status = self.report.sources.get(Source.VLLM_METRICS)
        return status is not None and status.up and not self.report.found

    @property
    def standpoint(self) -> Standpoint:
        """Where we look from, by the last readings."""
        sources = {
            source: None if status.up else status.last_fault
            for source, status in self.report.sources.items()
            if status.configured
        }
        if self.is_blind:
            sources[Source.VLLM_METRICS] = Fault.UNSUPPORTED
        return Standpoint(
            sources,
            self.report.cgroup,
            in_cluster=self.place.in_cluster,
            is_here=self.place.is_here,
        )


FAILURE_VERDICTS = frozenset(cause.verdict for cause in FAILURES)


def fitting_span(timeline: Timeline, now: float) -> Span:
    """The span for who asks for none: an hour, or less while less is known."""
    oldest = timeline.oldest(now)
    age = 0.0 if oldest is None else now - oldest
    return HOUR if age > QUARTER.seconds else Span("", max(age, LEAST_S))


def since_when(shown: Shown) -> float | None:
    """Since when the verdict is what it is, as far back as is known (unix seconds).

    Gaps that do not end an episode do not end it here either; a clock that stepped back does, for what
    it told before is none of our times.
    """
    verdict = shown.report.verdict
    seen = [evidence.at.unix for found in shown.causes for evidence in found.evidence]
    first = min(seen, default=None)
    since = first if shown.report.urgent else None
    edge = shown.now if since is None else since
    for row in shown.timeline.runs():
        if row.start > shown.now or edge - row.end > quiet_s(verdict, shown.place.window_s):
            break
        if row.verdict is verdict:
            since = edge = row.start
        elif verdict in {Verdict.NONE, Verdict.UNKNOWN}:
            break
    # The first sign of a failure is more exact than the window that it fell into; what builds up over a
    # window has its sign at the window's end.
    if since is None or first is None or verdict not in FAILURE_VERDICTS:
        return since
    return first if since <= first <= since + 2 * shown.place.window_s else since


def quiet_s(verdict: Verdict, window_s: float) -> float:
    """Seconds without a sign after which an episode is over."""
    if verdict in {Verdict.NONE, Verdict.UNKNOWN}:
        return 2 * window_s
    if Cause(verdict.value) in FAILURES:
        return FAILURE_QUIET_S
    return PRESSURE_QUIET_WINDOWS * window_s


def standing_episodes(shown: Shown) -> Iterator[tuple[Cause, str]]:
    """Episodes that go on although the verdict names something else, with their severity."""
    for cause in Cause:
        severity = shown.report.alerts.get(cause)
        if severity is not None and cause.verdict is not shown.report.verdict:
            yield cause, severity.value
