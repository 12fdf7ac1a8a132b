"""The daemon's own log: one line for each change, none for a tick."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sidecar.classify.policy import Policy
from sidecar.commands import run
from sidecar.commands.run import Journal
from sidecar.pipeline import Pipeline, Step
from sidecar.recording.folder import Recording
from sidecar.recording.gridded_ticks import read_ticks

REAL = Path(__file__).parents[1] / "data/recordings"


def steps(name: str) -> list[Step]:
    recording = Recording(REAL / name)
    pipeline = Pipeline(window_s=10.0, policy=Policy(), configured=recording.sources())
    return [pipeline.step(tick) for tick in read_ticks(recording, 1.0)]


def lines(said: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.readouterr().err.splitlines()]


def test_changes_are_told_once_and_ticks_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal()
    told = steps("f1_host_oom_enginecore")
    for step in told:
        journal.tell_changes(step)
    found = lines(capsys)
    verdicts = [line["verdict"] for line in found if line["event"] == "verdict_changed"]
    states = [line["state"] for line in found if line["event"] == "state_changed"]
    assert verdicts[-1] == "host_oom"
    assert states[-2:] == ["serving", "dead"]
    assert all(a != b for a, b in itertools.pairwise(verdicts))
    assert len(found) < 20 < len(told)
    fails = [line["source"] for line in found if line["event"] == "source_fails"]
    assert fails.count("vllm_metrics") == 2, "refused while it starts, and after its death"
    (oom,) = [line for line in found if line.get("verdict") == "host_oom"]
    assert (oom["severity"], oom["kind"]) == ("critical", "cgroup")
    assert "kernel killed" in oom["why"]


def test_a_failure_before_the_first_window_closes_is_told_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    journal = Journal()
    told = next(step for step in steps("f1_host_oom_enginecore") if step.report.urgent)
    journal.tell_changes(Step(report=replace(told.report, last_window=None), closed=()))
    told_of = [line["event"] for line in lines(capsys) if "source" not in line]
    assert told_of == ["state_changed", "verdict_changed"]


def test_an_address_of_version_6_stands_in_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    Journal().tell_listening("::1", 9477)
    (line,) = lines(capsys)
    assert line["listen"] == "[::1]:9477"


def test_a_field_that_is_not_on_the_list_is_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    Journal().log.info("listening", listen="x", url="http://user:secret@host")
    (line,) = lines(capsys)
    assert set(line) == {"event", "level", "timestamp", "listen"}


def test_the_signals_that_end_it_are_those_of_people_and_of_init_systems() -> None:
    assert [number.name for number in run.ENDING] == ["SIGTERM", "SIGINT"]
