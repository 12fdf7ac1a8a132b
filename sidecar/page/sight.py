"""What can be seen from here: causes, sources, vLLM's names for its metrics, our own clock."""

from collections.abc import Iterator, Sequence

from sidecar.catalog.vllm_metrics import ROLES
from sidecar.model.report import SourceStatus
from sidecar.model.vocabulary import Cause, Source
from sidecar.page.evidence import show_table
from sidecar.page.shown import Shown
from sidecar.telling.blind_spots import missing_rights, remedy, say_darkness, say_fault
from sidecar.telling.figures import say_duration, say_list, say_number, say_seconds
from sidecar.telling.markup import Markup, element, join


def show_sight(shown: Shown) -> Markup:
    """Causes first: what would go unseen is what matters."""
    return element(
        "section",
        element("h2", "What can be seen from here", id="sight"),
        element("dl", join(map(join, cause_rows(shown))), class_="sight"),
        show_rights(shown),
        element("h3", "Sources"),
        show_table(("source", "state", "last tried", "took", "errors"), list(source_rows(shown))),
        element("p", say_idle(shown)),
        folded("names", say_names(shown), show_names(shown)),
        folded("clock", "The sidecar's own clock", show_clock(shown)),
        aria_labelledby="sight",
    )


def folded(name: str, summary: str, inside: Markup) -> Markup:
    """What few ask for."""
    return element("details", element("summary", summary), inside, id=name)


def cause_rows(shown: Shown) -> Iterator[Sequence[str]]:
    """Each cause: whether it would be seen now; if not, why, and what would show it."""
    standpoint = shown.standpoint
    for cause in Cause:
        name = element("dt", element("code", cause.value))
        if shown.report.observable.get(cause, False):
            yield name, element("dd", "✓ watched", class_="seen")
            continue
        why = say_darkness(standpoint, cause)
        yield (
            name,
            element(
                "dd",
                element("strong", "✗ not watched"),
                f": {why}. " if why else ". ",
                element(
                    "span", f"To watch it: {remedy(standpoint, cause)} (settings of the sidecar)."
                ),
                class_="unseen",
            ),
        )


def show_rights(shown: Shown) -> Markup:
    """What could be given to us, and what it would add."""
    rows = [element("li", f"{row.adds}.") for row in missing_rights(shown.standpoint)]
    if not rows:
        return Markup("")
    return join((element("p", "More would be known:"), element("ul", *rows)))


def source_rows(shown: Shown) -> Iterator[Sequence[str]]:
    """Each source that is asked for."""
    for source in Source:
        status = shown.report.sources.get(source, SourceStatus())
        if not status.configured:
            continue
        at = status.last_at
        yield (
            source.value,
            say_state(source, status, is_blind=shown.is_blind and source is Source.VLLM_METRICS),
            "" if at is None else f"{say_duration(shown.now - at.unix)} ago",
            "" if status.duration_s is None else say_seconds(status.duration_s),
            ", ".join(
                f"{fault.value} {count}" for fault, count in sorted(status.errors.items()) if count
            ),
        )


def say_idle(shown: Shown) -> str:
    """The sources that nobody asked for, or that are not there."""
    sources = shown.report.sources
    idle = [one.value for one in Source if not sources.get(one, SourceStatus()).configured]
    return f"Not read, not asked for or not there: {say_list(idle)}." if idle else ""


def say_state(source: Source, status: SourceStatus, *, is_blind: bool) -> Markup:
    """Whether a source works, or why not."""
    if is_blind:
        return element("strong", "answers, but shows no series that is known", class_="unseen")
    if status.up:
        return element("span", "works", class_="seen")
    why = "not read yet" if status.last_fault is None else say_fault(source, status.last_fault)
    return element("strong", why, class_="unseen")


def say_names(shown: Shown) -> str:
    """How many of vLLM's metrics are found."""
    found = sum(role.role in shown.report.found for role in ROLES)
    return f"vLLM's metrics: {found} of {len(ROLES)} that are looked for were found"


def show_names(shown: Shown) -> Markup:
    """What this server calls each metric; one that it does not have is not found, never 0."""
    rows = [
        (
            role.role,
            element("code", shown.report.names[role.role])
            if role.role in shown.report.names
            else "not found (never counted as 0)",
        )
        for role in ROLES
    ]
    return show_table(("meaning", "name on this server"), rows)


def show_clock(shown: Shown) -> Markup:
    """The clock about itself, and what the log brought."""
    clock, log, place = shown.report.clock, shown.report.log, shown.place
    dropped = sum(log.dropped.values())
    pairs = (
        (
            "interval",
            say_duration(place.interval_s)
            if place.interval_s >= 1
            else say_seconds(place.interval_s),
        ),
        (
            "window",
            say_duration(place.window_s) if place.window_s >= 1 else say_seconds(place.window_s),
        ),
        ("ticks", say_number(clock.ticks)),
        ("missed", say_number(clock.missed)),
        ("lateness", say_seconds(clock.lateness_s)),
        ("skew between sources", say_seconds(clock.skew_s)),
        ("log lines read", say_number(log.lines)),
        ("log lines dropped", say_number(dropped)),
        ("version", place.version or "not known"),
    )
    return element(
        "dl", join(join((element("dt", name), element("dd", value))) for name, value in pairs)
    )
