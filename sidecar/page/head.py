"""The top of the page: the verdict in plain words, since when, the server's state, and the one lever."""

from collections.abc import Iterator

from sidecar.model.advice import Advice, Lever
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause, ServerState, Severity, Source, Verdict
from sidecar.page.shown import Shown, since_when, standing_episodes
from sidecar.telling.actions import action_for
from sidecar.telling.blind_spots import remedy
from sidecar.telling.figures import count_of, iso_time, say_duration, say_list
from sidecar.telling.markup import Markup, element, join
from sidecar.telling.plain import plain_words
from sidecar.telling.sentences import MAX_LINE, explain, say_urgent
from sidecar.telling.words import LEVERS, STATES, say_headline, say_verdict


def say_title(shown: Shown) -> str:
    """The verdict in a few words, for the tab of a browser."""
    severity = severity_of(shown)
    loud = f" ({severity.value})" if severity is not None else ""
    return f"{shown.report.verdict.value}{loud} - vllm-sidecar"


def severity_of(shown: Shown) -> Severity | None:
    """How loudly the verdict is to be said; None where it names no cause."""
    return shown.causes[0].severity if names_cause(shown) else None


def names_cause(shown: Shown) -> bool:
    """Whether the verdict is a cause that was found."""
    causes = shown.causes
    return bool(causes) and causes[0].cause.verdict is shown.report.verdict


def headline(shown: Shown) -> str:
    """The verdict in plain words; of which kind it is, the line below says."""
    if names_cause(shown):
        return say_headline(shown.causes[0].cause, shown.causes[0].kind)
    hidden = len(list_hidden(shown))
    if shown.report.verdict is Verdict.NONE and hidden:
        return f"No trouble was seen, but {hidden} of {len(Cause)} causes could not be"
    words = say_verdict(shown.report.verdict)
    return words[:1].upper() + words[1:]


def list_hidden(shown: Shown) -> list[str]:
    """The causes that could happen unseen."""
    return [cause.value for cause in Cause if not shown.report.observable.get(cause, False)]


def tone_of(shown: Shown) -> str:
    """The class that colours the box."""
    severity = severity_of(shown)
    if not shown.alive:
        return "critical"
    if severity is not None:
        return severity.value
    is_well = shown.report.verdict is Verdict.NONE and not list_hidden(shown)
    return "quiet" if is_well else "unknown"


def say_why(shown: Shown) -> str:
    """What the verdict rests on, in the words of the terminal."""
    last = shown.report.last_window
    if shown.report.urgent:
        return say_urgent(shown.report.urgent, shown.report.observable)
    return "the first window is not closed yet" if last is None else explain(last)


def say_when(unix: float, now: float) -> Markup:
    """A moment, and how long ago it was."""
    told = iso_time(unix)
    ago = f" ({say_duration(now - unix)} ago)" if now - unix >= 1 else ""
    return join((element("time", told, datetime=told), ago))


def on_our_clock(at: Instant, now: Instant) -> float:
    """A moment in unix seconds: by the clock as it is now, where the clock that told it was ahead."""
    return at.unix if at.unix <= now.unix else now.unix - (now.monotonic - at.monotonic)


def facts(shown: Shown) -> Iterator[tuple[str, Markup]]:
    """What belongs to the verdict, as names and values."""
    report = shown.report
    advice = report.advice
    if advice.lever is not Lever.NONE:
        yield (
            "To do",
            join((say_step(advice), " ", element("a", "why, and at what cost", href="#lever"))),
        )
    since = since_when(shown)
    if since is not None:
        yield "Since", say_when(since, shown.now)
    seen = say_when(on_our_clock(report.state_since, report.at), shown.now)
    state = join((STATES[report.state], ", seen so since ", seen))
    yield (
        "Server",
        join(
            (
                state,
                "" if is_restart_seen(shown) else "; whether it is started again is not watched",
            )
        ),
    )
    standing = [f"{cause.value} ({severity})" for cause, severity in standing_episodes(shown)]
    if standing:
        yield "Shortly before", join((say_list(standing),))
    hidden = list_hidden(shown)
    if hidden:
        said = f"{say_list(hidden)} could happen unseen: "
        yield "Blind for", join((said, element("a", "why, and the fix", href="#sight")))


def is_restart_seen(shown: Shown) -> bool:
    """Whether the server lives, or somebody is watched who would start it again."""
    if shown.report.state is not ServerState.DEAD:
        return True
    sources = shown.report.sources
    return any(sources[one].up for one in (Source.PROCESS, Source.KUBERNETES) if one in sources)


def say_step(advice: Advice) -> str:
    """What to do in a sentence: the step if there is one, else what the lever means."""
    words = advice.step_words or LEVERS[advice.lever]
    return f"{plain_words(words[:1].upper() + words[1:], MAX_LINE)}."


def show_head(shown: Shown) -> Markup:
    """The verdict."""
    severity = severity_of(shown)
    pill = (
        shown.report.verdict.value
        if severity is None
        else f"{severity.value}: {shown.report.verdict.value}"
    )
    at = element("time", iso_time(shown.report.at.unix))
    stale = (
        "The sidecar's own clock stands still. What follows was known at ",
        at,
        ", it is not now.",
    )
    told = join(join((element("dt", name), element("dd", value))) for name, value in facts(shown))
    return element(
        "section",
        Markup("") if shown.alive else element("p", *stale, class_="stale"),
        element("p", element("strong", pill, class_="pill"), class_="line"),
        element("h1", headline(shown)),
        element("p", plain_words(say_why(shown), MAX_LINE), class_="why"),
        element("dl", told),
        class_=f"head {tone_of(shown)}",
        aria_label="verdict",
    )


def show_lever(shown: Shown) -> Markup:
    """The one thing to do, why, and what it costs."""
    advice = shown.report.advice
    name = element("h2", "What to do", id="lever")
    if advice.lever is Lever.NONE:
        return element("section", name, *say_no_lever(shown), aria_labelledby="lever")
    return element(
        "section",
        name,
        element("p", element("strong", say_step(advice))),
        element("dl", join(lever_parts(shown, advice))),
        class_="lever",
        aria_labelledby="lever",
    )


def say_no_lever(shown: Shown) -> Iterator[Markup]:
    """Why there is no lever, and what to do instead."""
    if shown.report.advice.resting:
        yield element(
            "p",
            "A setting was changed a short while ago: both sides are measured before there is new advice.",
        )
    elif shown.report.verdict is Verdict.UNKNOWN:
        yield element("p", "Do not change vLLM's settings yet. First make visible what is hidden:")
        yield element("ul", *(element("li", f"{fix}.") for fix in list_fixes(shown)))
    elif names_cause(shown):
        yield element("p", "No setting is advised: what was seen calls for none.")
    else:
        yield element("p", "Nothing: no setting needs to change.")


RESTART = "vLLM takes it at its start: the restart drops what runs, and the model is loaded again"
NEW_NAMES = (
    "if this is a release of vLLM that renamed its metrics, take a newer sidecar: what was looked for, "
    "and what was found, stands below"
)


def list_fixes(shown: Shown) -> list[str]:
    """What would make the hidden causes visible: first what hides the common ones."""
    standpoint = shown.standpoint
    hidden = [one for one in reversed(Cause) if not shown.report.observable.get(one, False)]
    if Cause.PREEMPTION in hidden and Cause.STALLED in hidden:
        hidden.remove(Cause.STALLED)  # the same metrics show it
    fixes = [remedy(standpoint, one) for one in hidden]
    if shown.is_blind:
        fixes.insert(1, NEW_NAMES)
    return list(dict.fromkeys(fixes))


def lever_parts(shown: Shown, advice: Advice) -> Iterator[Markup]:
    """The parts of an advice that are there."""
    parts = {
        "Because": advice.because,
        "Cost": (advice.cost, RESTART if advice.step and advice.step.setting else ""),
        "Check afterwards": (advice.verify,),
        "Way back": () if advice.lever is Lever.INSPECT_ENGINE_FAILURE else (advice.rollback,),
    }
    action = action_for(shown.causes[0].cause, shown.causes[0].kind) if names_cause(shown) else None
    if action is not None:
        yield element("dt", "Do not")
        yield element("dd", f"{action.never}.")
    yield element("dt", "Lever")
    yield element("dd", f"{LEVERS[advice.lever]} (", element("code", advice.lever.value), ")")
    for name, sentences in parts.items():
        told = [plain_words(one, MAX_LINE) for one in sentences if one]
        if told:
            yield element("dt", name)
            yield element("dd", join(element("p", one) for one in told))
    if advice.rejected:
        rows = [
            element("li", element("code", lever.value), f": {plain_words(why, MAX_LINE)}")
            for lever, why in sorted(advice.rejected.items())
        ]
        yield element("dt", "Rejected")
        yield element(
            "dd",
            element(
                "details",
                element("summary", count_of(len(rows), "other lever")),
                element("ul", *rows),
                id="rejected",
            ),
        )
