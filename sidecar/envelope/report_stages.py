"""The part of a report that tells of each stage, and of what its clients told."""

from collections.abc import Iterator

from sidecar.envelope.document import (
    MOST_NOTES,
    MOST_STAGE_NAME,
    MOST_STAGES,
    Block,
    Paragraph,
    Table,
)
from sidecar.envelope.figures import BY_NAME, Unit, repeats_of, whole_runs
from sidecar.envelope.wording import say, say_repeats, say_unit
from sidecar.model.envelope import Envelope, Stage, StageRun
from sidecar.telling.figures import UNKNOWN, plain, say_list, say_number

STAGE_COLUMNS = (
    ("preempt. per request", "preemptions_per_request"),
    ("KV cache peak", "cache_peak"),
    ("KV cache mean", "cache_mean"),
    ("running, peak", "running_peak"),
    ("waiting, peak", "waiting_peak"),
    ("output tok/s", "output_tokens_per_second"),
)
LATENCY_COLUMNS = (
    ("TTFT mean", "ttft_mean"),
    ("TTFT p50", "ttft_p50"),
    ("TTFT p95", "ttft_p95"),
    ("TTFT p99", "ttft_p99"),
    ("inter-token mean", "inter_token_mean"),
    ("inter-token p95", "inter_token_p95"),
    ("E2E mean", "e2e_mean"),
    ("E2E p95", "e2e_p95"),
    ("queue p95", "queue_p95"),
)


def say_place(envelope: Envelope, stage: Stage) -> str:
    """What the stage is among the others."""
    bounds = envelope.bounds
    places = {
        "last good": bounds.last_good,
        "first preempting": bounds.first_preempting,
        "intended": envelope.acceptance.stage,
    }
    return ", ".join(word for word, name in places.items() if name == stage.name)


def say_ended(stage: Stage) -> str:
    """Requests that completed, through the repeats, and how many did not."""
    views = [run.server for run in whole_runs(stage)]
    counts = [view.completed for view in views if view.completed is not None]
    if not counts:
        return UNKNOWN
    lost = sum(
        count
        for view in views
        for count in (view.aborted, view.errors, view.rejected)
        if count is not None
    )
    failed = f", {say_number(lost)} failed" if lost else ""
    return f"{say_number(sum(counts))}{failed}"


def figure_cells(stage: Stage, columns: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """The stage's figure for each column."""
    for _, name in columns:
        figure = BY_NAME[name]
        yield say_repeats(repeats_of(stage, figure), figure.unit)


def stage_marks(envelope: Envelope) -> tuple[bool | None, ...]:
    """The last good stage, and the first that preempts."""
    good, bad = envelope.bounds.last_good, envelope.bounds.first_preempting
    return tuple(
        True if stage.name == good else False if stage.name == bad else None
        for stage in envelope.stages[:MOST_STAGES]
    )


def stage_table(envelope: Envelope) -> Table:
    """The stages: requests, preemption, cache and throughput."""
    rows = []
    for stage in envelope.stages[:MOST_STAGES]:
        whole = len(whole_runs(stage))
        repeats = str(whole) if whole == len(stage.runs) else f"{whole} of {len(stage.runs)}"
        rows.append(
            (
                plain(stage.name, MOST_STAGE_NAME),
                say_number(stage.load),
                say_place(envelope, stage),
                repeats,
                say_ended(stage),
                *figure_cells(stage, STAGE_COLUMNS),
            )
        )
    headings = ("stage", "load", "place", "repeats", "completed")
    columns = (*headings, *(label for label, _ in STAGE_COLUMNS))
    return Table(columns, tuple(rows), stage_marks(envelope))


def latency_table(envelope: Envelope) -> Table:
    """The stages: what their clients waited for."""
    rows = tuple(
        (
            plain(stage.name, MOST_STAGE_NAME),
            say_number(stage.load),
            *figure_cells(stage, LATENCY_COLUMNS),
        )
        for stage in envelope.stages[:MOST_STAGES]
    )
    columns = ("stage", "load", *(label for label, _ in LATENCY_COLUMNS))
    return Table(columns, rows, stage_marks(envelope))


def say_run(stage: Stage, run: StageRun) -> Iterator[str]:
    """What was wrong with one repeat."""
    where = f"{plain(stage.name, MOST_STAGE_NAME)}, repeat {run.repeat}"
    if run.killed is not None:
        yield f"{where}: the server died ({run.killed.value})"
    elif not run.whole:
        yield f"{where}: it did not go to its end"
    if run.exit_code is None and run.whole:
        yield f"{where}: the load's command was stopped"
    elif run.exit_code:
        yield f"{where}: the load's command ended with exit code {run.exit_code}"
    if run.client_fault is not None:
        yield f"{where}: the client's result could not be read: {plain(run.client_fault)}"


def stage_blocks(envelope: Envelope) -> Iterator[Block]:
    """The table, and what must be known to read it."""
    yield Paragraph(
        f"Load is counted in {say_unit(envelope)}. Figures are the server's own, the median of the "
        "repeats that went to their end; ± is how far the farthest of them lies from it. Quantiles are as "
        "coarse as vLLM's buckets, means are exact. The KV cache is seen once per sample: its true peak "
        "may lie above."
    )
    yield stage_table(envelope)
    yield latency_table(envelope)
    if len(envelope.stages) > MOST_STAGES:
        yield Paragraph(f"{len(envelope.stages) - MOST_STAGES} further stages are not shown.")
    notes = [
        note for stage in envelope.stages for run in stage.runs for note in say_run(stage, run)
    ]
    for note in notes[:MOST_NOTES]:
        yield Paragraph(f"{note}.", strong=True)
    if len(notes) > MOST_NOTES:
        yield Paragraph(f"{len(notes) - MOST_NOTES} more such repeats.", strong=True)


# --- The client ---------------------------------------------------------------------------------


def client_blocks(envelope: Envelope) -> Iterator[Block]:
    """Where server and client say different things."""
    runs = [(stage, run) for stage in envelope.stages for run in stage.runs]
    read = [run.client.client.value for _, run in runs if run.client is not None]
    if not read:
        yield Paragraph(
            "No result of a load generator was read: the figures are the server's alone."
        )
        return
    rows = []
    for stage, run in runs:
        for one in run.disagreements:
            figure = BY_NAME.get(one.figure)
            unit = Unit.COUNT if figure is None else figure.unit
            label = plain(one.figure) if figure is None else figure.label
            factor = f"{say_number(one.client / one.server)}" if one.server else UNKNOWN
            told = (say(one.server, unit), say(one.client, unit), factor)
            rows.append((plain(stage.name, MOST_STAGE_NAME), str(run.repeat), label, *told))
    tools = say_list(sorted(set(read)))
    if not rows:
        yield Paragraph(f"Server and client ({tools}) agree in their counts, rates and means.")
        return
    yield Paragraph(
        f"The client ({tools}) measures with the network and its own work on the text; where it says "
        "something else by more than that explains, one of the two did not see the whole."
    )
    columns = ("stage", "repeat", "figure", "server", "client", "client / server")
    yield Table(columns, tuple(rows[:MOST_NOTES]))
    if len(rows) > MOST_NOTES:
        yield Paragraph(f"{len(rows) - MOST_NOTES} further differences are not shown.")
