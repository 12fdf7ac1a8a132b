"""Real servers whose metrics page answers and says nothing: without statistics, and without an engine."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.daemon import daemon
from tests.real_vllm.load import Ask, users
from tests.real_vllm.server import ENGINE, ROOMY, vllm_server
from tests.real_vllm.watch import OFTEN, Phase, watch

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True, slots=True)
class Story:
    """What was shown of both, how the first answered, and what the dead engine's server did."""

    blind: Phase
    dead: Phase
    answered: Mapping[int | None, int]
    pages: dict[str, int | None]
    exit_code: int | None


@pytest.fixture(scope="module")
def story(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Both at the same time: neither has much to do."""
    with contextlib.ExitStack() as stack:
        servers, watches = [], []
        for options, env in (
            ((*ROOMY, "--disable-log-stats"), {}),
            (ROOMY, {"VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "1"}),
        ):
            work = tmp_path_factory.mktemp("server")
            server = stack.enter_context(vllm_server(model, work, *options, env=env))
            look = ("--target", server.url, "--log", str(server.log), *OFTEN)
            watches.append(stack.enter_context(watch(stack.enter_context(daemon(*look)))))
            servers.append(server)
        (unseen, kept), (watch_blind, watch_dead) = servers, watches
        unseen.await_ready()
        kept.await_ready()
        watch_dead.await_report(lambda shown: shown.state == "serving")
        with users(unseen, 2, Ask(46, 200)) as answered, watch_blind.phase("blind") as blind:
            with users(kept, 8, Ask(46, 1200)), watch_dead.phase("dead") as dead:
                watch_dead.await_report(lambda shown: "preemption" in shown.alerts)
                kept.kill(ENGINE)
                watch_dead.await_report(lambda shown: shown.state == "dead")
                watch_dead.await_windows(4)
                pages = {path: kept.status(path) for path in ("/metrics", "/health", "/version")}
            watch_blind.until(lambda: answered.answers[200] > 0)
        exit_code = kept.exit_code()
        stack.close()
    return Story(blind, dead, answered.answers, pages, exit_code)


def test_without_statistics_all_is_unknown_and_nothing_is_healthy(story: Story) -> None:
    story.blind.tell()
    assert story.answered[200] > 0
    assert set(story.blind.verdicts) == {"unknown"}
    assert story.blind.states == ["serving"]
    assert not story.blind.alerts
    for window in story.blind.windows:
        assert not window["observable"]["preemption"]
        assert not window["observable"]["stalled"]
        assert window["observable"]["cuda_oom"]
        assert window["observable"]["engine_failure"]
    for shown in story.blind.shown:
        assert shown.report["found"] == []
        assert not shown.observable["preemption"]


def test_a_dead_engine_behind_a_page_that_answers_is_a_failure(story: Story) -> None:
    story.dead.tell()
    assert story.pages == {"/metrics": 200, "/health": 503, "/version": 200}
    assert story.exit_code is None, "it lives on"
    assert story.dead.states == ["serving", "dead"]
    assert {cause for cause, _ in story.dead.alerts} == {"preemption", "engine_failure"}
    assert story.dead.shown[-1].verdict == "engine_failure"
    after = story.dead.windows[-4:]
    assert [window["verdict"] for window in after] == ["engine_failure"] * 4
    for window in after:
        assert window["state"] == "dead"
        assert window["severity"] == "critical"
        assert window["lever"]["name"] == "inspect_engine_failure"
    assert {cause["cause"] for cause in story.dead.causes} == {"preemption", "engine_failure"}
