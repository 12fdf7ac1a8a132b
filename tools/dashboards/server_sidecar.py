"""What was seen, by which source, and how well the sidecar itself goes."""

from sidecar.catalog import exported
from sidecar.catalog.family import Family
from tools.dashboards.server_now import LATE_S, ONE, of
from tools.dashboards.shape import (
    Column,
    Query,
    Section,
    State,
    Unit,
    Words,
    chart,
    stat,
    table,
    timeline,
)
from tools.dashboards.states import FOUND, GREEN, GREY, ORANGE, READ, RED, VERDICTS

ASKED = f"max by (source) ({of(exported.SOURCE_CONFIGURED)})"
WORKS = f"max by (source) ({of(exported.SOURCE_UP)})"
_, PROCESSOR, RESIDENT = exported.PROCESS_FAMILIES
RANGE = "$__range"
SIGNS = "sum by (cause, source, signal)"
FAILED = f"rate({of(exported.SOURCE_ERRORS)}[$__rate_interval])"
TAKEN = (State("0", "refused: those before hold", RED), State("1", "in effect", GREEN))


def increase(family: Family, over: str = "$__rate_interval") -> str:
    """By how much counters rose."""
    return f"increase({of(family)}[{over}])"


EVIDENCE = Section(
    "Evidence and sources",
    (
        chart(
            "Evidence by source and signal",
            Unit.NUMBER,
            14,
            "What was seen of each cause, by whom, and as which sign; several sources for one failure "
            "agree with each other.",
            Query(
                f"round({SIGNS} ({increase(exported.EVIDENCE)})) > 0",
                "{{cause}}: {{source}} {{signal}}",
            ),
            # Nothing seen is something else than nothing known.
            Query(f"sum({increase(exported.EVIDENCE)}) == 0", "nothing seen"),
            height=8,
            bars=True,
            stacked=True,
        ),
        table(
            "Evidence in the shown range",
            10,
            8,
            "How often each sign was seen in the shown range.",
            (Column("cause"), Column("source"), Column("signal")),
            Query(
                f"round({SIGNS} ({increase(exported.EVIDENCE, RANGE)})) > 0 or "
                f"label_replace(sum({increase(exported.EVIDENCE, RANGE)}) == 0, "
                '"cause", "nothing seen", "", "")',
                "times",
            ),
            sort_by="times",
        ),
        timeline(
            "Health of the sources",
            10,
            8,
            "Whether each source was asked for and could be read; while it fails, what only it can "
            "show stays unseen.",
            Query(f"{ASKED} + {WORKS}", "{{source}}"),
            states=READ,
        ),
        chart(
            "Failed readings",
            Unit.PER_SECOND,
            7,
            "Readings of the sources that failed, by reason.",
            Query(f"sum by (source, reason) ({FAILED}) > 0", "{{source}} {{reason}}"),
            Query(f"sum({FAILED}) == 0", "none failed"),
            height=8,
            bars=True,
            stacked=True,
        ),
        chart(
            "Time that a reading takes",
            Unit.SECONDS,
            7,
            "How long the last reading of each source took; a slow one cannot delay the others.",
            Query(f"max by (source) ({of(exported.SOURCE_DURATION)})", "{{source}}"),
            height=8,
        ),
        table(
            "Metrics of vLLM by role",
            8,
            8,
            "Which metrics this release of vLLM offers under any name; a role that is not found is "
            "never taken for 0.",
            (Column("role"),),
            Query(f"max by (role) ({of(exported.METRIC_FOUND)})", "now", states=FOUND),
            sort_by="now",
            least_first=True,
        ),
        chart(
            "Log of the server",
            Unit.PER_SECOND,
            8,
            "Lines that were read, and lines that were not looked at, by reason; users' text is passed "
            "over on purpose.",
            Query(f"sum(rate({of(exported.LOG_LINES)}[$__rate_interval]))", "read"),
            Query(
                f"sum by (reason) (rate({of(exported.LOG_DROPPED)}[$__rate_interval]))",
                "passed over: {{reason}}",
            ),
            height=8,
        ),
        chart(
            "Log not yet read",
            Unit.BYTES,
            8,
            "Bytes of the server's log that are written but not read: while they grow, a failure is "
            "told late.",
            Query(f"max({of(exported.LOG_LAG)})", "behind"),
            height=8,
        ),
    ),
)

CLOCK = Section(
    "The sidecar itself",
    (
        chart(
            "Clock: ticks that were missed",
            Unit.NUMBER,
            6,
            "Points of the sample clock's grid that were skipped because the one before took too long.",
            Query(f"round(sum({increase(exported.TICKS_MISSED)}))", "missed"),
            bars=True,
        ),
        chart(
            "Clock: lateness and skew",
            Unit.SECONDS,
            6,
            "How late a tick began, and how far apart its samples lie.",
            Query(f"max({of(exported.TICK_LATENESS)})", "lateness"),
            Query(f"max({of(exported.SAMPLE_SKEW)})", "skew"),
        ),
        chart(
            "Age of the last window",
            Unit.SECONDS,
            6,
            "Seconds since the last window closed; it rises without end where nothing is judged.",
            Query(f"time() - max({of(exported.WINDOW_END)})", "age"),
            steps=((None, GREEN), (LATE_S, ORANGE)),
        ),
        chart(
            "Windows by verdict",
            Unit.NUMBER,
            6,
            "Windows that closed, by what they suffered from.",
            Query(f"round(sum by (verdict) ({increase(exported.WINDOWS)}))", "{{verdict}}"),
            painted=VERDICTS,
            bars=True,
            stacked=True,
        ),
        chart(
            "Memory of the sidecar",
            Unit.BYTES,
            12,
            "What the sidecar itself holds of the host's memory.",
            Query(f"max({ONE.named(RESIDENT)})", "resident"),
        ),
        chart(
            "Processor time of the sidecar",
            Unit.SHARE,
            12,
            "What the sidecar itself takes of one core.",
            Query(f"max(rate({ONE.named(PROCESSOR)}[$__rate_interval]))", "of one core"),
        ),
        stat(
            "Kernel records lost",
            5,
            "Records of the kernel log that were gone before they were read; kills among them were not "
            "seen there.",
            Query(f"max({of(exported.KERNEL_LOST)})", "lost"),
            unit=Unit.NUMBER,
            steps=((None, GREEN), (1, ORANGE)),
        ),
        stat(
            "Settings read last",
            7,
            "Whether the settings that were read last, at the start or on a reload, were taken.",
            Query(f"min({of(exported.RELOAD_SUCCESSFUL)})", "settings"),
            states=TAKEN,
        ),
        stat(
            "Settings taken",
            5,
            "When the settings that are in effect were taken.",
            Query(f"max({of(exported.RELOAD_TIME)}) * 1000", "taken"),
            unit=Unit.AGO,
            steps=((None, GREY),),
        ),
        stat(
            "Engines and GPUs not shown apart",
            7,
            "Engines folded into one and GPUs left out, to keep the number of series within bounds.",
            Query(f"max({of(exported.ENGINES_FOLDED)})", "engines"),
            Query(f"max({of(exported.GPUS_HIDDEN)})", "GPUs"),
            words=Words.BOTH,
            unit=Unit.NUMBER,
            steps=((None, GREEN), (1, ORANGE)),
        ),
    ),
)

SECTIONS = (EVIDENCE, CLOCK)
