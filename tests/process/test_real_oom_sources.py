"""A real kernel kills a real process, under cgroup v1 and v2, and both sources see it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import uml
from tests.process.memory_cgroups import await_full_reports

ROOT = Path(__file__).parents[2]
PROBE = Path(__file__).with_name("oom_probe.py")
V1_ROOT = Path("/sys/fs/cgroup/memory")


def result(output: str) -> dict[str, Any]:
    lines = [line for line in output.splitlines() if "RESULT " in line]
    assert len(lines) == 1, output
    found = json.loads(lines[0].partition("RESULT ")[2])
    assert isinstance(found, dict)
    return found


def seen_by_both(found: dict[str, Any], name: str) -> None:
    assert found["hog"]["code"] == -9
    assert found["path"] == name
    assert found["limit"] == 48 << 20
    assert found["before"]["oom_kill"] == 0
    assert found["after"]["oom_kill"] == 1
    assert found["gone"] is True
    (kill,) = found["kills"]
    assert kill == [found["hog"]["pid"], "VLLM::EngineCor", "cgroup", name, name]
    assert set(found["late_s"]) == {"cgroup", "kernel_log"}
    assert all(late < 1 for late in found["late_s"].values()), found["late_s"]


@pytest.mark.component("root")
@pytest.mark.component("cgroup_v1")
def test_a_kill_under_cgroup_v1_is_seen_within_a_second() -> None:
    name = f"sidecar-test-{os.getpid()}"
    await_full_reports()
    done = subprocess.run(
        [sys.executable, PROBE, V1_ROOT, "/dev/kmsg", name],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", "")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = result(done.stdout)
    assert found["version"] == 1
    seen_by_both(found, f"/{name}")
    assert not (V1_ROOT / name).exists()


@pytest.mark.component("uml")
def test_a_kill_under_cgroup_v2_is_seen_within_a_second(tmp_path: Path) -> None:
    script = f"PYTHONPATH={ROOT} {sys.executable} {PROBE} /sys/fs/cgroup /mnt/kmsg vllm 2>&1"
    found = result(uml.run(script, tmp_path))
    assert found["version"] == 2
    seen_by_both(found, "/vllm/ctr")
