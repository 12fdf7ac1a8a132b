"""What a recording says of the run around it, from whole to hostile."""

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.recording.about import About, Outcome, read_about
from sidecar.recording.folder import Recording

RUN = Path(__file__).parents[1] / "data/runs/tiny_three_stages/02-c4/1/recording"


def about(folder: Path, **told: Any) -> About:
    (folder / "recording.json").write_text(json.dumps({"format": 1, "created": 1.0, **told}))
    return read_about(Recording(folder))


def test_a_real_recording_tells_load_launch_and_machine() -> None:
    told = read_about(Recording(RUN))
    assert told.outcome is not None
    assert told.outcome.exit_code == 0
    assert told.outcome.ended is None
    assert told.outcome.begun < told.outcome.finished
    assert told.launch is not None
    assert told.launch.argv[2] == "serve"
    assert (told.machine, told.cpus, told.gpus) == ("x86_64", 2, ())


def test_a_recording_from_elsewhere_tells_nothing_of_it(tmp_path: Path) -> None:
    assert about(tmp_path) == About()


def test_a_clock_that_stepped_back_makes_no_load_of_negative_length(tmp_path: Path) -> None:
    told = about(tmp_path, load={"outcome": {"begun": 10.0, "finished": 4.0}})
    assert told.outcome == Outcome(10.0, 10.0)


@pytest.mark.parametrize(
    "bad", [None, [], "x", 1, True, {"outcome": 7}, {"outcome": {"begun": "x"}}]
)
def test_what_is_no_load_tells_no_outcome(tmp_path: Path, bad: object) -> None:
    assert about(tmp_path, load=bad, target=bad, hardware=bad) == About()


def test_values_that_are_none_are_left_out(tmp_path: Path) -> None:
    told = about(
        tmp_path,
        target={"launch": {"argv": ["vllm", 7]}},
        hardware={"cpus": -1, "machine": 4, "gpus_before": [{"name": "card"}, {"name": 3}, 5]},
        load={
            "outcome": {
                "begun": 1,
                "finished": 2,
                "exit_code": True,
                "drained": 10**400,
                "ended": ["stopped"],
            }
        },
    )
    assert told == About(outcome=Outcome(1.0, 2.0), gpus=("card",))


def test_a_secret_that_another_wrote_down_is_hidden(tmp_path: Path) -> None:
    launch = {
        "argv": ["vllm", "serve", "--api-key", "canary-1"],
        "environment": {"VLLM_X": "token=canary-2", "HOME": "/canary-3", "VLLM_Y": 5},
    }
    told = about(tmp_path, target={"launch": launch}, hardware={"machine": "Bearer canary-44"})
    assert told.launch is not None
    assert told.launch.argv[-1] == "***"
    assert "canary" not in str(told)
