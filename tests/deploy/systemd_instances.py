"""Instances of the unit, as systemd and their own pages show them; to be run where they run."""

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.daemon import values

LLAMA, FULL, OTHER = (f"vllm-sidecar@{name}.service" for name in ("llama", "full", "other"))
PORTS = {LLAMA: 9477, FULL: 9478, OTHER: 9479}
GIVE_UP_S = 30.0


def command(*words: str, check: bool = True) -> str:
    """What a command prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0 or not check, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def show(unit: str, *names: str) -> dict[str, str]:
    """Properties of a unit."""
    lines = command("systemctl", "show", unit, f"--property={','.join(names)}").splitlines()
    return dict(line.split("=", 1) for line in lines)


def journal(unit: str, *more: str) -> list[str]:
    """What a unit, and systemd about it, said."""
    words = ("journalctl", "--no-pager", "--quiet", "--output=cat", f"--unit={unit}", *more)
    return command(*words).splitlines()


def events(unit: str) -> list[dict[str, Any]]:
    """Our own log of this unit."""
    command("journalctl", "--sync")
    return [json.loads(line) for line in journal(unit) if line.startswith("{")]


def page(unit: str, host: str = "127.0.0.1", seconds: float = 10) -> str:
    """What an instance exports; empty if it does not answer."""
    try:
        with urllib.request.urlopen(
            f"http://{host}:{PORTS[unit]}/metrics", timeout=seconds
        ) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def metrics(unit: str) -> dict[str, float]:
    """What an instance exports, by family and values of labels."""
    found = values(page(unit))
    return {
        " ".join((name.removeprefix("vllm_sidecar_"), *labels)): value
        for (name, labels), value in found.items()
    }


def ones(unit: str, family: str) -> list[str]:
    """Which series of a family are 1."""
    begin = f"{family} "
    return sorted(
        k.removeprefix(begin) for k, v in metrics(unit).items() if k.startswith(begin) and v == 1
    )


def until(condition: Callable[[], object], what: str, seconds: float = GIVE_UP_S) -> None:
    """Return once it holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.3)


def await_state(unit: str, family: str, wanted: list[str]) -> None:
    """Return once exactly these series of a state set are 1."""
    until(lambda: ones(unit, family) == wanted, f"{unit} {family}")


def await_alert(unit: str, wanted: str) -> None:
    """Return once a cause is alerted."""
    until(lambda: any(one.startswith(wanted) for one in alerts(unit)), f"{unit} alerts {wanted}")


def alerts(unit: str) -> list[str]:
    """The running episodes: cause and severity."""
    return ones(unit, "alert")


def evidence(unit: str) -> dict[str, float]:
    """What was counted so far."""
    begin = "evidence_total "
    found = metrics(unit).items()
    return {k.removeprefix(begin): v for k, v in found if k.startswith(begin) and v}


def sum_of(unit: str, family: str) -> float:
    """All series of a family together."""
    return sum(value for name, value in metrics(unit).items() if name.startswith(f"{family} "))


def process_of(unit: str) -> dict[str, str]:
    """The kernel's word on a unit's main process."""
    pid = show(unit, "MainPID")["MainPID"]
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = {name: value.strip() for name, _, value in (line.partition(":") for line in status)}
    keep = ("Uid", "CapEff", "NoNewPrivs", "Seccomp", "VmRSS")
    adjusted = Path(f"/proc/{pid}/oom_score_adj").read_text().strip()
    return {**{name: fields[name] for name in keep}, "oom_score_adj": adjusted}
