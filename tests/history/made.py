"""Results of windows as they are kept."""

import functools
import json

from sidecar.export.results import encode, window_result
from sidecar.history.row import Row, read_row
from sidecar.model.vocabulary import Severity, Verdict
from tests.export.reports import make_judgement

START = 1_764_480_000.0
WINDOW_S = 15.0


def make_result(
    number: int, verdict: Verdict = Verdict.NONE, *, engines: int = 1, window_s: float = WINDOW_S
) -> dict[str, object]:
    """The result of the ``number``-th window since ``START``."""
    result: dict[str, object] = json.loads(make_text(verdict, engines))
    start = START + number * window_s
    return {**result, "window": {"start": start, "end": start + window_s}}


@functools.cache
def make_text(verdict: Verdict, engines: int) -> str:
    """A result with as many GPUs and as many words as a real one has."""
    result = window_result(make_judgement(verdict, engines))
    gpus = result["gpus"]
    assert isinstance(gpus, list)
    return encode({**result, "gpus": gpus[:1], "lever": {"name": "none"}})


def make_line(
    number: int, verdict: Verdict = Verdict.NONE, *, engines: int = 1, window_s: float = WINDOW_S
) -> str:
    """The same as a line."""
    return json.dumps(make_result(number, verdict, engines=engines, window_s=window_s))


def make_row(number: int, verdict: Verdict = Verdict.NONE, *, window_s: float = WINDOW_S) -> Row:
    """Its row without figures."""
    loud = None if verdict in {Verdict.NONE, Verdict.UNKNOWN} else Severity.WARNING
    start = START + number * window_s
    return Row(start, start + window_s, verdict, loud)


def ends_of(lines: "list[str] | tuple[str, ...]") -> list[float]:
    """When each window ended."""
    return [read_row(json.loads(line)).end for line in lines]
