"""A capacity run against a real server finds the knee, and a second one what one setting did."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.daemon import COMMAND, environment, run_command
from tests.real_vllm import bench
from tests.real_vllm.server import CACHE_TOKENS, NAME, ROOMY, VllmServer, vllm_server
from tests.real_vllm.watch import say

pytestmark = pytest.mark.timeout(1800)

RUN_S = 1200
REQUESTS = {2: 24, 6: 36, 14: 56}
"""Of each stage, by its concurrency: about ten seconds of load, so that ten samples tell of its queue.
Six times 764 tokens are more than fit."""
WATERMARK = "0.15"
PLAN = """\
name = "tiny on CPU"
unit = "concurrency"
repeats = 2
[sidecar]
target = {target}
log = [{log}]
interval = "1s"
[objectives]
# The machine may have other things to do: latencies are not asked for, and repeats may differ.
agree = 1.0
[settle]
quiet = "2s"
"""
STAGE = """\
[[stage]]
name = "c{concurrency}"
load = {concurrency}
command = {command}
"""


@dataclass(frozen=True, slots=True)
class Story:
    """Both runs and their artifacts; the comparison; the first artifact as it was, and folded again."""

    runs: Mapping[str, subprocess.CompletedProcess[str]]
    envelopes: Mapping[str, dict[str, Any]]
    compared: subprocess.CompletedProcess[str]
    first: bytes
    again: bytes


def plan_for(server: VllmServer, stages: tuple[int, ...]) -> str:
    """A plan as a user writes it."""
    told = PLAN.format(target=json.dumps(server.url), log=json.dumps(str(server.log)))
    for concurrency in stages:
        command = bench.bench(server, concurrency, REQUESTS[concurrency], "{result_dir}")
        # A list of strings in JSON is one in TOML, too.
        told += STAGE.format(concurrency=concurrency, command=json.dumps(command))
    return told


def run_envelope(
    server: VllmServer, folder: Path, stages: tuple[int, ...]
) -> subprocess.CompletedProcess[str]:
    """``envelope run`` to its end."""
    plan = folder.with_suffix(".toml")
    plan.write_text(plan_for(server, stages))
    return subprocess.run(
        [*COMMAND, "envelope", "run", str(plan), "--out", str(folder)],
        env=environment(bench.ENVIRONMENT),
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


@pytest.fixture(scope="module")
def story(plain_server: VllmServer, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    work = tmp_path_factory.mktemp("envelope")
    plain, marked = work / "plain", work / "marked"
    runs = {"plain": run_envelope(plain_server, plain, tuple(REQUESTS))}
    watermark = (*ROOMY, "--watermark", WATERMARK)
    with vllm_server(model, tmp_path_factory.mktemp("marked"), *watermark) as server:
        server.await_ready()
        runs["marked"] = run_envelope(server, marked, (14,))
    texts = {name: work / name / "envelope.json" for name in runs}
    first = texts["plain"].read_bytes()
    compared = run_command("envelope", "compare", str(plain), str(marked), "--format", "json")
    run_command("envelope", "report", str(plain))
    return Story(
        runs,
        {name: json.loads(path.read_text()) for name, path in texts.items()},
        compared,
        first,
        texts["plain"].read_bytes(),
    )


def findings(envelope: Mapping[str, Any]) -> dict[str, bool | None]:
    """Whether each criterion was met at the intended stage."""
    return {one["criterion"]: one["met"] for one in envelope["acceptance"]["findings"]}


def test_a_stepped_run_finds_the_knee(story: Story) -> None:
    run, envelope = story.runs["plain"], story.envelopes["plain"]
    say(run.stderr)
    say(run.stdout)
    bounds = envelope["bounds"]
    assert bounds["last_good"] == "c2"
    assert bounds["first_preempting"] == "c6"
    assert bounds["safe_load"] == pytest.approx(1.8)
    assert bounds["binding"] == "cache"


def test_a_load_beyond_the_knee_is_rejected_for_its_preemptions(story: Story) -> None:
    run, envelope = story.runs["plain"], story.envelopes["plain"]
    assert run.returncode == 1
    assert envelope["acceptance"]["stage"] == "c14"
    assert not envelope["acceptance"]["accepted"]
    met = findings(envelope)
    assert met["preemption"] is False
    assert met["completes"] is True
    assert met["no_oom"] is True
    assert met["drains"] is True


def test_server_and_client_count_the_same_requests(story: Story) -> None:
    for stage in story.envelopes["plain"]["stages"]:
        assert len(stage["runs"]) == 2
        for run in stage["runs"]:
            assert run["server"]["completed"] == REQUESTS[stage["load"]]
            assert run["client"]["completed"] == REQUESTS[stage["load"]]
            assert run["client"]["failed"] == 0
            assert "completed" not in {one["figure"] for one in run["disagreements"]}
            assert run["server"]["prompt"]["mean"] == bench.PROMPT_TOKENS
            assert run["server"]["output"]["mean"] == bench.OUTPUT_TOKENS
    least, _, most = story.envelopes["plain"]["stages"]
    assert all(run["server"]["preemptions"] == 0 for run in least["runs"])
    assert all(run["server"]["preemptions"] > 0 for run in most["runs"])


def test_the_server_that_was_measured_is_known(story: Story) -> None:
    for name, envelope in story.envelopes.items():
        identity = envelope["identity"]
        assert identity["vllm_version"] == "0.32.0"
        assert identity["model_name"] == NAME
        assert identity["capacity"] >= CACHE_TOKENS
        assert identity["limits"]["max_num_seqs"] == 32
        assert identity["limits"].get("watermark") == (0.15 if name == "marked" else None)


def test_recordings_give_the_same_artifact_again(story: Story) -> None:
    assert story.again == story.first


def test_what_one_setting_did_is_attributed_to_it(story: Story) -> None:
    say(story.runs["marked"].stderr)
    assert story.compared.returncode == 0, story.compared
    found = json.loads(story.compared.stdout)
    assert found["attributed_to"] == "watermark"
    assert [one["setting"] for one in found["differs"]] == ["watermark"]
    assert [one["setting"] for one in found["does_not_count"]] == ["port"]
    (stage,) = found["stages"]
    assert (stage["stage"], stage["refusal"]) == ("c14", None)
    effects = {one["figure"]: one for one in stage["effects"]}
    for effect in effects.values():
        say(f"{effect['figure']}: {effect['before']} {effect['after']} {effect['confidence']}")
    assert effects["completed"]["ratio"] == 1
    for side in ("before", "after"):
        assert effects["preemptions_per_request"][side]["least"] > 0
        assert effects["preemptions_per_request"][side]["repeats"] == 2
