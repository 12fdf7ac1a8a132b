"""Settings and the environment of a pod -> which pod and which container are looked at."""

import pytest

from sidecar.clock import Clock
from sidecar.config import Settings
from sidecar.model.vocabulary import Source
from sidecar.wiring import asked_for, build_sources, kubernetes_source

NAMES = ("KUBERNETES_SERVICE_HOST", "POD_NAME", "HOSTNAME", "CONTAINER_NAME")


@pytest.fixture(autouse=True)
def pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POD_NAME", "vllm-0")


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        (Settings(), None),
        (Settings(kubernetes="server"), "server"),
        (Settings(log=["kubernetes:vllm"]), "vllm"),
        (Settings(log=["kubernetes:vllm"], kubernetes="server"), "server"),
        (Settings(log=["kubernetes:vllm", "kubernetes:engine"]), None),
        (Settings(log=["kubernetes:other/vllm-9/vllm", "stdin"]), None),
    ],
)
def test_the_servers_container_is_named_or_the_one_whose_log_is_read(
    settings: Settings, given: str | None
) -> None:
    assert kubernetes_source(settings, Clock())._pod.given == given


def test_our_own_pod_and_container_are_told_by_the_manifest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONTAINER_NAME", "sidecar")
    known = kubernetes_source(Settings(), Clock())._pod
    assert (known.name, known.ours) == ("vllm-0", "sidecar")
    monkeypatch.setenv("CONTAINER_NAME", "")
    assert kubernetes_source(Settings(), Clock())._pod.ours is None


def test_it_is_looked_at_unless_it_is_off_and_asked_for_where_it_is_named() -> None:
    def names(settings: Settings) -> list[Source]:
        return [source.name for source in build_sources(settings, Clock())]

    assert Source.KUBERNETES in names(Settings())
    assert Source.KUBERNETES not in names(Settings(kubernetes="off"))
    assert Source.KUBERNETES not in asked_for(Settings()) | asked_for(Settings(kubernetes="off"))
    assert Source.KUBERNETES in asked_for(Settings(kubernetes="vllm"))
