"""A step in the server's life is believed only as the whole message of its own logger."""

import pytest

from sidecar.catalog.signatures import ROWS, Mark, Scope
from sidecar.parse.log_match import read_line
from tests.catalog.test_log_signatures import EXAMPLES

MARKS = [row.id for row in ROWS if row.mark is not None and row.scope is Scope.SERVER]
STOP = "Shutting down FastAPI HTTP server."


def marks(line: str) -> list[Mark | None]:
    return [said.signature.mark for said in read_line(line)]


def test_a_wanted_stop_of_the_launcher_is_believed() -> None:
    assert marks(f"INFO 11-30 06:00:00 [launcher.py:70] {STOP}") == [Mark.STOP_WANTED]


@pytest.mark.parametrize(
    "line",
    [
        f"INFO 11-30 06:00:00 [serving_chat.py:70] {STOP}",
        f"INFO 11-30 06:00:00 [async_llm.py:70] {STOP}",
        f"ERROR 11-30 06:00:00 [launcher.py:70] {STOP}",
        f"INFO 11-30 06:00:00 [launcher.py:70] {STOP} says a client",
        f"INFO 11-30 06:00:00 [launcher.py:70] Route: {STOP}",
        f'INFO:     {STOP[:-1]}:0 - "GET /health HTTP/1.1" 200 OK',
        f"INFO:     {STOP[:-1]}:0 says a client",
        f"INFO 11-30 06:00:01 [async_llm.py:4] Request chatcmpl-INFO 11-30 06:00:00 [launcher.py:7] {STOP[:-1]} aborted.",
    ],
)
def test_a_wanted_stop_of_anybody_else_is_not(line: str) -> None:
    assert marks(line) == []


@pytest.mark.parametrize("identity", MARKS)
def test_no_mark_is_believed_of_a_client(identity: str) -> None:
    line = EXAMPLES[identity][0]
    message = line.split("] ", 1)[-1].split("INFO:     ", 1)[-1]
    assert marks(f'INFO:     {message}:0 - "GET /health HTTP/1.1" 200 OK') == []
    assert marks(f"INFO 11-30 06:00:01 [serving_chat.py:4] {message}") == []
    assert marks(f"INFO 11-30 06:00:01 [async_llm.py:4] Request {line} aborted.") == []
