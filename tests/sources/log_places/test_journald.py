"""A unit's log out of a real journal, in every form in which it gives messages."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.journald import JournalFeed
from sidecar.sources.log_places.position import JournalPosition, Position
from sidecar.sources.log_places.streams import StreamPlace
from tests.fakes.journal import Journal, running_journal
from tests.fakes.log_reader import Reader
from tests.fakes.patience import until
from tests.fakes.scaled_clock import ScaledClock

UNIT = "vllm.service"
pytestmark = [pytest.mark.component("journald"), pytest.mark.component("root")]


@pytest.fixture(scope="module")
def journald() -> Iterator[Journal]:
    with running_journal("sidecarlab") as journal:
        yield journal


@pytest.fixture
def unit(journald: Journal, request: pytest.FixtureRequest) -> str:
    """A unit of the test's own, so that tests share one journal."""
    return f"{request.node.name.replace('[', '-').replace(']', '')[:60]}.service"


def read(journald: Journal, unit: str, resume: Position | None = None) -> Reader:
    feed = JournalFeed(unit, program=journald.program)
    return Reader(StreamPlace(ScaledClock(20), "journald", feed, resume=resume))


def child_of(reader: Reader) -> int:
    assert isinstance(reader.place, StreamPlace)
    feed = reader.place._feed
    assert isinstance(feed, JournalFeed)
    child = feed._child
    assert child is not None
    return child.pid


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def is_followed(reader: Reader) -> None:
    """The second child runs: the first one only looks back."""

    async def there() -> bool:
        await reader.look()
        return b"--follow" in command_of(child_of(reader))

    await until(there)


async def test_what_was_there_is_looked_back_on_and_what_comes_is_told(
    journald: Journal, unit: str
) -> None:
    journald.say(unit, b"old")
    reader = read(journald, unit)
    await reader.place.open()
    await is_followed(reader)
    assert reader.place.lookback() == b"old\n"
    journald.say("other.service", b"not ours")
    journald.say(unit, b"new")
    await reader.reads(b"new\n")
    await reader.place.close()


async def test_a_unit_that_has_said_nothing_yet_is_read_whole(journald: Journal, unit: str) -> None:
    reader = read(journald, unit)
    await reader.place.open()
    journald.say(unit, b"first")
    await reader.reads(b"first\n")
    await reader.place.close()


async def test_messages_of_every_form_become_lines(journald: Journal, unit: str) -> None:
    reader = read(journald, unit)
    await reader.place.open()
    journald.say(unit, b"\x1b[33mcolours\x1b[0m")
    journald.say(unit, b"twice", b"\x1b[1msaid")
    journald.say(unit, b"x" * 6000)
    journald.say(unit, b"many\nlines")
    journald.say(unit, b"")
    journald.say(unit, b"bytes \xff")
    journald.say(unit, "\N{SNOWMAN}".encode())
    await reader.reads(
        b"\x1b[33mcolours\x1b[0m\n"
        b'{"MESSAGE": "twice\\n\\u001b[1msaid"}\n'
        + b"x" * 6000
        + b'\n{"MESSAGE": "many\\nlines"}\n'
        + "bytes \N{REPLACEMENT CHARACTER}\n\N{SNOWMAN}\n".encode()
    )
    await reader.place.close()


async def test_a_child_that_dies_is_replaced_and_nothing_is_lost(
    journald: Journal, unit: str
) -> None:
    reader = read(journald, unit)
    await reader.place.open()
    journald.say(unit, b"one")
    await reader.reads(b"one\n")
    child = child_of(reader)
    os.kill(child, 9)
    journald.say(unit, b"two")
    await reader.reads(b"one\ntwo\n")
    assert child_of(reader) != child
    assert reader.faults == set()
    await reader.place.close()


async def test_a_later_run_goes_on_behind_the_cursor(journald: Journal, unit: str) -> None:
    reader = read(journald, unit)
    await reader.place.open()
    journald.say(unit, b"one")
    await reader.reads(b"one\n")
    place = reader.place.position()
    assert isinstance(place, JournalPosition)
    await reader.place.close()
    journald.say(unit, b"two")
    later = read(journald, unit, place)
    await later.place.open()
    await later.reads(b"two\n")
    assert later.place.lookback() is None
    await later.place.close()


async def test_a_cursor_of_no_journal_is_given_up_and_told_as_a_loss(
    journald: Journal, unit: str
) -> None:
    journald.say(unit, b"old")
    reader = read(journald, unit, JournalPosition("nonsense"))
    await reader.place.open()
    await is_followed(reader)

    async def counted() -> bool:
        await reader.look()
        return bool(reader.portions) and reader.dropped() == (0, 0, 1)

    await until(counted)
    await is_followed(reader)
    journald.say(unit, b"new")

    async def told() -> bool:
        await reader.look()
        return reader.data.endswith(b"new\n")

    await until(told)
    await reader.place.close()


async def test_closing_ends_the_child(journald: Journal, unit: str) -> None:
    reader = read(journald, unit)
    await reader.place.open()
    await is_followed(reader)
    child = Path(f"/proc/{child_of(reader)}")
    await reader.place.close()
    await until(lambda: not child.exists())
    assert await reader.place.read() is Fault.ABSENT
