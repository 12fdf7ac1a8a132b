"""Makes ``sidecar/scenarios`` from the real recordings under ``tests/data``.

Most are a cut of one recording. What no CPU-only session can show (a failed CUDA allocation, a
hang) is composed: a real session, real lines of a log, a real exposition that stops changing.
"""

import gzip
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fakes.compose import Composition  # noqa: E402
from tests.pipeline.test_situations import CRASH, CUDA_OOM  # noqa: E402

HIDE = ("POST /v1", "GET /health", "GET /metrics")

SCENARIOS: dict[str, tuple[str, Callable[[], Composition]]] = {
    "healthy": (
        "a light load, then idle: none",
        lambda: Composition("a_healthy").cut(26, 78),
    ),
    "preemption": (
        "load grows until the KV cache is full: none, then preemption",
        lambda: Composition("m_capacity_stages_vllm_bench").cut(62, 118),
    ),
    "host_oom": (
        "the kernel kills the engine at the memory limit of its cgroup: host_oom",
        lambda: Composition("f1_host_oom_enginecore").cut(100, 131),
    ),
    "engine_failure": (
        "the engine is killed by hand, and nothing speaks of memory: engine_failure",
        lambda: Composition("i_enginecore_sigkill").cut(24, 38),
    ),
    "startup_rejection": (
        "vLLM refuses to start for lack of cache memory: cuda_oom, capacity_rejection",
        lambda: Composition("g_no_memory_for_cache_blocks").cut(8, 30),
    ),
    "cuda_oom": (
        "an allocation fails and ends the engine: cuda_oom (composed: real session, real lines)",
        lambda: (
            Composition("m_capacity_stages_vllm_bench")
            .cut(40, 66)
            .log(12.0, CUDA_OOM)
            .log(12.3, *CRASH)
            .only_before("log", 12.4)
            .refuse(13, 26)
        ),
    ),
    "stalled": (
        "requests wait and no token moves: stalled (composed: an exposition that stands still)",
        lambda: Composition("c_preempt_thrash").cut(20, 50).freeze(10, 30).only_before("log", 10),
    ),
    "unknown": (
        "a server that runs with --disable-log-stats shows no counter of vLLM: unknown",
        lambda: Composition("j_two_names_disable_log_stats").cut(24, 54),
    ),
}


def make(name: str, about: str, composition: Composition) -> None:
    """Write one scenario."""
    folder = ROOT / "sidecar/scenarios" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    header = {"format": 1, "created": composition.base, "about": about, "target": {}}
    (folder / "recording.json").write_text(json.dumps(header) + "\n")
    for source, rows in composition.rows.items():
        if source == "process" or not rows:
            continue
        kept = [r for r in rows if not (source == "log" and any(h in r["line"] for h in HIDE))]
        text = "".join(
            json.dumps({**row, "t": round(row["t"] + composition.base, 3)}) + "\n"
            for row in sorted(kept, key=lambda row: row["t"])
        )
        # No name and no time in the header: the same rows give the same bytes.
        with (
            (folder / f"{source}.jsonl.gz").open("wb") as raw,
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as file,
        ):
            file.write(text.encode())


if __name__ == "__main__":
    for scenario, (text, build) in SCENARIOS.items():
        make(scenario, text, build())
