"""How fast a big log is read, beside mtail and grep in the same run; and how soon a line is shown.

``python -m tests.benchmarks.log_scan [MB]`` prints a table and writes the numbers as JSON into
``.benchmarks/log_scan.json``. A log of more than ``COMPARED_MB`` is read by us alone.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.benchmarks import log_visible
from tests.benchmarks.made_log import KINDS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = ROOT / ".benchmarks" / "log_scan.json"
ROUNDS = 3
COMPARED_MB = 400
SAME_WORDINGS = (
    "OutOfMemoryError: CUDA out of memory. ",
    "ValueError: No available memory for the cache blocks",
    "is preempted by PreemptionMode.SWAP mode",
    "Preemptions: ",
    "EngineDeadError: EngineCore encountered an issue",
    "died unexpectedly",
    "Memory cgroup out of memory: Killed process ",
)
"""The literals of the seven patterns of ``vllm.mtail``."""
SCAN_KINDS = {
    "gpu_allocation": ("cuda_oom", "allocation_failure"),
    "capacity_rejection": ("cuda_oom", "capacity_rejection"),
    "swap_preemption": ("preemption", "swap"),
    "stats_preemption": ("preemption", "recompute"),
    "process_died": ("engine_failure", "killed"),
    "kernel_kill": ("host_oom", "cgroup"),
}
"""Of these kinds the scan counts each line as an incident; see ``crashed`` for the last one."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took: the best of some rounds, by CPU seconds of the process itself."""

    name: str
    cpu_s: float
    wall_s: float
    rss_mb: float
    lines_per_cpu_s: float
    mb_per_cpu_s: float


def run(command: list[str]) -> tuple[str, float, float, float]:
    """What a command printed, its CPU and wall seconds, and the most memory it held, in MB."""
    with tempfile.TemporaryFile() as out:
        begun = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            stdout=out,
            stderr=subprocess.DEVNULL,
        )
        # What wait4 tells of memory is no less than what we ourselves held at the fork.
        rss = 0
        while (got := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            rss = max(rss, peak_kb(process.pid))
            time.sleep(0.005)
        _, status, used = got
        wall = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        printed = out.read().decode()
    if process.returncode != 0:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return printed, used.ru_utime + used.ru_stime, wall, rss / 1024


def peak_kb(pid: int) -> int:
    """The most memory that a process has held so far, 0 once it has none."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line), 0)


def measured(name: str, command: list[str], size: int, lines: int, rounds: int) -> tuple[Cost, str]:
    """The cost of a command on a log, and what it printed."""
    printed, cpu, wall, rss = min((run(command) for _ in range(rounds)), key=lambda got: got[1])
    megabytes = size / 1e6
    return Cost(name, cpu, wall, rss, lines / cpu, megabytes / cpu), printed


def scanned(printed: str, held: dict[str, int]) -> dict[str, int]:
    """How many lines of each kind the scan counted."""
    result = json.loads(printed)
    counts = {(one["cause"], one["kind"]): one["count"] for one in result["causes"]}
    found = {kind: counts[key] for kind, key in SCAN_KINDS.items()}
    found["engine_dead"] = counts["engine_failure", "crashed"] - held["gpu_fault"]
    return {**found, "lines": result["lines"]}


def followed(printed: str) -> dict[str, int]:
    """How many lines of each kind mtail counted, and of any kind."""
    values = [line.rpartition(" ") for line in printed.splitlines() if line[:1] not in ("#", "")]
    return {name.partition("{")[0]: int(float(value)) for name, _, value in values}


def compare(log: Path, held: dict[str, int], work: Path) -> list[Cost]:
    """All commands on one log; ends the program where they do not find the same."""
    size, lines = log.stat().st_size, held["lines"]
    scan = [sys.executable, "-m", "sidecar", "scan", "--format", "json", str(log)]
    rounds = ROUNDS if size <= COMPARED_MB * 1_000_000 else 1
    ours, printed = measured("vllm-sidecar scan", scan, size, lines, rounds)
    wanted = {kind: held[kind] for kind in (*KINDS, "lines")}
    agree("scan", scanned(printed, held), wanted)
    if rounds == 1:
        return [ours]
    follow = ["mtail", "--one_shot", "--one_shot_format", "prometheus", "--log_dir", str(work)]
    follow += ["--progs", str(HERE / "vllm.mtail"), "--logs", str(log)]
    theirs, printed = measured("mtail, 7 patterns", follow, size, lines, 1)
    agree("mtail", followed(printed), wanted)
    costs = [ours, theirs]
    from sidecar.catalog.signatures import NEEDLES  # noqa: PLC0415 - so that children begin small

    for name, literals in (("7", SAME_WORDINGS), (str(len(NEEDLES)), NEEDLES)):
        file = work / f"literals_{name}"
        file.write_text("".join(f"{literal}\n" for literal in literals))
        search = ["grep", "-c", "-F", "-f", str(file), str(log)]
        cost, printed = measured(f"grep -F, {name} literals", search, size, lines, ROUNDS)
        costs.append(cost)
        if literals is SAME_WORDINGS:
            agree("grep", {"all": int(printed)}, {"all": sum(held[kind] for kind in KINDS)})
    return costs


def agree(name: str, found: dict[str, int], wanted: dict[str, int]) -> None:
    """End the program if a command found other numbers than the log holds."""
    if found != wanted:
        sys.exit(f"{name} found {found}, the log holds {wanted}")


def table(costs: list[Cost]) -> str:
    """The costs for people, and how many times as fast as each other command we are."""
    head = ("command", "CPU s", "wall s", "klines/CPU s", "MB/CPU s", "RSS MB", "ours")
    rows = [
        (
            cost.name,
            f"{cost.cpu_s:.2f}",
            f"{cost.wall_s:.2f}",
            f"{cost.lines_per_cpu_s / 1000:.0f}",
            f"{cost.mb_per_cpu_s:.0f}",
            f"{cost.rss_mb:.1f}",
            f"{cost.cpu_s / costs[0].cpu_s:.2f}x",
        )
        for cost in costs
    ]
    return "".join(
        f"{row[0]:24}" + "".join(f"{cell:>13}" for cell in row[1:]) + "\n" for row in (head, *rows)
    )


def main(megabytes: int) -> None:
    """Measure, print and write."""
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        log = work / "vllm.log"
        maker = [sys.executable, "-m", "tests.benchmarks.made_log", str(log), str(megabytes)]
        held = Counter[str](json.loads(run(maker)[0]))
        costs = compare(log, held, work)
        sys.stdout.write(f"{megabytes} MB, {held['lines']} lines\n{table(costs)}")
        log.unlink()
        shown = log_visible.measure(work)
    sys.stdout.write(f"append to visible: {shown}\n")
    results = {"costs": [asdict(cost) for cost in costs], "visible": asdict(shown), "held": held}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
