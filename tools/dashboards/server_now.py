"""One server's first screen: what it suffers from, since when, what to turn, what cannot be seen."""

from sidecar.catalog import exported
from sidecar.model.advice import Lever
from sidecar.model.vocabulary import ServerState, Severity, Verdict
from tools.dashboards.shape import (
    Chosen,
    Column,
    Query,
    Section,
    State,
    Unit,
    Words,
    lasting,
    stat,
    table,
    timeline,
)
from tools.dashboards.states import (
    GREEN,
    GREY,
    LEVER_NUMBERS,
    ORANGE,
    RED,
    SEEN,
    SEVERITY_NUMBERS,
    STATE_NUMBERS,
    VERDICT_NUMBERS,
)

ONE = Chosen(
    ('cluster=~"$cluster"', 'namespace=~"$namespace"', 'job=~"$job"', 'instance="$instance"')
)
of = ONE.of

LATE_S, VERY_LATE_S = 60, 300
"""Age of the last closed window at which it is late: 4 and 20 windows of the default length."""
VERDICT = ONE.numbered(exported.VERDICT, "verdict", Verdict)
STATE = ONE.numbered(exported.TARGET_STATE, "state", ServerState)
LEVER = ONE.numbered(exported.LEVER, "lever", Lever)
SEVERITY = ONE.numbered(exported.ALERT, "severity", Severity)
SEVERITY_BY_CAUSE = ONE.numbered(exported.ALERT, "severity", Severity, by="cause")
SEEN_BY_CAUSE = f"max by (cause) ({of(exported.OBSERVABLE)})"
BLIND = (State("0", "cannot be seen", ORANGE), State("1", "none", GREEN))

TOP = (
    stat(
        "Verdict",
        5,
        "What the last closed window suffered from; an out-of-memory or a failure shows at once. "
        "Unknown also where no sidecar answers.",
        Query(VERDICT, "verdict"),
        states=VERDICT_NUMBERS,
    ),
    stat(
        "For",
        2,
        "How long the verdict has been the same, looking back over six hours at most.",
        Query(f"max({lasting(of(exported.VERDICT))})", "for"),
        unit=Unit.SECONDS,
        steps=((None, GREY),),
    ),
    stat(
        "Severity",
        3,
        "The greatest severity of the episodes that run; an episode outlasts its last sign by a "
        "quiet time.",
        Query(SEVERITY, "severity"),
        states=SEVERITY_NUMBERS,
    ),
    stat(
        "Lever now",
        5,
        "The one thing to change; why, by how much and how to go back says the sidecar's /api/report.",
        Query(LEVER, "lever"),
        states=LEVER_NUMBERS,
    ),
    stat(
        "Server state",
        3,
        "What the vLLM server is doing, judged from its endpoints, log and processes.",
        Query(STATE, "state"),
        states=STATE_NUMBERS,
    ),
    stat(
        "Blind spots",
        4,
        "Causes whose absence proves nothing now, because no source that works could show them.",
        Query(f"{SEEN_BY_CAUSE} == 0", "{{cause}}"),
        Query(f"min({of(exported.OBSERVABLE)}) == 1", "none"),
        states=BLIND,
        words=Words.NAME,
    ),
    stat(
        "Judged",
        2,
        "Seconds since the last window closed: beyond a minute or so nothing here is of now.",
        Query(f"time() - max({of(exported.WINDOW_END)})", "ago"),
        unit=Unit.SECONDS,
        steps=((None, GREEN), (LATE_S, ORANGE), (VERY_LATE_S, RED)),
    ),
)

STORY = (
    timeline(
        "Verdict, server and lever",
        24,
        6,
        "How verdict, state of the server and lever followed each other; a gap is a time in which "
        "no sidecar answered.",
        Query(VERDICT, "verdict", states=VERDICT_NUMBERS),
        Query(STATE, "server", states=STATE_NUMBERS),
        Query(LEVER, "lever", states=LEVER_NUMBERS),
    ),
    table(
        "Causes",
        12,
        7,
        "Of each cause: the severity of the episode that runs and for how long, its last sign, its "
        "signs in the shown range, and whether it could be seen now.",
        (Column("cause"),),
        Query(SEVERITY_BY_CAUSE, "severity", states=SEVERITY_NUMBERS),
        Query(lasting(of(exported.ALERT), "cause"), "for", unit=Unit.SECONDS, empty="-"),
        Query(
            f"max by (cause) ({of(exported.LAST_EVIDENCE)}) * 1000",
            "last sign",
            unit=Unit.AGO,
            empty="none yet",
        ),
        Query(
            f"round(sum by (cause) (increase({of(exported.EVIDENCE)}[$__range])))", "signs in range"
        ),
        Query(SEEN_BY_CAUSE, "now", states=SEEN),
        sort_by="severity",
    ),
    timeline(
        "Alert episodes",
        12,
        7,
        "The severity of each cause's episode over time, which is what alert rules fire on.",
        Query(SEVERITY_BY_CAUSE, "{{cause}}"),
        states=SEVERITY_NUMBERS,
    ),
    timeline(
        "What could be seen",
        12,
        6,
        "Which causes a working source could have shown; where it could not, none means nothing.",
        Query(SEEN_BY_CAUSE, "{{cause}}"),
        states=SEEN,
    ),
    table(
        "Server",
        12,
        6,
        "What runs here: the model, vLLM's release and settings, and the sidecar's own release.",
        (
            *(Column(label) for label in ("instance", *exported.INFO_LABELS)),
            Column("version", "sidecar's version"),
            Column("python_version", "sidecar's Python"),
        ),
        Query(f"max by (instance, {', '.join(exported.INFO_LABELS)}) ({of(exported.TARGET_INFO)})"),
        Query(f"max by (instance, version, python_version) ({of(exported.BUILD_INFO)})"),
    ),
)

SECTIONS = (Section("", TOP + STORY),)
LOUD = (Severity.WARNING.value, Severity.CRITICAL.value)
EPISODES = f"max by (cause) ({of(exported.ALERT, severity=LOUD)}) == 1"
"""Episodes that are more than information."""
