"""How many windows a replay judges in a CPU second: of the shipped scenarios, and as a recording grows.

``python -m tests.benchmarks.replay_speed`` prints it.
"""

import gzip
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import sidecar
from sidecar.classify.policy import Policy
from sidecar.commands.replay import judge_recording
from sidecar.recording.folder import HEADER, Recording
from tests.benchmarks.log_command import table
from tests.benchmarks.row import Row

SCENARIOS = Path(sidecar.__file__).parent / "scenarios"
REPEATED = "preemption"
SHORT, LONG = 3, 30
MOST_GROWTH = 1.2
ROUNDS = 2
INTERVAL_S, WINDOW_S = 1.0, 5.0


def measure() -> list[Row]:
    """Windows of five ticks a second apart per CPU second; the shortest of some rounds."""
    names = sorted(path.name for path in SCENARIOS.iterdir() if (path / HEADER).exists())
    done = [judged(SCENARIOS / name) for name in names]
    windows, cpu = sum(count for count, _ in done), sum(seconds for _, seconds in done)
    with tempfile.TemporaryDirectory() as work:
        short, long = (
            judged(repeated(SCENARIOS / REPEATED, Path(work) / str(times), times))
            for times in (SHORT, LONG)
        )
    per_window = [1000 * seconds / count for count, seconds in (short, long)]
    grown = per_window[1] / per_window[0]
    return [
        Row(f"replay of the {len(names)} shipped scenarios", windows / cpu, "windows per CPU s"),
        Row(
            f"replay of a recording {LONG // SHORT} times as long",
            per_window[1],
            "CPU ms per window",
            f"{short[0]} windows",
            per_window[0],
            grown,
            f"<= {MOST_GROWTH}x",
            grown <= MOST_GROWTH,
        ),
    ]


def judged(folder: Path) -> tuple[int, float]:
    """How many windows a recording has, and the CPU seconds that it takes to judge them."""
    count, best = 0, float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        count = sum(
            1
            for _ in judge_recording(
                Recording(folder), interval_s=INTERVAL_S, window_s=WINDOW_S, policy=Policy()
            )
        )
        best = min(best, time.process_time() - begun)
    return count, best


def repeated(folder: Path, made: Path, times: int) -> Path:
    """A recording that is the given one so many times, each behind the one before."""
    made.mkdir()
    shutil.copy(folder / HEADER, made / HEADER)
    rows = {
        path.name: [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        for path in folder.glob("*.jsonl.gz")
    }
    moments = [row["t"] for of_file in rows.values() for row in of_file]
    span = max(moments) - min(moments) + INTERVAL_S
    for name, of_file in rows.items():
        with gzip.open(made / name, "wt", compresslevel=1) as file:
            for turn in range(times):
                for row in of_file:
                    file.write(json.dumps({**row, "t": row["t"] + turn * span}) + "\n")
    return made


def main() -> None:
    """Measure and print."""
    sys.stdout.write(table(measure()))


if __name__ == "__main__":
    main()
