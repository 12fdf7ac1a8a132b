"""Whatever a server calls its metrics, the numbers are the same; what is not there is not 0."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from sidecar.catalog import vllm_metrics as roles
from sidecar.model.readings import MetricsReading
from sidecar.parse.exposition_reader import ExpositionReader

DATA = Path(__file__).parents[1] / "data"
CLASSIC = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
V1 = (DATA / "expositions/0.26.0.txt").read_text()
V0 = (DATA / "expositions/0.8.5.txt").read_text()
RUST = (DATA / "expositions/0.32.0-rust.txt").read_text()


def read(text: str, content_type: str = CLASSIC, max_engines: int = 64) -> MetricsReading:
    return ExpositionReader(max_engines=max_engines).read(text.encode(), content_type)


def busy(text: str) -> str:
    """The same exposition with work in it, so that every number differs from 0."""
    text = re.sub(r"(?m)^(vllm:num_requests_running\{.*\}) \S+$", r"\1 7.0", text)
    text = re.sub(r"(?m)^(vllm:num_requests_waiting\{.*\}) \S+$", r"\1 5.0", text)
    return re.sub(r"(?m)^(vllm:(?:kv|gpu)_cache_usage_perc\{.*\}) \S+$", r"\1 0.75", text)


def renamed(text: str, prefix: str) -> str:
    return re.sub(r"(?m)^((?:# (?:HELP|TYPE) )?)vllm:", rf"\1{prefix}", text)


def without_total(text: str) -> str:
    return re.sub(r"(?m)^(\S*?)_total(\{|$| )", r"\1\2", text)


VARIANTS: dict[str, Callable[[str], str]] = {
    "as vLLM writes it": lambda t: t,
    "OpenMetrics form": lambda t: renamed(t, "vllm_"),
    "Ray Serve": lambda t: renamed(t, "ray_vllm_"),
    "old Ray Serve": lambda t: renamed(t, "ray_vllm:"),
    "no prefix": lambda t: renamed(t, ""),
    "counters without _total": without_total,
    "Ray Serve without _total": lambda t: without_total(renamed(t, "ray_vllm_")),
    "old name of the cache": lambda t: t.replace("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    "both names of the cache": lambda t: (
        t
        + "".join(
            line.replace("kv_cache_usage_perc", "gpu_cache_usage_perc") + "\n"
            for line in t.splitlines()
            if line.startswith("vllm:kv_cache_usage_perc")
        )
    ),
    "old name of the latency": lambda t: t.replace(
        "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"
    ),
    "labels in another order": lambda t: t.replace(
        'engine="0",model_name="tiny"', 'model_name="tiny",engine="0"'
    ),
    "one more label": lambda t: t.replace('engine="0"', 'ReplicaId="x",engine="0"'),
    "a process label on the cache, one process dead": lambda t: re.sub(
        r"(?m)^vllm:kv_cache_usage_perc\{(.*)\} (\S+)$",
        r'vllm:kv_cache_usage_perc{\1,pid="7"} \2'
        "\n"
        r'vllm:kv_cache_usage_perc{\1,pid="9"} 0.0',
        t,
    ),
}


@pytest.mark.parametrize("variant", VARIANTS, ids=list(VARIANTS))
def test_every_naming_gives_the_same_numbers(variant: str) -> None:
    expected = read(busy(V1))
    got = read(VARIANTS[variant](busy(V1)))
    assert got.engines["0"].values == expected.engines["0"].values
    assert got.engines["0"].values[roles.KV_USAGE] == 0.75
    assert got.engines["0"].values[roles.PREEMPTIONS] == 532.0
    assert (
        got.engines["0"].histograms[roles.INTER_TOKEN]
        == (expected.engines["0"].histograms[roles.INTER_TOKEN])
    )
    assert got.found == expected.found


def test_openmetrics_of_the_rust_front_end_reads_like_the_classic_text() -> None:
    reading = read(RUST, OPENMETRICS)
    assert reading.engines["0"].values[roles.PREEMPTIONS] == 376.0
    assert reading.engines["0"].outcomes["length"] == 351.0


def test_v0_without_engine_labels_is_engine_0() -> None:
    reading = read(V0)
    assert reading.engines["0"].values[roles.PREEMPTIONS] == 783.0
    assert reading.generation is None


@pytest.mark.parametrize(
    "text",
    [
        re.sub(r"(?m)^(# \w+ )?vllm:.*\n", "", V1),
        V1.replace("vllm:", "vllm_v9:").replace("vllm_v9:", "llm::"),
        renamed(V1, "tgi_"),
        "",
        "up 1\n",
    ],
    ids=["names removed", "names unknown", "another server", "empty", "foreign"],
)
def test_unknown_names_are_not_found_and_never_zero(text: str) -> None:
    reading = read(text)
    assert reading.naming is None
    assert reading.found == frozenset()
    assert not reading.engines


def test_one_renamed_metric_is_not_found_while_the_others_are() -> None:
    reading = read(V1.replace("vllm:num_preemptions", "vllm:num_evictions"))
    assert roles.PREEMPTIONS not in reading.found
    assert roles.PREEMPTIONS not in reading.engines["0"].values
    assert roles.RUNNING in reading.found


@pytest.mark.parametrize(
    "name",
    [
        "kv_offload_cpu_cache_usage_perc",
        "kv_offload_cpu_cache_read_usage_perc",
        "kv_offload_tiering_primary_read_usage_perc",
        "hisparse_host_cache_usage_perc",
        "cpu_cache_usage_perc",
        "num_requests_waiting_by_reason",
        "watermark_requests_total",
        "prompt_tokens_cached_total",
        "request_num_preemptions_count",
        "request_num_preemptions_sum",
    ],
)
def test_look_alikes_change_nothing(name: str) -> None:
    look_alike = f'vllm:{name}{{engine="0",model_name="tiny"}} 99999.0\n'
    assert read(busy(V1) + look_alike).engines == read(busy(V1)).engines


def test_v0_before_its_first_request_is_idle_and_not_blind() -> None:
    text = (DATA / "expositions/0.8.5_v0_idle_before_first_request.txt").read_text()
    reading = read(text)
    assert reading.idle_v0
    assert reading.naming == "vllm:"


def test_v1_that_lost_all_but_its_configuration_is_blind() -> None:
    text = "\n".join(
        line for line in V1.splitlines() if "cache_config_info" in line or "vllm:" not in line
    )
    reading = read(text + "\n")
    assert not reading.idle_v0
    assert not reading.found


def test_names_without_prefix_are_believed_only_together() -> None:
    assert read("num_requests_running 3\n").naming is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1"])
def test_a_value_that_measures_nothing_leaves_the_role_not_found(value: str) -> None:
    text = re.sub(r"(?m)^(vllm:kv_cache_usage_perc\{.*\}) \S+$", rf"\1 {value}", V1)
    reading = read(text)
    assert roles.KV_USAGE not in reading.found
    assert roles.RUNNING in reading.found


def engine_lines(labels: Iterable[object]) -> str:
    return "".join(
        f'vllm:num_requests_running{{engine="{label}",model_name="m"}} 1.0\n'
        f'vllm:num_requests_waiting{{engine="{label}",model_name="m"}} 2.0\n'
        f'vllm:kv_cache_usage_perc{{engine="{label}",model_name="m"}} 0.5\n'
        for label in labels
    )


def test_engines_beyond_the_bound_fold_into_other() -> None:
    reading = read(engine_lines(range(100)), max_engines=64)
    assert len(reading.engines) == 65
    other = reading.engines["other"].values
    assert other[roles.RUNNING] == 36.0
    assert other[roles.KV_USAGE] == 0.5, "ratios are not added"


@pytest.mark.parametrize("label", ["a b", 'x\\"}', "é" * 3, "y" * 40, "a\\nb", "{}"])
def test_a_hostile_engine_label_becomes_other(label: str) -> None:
    reading = read(engine_lines(["0", label]))
    assert set(reading.engines) == {"0", "other"}


def test_two_models_of_one_engine_add_their_requests_but_not_their_ratio() -> None:
    text = "".join(
        f'vllm:num_requests_running{{engine="0",model_name="{m}"}} 2.0\n'
        f'vllm:kv_cache_usage_perc{{engine="0",model_name="{m}"}} 0.5\n'
        for m in "ab"
    )
    values = read(text).engines["0"].values
    assert values[roles.RUNNING] == 4.0
    assert values[roles.KV_USAGE] == 0.5


def test_a_level_of_sleep_is_seen() -> None:
    assert not read(V1).sleeping
    assert read(V1.replace('sleep_state="awake"} 1.0', 'sleep_state="awake"} 0.0')).sleeping


def known_names() -> set[str]:
    catalogue = json.loads((DATA / "vllm_metric_names.json").read_text())
    return {
        row["name"].removeprefix("vllm:")
        for key, rows in catalogue.items()
        if key != "_meta"
        for row in rows
    }


def test_every_name_of_the_catalogue_is_a_name_that_some_release_had() -> None:
    known = known_names()
    for role in roles.ROLES:
        for name in role.names:
            assert {name, f"{name}_total"} & known, name


def created(reason: str, at: float) -> str:
    labels = f'engine="0",finished_reason="{reason}",model_name="m"'
    return f"vllm:request_success_total{{{labels}}} 1.0\nvllm:request_success_created{{{labels}}} {at}\n"


def test_each_child_of_a_counter_has_a_mark_of_its_own() -> None:
    first = read(engine_lines("0") + created("stop", 100.0)).epoch
    both = read(engine_lines("0") + created("stop", 100.0) + created("length", 200.0)).epoch
    assert first.items() <= both.items()
    assert sorted(both.values()) == [100.0, 200.0]


def test_an_engine_that_was_shown_stays_shown() -> None:
    reader = ExpositionReader(max_engines=2)
    assert set(reader.read(engine_lines("123").encode(), CLASSIC).engines) == {"1", "2", "other"}
    later = reader.read(engine_lines("0123").encode(), CLASSIC)
    assert set(later.engines) == {"1", "2", "other"}


def test_counters_of_folded_engines_are_not_summed() -> None:
    text = engine_lines("12") + "".join(
        f'vllm:num_preemptions_total{{engine="{n}",model_name="m"}} 100.0\n' for n in (1, 2)
    )
    reading = read(text, max_engines=1)
    assert roles.PREEMPTIONS in reading.engines["1"].values
    assert roles.PREEMPTIONS not in reading.engines["other"].values
    assert reading.engines["other"].values[roles.RUNNING] == 1.0


def test_reasons_of_later_releases_are_one() -> None:
    text = engine_lines("0") + "".join(created(f"reason{n}", 1.0) for n in range(50))
    assert read(text).engines["0"].outcomes == {"other": 50.0}


def test_long_labels_are_forgotten_before_they_fill_the_memory() -> None:
    reader = ExpositionReader()
    for n in range(300):
        label = f"{n}" + "x" * 50_000
        reader.read(f'a{{b="{label}"}} 1\n'.encode(), CLASSIC)
    assert sum(map(len, reader.scrapes.samples.known)) < 9_000_000
