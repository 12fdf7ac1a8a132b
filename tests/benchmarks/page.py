"""CPU of the status page with a full history, beside writing that history as JSON.

``python -m tests.benchmarks page``
"""

import json
import random
import time
from collections.abc import Callable

from sidecar.history.row import Figure
from sidecar.history.row import Row as Window
from sidecar.history.timeline import Timeline
from sidecar.model.vocabulary import Severity, Verdict
from sidecar.page.document import write_page
from sidecar.page.shown import SPANS, Place, Shown
from tests.benchmarks.row import Row
from tests.export.reports import START, make_report

DAY_S, WINDOW_S = 86_400.0, 15.0
TIMES = 15
MOST_S, MOST_BYTES = 0.030, 150_000


def cpu_of(work: Callable[[], object]) -> float:
    """Seconds of CPU that it takes, the median of several times."""
    taken = []
    for _ in range(TIMES):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return sorted(taken)[TIMES // 2]


def fill(timeline: Timeline) -> list[Window]:
    """A day in which every window differs from the one before."""
    draw = random.Random(1)
    rows = [
        Window(
            START - DAY_S + WINDOW_S * number,
            START - DAY_S + WINDOW_S * (number + 1),
            draw.choice(list(Verdict)),
            draw.choice(list(Severity)),
            1,
            {figure: draw.random() * 1000 for figure in Figure},
        )
        for number in range(int(DAY_S / WINDOW_S))
    ]
    for row in rows:
        timeline.add(row)
    return rows


def measure() -> list[Row]:
    """The page of each span."""
    timeline = Timeline(DAY_S)
    rows = fill(timeline)
    report = make_report(Verdict.PREEMPTION, engines=8, gpus=8)
    shown = Shown(report, timeline, Place(interval_s=5.0, window_s=WINDOW_S), START)
    values = [(row.start, row.end, row.verdict, *row.figures.values()) for row in rows]
    theirs = cpu_of(lambda: json.dumps(values))
    told = []
    for span in SPANS:
        ours = cpu_of(lambda span=span: write_page(shown, span))  # type: ignore[misc]
        size = len(write_page(shown, span).encode())
        told.append(
            Row(
                what=f"page of {span.word}, CPU, {size / 1000:.0f} kB",
                ours=ours * 1000,
                unit="ms",
                reference="json.dumps of a day of rows",
                theirs=theirs * 1000,
                ratio=theirs / ours,
                target=f"<= {MOST_S * 1000:.0f} ms, <= {MOST_BYTES // 1000} kB",
                met=ours <= MOST_S and size <= MOST_BYTES,
            )
        )
    return told
