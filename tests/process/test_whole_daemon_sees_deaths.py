"""The whole daemon beside a dying server, under two real kernels: the right cause, within a second."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import uml

ROOT = Path(__file__).parents[2]
PROBE = Path(__file__).with_name("whole_daemon_probe.py")
V1_ROOT = Path("/sys/fs/cgroup/memory")
DEADLINE_S = 3.0
"""Generous: what is measured is printed, and is some hundredths of a second."""


def results(output: str) -> dict[str, dict[str, Any]]:
    found = [
        json.loads(line.partition("RESULT ")[2])
        for line in output.splitlines()
        if "RESULT " in line
    ]
    assert [one["what"] for one in found] == ["oom", "kill", "neighbour"], output
    for one in found:
        print(  # noqa: T201 - what was measured, for who asks with -rP
            f"{one['what']}: shown {one['late_s'] * 1000:.0f} ms after the death"
        )
    return {one["what"]: one for one in found}


def check(found: dict[str, dict[str, Any]]) -> None:
    for one in found.values():
        assert one["late_s"] < DEADLINE_S
        assert one["code"] == 0
        assert one["sources"]["cgroup"] == one["sources"]["kernel_log"] == 1
    # A kill for memory is no engine failure beside it, and a plain kill no memory failure.
    assert found["oom"]["ever"] == {"host_oom": ["critical"]}
    assert found["kill"]["ever"] == {"engine_failure": ["critical"]}
    assert set(found["neighbour"]["ever"]) == {"host_oom"}
    assert found["neighbour"]["at_last"] == {"host_oom": "warning"}, "the server lives on"
    states = [
        [event["state"] for event in found[what]["said"] if event["event"] == "state_changed"]
        for what in ("oom", "kill", "neighbour")
    ]
    assert states == [["serving", "dead"], ["serving", "dead"], ["serving"]]


@pytest.mark.component("root")
@pytest.mark.component("cgroup_v1")
def test_deaths_under_cgroup_v1(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, PROBE, V1_ROOT, "/dev/kmsg", "3", tmp_path],
        env={"PATH": os.environ.get("PATH", "")},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check(results(done.stdout))
    assert not list(V1_ROOT.glob("sidecar-test-*"))


@pytest.mark.component("uml")
def test_deaths_under_cgroup_v2(tmp_path: Path) -> None:
    script = (
        f"ip link set lo up\n{sys.executable} {PROBE} /sys/fs/cgroup /mnt/kmsg 2 /mnt/work 2>&1\n"
    )
    check(results(uml.run("mkdir /mnt/work\n" + script, tmp_path, memory="384M")))
