"""A real run's folder -> its envelope: three stages of vLLM 0.32 on CPU, each measured twice."""

import json
import shutil
from pathlib import Path

import pytest

from sidecar.envelope.artifact import decode_envelope, encode_envelope
from sidecar.envelope_folder import (
    find_result,
    list_places,
    mask_results,
    put_aside,
    read_plan,
    read_run,
    write_envelope,
)
from sidecar.errors import ConfigError, RecordingError
from sidecar.model.envelope import Client, Criterion
from sidecar.model.vocabulary import Verdict
from sidecar.parse.secrets import Secrets

RUN = Path(__file__).parents[1] / "data/runs/tiny_three_stages"
ENVELOPE = read_run(RUN)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy that may be changed."""
    shutil.copytree(RUN, tmp_path / "run")
    return tmp_path / "run"


def test_every_stage_is_what_server_and_client_counted() -> None:
    told = {
        stage.name: [(run.server.completed, run.server.preemptions) for run in stage.runs]
        for stage in ENVELOPE.stages
    }
    assert told == {
        "c2": [(12, 0), (12, 0)],
        "c4": [(28, 0), (28, 0)],
        "c12": [(60, 20), (60, 20)],
    }
    for stage in ENVELOPE.stages:
        for run in stage.runs:
            assert run.client is not None
            assert run.client.client is Client.VLLM_BENCH
            assert run.client.completed == run.server.completed
            assert run.client.seconds == pytest.approx(run.server.seconds, abs=2.0)
            assert run.exit_code == 0
            assert run.whole
            assert run.killed is None
            assert run.server.drained_s is not None


def test_the_bounds_are_those_of_the_last_good_stage() -> None:
    bounds = ENVELOPE.bounds
    assert (bounds.last_good, bounds.first_preempting) == ("c2", "c12")
    assert bounds.safe_load == pytest.approx(1.8)
    assert bounds.running == 2.0
    assert bounds.output.mean == 500.0


def test_the_busy_machine_is_no_accepted_one() -> None:
    acceptance = ENVELOPE.acceptance
    assert acceptance.stage == "c4"
    assert not acceptance.accepted
    assert {one.criterion for one in acceptance.findings if one.met is not True} == {
        Criterion.TTFT_P95,
        Criterion.E2E_P95,
        Criterion.REPEATS_AGREE,
    }


def test_what_starving_clients_say_is_no_agreement() -> None:
    differing = {
        stage.name: {one.figure for run in stage.runs for one in run.disagreements}
        for stage in ENVELOPE.stages
    }
    assert differing["c12"] == {"ttft_mean", "e2e_mean"}
    assert differing["c2"] == {"ttft_mean"}


def test_the_server_is_known_by_its_launch_and_its_machine() -> None:
    identity = ENVELOPE.identity
    assert identity.vllm_version == "0.32.0"
    assert identity.model_name == "tiny"
    assert identity.capacity == 4128
    assert identity.limits["max_num_seqs"] == 32
    assert identity.cpus == 2
    assert identity.machine == "x86_64"
    assert "--enforce-eager" in identity.launch
    assert identity.launch[-2:] == ("--api-key", "***")
    assert identity.environment["OMP_NUM_THREADS"] == "1"


def test_the_same_folder_gives_the_same_bytes(run: Path) -> None:
    text = encode_envelope(ENVELOPE)
    assert encode_envelope(read_run(run)) == text
    written = write_envelope(run, ENVELOPE)
    assert written.read_text() == text
    assert encode_envelope(decode_envelope(text)) == text


def test_a_repeat_that_is_not_done_does_not_count(run: Path) -> None:
    (run / "02-c4/2/done.json").unlink()
    shutil.rmtree(run / "03-c12")
    envelope = read_run(run)
    assert [stage.name for stage in envelope.stages] == ["c2", "c4"]
    half = envelope.stages[1].runs[1]
    assert (half.repeat, half.whole, half.server.completed) == (2, False, None)
    assert envelope.acceptance.findings[0].why == "repeat 2: it ended early"
    assert envelope.bounds.last_good == "c2"


def test_a_folder_of_which_nothing_is_done_is_refused(run: Path) -> None:
    for done in run.glob("*/*/done.json"):
        done.unlink()
    with pytest.raises(ConfigError, match="nothing of the run is done"):
        read_run(run)
    with pytest.raises(ConfigError, match="No such file"):
        read_run(run / "01-c2")


def test_runs_of_different_servers_are_no_envelope(run: Path) -> None:
    header = run / "02-c4/1/recording/recording.json"
    told = json.loads(header.read_text())
    launch = told["target"]["launch"]["argv"]
    launch[launch.index("--block-size") + 1] = "64"
    header.write_text(json.dumps(told))
    with pytest.raises(RecordingError, match="c4 repeat 1 is of another server: block_size"):
        read_run(run)


def test_a_recording_that_was_cut_short_is_refused(run: Path) -> None:
    header = run / "02-c4/1/recording/recording.json"
    told = json.loads(header.read_text())
    del told["load"]["outcome"]
    header.write_text(json.dumps(told))
    with pytest.raises(RecordingError, match="does not tell how the load went"):
        read_run(run)


def test_a_result_that_cannot_be_read_is_told_and_the_server_still_speaks(run: Path) -> None:
    (run / "02-c4/1/result.json").write_text("{")
    (run / "02-c4/2/result.json").unlink()
    first, second = read_run(run).stages[1].runs
    assert first.client is None
    assert first.client_fault == "the result: it is no JSON, or was cut"
    assert second.client_fault == "no result was written"
    assert first.server == ENVELOPE.stages[1].runs[0].server


def test_a_secret_in_a_plan_from_elsewhere_does_not_reach_the_envelope(run: Path) -> None:
    plan = (run / "plan.toml").read_text()
    (run / "plan.toml").write_text(plan.replace("--max-num-seqs 8", "--api-key canary-22"))
    envelope = read_run(run)
    assert envelope.rollback == "vllm serve /models/tiny --api-key ***"
    assert "canary" not in encode_envelope(envelope)


def test_a_result_is_found_where_clients_write_it(run: Path) -> None:
    plan, _ = read_plan(run / "plan.toml")
    place = list_places(run, plan)[0]
    place.result.rename(run / "kept.json")
    assert find_result(place) is None
    reports = place.result_folder / "reports-1"
    reports.mkdir(parents=True)
    (reports / "one.json").touch()
    assert find_result(place) == reports / "one.json"
    (reports / "two.json").touch()
    with pytest.raises(ValueError, match="there are several files"):
        find_result(place)
    (reports / "summary_lifecycle_metrics.json").touch()
    assert find_result(place) == reports / "summary_lifecycle_metrics.json"
    (run / "kept.json").rename(place.result)
    assert find_result(place) == place.result


def test_what_a_client_wrote_of_its_headers_is_taken_out(run: Path) -> None:
    plan, _ = read_plan(run / "plan.toml")
    place = list_places(run, plan)[0]
    place.result_folder.mkdir()
    told = {"headers": {"Authorization": "Bearer canary-31"}, "key": "canary-32", "n": [1, 2.5]}
    (place.result_folder / "a.json").write_text(json.dumps(told))
    (place.result_folder / "b.csv").write_text("x,canary-32\n")
    before = place.result.read_text()
    secrets = Secrets()
    secrets.learn(["canary-32"])
    mask_results(place, secrets)
    kept = json.loads((place.result_folder / "a.json").read_text())
    assert kept == {"headers": {"Authorization": "***"}, "key": "***", "n": [1, 2.5]}
    assert (place.result_folder / "b.csv").read_text() == "x,***\n"
    assert place.result.read_text() == before


def test_what_was_cut_off_is_put_aside_under_a_new_name(run: Path) -> None:
    plan, _ = read_plan(run / "plan.toml")
    place = list_places(run, plan)[0]
    for number in (1, 2):
        put_aside(place)
        assert not place.folder.exists()
        assert (run / f"01-c2/1.aside-{number}").is_dir()
        put_aside(place)
        place.folder.mkdir()
    assert Verdict.NONE in ENVELOPE.stages[0].runs[0].server.verdicts
