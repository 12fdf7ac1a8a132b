"""The sidecar in a real pod, by a manifest as users write it: a kill next door is seen and attributed."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.pod import Pod, pod

MANIFEST = Path(__file__).parents[1] / "data/pod/pod.yaml"
OFTEN = ", --interval, 1s, --window, 5s]"
SERVES = 'target_state{state="serving"} 1.0'
KILLED = 'evidence_total{cause="host_oom",signal="oom_kill",source="cgroup"} 1.0'
ALERTED = 'alert{cause="host_oom",severity="critical"} 1.0'


def causes(running: Pod) -> list[dict[str, Any]]:
    return [cause for window in running.windows() for cause in window["causes"]]


@pytest.mark.component("root")
@pytest.mark.component("podman")
@pytest.mark.timeout(150)
def test_a_kill_in_the_container_beside_is_seen_and_is_the_servers() -> None:
    with pod(MANIFEST) as running:
        running.shows(SERVES, 'source_up{source="cgroup"} 1.0', 'source_up{source="process"} 1.0')
        assert ALERTED.replace(" 1.0", " 0.0") in running.metrics()

        running.order("outlive unwell")
        running.order("engine take")

        running.shows(ALERTED, KILLED, 'target_state{state="dead"} 1.0')
        running.until(lambda: bool(causes(running)))
        assert {(one["cause"], one["kind"], one["confidence"]) for one in causes(running)} == {
            ("host_oom", "cgroup", "confirmed")
        }

        # The container is begun anew, and its cgroup with it: a kill is told once.
        running.order("api_server exit")
        running.shows(SERVES, ALERTED, KILLED)
        assert "10001" in running.podman("exec", "vllm-sidecar", "id", "-u")
    assert not running.work.exists()
    assert str(running.work) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.component("root")
@pytest.mark.component("podman")
@pytest.mark.timeout(150)
@pytest.mark.parametrize("order", ["api_server take", "engine take"])
def test_a_container_that_ends_with_the_kill_and_is_begun_anew(tmp_path: Path, order: str) -> None:
    """All is over between two looks, five seconds apart: the cgroup, and what it counted."""
    manifest = tmp_path / "pod.yaml"
    written = MANIFEST.read_text()
    manifest.write_text(written.replace(OFTEN, "]"))
    assert written.count(OFTEN) == 1
    with pod(manifest) as running:
        running.shows(SERVES, 'source_up{source="cgroup"} 1.0', 'source_up{source="process"} 1.0')

        running.order(order)

        running.shows(ALERTED, KILLED)
        running.until(lambda: bool(causes(running)))
        first = causes(running)[0]
        assert (first["cause"], first["kind"], first["confidence"]) == (
            "host_oom",
            "cgroup",
            "confirmed",
        )
        running.shows(SERVES, KILLED)
