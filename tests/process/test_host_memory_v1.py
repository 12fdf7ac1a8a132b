"""The whole daemon beside servers in trouble, under cgroup v1 of this machine's own kernel."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.memory_cgroups import await_full_reports
from tests.process.outcomes import check, results, say_seen

WHOLE_DAEMON, RESTARTS = (
    Path(__file__).with_name(f"{name}_probe.py") for name in ("whole_daemon", "container_restarts")
)
ROOT = Path("/sys/fs/cgroup/memory")
LARGE_BYTES = 192 << 20
WAYS = (
    *("engine", "api_server", "worker_unwell", "worker_outlived", "neighbour", "sibling"),
    *("reclaim", "engine_sigkill", "api_server_sigkill", "api_server_sigsegv", "api_server_exit"),
)
AT_A_TIME = 6
LIVES = 100

pytestmark = [
    pytest.mark.component("root"),
    pytest.mark.component("cgroup_v1"),
    pytest.mark.timeout(150),
]


def run(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={"PATH": os.environ.get("PATH", "")},
        capture_output=True,
        text=True,
        timeout=140,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """What the probes tell. Not at the same time: the many kills of one silence the kernel's log."""
    work = tmp_path_factory.mktemp("v1")
    large = work / "large"
    with large.open("wb") as file:
        file.truncate(LARGE_BYTES)
    await_full_reports()
    ways = run(WHOLE_DAEMON, ROOT, "/dev/kmsg", "1", work / "ways", large, AT_A_TIME, *WAYS)
    restarts = run(RESTARTS, ROOT, "/dev/kmsg", "50ms", work, LIVES)
    yield results(ways) | results(restarts)
    assert not list(ROOT.glob("sidecar-test-*"))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_shown(found: dict[str, dict[str, Any]], way: str) -> None:
    check(found[way])


def test_reclaim_is_counted_and_is_no_kill(found: dict[str, dict[str, Any]]) -> None:
    events = found["reclaim"]["events"]
    assert events["max"] > 0
    assert events["oom_kill"] == 0


def test_every_kill_before_the_cgroup_was_removed_is_known_with_the_kernel_log(
    found: dict[str, dict[str, Any]],
) -> None:
    about = found["about"]
    # Without the kernel log, v1 keeps no count that outlives the cgroup.
    for name, told in about["watchers"].items():
        say_seen(f"kernel log {name}", told["missed"], about["lives"])
    told = about["watchers"]["/dev/kmsg"]
    assert about["lives"] == LIVES
    assert told["missed"] == [], told
    assert told["amounts"]["kernel_log oom_kill_record"] == LIVES, told
