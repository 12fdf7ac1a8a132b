"""Parts of a run: when a load may begin, and what is kept of what it writes."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog import vllm_metrics as roles
from sidecar.config import load as load_settings
from sidecar.envelope import masked_plan
from sidecar.envelope_drive import MOST_OUTPUT, Output
from sidecar.model.readings import EngineReading, MetricsReading
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.parse.secrets import Secrets
from sidecar.recorded_run import NOT_QUIET, UNSEEN, Load, RecordedRun
from tests.fakes.clock import FakeClock


class Looks:
    """A tape on which a test writes what is seen."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.latest: dict[Source, Sample] = {}
        self.recorder = SimpleNamespace(ended=None)

    def reading(self, _kind: type) -> object:
        return self.latest[Source.VLLM_METRICS].reading

    def see(self, *, running: float = 0.0, tokens: float = 0.0) -> None:
        values = {roles.RUNNING: running, roles.WAITING: 0.0, roles.GENERATION_TOKENS: tokens}
        reading = MetricsReading("vllm:", frozenset(values), {"0": EngineReading(values)})
        self.latest[Source.VLLM_METRICS] = Sample(
            Source.VLLM_METRICS, self.clock.now(), reading=reading
        )

    def miss(self) -> None:
        self.latest[Source.VLLM_METRICS] = Sample(
            Source.VLLM_METRICS, self.clock.now(), fault=Fault.REFUSED
        )


async def wait(looks: Sequence[dict[str, float] | None], **load: Any) -> tuple[str | None, int]:
    """How the wait for a quiet server ended, and after how many looks, a second apart."""
    clock = FakeClock()
    tape: Any = Looks(clock)
    run = RecordedRun(
        load_settings({"interval": "1s"}), Path(), clock, Load(command=("x",), **load)
    )
    task = asyncio.create_task(run.wait_for_quiet(tape))
    for number, look in enumerate(looks):
        if look is None:
            tape.miss()
        else:
            tape.see(**look)
        await clock.advance(1.0)
        if task.done():
            return task.result(), number
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    raise AssertionError("it still waits")


IDLE: dict[str, float] = {}


async def test_a_load_begins_once_the_server_was_quiet_for_long_enough() -> None:
    assert await wait([IDLE] * 9, quiet_s=3.0) == (None, 3)


async def test_a_request_between_begins_the_wait_anew() -> None:
    assert await wait([IDLE, IDLE, {"running": 1.0}, *[IDLE] * 9], quiet_s=3.0) == (None, 6)


async def test_a_request_that_came_and_went_between_two_looks_is_no_quiet() -> None:
    looks = [IDLE, IDLE, {"tokens": 20.0}, *[{"tokens": 20.0}] * 9]
    assert await wait(looks, quiet_s=3.0) == (None, 5)


async def test_a_server_that_does_not_answer_is_not_quiet() -> None:
    assert await wait([IDLE, IDLE, None, *[IDLE] * 9], quiet_s=3.0) == (None, 6)
    assert await wait([None] * 12, quiet_s=3.0, quiet_limit_s=8.0) == (UNSEEN, 7)


async def test_a_server_that_never_rests_ends_the_wait() -> None:
    looks = [{"running": 1.0, "tokens": float(n)} for n in range(12)]
    assert await wait(looks, quiet_s=3.0, quiet_limit_s=8.0) == (NOT_QUIET, 7)


SECRET = "canary-8080-secret"


def heard(*pieces: bytes) -> str:
    output, secrets = Output(), Secrets()
    secrets.learn([SECRET])
    for piece in pieces:
        output.hear(piece)
    return output.text(secrets)


def test_what_a_load_writes_is_kept_by_lines() -> None:
    assert (
        heard(b"one\ntw", b"o\r\n", b"  0%\r 50%\r100%\n\nend")
        == "one\ntwo\n  0%\n 50%\n100%\nend\n"
    )
    assert heard() == ""


@given(st.lists(st.integers(1, 30), max_size=8))
def test_a_secret_is_hidden_wherever_the_pieces_are_cut(cuts: list[int]) -> None:
    def pieces() -> Iterator[bytes]:
        text = f"key={SECRET} {SECRET}\n{SECRET}".encode()
        for cut in cuts:
            yield text[:cut]
            text = text[cut:]
        yield text

    assert SECRET not in heard(*pieces())
    assert "canary" not in heard(*pieces())


def test_only_the_end_of_a_long_output_is_kept() -> None:
    text = heard(*(f"line {number} {'x' * 100}\n".encode() for number in range(20_000)))
    assert len(text) <= MOST_OUTPUT * 1.1
    assert text.splitlines()[-1].startswith("line 19999 ")


def test_a_line_without_an_end_is_kept_whole_or_not_at_all() -> None:
    endless = heard(b"begin\n", *[SECRET.encode() * 100] * 2000)
    assert len(endless) <= MOST_OUTPUT * 1.1
    assert "canary" not in endless


@pytest.mark.parametrize("line", ["", "'", "a 'b"])
def test_a_line_that_no_shell_takes_is_split_all_the_same(line: str) -> None:
    assert masked_plan.split_line(line) == line.split()
