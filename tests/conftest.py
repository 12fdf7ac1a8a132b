"""Guards for every test: no blocking call on the loop, no task left behind, components present."""

import asyncio
import ctypes
import os
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import HealthCheck, settings

from tests.fakes.deploy_tools import are_there
from tests.fakes.images import can_be_made, images

__all__ = ("images",)

settings.register_profile(
    "project", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)
settings.load_profile("project")

LOCAL_READS = (
    "io.BufferedReader.read",
    "io.TextIOWrapper.read",
    "os.access",
    "os.listdir",
    "os.read",
    "os.stat",
)
"""The tail reads bounded pieces of a file on the loop, and our own process's numbers come from
/proc: both on purpose. Waiting, writing, sockets and locks stay forbidden."""


def has_ipv6() -> bool:
    """Whether a plain socket can be bound to the loopback address of version 6."""
    try:
        with socket.socket(socket.AF_INET6) as plain:
            plain.bind(("::1", 0))
    except OSError:
        return False
    return True


def has_nvidia_library() -> bool:
    """Whether the driver's library can be loaded."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


COMPONENTS: dict[str, Callable[[], bool]] = {
    "promtool": lambda: shutil.which("promtool") is not None,
    "prometheus": lambda: shutil.which("prometheus") is not None,
    "alertmanager": lambda: all(
        shutil.which(name) for name in ("prometheus-alertmanager", "amtool")
    ),
    "gcc": lambda: shutil.which("gcc") is not None,
    "uml": lambda: shutil.which("linux.uml") is not None,
    "openssl": lambda: shutil.which("openssl") is not None,
    "curl": lambda: shutil.which("curl") is not None,
    "logrotate": lambda: Path("/usr/sbin/logrotate").exists(),
    "journald": lambda: (
        Path("/lib/systemd/systemd-journald").exists() and shutil.which("journalctl") is not None
    ),
    "systemd": lambda: (
        Path("/lib/systemd/systemd").exists() and shutil.which("systemd-analyze") is not None
    ),
    "chromium": lambda: shutil.which("chromium") is not None,
    "podman": lambda: all(shutil.which(name) for name in ("podman", "runc")),
    "image_base": can_be_made,
    "kubectl": lambda: shutil.which("kubectl") is not None,
    "deploy_tools": are_there,
    "root": lambda: os.geteuid() == 0,
    "cgroup_v1": lambda: Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists(),
    "ipv6": has_ipv6,
    "no_nvidia_library": lambda: not has_nvidia_library(),
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose component is missing; fail it where all components must be there."""
    for marker in item.iter_markers("component"):
        name = str(marker.args[0])
        if not COMPONENTS[name]():
            if os.environ.get("REQUIRE_COMPONENTS") == "1":
                pytest.fail(f"component {name} is missing", pytrace=False)
            pytest.skip(f"component {name} is missing")


@pytest.fixture(autouse=True)
def no_blocking_call() -> Iterator[BlockBuster]:
    """A blocking call of the package on the event loop is an error."""
    with blockbuster_ctx("sidecar") as guard:
        for name in LOCAL_READS:
            guard.functions[name].deactivate()
        yield guard


@pytest.fixture(autouse=True)
async def no_task_left() -> AsyncIterator[None]:
    """No task outlives the test that began it."""
    yield
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, left
