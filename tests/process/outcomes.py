"""What the daemon must have shown of each happening, whichever kernel it was."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """``state``: the server's, at last. ``alerts``: cause and severity in the end.

    ``kind``: the only one under the only cause. ``victim`` and ``owner``: of the kernel's record, if
    there is one: who was killed, and whose limit it was. ``whole``: others are killed with the victim.
    """

    state: str
    alerts: tuple[str, str] | None = None
    kind: str | None = None
    confidence: str | None = "confirmed"
    victim: str | None = None
    owner: str = "own"
    whole: bool = False


HOST_OOM, WARNING = ("host_oom", "critical"), ("host_oom", "warning")
FAILURE = ("engine_failure", "critical")
OUTCOMES = {
    "engine": Outcome("dead", HOST_OOM, "cgroup", victim="engine"),
    "api_server": Outcome("dead", HOST_OOM, "cgroup", victim="api_server"),
    # Its API server answers on, its health endpoint with 503.
    "worker_unwell": Outcome("dead", HOST_OOM, "cgroup", victim="worker"),
    # Whatever the server does without its worker, the worker was one of its own.
    "worker_outlived": Outcome("serving", HOST_OOM, "cgroup", victim="worker"),
    "group": Outcome("dead", HOST_OOM, "cgroup", victim="engine", whole=True),
    "neighbour": Outcome("serving", WARNING, "cgroup", victim="other"),
    "system": Outcome("dead", HOST_OOM, "system", victim="engine", owner="host"),
    "sibling": Outcome("serving"),
    "reclaim": Outcome("serving"),
    "high": Outcome("serving"),
    "engine_sigkill": Outcome("dead", FAILURE, "crashed"),
    # Nothing but silence tells of these, unless the engine is seen while it is without its parent.
    "api_server_sigkill": Outcome("dead", FAILURE, "killed", confidence=None),
    "api_server_sigsegv": Outcome("dead", FAILURE, "killed", confidence=None),
    "api_server_exit": Outcome("dead", FAILURE, "killed", confidence=None),
}
NEVER = {"host_oom", "cuda_oom", "stalled"}


def results(output: str) -> dict[str, dict[str, Any]]:
    """What a probe told, by what happened; ``about`` where it tells of one thing only."""
    lines = [line.partition("RESULT ")[2] for line in output.splitlines() if "RESULT " in line]
    found = [json.loads(line) for line in lines]
    assert found, output[-3000:]
    return {one.get("what", "about"): one for one in found}


def check(found: dict[str, Any]) -> None:
    """Assert the outcome of one happening."""
    assert "error" not in found, found["error"]
    wanted = OUTCOMES[found["what"]]
    if found["late_s"] is not None:
        print(  # noqa: T201 - what was measured, for who asks with -rP
            f"{found['what']}: shown {found['late_s'] * 1000:.0f} ms after it was known to be over"
        )
    assert found["code"] == 0, found
    assert found["sources"]["cgroup"] == found["sources"]["kernel_log"] == 1, found
    states = [one["state"] for one in found["said"] if one["event"] == "state_changed"]
    assert states[-1] == wanted.state, found
    if wanted.alerts is None:
        assert found["ever"] == {}, found
        assert found["causes"] == [], found
        assert found["evidence"] == {}, found
        return
    assert found["at_last"] == dict([wanted.alerts]), found
    causes = {(cause, kind): confidence for cause, kind, confidence in found["causes"]}
    assert causes.keys() == {(wanted.alerts[0], wanted.kind)}, found
    assert wanted.confidence in {None, *causes.values()}, found
    if wanted.victim is None:
        assert not NEVER & found["ever"].keys(), found
    else:
        check_kill(found, wanted)


def check_kill(found: dict[str, Any], wanted: Outcome) -> None:
    """Each source counted the kill, the kernel's record once, however often it was printed."""
    evidence, told = found["evidence"], [tuple(one) for one in found["parties"]]
    assert evidence["host_oom oom_kill cgroup"] == found["events"]["oom_kill"], found
    records = evidence["host_oom oom_kill_record kernel_log"]
    if wanted.whole:
        # Kernels of that time count the first victim twice, and give of a process that is ending
        # already the id of one of its threads.
        assert 1 <= records <= found["events"]["oom_kill"], found
        assert (wanted.victim, wanted.owner) in told, found
    else:
        assert records == 1, found
        assert told == [(wanted.victim, wanted.owner)], found


def say_seen(name: str, missed: Iterable[int], lives: int) -> None:
    """Print how many of the deaths were seen."""
    print(f"{name}: {lives - len(list(missed))} of {lives} seen")  # noqa: T201
