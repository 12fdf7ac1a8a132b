"""Waiting by reason repeats what waiting says: it is kept apart and never added."""

from pathlib import Path

import pytest

from sidecar.catalog import vllm_metrics as roles
from sidecar.model.readings import MetricsReading
from sidecar.parse.exposition_reader import ExpositionReader

DATA = Path(__file__).parents[1] / "data" / "expositions"
CLASSIC = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
WAITING = """\
vllm:num_requests_running{engine="0",model_name="m"} 2
vllm:num_requests_waiting{engine="0",model_name="m"} 7
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
"""


def read(text: str, content_type: str = CLASSIC) -> MetricsReading:
    return ExpositionReader().read(text.encode(), content_type)


def reason(name: str, count: int, labels: str = 'engine="0",model_name="m"') -> str:
    return f'vllm:num_requests_waiting_by_reason{{{labels},reason="{name}"}} {count}\n'


def test_each_reason_is_a_gauge_of_its_own() -> None:
    values = read(WAITING + reason("capacity", 5) + reason("deferred", 2)).engines["0"].values
    assert values[roles.WAITING] == 7
    assert values[roles.WAITING_CAPACITY] == 5
    assert values[roles.WAITING_DEFERRED] == 2


def test_the_role_is_found_once_for_all_reasons() -> None:
    found = read(WAITING + reason("capacity", 5) + reason("deferred", 2)).found
    assert roles.WAITING_BY_REASON in found
    assert roles.WAITING_CAPACITY not in found
    assert roles.WAITING_BY_REASON not in read(WAITING).found


@pytest.mark.parametrize("name", ["a later release's", "", "Capacity"])
def test_a_reason_that_is_not_known_is_left_out(name: str) -> None:
    reading = read(WAITING + reason(name, 9))
    assert 9 not in reading.engines["0"].values.values()
    assert roles.WAITING_BY_REASON not in reading.found


def test_models_of_one_engine_add_up_and_processes_do_not() -> None:
    two = reason("capacity", 5) + reason("capacity", 4, 'engine="0",model_name="n"')
    assert read(WAITING + two).engines["0"].values[roles.WAITING_CAPACITY] == 9
    copies = "".join(
        reason("capacity", 5, f'engine="0",model_name="m",pid="{pid}"') for pid in (7, 9)
    )
    assert read(WAITING + copies).engines["0"].values[roles.WAITING_CAPACITY] == 5


@pytest.mark.parametrize(
    ("name", "content_type", "by_reason"),
    [
        ("0.8.5.txt", CLASSIC, False),
        ("0.10.2.txt", CLASSIC, False),
        ("0.26.0.txt", CLASSIC, True),
        ("0.32.0-rust.txt", OPENMETRICS, True),
    ],
)
def test_real_releases_show_lengths_and_from_0_20_on_reasons(
    name: str,
    content_type: str,
    by_reason: bool,  # noqa: FBT001
) -> None:
    reading = read((DATA / name).read_text(), content_type)
    (engine,) = reading.engines.values()
    for role in (roles.REQUEST_PROMPT_TOKENS, roles.REQUEST_GENERATION_TOKENS):
        assert engine.histograms[role].buckets[-1][0] == float("inf")
        assert role in reading.found
    assert (roles.WAITING_BY_REASON in reading.found) is by_reason
    assert (roles.WAITING_CAPACITY in engine.values) is by_reason
