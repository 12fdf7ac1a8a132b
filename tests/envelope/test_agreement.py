"""Server and client differ honestly, and otherwise."""

from dataclasses import replace
from typing import Any

import pytest

from sidecar.envelope.agreement import find_disagreements
from sidecar.model.envelope import Client, ClientView, Disagreement, Quantiles, ServerView

SERVER = ServerView(
    seconds=60.0,
    completed=600.0,
    ttft=Quantiles(mean=0.1),
    inter_token=Quantiles(mean=0.02),
    e2e=Quantiles(mean=2.0),
    output_tokens_per_second=1000.0,
)
CLIENT = ClientView(
    client=Client.VLLM_BENCH,
    seconds=60.0,
    completed=600.0,
    failed=0.0,
    ttft=Quantiles(mean=0.1),
    inter_token=Quantiles(mean=0.02),
    e2e=Quantiles(mean=2.0),
    output_tokens_per_second=1000.0,
)


def differing(interval_s: float = 1.0, **said: Any) -> list[str]:
    client = replace(CLIENT, **said)
    return [one.figure for one in find_disagreements(SERVER, client, interval_s)]


def test_the_same_figures_agree() -> None:
    assert differing() == []


@pytest.mark.parametrize(
    ("figure", "field", "least", "most"),
    [
        ("ttft_mean", "ttft", 0.07, 0.225),
        ("inter_token_mean", "inter_token", 0.013, 0.027),
        ("e2e_mean", "e2e", 1.78, 2.3),
    ],
)
def test_a_latency_may_differ_by_what_explains_itself(
    figure: str, field: str, least: float, most: float
) -> None:
    for value in (least * 1.001, most * 0.999):
        assert differing(1.0, **{field: Quantiles(mean=value)}) == []
    for value in (least * 0.99, most * 1.01):
        assert differing(1.0, **{field: Quantiles(mean=value)}) == [figure]


def test_a_warm_up_is_a_request_to_the_server_alone() -> None:
    assert differing(completed=588.0) == []
    assert differing(completed=580.0) == ["completed"]
    few = replace(SERVER, completed=10.0)
    assert find_disagreements(few, replace(CLIENT, completed=8.0), 1.0) == ()
    # A client that knows of more than the server ever finished spoke with another one.
    assert find_disagreements(few, replace(CLIENT, completed=11.0), 1.0) == (
        Disagreement("completed", 10.0, 11.0),
    )


def test_a_rate_is_known_to_the_interval_of_the_samples() -> None:
    assert differing(output_tokens_per_second=880.0) == ["output_tokens_per_second"]
    assert differing(output_tokens_per_second=880.0, interval_s=5.0) == []


def test_what_one_side_does_not_tell_is_no_disagreement() -> None:
    assert differing(ttft=Quantiles(), completed=None, output_tokens_per_second=None) == []
    assert find_disagreements(ServerView(seconds=0.0), CLIENT, 1.0) == ()
