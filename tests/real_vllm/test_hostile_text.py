"""Users who write what failures write, to a real server that logs all of it, up to its crash."""

import json
import os
import signal
import subprocess
import tarfile
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.daemon import COMMAND, Daemon, daemon, environment, run_command
from tests.real_vllm.load import Ask, send, users
from tests.real_vllm.server import ROOMY, WORKER, VllmServer, vllm_server
from tests.real_vllm.watch import OFTEN, Phase, Watch, is_read, say, verdicts_of, watch

pytestmark = pytest.mark.timeout(900)

CAPTURE_S = 25
CANARIES = {
    name: f"canary-{name}-0451"
    for name in (
        "prompt",
        "stop",
        "id",
        "query",
        "path",
        "model",
        "user",
        "invalid",
        "key",
        "token",
    )
}
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
PREFIX = "(EngineCore pid=1) ERROR 11-29 21:03:33 [core.py:710] "
KILL = "Memory cgroup out of memory: Killed process 1 (VLLM::EngineCor)"
DEAD = "EngineDeadError: EngineCore encountered an issue."


def quote(name: str) -> str:
    """What failures write, in all ways that get a line of its own if any does, with a canary."""
    lines = (f"{PREFIX}{OOM}", OOM, DEAD, KILL, f"ERROR {CANARIES[name]} {OOM}")
    return f"{OOM} {CANARIES[name]}\n" + "\r\n".join(lines) + f"\x1b[31m\u2028{OOM}"


HEADERS = {
    "Authorization": f"Bearer {CANARIES['key']}",
    "X-Request-Id": f"CUDA out of memory. {CANARIES['id']} {KILL}",
}
STOPS = [f"{OOM} {CANARIES['stop']}", f"{PREFIX}{OOM}", DEAD, KILL]
QUERY = urllib.parse.quote(f"{OOM} {CANARIES['query']}")
PATH = urllib.parse.quote(f"{KILL} {CANARIES['path']}")
REQUESTS: Sequence[tuple[str, dict[str, object]]] = (
    ("/v1/completions", {"prompt": quote("prompt"), "user": quote("user"), "stop": STOPS}),
    (f"/v1/completions?q={QUERY}", {"prompt": [1, 2, 3], "stop": STOPS}),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "name": "x", "content": quote("prompt")}]},
    ),
    ("/v1/completions", {"prompt": "bal", "model": quote("model")}),
    ("/v1/completions", {"prompt": "bal", "max_tokens": quote("invalid")}),
    (f"/{PATH}", {}),
)
QUOTED = ("prompt", "stop", "id", "query", "path", "model", "user", "invalid")
"""What the server's log must hold of that; a log without would prove nothing."""
ADDED = " Added request "
USERS = 4


@dataclass(frozen=True, slots=True)
class Story:
    """What was shown, what was written, and all that the program told of it."""

    quoted: Phase
    crash: Phase
    answers: list[int]
    log: str
    exit_code: int
    told: dict[str, str]
    replayed: str
    recorded: str


def pages(running: Daemon) -> dict[str, str]:
    """All pages of the daemon."""
    paths = ("/", "/metrics", "/api/report", "/api/windows?limit=1000", "/healthz", "/readyz")
    told = {path: running.get(path)[1] for path in paths}
    told["openmetrics"] = running.get("/metrics", {"Accept": "application/openmetrics-text"})[1]
    return told


def texts(folder: Path, bundle: Path) -> dict[str, str]:
    """The files of a recording, and those of its archive."""
    told = {path.name: path.read_text() for path in folder.iterdir()}
    with tarfile.open(bundle) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            told[f"bundle: {member.name}"] = file.read().decode()
    return told


def crash_amid_requests(server: VllmServer, watching: Watch) -> None:
    """Kill the worker while it computes requests that the engine's last words will quote.

    They quote what is new in the step that failed. So the worker is held until new requests wait
    for it.
    """
    (worker,) = server.pids(WORKER)
    before = server.log.read_text(errors="replace").count(ADDED)
    os.kill(worker, signal.SIGSTOP)
    with users(server, USERS, Ask(46, 1000, {"stop": STOPS}, HEADERS)) as tally:
        watching.until(
            lambda: server.log.read_text(errors="replace").count(ADDED) >= before + USERS
        )
        server.kill(WORKER)
        watching.await_report(lambda shown: shown.state == "dead")
    assert tally.answers == {500: USERS}, tally


@pytest.fixture(scope="module")
def story(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    work = tmp_path_factory.mktemp("hostile")
    token, recording, bundle = work / "token", work / "recording", work / "bundle.tar.gz"
    token.write_text(f"{CANARIES['key']}\n")
    env = {"VLLM_LOGGING_LEVEL": "DEBUG", "HF_TOKEN": CANARIES["token"]}
    logs = ("--enable-log-requests", "--log-error-stack", "--api-key", CANARIES["key"])
    with vllm_server(model, work, *ROOMY, *logs, env=env) as server:
        look = ("--target", server.url, "--log", str(server.log), "--target-token-file", str(token))
        with daemon(*look, *OFTEN) as running, watch(running) as watching:
            server.await_ready()
            watching.await_report(lambda shown: shown.state == "serving")
            capture = subprocess.Popen(
                [
                    *(*COMMAND, "capture", *look, *OFTEN, "--out", str(recording)),
                    *("--for", f"{CAPTURE_S}s", "--bundle", str(bundle)),
                ],
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            with watching.phase("quoted") as quoted:
                answers = [send(server, path, body, HEADERS) for path, body in REQUESTS]
                watching.await_report(lambda shown: shown.report["log"]["lag_bytes"] == 0)
                watching.await_windows(1, read=True)
            with watching.phase("crash") as crash:
                crash_amid_requests(server, watching)
                watching.await_windows(2)
            out, err = capture.communicate(timeout=120)
            told = {**pages(running), "capture's output": out + err}
            running.end()
            told["stderr"] = "".join(running.said)
        replayed = run_command("replay", str(recording), "--format", "json")
        text = run_command("replay", str(recording))
        told |= {**texts(recording, bundle), "replay": text.stdout + text.stderr}
        return Story(
            quoted,
            crash,
            answers,
            server.log.read_text(errors="replace"),
            server.await_end(),
            told,
            replayed.stdout,
            (recording / "windows.jsonl").read_text(),
        )


def test_what_users_write_is_no_sign_of_anything(story: Story) -> None:
    story.quoted.tell()
    assert story.answers == [200, 200, 200, 404, 400, 404]
    for name in QUOTED:
        assert CANARIES[name] in story.log, name
    assert verdicts_of(story.quoted.read) == {"none"}
    assert not story.quoted.alerts
    assert story.quoted.states == ["serving"]


def test_a_crash_whose_last_words_quote_users_is_an_engine_failure(story: Story) -> None:
    story.crash.tell()
    (dump,) = [line for line in story.log.splitlines() if "Dumping scheduler output" in line]
    assert CANARIES["stop"] in dump
    assert OOM in dump
    assert story.exit_code == 0, "it does not say by its exit code that it failed"
    assert story.crash.states[-1] == "dead"
    assert story.crash.verdicts[-2:] == ["engine_failure"] * 2
    assert {cause["cause"] for cause in story.crash.causes} == {"engine_failure"}
    assert {cause["kind"] for cause in story.crash.causes} == {"killed"}
    assert story.crash.alerts == {("engine_failure", "critical")}
    assert story.crash.levers == {"inspect_engine_failure"}


def test_nothing_of_users_and_no_secret_is_told(story: Story) -> None:
    assert {"/metrics", "stderr", "log.jsonl", "bundle: recording/log.jsonl"} <= story.told.keys()
    for name, text in story.told.items():
        assert text, name
        for canary in CANARIES.values():
            assert canary not in text, (name, canary)
            assert urllib.parse.quote(canary) not in text, (name, canary)
    launch = json.loads(story.told["recording.json"])["target"]["launch"]["argv"]
    assert launch[launch.index("--api-key") + 1] == "***"


def test_the_capture_of_it_replays_to_the_same_windows(story: Story) -> None:
    windows = [json.loads(line) for line in story.recorded.splitlines()]
    say(f"recorded: {[window['verdict'] for window in windows]}")
    assert story.replayed == story.recorded
    assert windows[-1]["verdict"] == "engine_failure"
    assert verdicts_of(filter(is_read, windows)) <= {"none", "engine_failure"}
    assert not verdicts_of(windows) & {"cuda_oom", "host_oom"}
