"""Many servers: how many suffer from what, and which. Asked of every series, by all choices."""

from sidecar.catalog import exported
from sidecar.catalog import vllm_metrics as roles
from sidecar.catalog.family import Family
from sidecar.model.vocabulary import ServerState, Severity, Verdict
from tools.dashboards.server_now import LATE_S, VERY_LATE_S
from tools.dashboards.shape import (
    Chosen,
    Column,
    Query,
    Section,
    State,
    Steps,
    Unit,
    bars,
    stat,
    table,
)
from tools.dashboards.states import (
    GREEN,
    GREY,
    LEVERS,
    ORANGE,
    RED,
    SEVERITY_NUMBERS,
    STATES,
    VERDICTS,
)

MANY = Chosen(('cluster=~"$cluster"', 'namespace=~"$namespace"', 'job=~"$job"'))
of = MANY.of
SERVER_LABELS = ("cluster", "namespace", "job", "instance")
SERVER = ", ".join(SERVER_LABELS)
UP = "up"
"""Prometheus' own: 0 where a sidecar cannot be scraped, of which nothing of ours can tell."""

ANY: Steps = ((None, GREEN), (1, ORANGE))
ANY_BAD: Steps = ((None, GREEN), (1, RED))
SCRAPED = (State("0", "down", RED), State("1", "up", GREEN))

OUR_JOBS = f"group by (job) (last_over_time({of(exported.BUILD_INFO)}[1d]))"
SIDECARS = f"{MANY.named(UP)} and on (job) {OUR_JOBS}"
"""Our targets and whether they answer: of every job in which a sidecar answered within a day."""
LINK = (
    "/d/vllm-sidecar-server?${datasource:queryparam}&"
    + "&".join(f"var-{label}=${{__data.fields.{label}:percentencode}}" for label in SERVER_LABELS)
    + "&${__url_time_range}"
)


def servers_with(severity: Severity) -> str:
    """How many servers have an episode of this severity."""
    return f"sum(max by ({SERVER}) ({of(exported.ALERT, severity=severity)}))"


def state_of(family: Family, label: str) -> Query:
    """The member of a state set that holds for each server, as a label."""
    return Query(f"max by ({SERVER}, {label}) ({of(family)} == 1)")


COUNTS = (
    stat(
        "Sidecars up",
        3,
        "Sidecars that answer, each beside one server.",
        Query(f"count({of(exported.BUILD_INFO)})", "servers"),
        unit=Unit.SERVERS,
        steps=((None, GREY),),
    ),
    stat(
        "Sidecars down",
        3,
        "Targets that cannot be scraped, in jobs in which a sidecar answered within a day: of their "
        "servers nothing is known.",
        Query(f"sum(1 - ({SIDECARS}))", "down"),
        unit=Unit.SERVERS,
        steps=ANY_BAD,
    ),
    stat(
        "Critical",
        3,
        "Servers with a critical episode: a failure, or preemption that does not end.",
        Query(servers_with(Severity.CRITICAL), "critical"),
        unit=Unit.SERVERS,
        steps=ANY_BAD,
    ),
    stat(
        "Warning",
        3,
        "Servers with an episode that is a warning.",
        Query(servers_with(Severity.WARNING), "warning"),
        unit=Unit.SERVERS,
        steps=ANY,
    ),
    stat(
        "Dead",
        3,
        "Servers that do not run and were not stopped on purpose.",
        Query(f"sum({of(exported.TARGET_STATE, state=ServerState.DEAD)})", "dead"),
        unit=Unit.SERVERS,
        steps=ANY_BAD,
    ),
    stat(
        "Verdict unknown",
        3,
        "Servers of which nothing was decided, and something that could have shown a cause could not "
        "be read.",
        Query(f"sum({of(exported.VERDICT, verdict=Verdict.UNKNOWN)})", "unknown"),
        unit=Unit.SERVERS,
        steps=ANY,
    ),
    stat(
        "Blind to a cause",
        3,
        "Servers on which at least one cause could not be seen if it happened now.",
        Query(f"sum(1 - min by ({SERVER}) ({of(exported.OBSERVABLE)}))", "blind"),
        unit=Unit.SERVERS,
        steps=ANY,
    ),
    stat(
        "Not judged",
        3,
        f"Servers whose last window closed more than {VERY_LATE_S} seconds ago: what they show is old.",
        Query(f"sum(time() - {of(exported.WINDOW_END)} > bool {VERY_LATE_S})", "old"),
        unit=Unit.SERVERS,
        steps=ANY_BAD,
    ),
)

SPREAD = (
    bars(
        "Servers by verdict",
        Unit.SERVERS,
        6,
        "What the last closed window of each server suffered from.",
        Query(f"sum by (verdict) ({of(exported.VERDICT)})", "{{verdict}}"),
        painted=VERDICTS,
        height=8,
    ),
    table(
        "Servers by cause",
        7,
        8,
        "Servers with an open episode of each cause, by severity, and those that are blind to it.",
        (Column("cause"),),
        *(
            Query(
                f"sum by (cause) ({of(exported.ALERT, severity=severity)})",
                severity.value,
                unit=Unit.NUMBER,
                steps=((None, "transparent"), (1, SEVERITY_NUMBERS[number].colour)),
            )
            for number, severity in enumerate(Severity, 1)
        ),
        Query(f"sum by (cause) (1 - {of(exported.OBSERVABLE)})", "blind"),
        unit=Unit.NUMBER,
        sort_by=Severity.CRITICAL.value,
    ),
    bars(
        "Servers by state",
        Unit.SERVERS,
        4,
        "What the servers are doing.",
        Query(f"sum by (state) ({of(exported.TARGET_STATE)})", "{{state}}"),
        painted=STATES,
        height=8,
    ),
    bars(
        "Servers by lever",
        Unit.SERVERS,
        7,
        "The one thing to change that each server's last window calls for.",
        Query(f"sum by (lever) ({of(exported.LEVER)})", "{{lever}}"),
        painted=LEVERS,
        height=8,
    ),
)

TTFT = of(exported.LATENCY, metric=roles.TTFT, quantile="0.95")
EACH = table(
    "Servers",
    24,
    14,
    "Every server, the worst first; a click on its address opens its own dashboard. A sidecar that is "
    "down tells nothing of its server.",
    (
        *(Column(label, empty="-") for label in SERVER_LABELS[:-1]),
        Column("instance", link=LINK),
        Column("model_name"),
        Column("verdict", states=VERDICTS),
        Column("state", states=STATES),
        Column("lever", states=LEVERS),
    ),
    Query(f"max by ({SERVER}) ({SIDECARS})", "sidecar", states=SCRAPED),
    Query(f"max by ({SERVER}, model_name) ({of(exported.TARGET_INFO)})"),
    state_of(exported.VERDICT, "verdict"),
    state_of(exported.TARGET_STATE, "state"),
    state_of(exported.LEVER, "lever"),
    Query(
        MANY.numbered(exported.ALERT, "severity", Severity, by=SERVER),
        "severity",
        states=SEVERITY_NUMBERS,
    ),
    Query(f"sum by ({SERVER}) (1 - {of(exported.OBSERVABLE)})", "blind to", unit=Unit.NUMBER,
          steps=ANY),
    Query(f"time() - max by ({SERVER}) ({of(exported.WINDOW_END)})", "judged", unit=Unit.SECONDS,
          steps=((None, GREEN), (LATE_S, ORANGE), (VERY_LATE_S, RED))),
    Query(f"min by ({SERVER}) ({of(exported.KV_HEADROOM)})", "cache left", unit=Unit.TOKENS),
    Query(f"min by ({SERVER}) ({of(exported.HOST_HEADROOM)})", "host memory left", unit=Unit.BYTES),
    Query(f"min by ({SERVER}) ({of(exported.GPU_FREE_DURABLE)})", "GPU left", unit=Unit.BYTES),
    Query(f"sum by ({SERVER}) ({of(exported.REQUESTS, state='waiting')})", "waiting",
          unit=Unit.REQUESTS),
    Query(f"max by ({SERVER}) ({TTFT})", "TTFT p95", unit=Unit.SECONDS),
    sort_by="severity",
)  # fmt: skip

SECTIONS = (Section("", (*COUNTS, *SPREAD, EACH)),)
