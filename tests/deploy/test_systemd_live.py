"""The shipped units under a real systemd: up, told of, closed in, reloaded, rescued, and stopped."""

from typing import Any

import pytest

from tests.deploy.systemd_instances import FULL, LLAMA, OTHER, PORTS
from tests.deploy.systemd_probe import STAGES, TOKEN
from tests.fakes import systemd_guest
from tests.process.outcomes import results

SECONDS = 300.0
EVERY_CAUSE = ["cuda_oom", "engine_failure", "host_oom", "preemption", "stalled"]
MEMORY_MAX = 192 << 20
CAP_SYSLOG = 1 << 34
DYNAMIC = range(61184, 65520)
"""Users that systemd gives to ``DynamicUser=``."""

pytestmark = [
    pytest.mark.component("uml"),
    pytest.mark.component("systemd"),
    pytest.mark.component("root"),
    pytest.mark.timeout(SECONDS + 30),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each stage of the probe told."""
    output = systemd_guest.run(
        "tests/deploy/systemd_probe.py", tmp_path_factory.mktemp("guest"), seconds=SECONDS
    )
    found = results(output)
    print({name: one["took_s"] for name, one in found.items()})  # noqa: T201 - for who asks with -rP
    assert found.keys() == {stage.__name__ for stage in STAGES}, output[-3000:]
    return found


def stage(told: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """A stage that went well."""
    assert "error" not in told[name], f"{told[name]['error']}\n{told[name]['states']}"
    return told[name]


def test_the_commands_of_the_readme_bring_it_up(told: dict[str, dict[str, Any]]) -> None:
    stage(told, "prepare")
    found = stage(told, "install")
    assert found["ActiveState"] == "active"
    assert found["UnitFileState"] == "enabled"
    assert found["StatusText"].startswith("verdict ")
    assert 'Status: "verdict ' in found["printed"][-1]


def test_the_drop_ins_are_taken_as_the_readme_says(told: dict[str, dict[str, Any]]) -> None:
    found = stage(told, "install_others")
    for unit in (FULL, OTHER):
        assert found[unit]["ActiveState"] == "active"
        assert found[unit]["StatusText"].startswith("verdict ")


@pytest.mark.parametrize("unit", [LLAMA, FULL, OTHER])
def test_it_has_no_more_rights_than_it_was_given(
    told: dict[str, dict[str, Any]], unit: str
) -> None:
    found = stage(told, "sandbox")[unit]
    process, user = found["process"], int(found["process"]["Uid"].split()[0])
    assert process["NoNewPrivs"] == "1"
    assert process["Seccomp"] == "2"
    assert process["oom_score_adj"] == "-900"
    assert int(process["CapEff"], 16) == (CAP_SYSLOG if unit == FULL else 0)
    assert user == 900 if unit == FULL else user in DYNAMIC
    assert found["warned"] == []
    assert found["memory"] < MEMORY_MAX / 2


def test_without_any_right_every_cause_is_observable(told: dict[str, dict[str, Any]]) -> None:
    found = stage(told, "sandbox")[LLAMA]
    assert found["observable"] == EVERY_CAUSE
    assert found["up"] == ["cgroup", "vllm_health", "vllm_log", "vllm_metrics"]
    assert found["state"] == ["serving"]
    assert found["status"] == "verdict none; server serving; lever none"


def test_what_the_drop_ins_add_is_seen(told: dict[str, dict[str, Any]]) -> None:
    found = stage(told, "sandbox")
    # Found by the port, for nobody told the cgroup.
    assert found[FULL]["observable"] == EVERY_CAUSE
    assert {"cgroup", "kernel_log", "process"} <= set(found[FULL]["up"])
    assert found["engines"] == 1
    assert found["asked"] == [f"Bearer {TOKEN}"]


def test_local_only_is_reached_from_this_host_alone(told: dict[str, dict[str, Any]]) -> None:
    found = stage(told, "sandbox")
    assert {unit: found[unit]["outside"] for unit in PORTS} == {
        LLAMA: True,
        FULL: True,
        OTHER: False,
    }


def test_a_watchdog_too_short_for_the_interval_is_made_longer(
    told: dict[str, dict[str, Any]],
) -> None:
    found = stage(told, "sandbox")
    assert found[LLAMA]["watchdog"] == "8s", "the test's unit says 2 s"
    assert found[FULL]["watchdog"] == "30s"


def test_a_cuda_oom_in_the_journal_of_the_unit_is_alerted(told: dict[str, dict[str, Any]]) -> None:
    found = stage(told, "cuda_oom")
    assert found["before"] == []
    assert [one.split()[0] for one in found["alerts"]] == ["cuda_oom"]
    assert found["evidence"] == {"cuda_oom gpu_out_of_memory vllm_log": 1}
    assert found["status"].startswith("verdict cuda_oom (")


def test_a_reload_takes_a_good_file_and_leaves_a_bad_one(told: dict[str, dict[str, Any]]) -> None:
    good, bad, again = stage(told, "reload")["told"]
    assert [one["taken"] for one in (good, bad, again)] == [True, False, True]
    assert [one["newer"] for one in (good, bad, again)] == [True, False, True]
    assert [one["event"] for one in good["said"]] == ["settings_reloaded"]
    assert [one["event"] for one in bad["said"]] == ["settings_not_reloaded"]
    assert "did you mean max_engines?" in bad["said"][0]["why"]
    assert again["said"][-1]["settings"] == "metrics_path"
    assert "the last reload failed" in bad["StatusText"]
    assert "reload" not in good["StatusText"] + again["StatusText"]
    for one in (good, bad, again):
        assert (one["ActiveState"], one["NRestarts"]) == ("active", "0")


def test_a_loop_that_stands_still_is_ended_and_what_was_known_is_kept(
    told: dict[str, dict[str, Any]],
) -> None:
    found = stage(told, "watchdog")
    assert found["restarts"] == ["0", "1"]
    assert found["is_another"]
    before, after = found["counted"]
    assert before == after != {}
    assert found["still_alerted"]
    assert any("Watchdog timeout (limit 8s)" in line for line in found["said"])
    assert any("Failed with result 'watchdog'" in line for line in found["said"])
    assert any("sitecustomize.py" in line for line in found["said"]), "where it stood"


def test_a_kill_at_the_limit_of_the_servers_unit_is_a_host_oom(
    told: dict[str, dict[str, Any]],
) -> None:
    found = stage(told, "host_oom")
    assert found["server"] == {"Result": "exit-code", "ExecMainStatus": "1"}, "it ended by itself"
    for unit in (LLAMA, FULL):
        assert not any("host_oom" in one for one in found["before"][unit])
        assert "host_oom critical" in found[unit]["alerts"]
        assert found[unit]["verdict"] == ["host_oom"]
        assert found[unit]["evidence"]["host_oom oom_kill cgroup"] == 1
    assert found[FULL]["evidence"]["host_oom oom_kill_record kernel_log"] == 1
    assert {one["ActiveState"] for one in found["sidecars"].values()} == {"active"}


@pytest.mark.parametrize("unit", [LLAMA, FULL, OTHER])
def test_it_stops_cleanly(told: dict[str, dict[str, Any]], unit: str) -> None:
    found = stage(told, "stop")[unit]
    assert found == {
        "ActiveState": "inactive",
        "Result": "success",
        "ExecMainStatus": "0",
        "last": "stopped",
    }
