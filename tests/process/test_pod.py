"""The sidecar in a real pod, of the manifests that users apply: a kill next door is seen and attributed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.manifests import Document, compose, server_of_example, sidecar_of, workload_of
from tests.fakes.pod import Pod, pod
from tests.fakes.podman import Podman

pytestmark = [
    pytest.mark.component("root"),
    pytest.mark.component("podman"),
    pytest.mark.component("image_base"),
    pytest.mark.component("kubectl"),
    # The first test that needs the images builds them.
    pytest.mark.timeout(300),
]

RESTRICTED = ("sidecar", "log-shared-volume-entrypoint", "state")
LAST = "plain-container"
"""Podman 4.3 knows no native sidecars: it would wait for the end of one."""
SERVES = 'target_state{state="serving"} 1.0'
KILLED = 'evidence_total{cause="host_oom",signal="oom_kill",source="cgroup"} 1.0'
ALERTED = 'alert{cause="host_oom",severity="critical"} 1.0'
SEES = ('source_up{source="cgroup"} 1.0', 'source_up{source="process"} 1.0')
STARTED = "Application startup complete."
KILL = {("host_oom", "cgroup", "confirmed")}


def workload(folder: Path, *more: str, server: Document | None = None) -> Document:
    """The example's server with a sidecar."""
    given = server_of_example() if server is None else server
    return workload_of(compose(folder, given, (*RESTRICTED, *more, LAST)))


def as_root() -> Document:
    """The example's server as images of vLLM run by default: as root, with the usual capabilities."""
    server = server_of_example()
    spec = server["spec"]["template"]["spec"]
    del spec["securityContext"], spec["containers"][0]["securityContext"]
    return server


def causes(running: Pod) -> list[dict[str, Any]]:
    return [cause for window in running.windows() for cause in window["causes"]]


def shown(found: Sequence[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(one["cause"], one["kind"], one["confidence"]) for one in found}


def test_a_kill_in_the_container_beside_is_seen_and_is_the_servers(
    images: Podman, tmp_path: Path
) -> None:
    with pod(images, workload(tmp_path, "cgroup-hostpath")) as running:
        running.shows(SERVES, *SEES)
        assert ALERTED.replace(" 1.0", " 0.0") in running.metrics()

        running.order("outlive unwell")
        running.order("engine take")

        running.shows(ALERTED, KILLED, 'target_state{state="dead"} 1.0')
        running.until(lambda: bool(causes(running)))
        assert shown(causes(running)) == KILL

        # The container is begun anew, and its cgroup with it: a kill is told once.
        running.order("api_server exit")
        running.shows(SERVES, ALERTED, KILLED)


@pytest.mark.parametrize("order", ["api_server take", "engine take"])
def test_a_container_that_ends_with_the_kill_and_is_begun_anew(
    images: Podman, tmp_path: Path, order: str
) -> None:
    """All is over between two looks, five seconds apart: the cgroup, and what it counted."""
    with pod(images, workload(tmp_path, "cgroup-hostpath"), settings={}) as running:
        running.shows(SERVES, *SEES)

        running.order(order)

        running.shows(ALERTED, KILLED)
        running.until(lambda: bool(causes(running)))
        assert shown(causes(running)[:1]) == KILL
        running.shows(SERVES, KILLED)


def test_without_any_right_beyond_the_pod_all_causes_can_be_observed(
    images: Podman, tmp_path: Path
) -> None:
    """The level ``restricted``: the server's cgroup is seen through the server's own mounts."""
    with pod(images, workload(tmp_path)) as running:
        running.shows(SERVES, *SEES, 'source_up{source="vllm_log"} 1.0')
        told = images("exec", "vllm-vllm-sidecar", "vllm-sidecar", "check")
        assert "cannot be observed" not in told
        assert "the server's process, in its own mounts" in told
        who = "import os; print(os.getuid(), os.getgid())"
        assert images("exec", "vllm-vllm-sidecar", "python", "-c", who).split() == ["2000", "0"]

        # What puts the log into the volume as well has left its place to the server.
        first = images("inspect", "--format={{.State.Pid}}", "vllm-vllm").strip()
        assert Path(f"/proc/{first}/comm").read_text() == "vllm\n"
        assert STARTED in images("exec", "vllm-vllm", "cat", "/var/log/vllm/vllm.log")
        assert STARTED in images("logs", "vllm-vllm")

        running.order("outlive unwell")
        running.order("engine take")

        running.shows(ALERTED, KILLED)
        identity = images("pod", "ps", "-q", "--no-trunc").strip()
    assert not images("ps", "-aq").strip()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{identity}"))


@pytest.mark.parametrize("added", [(), ("server-as-root",)])
def test_the_processes_of_root_are_seen_by_root(
    images: Podman, tmp_path: Path, added: tuple[str, ...]
) -> None:
    with pod(images, workload(tmp_path, *added, server=as_root())) as running:
        running.shows(SERVES)
        done = images.run("exec", "vllm-vllm-sidecar", "vllm-sidecar", "check")
        is_seen = "host_oom: can be observed" in done.stdout
        assert is_seen is bool(added)
        assert ("source process: works" in done.stdout) is bool(added)
        assert done.returncode == (0 if added else 1)


@pytest.mark.parametrize("rights", ["device and capability", "privileged"])
def test_the_kernels_log_is_read_by_a_privileged_container_only(
    images: Podman, tmp_path: Path, rights: str
) -> None:
    """As a kubelet gives it: a device of a hostPath is bound, and not added to those that may be opened."""
    template = workload(tmp_path, "kernel-log")["spec"]["template"]
    assert sidecar_of(template)["securityContext"]["privileged"] is True
    given = {
        "device and capability": (
            "--volume=/dev/kmsg:/dev/kmsg",
            "--cap-drop=all",
            "--cap-add=SYSLOG",
        ),
        "privileged": ("--privileged",),
    }[rights]

    program = "import os; os.read(os.open('/dev/kmsg', os.O_RDONLY | os.O_NONBLOCK), 8192)"
    options = ("--rm", "--network=none", "--read-only", "--user=0:0", "--entrypoint=python")
    done = images.run("run", *options, *given, "localhost/vllm-sidecar:test", "-c", program)

    assert (done.returncode == 0) is (rights == "privileged"), done
    assert rights == "privileged" or "Operation not permitted" in done.stderr
