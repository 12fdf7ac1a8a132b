"""One real server under loads that rise, stopped and started again: what a daemon beside it shows."""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.daemon import COMMAND, daemon, environment, run_command
from tests.real_vllm import bench
from tests.real_vllm.load import Ask, Tally, users
from tests.real_vllm.server import CACHE_TOKENS, VllmServer
from tests.real_vllm.watch import OFTEN, Phase, Watch, is_read, say, verdicts_of, watch

pytestmark = pytest.mark.timeout(1200)

FAILURES = {"host_oom", "cuda_oom", "engine_failure"}
CAPTURE_S = 240
BENCH_REQUESTS = 24


@dataclass(frozen=True, slots=True)
class Story:
    """What was shown in each phase, what came of its requests, and what was captured.

    ``completed``: requests of the captured load, as its client counts them.
    """

    phases: Mapping[str, Phase]
    tallies: Mapping[str, Tally]
    exit_code: int
    captured: subprocess.CompletedProcess[str]
    completed: int
    recorded: str
    replayed: str


def some_windows(watching: Watch) -> None:
    watching.await_windows(3, read=True)


def preemptions(watching: Watch) -> None:
    """A window that lies wholly in the load, and shows preemptions."""
    begun = watching.now()
    watching.until(
        lambda: any(
            one["window"]["start"] >= begun and one["verdict"] == "preemption"
            for one in watching.windows(begun, watching.now())
        )
    )


def criticals(watching: Watch) -> None:
    """Preemptions that last, and are told for a while as what they are."""
    watching.await_report(lambda shown: shown.alerts.get("preemption") == "critical")
    watching.await_windows(1, read=True)


LOADS: Mapping[str, tuple[int, Ask, Callable[[Watch], None]]] = {
    "healthy": (2, Ask(46, 100), some_windows),
    # Two of them fill the cache to the last block, and need no more than they were admitted for.
    "full": (4, Ask(1900, 100), some_windows),
    # A little more than fits, all together at the end of their answers.
    "preemption": (5, Ask(48, 1000), preemptions),
    "thrash": (14, Ask(46, 1200), criticals),
}


def capture(server: VllmServer, folder: Path) -> subprocess.CompletedProcess[str]:
    """Record a load that preempts, as a user does."""
    load = bench.bench(
        server, concurrency=8, requests=BENCH_REQUESTS, results=folder.parent / "results"
    )
    look = ("--target", server.url, "--log", str(server.log), *OFTEN)
    return subprocess.run(
        [*COMMAND, "capture", *look, "--out", str(folder), "--", *load],
        env=environment(bench.ENVIRONMENT),
        capture_output=True,
        text=True,
        timeout=CAPTURE_S,
        check=False,
    )


@pytest.fixture(scope="module")
def story(plain_server: VllmServer, tmp_path_factory: pytest.TempPathFactory) -> Story:
    server, folder = plain_server, tmp_path_factory.mktemp("capture") / "recording"
    phases: dict[str, Phase] = {}
    tallies: dict[str, Tally] = {}
    look = ("--target", server.url, "--log", str(server.log), *OFTEN)
    with daemon(*look) as running, watch(running) as watching:
        watching.await_report(lambda shown: shown.state == "serving")
        for name, (count, ask, wait) in LOADS.items():
            with watching.phase(name) as phases[name], users(server, count, ask) as tallies[name]:
                wait(watching)
        with watching.phase("idle") as phases["idle"]:
            watching.await_report(lambda shown: not shown.alerts)
        with watching.phase("bench") as phases["bench"]:
            captured = capture(server, folder)
        watching.await_report(lambda shown: not shown.alerts)
        with watching.phase("stop") as phases["stop"]:
            exit_code = server.stop()
            watching.await_windows(2)
        with watching.phase("restart") as phases["restart"]:
            server.start()
            server.await_ready()
            watching.await_report(lambda shown: shown.state == "serving")
            watching.await_windows(1, read=True)
    assert captured.returncode == 0, captured
    (result,) = (folder.parent / "results").iterdir()
    completed = json.loads(result.read_text())["completed"]
    recorded = (folder / "windows.jsonl").read_text()
    replayed = run_command("replay", str(folder), "--format", "json").stdout
    return Story(phases, tallies, exit_code, captured, completed, recorded, replayed)


def test_a_light_load_is_none(story: Story) -> None:
    healthy = story.phases["healthy"]
    healthy.tell()
    assert story.tallies["healthy"].answers.keys() == {200}
    assert verdicts_of(healthy.read) == {"none"}
    assert healthy.states == ["serving"]
    assert not healthy.alerts
    assert healthy.levers == {"none"}
    assert healthy.total("requests", "success") > 0
    assert healthy.total("preemptions", "0") == 0
    for window in healthy.read:
        assert all(window["observable"][cause] for cause in ("preemption", "cuda_oom", "stalled"))
        assert window["observable"]["engine_failure"]


def test_a_full_cache_without_preemption_is_none(story: Story) -> None:
    full = story.phases["full"]
    full.tell()
    assert verdicts_of(full.read) == {"none"}
    assert not full.alerts
    assert full.levers == {"none"}
    assert full.total("preemptions", "0") == 0
    assert max(full.engine("kv_usage", "max")) > 0.9
    assert max(full.engine("waiting", "max")) > 0
    assert "cache" in full.engine("binding")


def test_a_few_preemptions_are_a_warning(story: Story) -> None:
    some = story.phases["preemption"]
    some.tell()
    assert story.tallies["preemption"].answers.keys() == {200}, "every request finishes"
    for window in some.read:
        assert window["verdict"] == ("preemption" if window["preemptions"]["0"] else "none")
    assert "preemption" in some.verdicts
    assert {cause["cause"] for cause in some.causes} == {"preemption"}
    assert {cause["kind"] for cause in some.causes} == {"recompute"}
    assert ("preemption", "warning") in some.alerts
    assert {cause for cause, _ in some.alerts} == {"preemption"}


def test_preemption_that_lasts_while_requests_wait_is_critical_and_names_a_lever(
    story: Story,
) -> None:
    thrash = story.phases["thrash"]
    thrash.tell()
    assert story.tallies["thrash"].answers.keys() <= {200}
    assert verdicts_of(thrash.read) <= {"preemption", "none"}
    assert ("preemption", "critical") in thrash.alerts
    assert {cause for cause, _ in thrash.alerts} == {"preemption"}
    critical = [window for window in thrash.windows if window["severity"] == "critical"]
    assert critical
    for window in critical:
        assert window["budgets"]["0"]["waiting"]["max"] > 0
        assert window["budgets"]["0"]["kv_capacity_tokens"] >= CACHE_TOKENS
        assert window["lever"]["name"] in {"raise_watermark", "lower_max_num_seqs"}
        assert window["lever"]["because"]
        assert window["lever"]["step"]["words"]


def test_an_alert_falls_after_a_quiet_time(story: Story) -> None:
    idle = story.phases["idle"]
    idle.tell()
    assert idle.shown[0].alerts == {"preemption": "critical"}
    assert idle.shown[-1].alerts == {}
    assert verdicts_of(idle.read) == {"none"}
    assert idle.states == ["serving"]


def test_a_capture_of_preemptions_replays_byte_for_byte(story: Story) -> None:
    story.phases["bench"].tell()
    say(story.captured.stderr.splitlines()[-1])
    windows = [json.loads(line) for line in story.recorded.splitlines()]
    assert "preemption" in verdicts_of(windows)
    assert verdicts_of(filter(is_read, windows)) <= {"none", "preemption"}
    assert sum(one["requests"]["success"] for one in filter(is_read, windows)) == story.completed
    assert story.replayed == story.recorded


def test_a_wanted_stop_is_no_failure(story: Story) -> None:
    stop = story.phases["stop"]
    stop.tell()
    assert story.exit_code == 0
    assert stop.states[-1] == "stopped"
    assert "dead" not in stop.states
    assert not stop.alerts
    assert not stop.causes


def test_a_restart_is_starting_and_then_serving(story: Story) -> None:
    restart = story.phases["restart"]
    restart.tell()
    assert restart.states == ["stopped", "starting", "serving"]
    assert not restart.alerts
    assert not restart.causes
    assert restart.read[-1]["verdict"] == "none"
