"""Real servers that refuse to start for want of memory: of the cache's, and of the host's."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.daemon import daemon
from tests.real_vllm.server import START_S, vllm_server
from tests.real_vllm.watch import OFTEN, Phase, watch

pytestmark = pytest.mark.timeout(900)

WAYS = {
    # A cache of 2048 tokens.
    "cache": ("--max-model-len", "4096", "--kv-cache-memory-bytes", str(1 << 20)),
    # 4 TiB.
    "host": ("--num-gpu-blocks-override", "129", "--kv-cache-memory-bytes", str(1 << 42)),
}


@dataclass(frozen=True, slots=True)
class Story:
    """What was shown of each server, and how it ended."""

    phases: Mapping[str, Phase]
    exit_codes: Mapping[str, int]
    logs: Mapping[str, str]


@pytest.fixture(scope="module")
def story(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """All at the same time: each of them only waits for its end."""
    phases: dict[str, Phase] = {}
    exit_codes: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        servers, watches = {}, []
        for name, options in WAYS.items():
            server = stack.enter_context(
                vllm_server(model, tmp_path_factory.mktemp(name), *options)
            )
            look = ("--target", server.url, "--log", str(server.log), *OFTEN)
            watching = stack.enter_context(watch(stack.enter_context(daemon(*look))))
            phases[name] = stack.enter_context(watching.phase(name))
            servers[name] = server
            watches.append(watching)
        for name, server in servers.items():
            exit_codes[name] = server.await_end(START_S)
        for watching in watches:
            watching.await_windows(2)
        logs = {name: server.log.read_text() for name, server in servers.items()}
    return Story(phases, exit_codes, logs)


@pytest.mark.parametrize(
    ("name", "said", "signal", "lever"),
    [
        (
            "cache",
            "larger than the available KV cache memory",
            "request_exceeds_cache",
            "lower_max_model_len",
        ),
        (
            "host",
            "is less than requested memory for kv",
            "free_memory_below_wanted",
            "free_cotenant_memory",
        ),
    ],
)
def test_a_refused_start_is_a_capacity_rejection_and_no_kill(
    story: Story, name: str, said: str, signal: str, lever: str
) -> None:
    phase = story.phases[name]
    phase.tell()
    assert said in story.logs[name]
    assert story.exit_codes[name] == 1
    assert phase.states[-2:] == ["starting", "dead"]
    assert phase.alerts == {("cuda_oom", "critical")}
    last = phase.windows[-1]
    assert (last["verdict"], last["state"]) == ("cuda_oom", "dead")
    found = [(c["kind"], c["phase"], c["confidence"]) for c in phase.causes]
    assert set(found) == {("capacity_rejection", "startup", "confirmed")}
    assert phase.signals("cuda_oom") == {("vllm_log", signal)}
    assert {piece["amount"] for piece in phase.evidence("cuda_oom")} == {1}
    assert last["lever"]["name"] == lever
    assert set(phase.verdicts) == {"unknown", "cuda_oom"}
