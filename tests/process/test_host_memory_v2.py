"""The whole daemon beside servers in trouble, under cgroup v2 of a second kernel."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import uml
from tests.process.outcomes import check, results, say_seen

WHOLE_DAEMON, RESTARTS = (
    Path(__file__).with_name(f"{name}_probe.py") for name in ("whole_daemon", "container_restarts")
)
LARGE_BYTES = 192 << 20
KILLS = ("engine", "api_server", "worker_unwell", "worker_outlived", "group", "neighbour")
OTHERS = (
    *("sibling", "reclaim", "high", "engine_sigkill", "api_server_sigkill", "api_server_sigsegv"),
    *("api_server_exit", "system"),
)
AT_A_TIME = 7
LIVES = 100
SECONDS = 160.0

pytestmark = [pytest.mark.component("uml"), pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the probes tell, each in a guest of its own: a guest has one core."""
    work = tmp_path_factory.mktemp("v2")
    large = work / "large"
    with large.open("wb") as file:
        file.truncate(LARGE_BYTES)

    def guest(name: str, memory: str, *arguments: object) -> str:
        directory = work / name
        directory.mkdir()
        command = " ".join(map(str, (sys.executable, *arguments)))
        script = f"ip link set lo up\nmkdir /mnt/work\n{command} 2>&1\n"
        return uml.run(script, directory, memory=memory, seconds=SECONDS)

    def ways(name: str, memory: str, names: tuple[str, ...]) -> str:
        where = ("/sys/fs/cgroup", "/mnt/kmsg", "1", "/mnt/work", large, AT_A_TIME)
        return guest(name, memory, WHOLE_DAEMON, *where, *names)

    with ThreadPoolExecutor() as pool:
        where = ("/sys/fs/cgroup", "off", "150ms", "/mnt/work", LIVES)
        running = (
            pool.submit(guest, "restarts", "256M", RESTARTS, *where),
            pool.submit(ways, "kills", "448M", KILLS),
            pool.submit(ways, "others", "416M", OTHERS),
        )
        outputs = [one.result() for one in running]
    return {name: one for output in outputs for name, one in results(output).items()}


@pytest.mark.parametrize("way", KILLS + OTHERS)
def test_what_is_shown(found: dict[str, dict[str, Any]], way: str) -> None:
    check(found[way])


def test_a_group_kill_counts_processes_and_is_one_incident(
    found: dict[str, dict[str, Any]],
) -> None:
    told = found["group"]
    assert told["events"]["oom_group_kill"] == 1
    assert told["evidence"]["host_oom oom_group_kill cgroup"] == 1
    # Of the server's three processes; kernels of that time count the first victim twice.
    assert told["evidence"]["host_oom oom_kill cgroup"] >= 2


def test_pressure_is_counted_and_is_no_kill(found: dict[str, dict[str, Any]]) -> None:
    assert found["high"]["events"]["high"] > 0
    assert found["reclaim"]["events"]["max"] > 0
    assert found["high"]["events"]["oom_kill"] == found["reclaim"]["events"]["oom_kill"] == 0


def test_every_kill_is_known_though_the_cgroup_was_removed(
    found: dict[str, dict[str, Any]],
) -> None:
    about = found["about"]
    told = about["watchers"]["off"]
    say_seen("no kernel log", told["missed"], about["lives"])
    assert about["lives"] == LIVES
    assert told["missed"] == [], told
    # By the cgroup itself if it was read in time, else by the one above: once each.
    assert sum(told["amounts"].values()) == LIVES, told
    assert told["amounts"]["cgroup oom_kill_witnessed"] > 0
