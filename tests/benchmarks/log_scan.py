"""How fast a big log is read, beside mtail and grep in the same run.

``python -m tests.benchmarks.log_scan [MB]`` prints it. mtail and grep must be installed.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sidecar.catalog.signatures import NEEDLES
from tests.benchmarks.log_command import SCAN, Ran, best, run, table
from tests.benchmarks.made_log import KINDS
from tests.benchmarks.row import Row

HERE = Path(__file__).parent
MEGABYTES = 400
"""So much that the start of the command is a tenth of it."""
ROUNDS = 3
TIMES_MTAIL = 15.0
TIMES_GREP = 0.4
GROWTH = 10
MOST_GROWTH = 1.2
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


def measure(megabytes: int = MEGABYTES) -> list[Row]:
    """MB of log per CPU second, by each command; and what ten times the log costs per MB."""
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        log, held = made(work / "vllm.log", megabytes)
        ours = scan(log, held)
        rows = [*compare(log, held, work, ours)]
        log.unlink()
        small = scan(*made(work / "small.log", megabytes // GROWTH))
        nothing = best((*SCAN, "/dev/null"), ROUNDS).cpu_s
    per_gb = [
        (ran.cpu_s - nothing) / size * 1000
        for ran, size in ((ours, megabytes), (small, megabytes // GROWTH))
    ]
    grown = per_gb[0] / per_gb[1]
    start = Row("start of a scan", nothing, "CPU s")
    growth = Row(
        f"scan of a log {GROWTH} times as long, without the start",
        per_gb[0],
        "CPU s per GB",
        f"{megabytes // GROWTH} MB",
        per_gb[1],
        grown,
        f"<= {MOST_GROWTH}x",
        grown <= MOST_GROWTH,
    )
    return [*rows, start, growth]


def made(log: Path, megabytes: int) -> tuple[Path, dict[str, int]]:
    """A log, and how many lines of each kind it holds. A child makes it, so that we stay small."""
    maker = [sys.executable, "-m", "tests.benchmarks.made_log", str(log), str(megabytes)]
    return log, Counter[str](json.loads(run(maker).printed))


def scan(log: Path, held: dict[str, int], rounds: int = ROUNDS) -> Ran:
    """What the scan took; ends the program where it does not find what the log holds."""
    ran = best((*SCAN, str(log)), rounds)
    agree("scan", scanned(ran.printed, held), {kind: held[kind] for kind in (*KINDS, "lines")})
    return ran


def compare(log: Path, held: dict[str, int], work: Path, ours: Ran) -> Iterator[Row]:
    """The other commands on the same log; ends the program where they do not find the same."""
    megabytes = log.stat().st_size / 1e6
    wanted = {kind: held[kind] for kind in (*KINDS, "lines")}
    follow = ["mtail", "--one_shot", "--one_shot_format", "prometheus", "--log_dir", str(work)]
    follow += ["--progs", str(HERE / "vllm.mtail"), "--logs", str(log)]
    theirs = run(follow)
    agree("mtail", followed(theirs.printed), wanted)
    yield faster("mtail, 7 patterns", megabytes, ours, theirs, TIMES_MTAIL)
    for literals in (NEEDLES, SAME_WORDINGS):
        file = work / f"literals_{len(literals)}"
        file.write_text("".join(f"{literal}\n" for literal in literals))
        theirs = best(("grep", "-c", "-F", "-f", str(file), str(log)), ROUNDS)
        if literals is SAME_WORDINGS:
            agree("grep", {"all": int(theirs.printed)}, {"all": sum(held[kind] for kind in KINDS)})
        yield faster(f"grep -F, {len(literals)} literals", megabytes, ours, theirs, TIMES_GREP)


def faster(reference: str, megabytes: float, ours: Ran, theirs: Ran, target: float) -> Row:
    """How many times as fast as another command the scan is."""
    ratio = theirs.cpu_s / ours.cpu_s
    return Row(
        "log scan, full signature table",
        megabytes / ours.cpu_s,
        "MB per CPU s",
        reference,
        megabytes / theirs.cpu_s,
        ratio,
        f">= {target:g}x",
        ratio >= target,
    )


def scanned(printed: str, held: dict[str, int]) -> dict[str, int]:
    """How many lines of each kind the scan counted."""
    result = json.loads(printed)
    counts = {(one["cause"], one["kind"]): one["count"] for one in result["causes"]}
    found = {kind: counts.get(key, 0) for kind, key in SCAN_KINDS.items()}
    found["engine_dead"] = counts.get(("engine_failure", "crashed"), 0) - held["gpu_fault"]
    return {**found, "lines": result["lines"]}


def followed(printed: str) -> dict[str, int]:
    """How many lines of each kind mtail counted, and of any kind."""
    values = [line.rpartition(" ") for line in printed.splitlines() if line[:1] not in ("#", "")]
    return {name.partition("{")[0]: int(float(value)) for name, _, value in values}


def agree(name: str, found: dict[str, int], wanted: dict[str, int]) -> None:
    """End the program if a command found other numbers than the log holds."""
    if found != wanted:
        sys.exit(f"{name} found {found}, the log holds {wanted}")


def main(megabytes: int) -> None:
    """Measure and print."""
    sys.stdout.write(table(measure(megabytes)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES)
