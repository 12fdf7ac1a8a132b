"""New situations made of real recordings: rows are cut, frozen and joined, never invented."""

import gzip
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

RECORDINGS = Path(__file__).parents[1] / "data/recordings"
Row = dict[str, Any]
STAMP = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")
SOURCES = ("metrics", "health", "log", "cgroup", "kernel_log", "process")


class Composition:
    """Rows of a real recording by source, with ``t`` in seconds after its ``t0``."""

    def __init__(self, name: str) -> None:
        folder = RECORDINGS / name
        self.t0 = json.loads((folder / "expected.json").read_text())["t0"]
        # Whole windows, so that a test can name them: t0 becomes a multiple of 10 s.
        self.base = round(self.t0 / 10) * 10.0
        self.left_out = 0.0
        self.rows: dict[str, list[Row]] = {}
        for source in SOURCES:
            path = folder / f"{source}.jsonl.gz"
            if path.exists():
                with gzip.open(path, "rt") as file:
                    rows = [json.loads(line) for line in file]
                self.rows[source] = [{**row, "t": row["t"] - self.t0} for row in rows]

    def cut(self, start: float, end: float) -> Self:
        """Keep what lies between two moments, and let it begin at 0."""
        self.left_out += start
        for source, rows in self.rows.items():
            kept = [row for row in rows if start <= row["t"] < end]
            self.rows[source] = [{**row, "t": row["t"] - start} for row in kept]
        return self

    def drop(self, *sources: str) -> Self:
        """Leave sources out."""
        for source in sources:
            self.rows.pop(source, None)
        return self

    def only_before(self, source: str, t: float) -> Self:
        """Leave a source's rows out from a moment on."""
        self.rows[source] = [row for row in self.rows[source] if row["t"] < t]
        return self

    def log(self, t: float, *lines: str) -> Self:
        """Add lines to the log, stamped by the session's clock: they happen in it."""
        clock = datetime.fromtimestamp(self.t0 + self.left_out + t, UTC)
        stamp = clock.strftime("%m-%d %H:%M:%S")
        self.rows.setdefault("log", []).extend(
            {"t": t, "line": STAMP.sub(stamp, line, count=1)} for line in lines
        )
        return self

    def every_second(self, source: str, start: float, end: float, row: Row) -> Self:
        """Replace what a source says between two moments by one row a second."""
        kept = [r for r in self.rows.get(source, []) if not start <= r["t"] < end]
        new = [{**row, "t": start + n + 0.01} for n in range(int(end - start))]
        self.rows[source] = sorted([*kept, *new], key=lambda r: r["t"])
        return self

    def freeze(self, start: float, end: float) -> Self:
        """Go on serving the exposition of a moment, as a server whose engine stands still does."""
        last = [r for r in self.rows["metrics"] if r["t"] < start and r["status"] == 200][-1]
        return self.every_second("metrics", start, end, last)

    def refuse(self, start: float, end: float) -> Self:
        """Nobody listens between two moments."""
        self.every_second("metrics", start, end, {"status": None, "error": "refused"})
        return self.every_second("health", start, end, {"status": 0})

    def cgroup_v1(self, end: float, kills: Sequence[float] = (), path: str = "/vllm") -> Self:
        """A cgroup of version 1 that counts a kill at each of the moments."""
        self.rows["cgroup"] = [
            {
                "t": n / 2,
                "version": 1,
                "path": path,
                "files": {
                    "memory.oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill "
                    f"{sum(kill <= n / 2 for kill in kills)}\n",
                    "memory.usage_in_bytes": "1000000\n",
                    "memory.limit_in_bytes": "2000000\n",
                    "memory.failcnt": "0\n",
                },
            }
            for n in range(int(end) * 2)
        ]
        return self

    def write(self, folder: Path) -> Path:
        """Write the recording."""
        folder.mkdir(parents=True, exist_ok=True)
        about = {"format": 1, "created": self.base, "about": "composed", "target": {}}
        (folder / "recording.json").write_text(json.dumps(about))
        for source, rows in self.rows.items():
            ordered = sorted(rows, key=lambda row: row["t"])
            (folder / f"{source}.jsonl").write_text(
                "".join(json.dumps({**row, "t": row["t"] + self.base}) + "\n" for row in ordered)
            )
        return folder
