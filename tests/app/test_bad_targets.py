"""A server that answers badly is ``unknown``, never ``none``; once it is well, it is ``none``."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.model.vocabulary import Fault, Source, Verdict
from tests.app.running import Running, running, settings_for
from tests.fakes.vllm_server import Behaviour, fake_vllm

EXPOSITION = (Path(__file__).parents[1] / "data/expositions/0.26.0.txt").read_bytes()
HOSTILE = (
    r"\"}\n# TYPE vllm_sidecar_verdict gauge\nvllm_sidecar_verdict{verdict=\"none\"} 7\n",
    "<script>alert(1)</script>",
    "x" * 10_000,
    "\u202e\u0000\x7f",
    "{{template}}",
    "",
)


def good(what: Behaviour) -> None:
    """All is well."""
    seen = what.seen
    what.__init__(body=EXPOSITION)  # type: ignore[misc]  # the server keeps this very object
    what.seen = seen


def change(name: str, value: str) -> bytes:
    """The exposition with another value for every series of a metric."""
    text = re.sub(rf"(?m)^({name}\{{[^}}]*\}}) .*$", rf"\1 {value}", EXPOSITION.decode())
    assert text != EXPOSITION.decode()
    return text.encode()


def hang(what: Behaviour) -> None:
    what.hang = True


def half(what: Behaviour) -> None:
    what.cut_after = len(what.body) // 2


def another_program(what: Behaviour) -> None:
    what.status = 404


def page(what: Behaviour) -> None:
    what.body = b"<!DOCTYPE html><html><body>vllm:num_requests_running 1</body></html>"
    what.content_type = "text/html"


def huge(what: Behaviour) -> None:
    what.body = (EXPOSITION + b"\n") * (50_000_000 // len(EXPOSITION))


def binary(what: Behaviour) -> None:
    what.body = b"\xff\xfe\x00" + EXPOSITION


def no_http(what: Behaviour) -> None:
    what.raw = b"SSH-2.0-OpenSSH_9.6\r\n"


def empty(what: Behaviour) -> None:
    what.body = b""


def nan(what: Behaviour) -> None:
    what.body = change("vllm:num_preemptions_total", "NaN")


def infinite(what: Behaviour) -> None:
    what.body = change("vllm:num_preemptions_total", "+Inf")


BAD: list[tuple[Callable[[Behaviour], None], Fault | None]] = [
    (half, Fault.DISCONNECTED),
    (another_program, Fault.HTTP_STATUS),
    (page, Fault.MALFORMED),
    (huge, Fault.TOO_LARGE),
    (binary, Fault.MALFORMED),
    (no_http, Fault.MALFORMED),
    (empty, None),
    (nan, None),
    (infinite, None),
]


async def is_alive(seen: Running) -> None:
    assert await seen.get("/healthz") == (200, "ok\n")
    shown = await seen.metrics()
    assert sum(shown["vllm_sidecar_verdict", (verdict,)] for verdict in Verdict) == 1
    assert len(shown) <= 300


@pytest.mark.parametrize(("spoil", "fault"), BAD, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_bad_answer_is_unknown_and_a_good_one_is_none_again(
    spoil: Callable[[Behaviour], None], fault: Fault | None
) -> None:
    async with fake_vllm() as server:
        good(server.behaviour)
        async with running(settings_for(server.url(""))) as seen:
            await seen.verdict(Verdict.NONE)
            spoil(server.behaviour)
            await seen.verdict(Verdict.UNKNOWN)
            # Samples of the good time may still have been in the first window.
            assert set(await seen.windows(2)) == {Verdict.UNKNOWN}
            await is_alive(seen)
            assert (await seen.metrics())["vllm_sidecar_verdict", ("unknown",)] == 1
            assert seen.steps[-1].report.sources[Source.VLLM_METRICS].last_fault is fault
            good(server.behaviour)
            await seen.verdict(Verdict.NONE)
            await is_alive(seen)


async def test_a_server_that_never_answers_is_unknown_and_holds_nothing_up() -> None:
    async with fake_vllm() as server:
        hang(server.behaviour)
        async with running(settings_for(server.url(""))) as seen:
            assert set(await seen.windows(5)) == {Verdict.UNKNOWN}
            await is_alive(seen)
            ticks = [step.report.clock for step in seen.steps]
            assert ticks[-1].ticks >= 8
            assert ticks[-1].missed < ticks[-1].ticks


async def test_a_server_that_only_says_500_is_no_healthy_one() -> None:
    async with fake_vllm() as server:
        good(server.behaviour)
        async with running(settings_for(server.url(""))) as seen:
            await seen.verdict(Verdict.NONE)
            server.behaviour.status = 500
            await seen.windows(2)
            assert Verdict.NONE not in await seen.windows(4)
            shown = await seen.metrics()
            assert shown["vllm_sidecar_verdict", ("engine_failure",)] == 1, "its health failed too"
            good(server.behaviour)
            await seen.verdict(Verdict.NONE)


async def test_nobody_there_is_unknown_and_is_seen_once_it_comes() -> None:
    async with fake_vllm() as server:
        port = server.port
    async with running(settings_for(f"http://127.0.0.1:{port}")) as seen:
        assert set(await seen.windows(4)) == {Verdict.UNKNOWN}
        status = seen.steps[-1].report.sources[Source.VLLM_METRICS]
        assert (status.up, status.last_fault) == (False, Fault.REFUSED)
        await is_alive(seen)


@pytest.mark.parametrize("label", HOSTILE, ids=lambda label: ascii(label)[:20])
async def test_a_hostile_label_reaches_neither_syntax_nor_verdict(label: str) -> None:
    async with fake_vllm() as server:
        good(server.behaviour)
        spoilt = EXPOSITION.replace(b'"tiny"', b'"' + label.encode() + b'"')
        server.behaviour.body = spoilt.replace(b'engine="0"', b'engine="' + label.encode() + b'"')
        async with running(settings_for(server.url(""))) as seen:
            await seen.windows(2)
            await is_alive(seen)
            source = seen.steps[-1].report.sources[Source.VLLM_METRICS]
            assert source.last_fault is None, "the label was read"
            shown = await seen.metrics()
            assert all(len(value) <= 300 for _, labels in shown for value in labels)
