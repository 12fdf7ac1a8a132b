"""The alert rules as they are shipped, on what the sidecar shows of recorded real servers.

Each recording goes through the pipeline and our export code, and promtool evaluates the rules on that.
None of them fires in a start, in a server that is well, or in a stop that was wanted.
"""

import json
import math
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.catalog.signals import EVIDENCE
from sidecar.classify.policy import Policy
from sidecar.commands import demo
from sidecar.export.metrics import Exposition, Format
from sidecar.parse.exposition_reader import ExpositionReader
from sidecar.pipeline import Pipeline
from sidecar.recording.folder import Recording
from sidecar.recording.gridded_ticks import read_ticks
from tests.deploy.prometheus_files import ALERTS, RULES
from tests.deploy.promql_names import selectors

DATA = Path(__file__).parents[1] / "data"
RECORDINGS = {folder.name: folder for folder in sorted((DATA / "recordings").iterdir())}
SCENARIOS = {name: demo.SCENARIOS / name for name in demo.list_scenarios()}
CUDA, HOST, ENGINE = "VLLMCudaOOM", "VLLMHostOOM", "VLLMEngineFailure"
FIRES = {
    "0.14.1_startup_reject_max_model_len_gt_cache": {CUDA},
    "f1_host_oom_enginecore": {HOST},
    "g_kv_len_gt_cache_bytes": {CUDA},
    "g_negative_bad_block_size": {ENGINE},
    "g_no_memory_for_cache_blocks": {CUDA},
    "h_restart": {ENGINE},  # stopped by wish, started again, killed
    "i_enginecore_sigkill": {ENGINE},
    "v2_host_oom": {HOST},
    "cuda_oom": {CUDA},
    "engine_failure": {ENGINE},
    "host_oom": {HOST},
    "startup_rejection": {CUDA},
}
"""What fires in a recording or in a scenario of the demo; in all others nothing does."""
HOLD_S = 3000
"""So long the last moment of what is held stays: longer than any rule waits."""
HELD: dict[str, tuple[str, float, set[str]]] = {
    "a server that is well and idle": ("a_healthy", math.inf, set()),
    "a start that takes an hour": ("a_healthy", 20, set()),
    "a start that fills its memory": ("v2_host_oom", 235, set()),
    "a stop that was wanted": ("e_prompt_injection_info", math.inf, set()),
    "the Rust front end before its first request": ("0.32.0-rust_healthy", 32, set()),
    "preemption that goes on": ("c_preempt_thrash", math.inf, {"VLLMPreemption"}),
    "memory that grows to its limit": ("v2_host_oom", 335, {"VLLMHostMemoryLow"}),
    "requests that no token comes to": ("stalled", math.inf, {"VLLMStalled"}),
    "--disable-log-stats": (
        "j_two_names_disable_log_stats",
        50,
        {"VLLMMetricRoleNotFound", "VLLMCauseNotObservable", "VLLMVerdictUnknown"},
    ),
}
"""A recording or scenario, up to so many seconds of it, and what fires if it goes on as it is then."""


def series_of(
    folder: Path, interval_s: float, window_s: float, until_s: float = math.inf
) -> tuple[dict[str, list[str]], int]:
    """Every series' values, a tick apart, as promtool writes them; and how many ticks there are.

    Moments are counted from the first tick, as promtool's clock is.
    """
    recording, exposition = Recording(folder), Exposition(EVIDENCE)
    pipeline = Pipeline(
        window_s=window_s,
        policy=Policy(max_preemptions_per_request=0.01),
        configured=recording.sources(),
    )
    rows: dict[str, list[str]] = {}
    count, begun = 0, 0.0
    for tick in read_ticks(recording, interval_s):
        begun = begun or tick.at.unix
        if tick.at.unix - begun > until_s:
            break
        assert tick.at.unix == pytest.approx(begun + count * interval_s, abs=0.6)
        payload = exposition.payload(pipeline.step(tick).report, Format.TEXT, compressed=False)
        now = {
            f"{sample.name}{{{','.join(f'{k}={json.dumps(v)}' for k, v in sample.labels.items())}}}": (
                sample.value - (begun if sample.name.endswith("_timestamp_seconds") else 0)
            )
            for family in text_string_to_metric_families(payload.body.decode())
            for sample in family.samples
        }
        for name in rows.keys() | now.keys():
            told = rows.setdefault(name, ["_"] * count)
            ended = "stale" if told and told[-1] not in {"_", "stale"} else "_"
            told.append(repr(now[name]) if name in now else ended)
        count += 1
    return rows, count


def hold(rows: dict[str, list[str]], interval_s: float) -> int:
    """Let the last moment stay, windows closing as before; the ticks that this adds."""
    ticks = int(HOLD_S / interval_s)
    for name, told in rows.items():
        rises = interval_s if name.startswith("vllm_sidecar_window_end_timestamp_seconds") else 0
        if told[-1] not in {"_", "stale"}:
            told[-1] += f"+{rises}x{ticks}"
    return ticks


def fired(rows: dict[str, list[str]], count: int, interval_s: float, space: Path) -> set[str]:
    """The alerts that fired at any moment, as promtool evaluates the shipped rules."""
    asked = {
        "expr": 'group by (alertname) (count_over_time(ALERTS{alertstate="firing"}[2h]))',
        "eval_time": f"{int(count * interval_s)}s",
    }
    tests = {
        "rule_files": [str(RULES / "alerts.yml")],
        "evaluation_interval": f"{int(interval_s)}s",
        "tests": [
            {
                "interval": f"{int(interval_s)}s",
                "input_series": [
                    {"series": name, "values": " ".join(told)} for name, told in rows.items()
                ],
                # A label that no alert has: what is found is told in the words of a failure.
                "promql_expr_test": [{**asked, "exp_samples": [{"labels": "none", "value": 0}]}],
            }
        ],
    }
    path = space / "tests.yml"
    path.write_text(json.dumps(tests))
    done = subprocess.run(
        ["promtool", "test", "rules", path], capture_output=True, text=True, check=False, timeout=60
    )
    _, got, told = (done.stdout + done.stderr).partition("got:")
    assert got, done.stdout + done.stderr
    return {alert.name for alert in ALERTS if f'alertname="{alert.name}"' in told}


def clock_of(name: str) -> tuple[Path, float, float]:
    """The folder, and the interval and window: those of the demo for its scenarios, else defaults."""
    return (SCENARIOS[name], 1.0, 5.0) if name in SCENARIOS else (RECORDINGS[name], 5.0, 15.0)


@pytest.mark.component("promtool")
@pytest.mark.parametrize("name", [*RECORDINGS, *SCENARIOS])
def test_what_happened_to_a_server_fires_and_nothing_else(name: str, tmp_path: Path) -> None:
    folder, interval_s, window_s = clock_of(name)
    rows, count = series_of(folder, interval_s, window_s)
    assert fired(rows, count, interval_s, tmp_path) == FIRES.get(name, set())


@pytest.mark.component("promtool")
@pytest.mark.parametrize("case", HELD)
def test_what_lasts_fires_if_it_is_ill_and_not_if_it_is_well(case: str, tmp_path: Path) -> None:
    name, until_s, expected = HELD[case]
    folder, interval_s, window_s = clock_of(name)
    rows, count = series_of(folder, interval_s, window_s, until_s)
    count += hold(rows, interval_s)
    assert fired(rows, count, interval_s, tmp_path) == expected


def wanted_roles() -> tuple[set[str], set[str]]:
    """The roles whose absence alerts: always, and once tokens were made."""
    (rule,) = [rule for rule in ALERTS if rule.name == "VLLMMetricRoleNotFound"]
    always, at_work, _ = [
        set(matcher.values)
        for selector in selectors(rule.expr)
        if selector.metric == "vllm_sidecar_metric_found"
        for matcher in selector.matchers
    ]
    return always, at_work


@pytest.mark.parametrize(
    "path",
    [path for path in sorted((DATA / "expositions").glob("*.txt")) if "idle" not in path.name],
    ids=lambda path: path.stem,
)
def test_every_release_offers_the_roles_whose_absence_alerts(path: Path) -> None:
    always, at_work = wanted_roles()
    found = ExpositionReader().read(path.read_bytes(), "text/plain").found
    assert always | at_work <= found


def test_the_rust_front_end_shows_those_of_always_before_its_first_request() -> None:
    always, at_work = wanted_roles()
    rows, _ = series_of(RECORDINGS["0.32.0-rust_healthy"], 1.0, 15.0)
    serving = rows['vllm_sidecar_target_state{state="serving"}'].index("1.0")

    def shown(role: str) -> str:
        return rows[f'vllm_sidecar_metric_found{{role="{role}"}}'][serving]

    assert {shown(role) for role in always} == {"1.0"}
    assert {shown(role) for role in at_work} == {"0.0"}
