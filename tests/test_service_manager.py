"""What systemd hears from us, on real sockets of both kinds."""

import itertools
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.config import Supervision, read_supervision
from sidecar.model.advice import Advice, Lever
from sidecar.model.report import Report
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import ServerState, Severity, Verdict
from sidecar.service_manager import ServiceManager, patience_s
from tests.export.reports import make_causes, make_report


class Ear:
    """A socket as systemd's: what came to it, one notification after the other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        self.socket.settimeout(0)

    def hear(self) -> list[dict[str, str]]:
        """All that came, in order; the lines of one notification in order, too."""
        heard: list[dict[str, str]] = []
        while True:
            try:
                text = self.socket.recv(65536).decode()
            except BlockingIOError:
                return heard
            lines = [line.partition("=") for line in text.split("\n")]
            assert all(separator for _, separator, _ in lines), text
            names = [name for name, _, _ in lines]
            assert len(set(names)) == len(names), text
            heard.append({name: value for name, _, value in lines})


@pytest.fixture(params=["path", "abstract"])
def ear(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ear]:
    """A listener at an address of each kind."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@sidecar-{os.getpid()}"
    listening = Ear(name)
    yield listening
    listening.socket.close()


def tick(report: Report, number: int) -> Report:
    """The report of this point of the grid."""
    return replace(report, clock=replace(report.clock, ticks=number))


def manager_for(ear: Ear, watchdog_s: float | None = None) -> ServiceManager:
    return ServiceManager(Supervision(ear.name, watchdog_s))


def test_ready_is_told_once_and_only_with_a_report(ear: Ear) -> None:
    manager = manager_for(ear)
    manager.tell_start(5.0)
    (start,) = ear.hear()
    assert start["STATUS"] == "waiting for the first sample"
    assert "READY" not in start
    for number in range(1, 4):
        manager.tell_report(tick(make_report(), number))
    assert [one.get("READY") for one in ear.hear()] == ["1"]
    manager.close()


def test_a_start_asks_for_the_time_until_the_first_tick(ear: Ear) -> None:
    manager = manager_for(ear)
    manager.tell_start(120.0)
    (told,) = ear.hear()
    assert int(told["EXTEND_TIMEOUT_USEC"]) > 120e6
    assert "WATCHDOG_USEC" not in told
    manager.close()


def test_every_tick_is_a_sign_of_life_and_what_comes_between_is_none(ear: Ear) -> None:
    manager = manager_for(ear, watchdog_s=30.0)
    manager.tell_start(5.0)
    report = make_report()
    for number in (1, 2, 2, 2, 3):
        manager.tell_report(tick(report, number))
    assert [one["WATCHDOG"] for one in ear.hear() if "WATCHDOG" in one] == ["1"] * 3
    manager.close()


def test_without_a_watchdog_there_are_no_signs_of_life(ear: Ear) -> None:
    manager = manager_for(ear)
    manager.tell_report(tick(make_report(), 1))
    manager.tell_report(tick(make_report(), 2))
    assert all("WATCHDOG" not in one for one in ear.hear())
    manager.close()


@pytest.mark.parametrize("interval_s", [5.0, 60.0])
def test_a_watchdog_that_is_shorter_than_our_patience_is_made_longer(
    ear: Ear, interval_s: float
) -> None:
    manager = manager_for(ear, watchdog_s=30.0)
    manager.tell_start(interval_s)
    manager.tell_report(tick(make_report(), 1))
    told = ear.hear()[-1]
    assert told["READY"] == "1"
    if interval_s == 5.0:
        assert "WATCHDOG_USEC" not in told
    else:
        assert int(told["WATCHDOG_USEC"]) == patience_s(interval_s) * 1e6 > 2 * interval_s * 1e6
    manager.tell_report(tick(make_report(), 2))
    assert all("WATCHDOG_USEC" not in one for one in ear.hear())
    manager.close()


def test_the_status_is_told_when_it_changes(ear: Ear) -> None:
    manager = manager_for(ear)
    calm, pressed = make_report(), make_report(Verdict.PREEMPTION)
    for number, report in enumerate((calm, calm, pressed, pressed, calm), 1):
        manager.tell_report(tick(report, number))
    assert [one["STATUS"] for one in ear.hear() if "STATUS" in one] == [
        "verdict none; server serving; lever none",
        "verdict preemption (critical); server serving; lever raise_watermark",
        "verdict none; server serving; lever none",
    ]
    manager.close()


def test_a_failure_shows_in_the_status_before_its_window_closes(ear: Ear) -> None:
    manager = manager_for(ear)
    urgent = make_causes(Verdict.CUDA_OOM)
    manager.tell_report(
        replace(make_report(), verdict=Verdict.CUDA_OOM, urgent=urgent, last_window=None)
    )
    (told,) = ear.hear()
    assert told["STATUS"].startswith("verdict cuda_oom (critical); ")
    manager.close()


def test_the_status_holds_words_of_closed_sets_alone(ear: Ear) -> None:
    manager = manager_for(ear)
    sets = Verdict, ServerState, Lever
    for verdict, state, lever in itertools.product(*sets):
        report = make_report(verdict)
        manager.tell_report(
            replace(report, state=state, advice=Advice(lever, because=("a prompt",)))
        )
        assert manager.status
        (told,) = ear.hear()
        words = set(re.findall(r"\w+", told["STATUS"]))
        allowed = {"verdict", "server", "lever"}.union(*sets, Severity)
        assert words <= allowed
    manager.close()


def test_a_reload_is_told_with_its_time_and_ends_with_ready(ear: Ear) -> None:
    manager = manager_for(ear)
    manager.tell_report(tick(make_report(), 1))
    ear.hear()
    manager.tell_reload(Instant(monotonic=12.5, unix=0.0))
    manager.tell_reloaded(taken=True)
    assert ear.hear() == [{"RELOADING": "1", "MONOTONIC_USEC": "12500000"}, {"READY": "1"}]
    manager.close()


def test_a_reload_that_failed_stays_in_the_status_until_one_succeeds(ear: Ear) -> None:
    manager = manager_for(ear)
    manager.tell_report(tick(make_report(), 1))
    calm = ear.hear()[0]["STATUS"]
    for taken in (False, True):
        manager.tell_reload(Instant(0.0, 0.0))
        manager.tell_reloaded(taken=taken)
    ends = [one for one in ear.hear() if "READY" in one]
    assert [one["STATUS"] for one in ends] == [
        f"{calm}; the last reload failed: earlier settings are in effect",
        calm,
    ]
    manager.close()


def test_a_reload_before_the_first_tick_does_not_feign_readiness(ear: Ear) -> None:
    manager = manager_for(ear)
    manager.tell_start(5.0)
    ear.hear()
    manager.tell_reload(Instant(0.0, 0.0))
    manager.tell_reloaded(taken=False)
    assert ear.hear() == []
    manager.close()


def test_stopping_is_told(ear: Ear) -> None:
    manager = manager_for(ear)
    manager.tell_stop()
    assert ear.hear() == [{"STOPPING": "1"}]
    manager.close()


async def test_a_full_queue_neither_blocks_nor_loses_what_was_told(ear: Ear) -> None:
    complaints: list[str] = []
    manager = ServiceManager(Supervision(ear.name, 30.0), complaints.append)
    number = 0
    while manager.failures < 3:
        number += 1
        assert number < 10_000, "the queue never fills"
        manager.tell_report(tick(make_report(), number))
    manager.tell_reload(Instant(1.0, 0.0))
    manager.tell_reloaded(taken=True)
    assert complaints == ["service_manager_not_told"]
    ear.hear()
    manager.tell_report(tick(make_report(Verdict.STALLED), number + 1))
    (told,) = ear.hear()
    # The last of the three holds: a reload that is over.
    assert [name for name in told if name in {"READY", "RELOADING", "STOPPING"}][-1] == "READY"
    assert told["WATCHDOG"] == "1"
    assert told["STATUS"].startswith("verdict stalled")
    manager.close()


def test_ready_that_found_nobody_goes_with_what_is_told_next(tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    complaints: list[str] = []
    manager = ServiceManager(Supervision(name), complaints.append)
    manager.tell_report(tick(make_report(), 1))
    assert complaints == ["service_manager_not_told"]
    late = Ear(name)
    manager.tell_stop()
    (told,) = late.hear()
    assert list(told)[-1] == "STOPPING"
    assert told["READY"] == "1"
    late.socket.close()
    manager.close()


@pytest.mark.parametrize("name", [None, "", "@", "/", "notify", "vsock:2:1234", "/" + "n" * 200])
def test_an_address_that_is_none_of_ours_disturbs_nothing(name: str | None) -> None:
    manager = ServiceManager(Supervision(name, 30.0))
    manager.tell_start(5.0)
    manager.tell_report(tick(make_report(), 1))
    manager.tell_stop()
    manager.close()


@pytest.mark.parametrize(
    ("environment", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_USEC": "9" * 40}, None),
    ],
)
def test_the_watchdog_is_ours_if_it_names_us_and_a_time(
    environment: dict[str, str], watchdog_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert read_supervision() == Supervision(None, watchdog_s)


def test_where_to_tell_stands_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    assert read_supervision().socket == "/run/systemd/notify"
