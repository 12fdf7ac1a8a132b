"""The lever of a whole log: the same rows, and nothing is ever proven to be free."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.advise.from_log import advise_log
from sidecar.log_triage import LogCause, triage
from sidecar.model.advice import Lever
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase

DATA = Path(__file__).parents[1] / "data"
ALLOCATION_LEVERS = {Lever.LOWER_GPU_MEMORY_UTILIZATION, Lever.FREE_COTENANT_MEMORY}
REFUSAL_LEVERS = {
    Lever.LOWER_MAX_MODEL_LEN,
    Lever.FREE_COTENANT_MEMORY,
    Lever.ADD_PARALLELISM,
    Lever.LOWER_MAX_NUM_BATCHED_TOKENS,
}


def cause(cause: Cause, kind: Kind, *signals: str, count: int = 1) -> LogCause:
    return LogCause(cause, kind, Phase.UNKNOWN, Confidence.CONFIRMED, count, 1, signals)


@pytest.mark.parametrize(
    ("causes", "lever"),
    [
        ([], Lever.NONE),
        ([cause(Cause.PREEMPTION, Kind.RECOMPUTE, count=1)], Lever.NONE),
        ([cause(Cause.PREEMPTION, Kind.RECOMPUTE, count=351)], Lever.LOWER_MAX_NUM_SEQS),
        (
            [
                cause(Cause.PREEMPTION, Kind.RECOMPUTE, count=351),
                cause(Cause.CUDA_OOM, Kind.ALLOCATION_FAILURE),
            ],
            Lever.LOWER_GPU_MEMORY_UTILIZATION,
        ),
        (
            [cause(Cause.CUDA_OOM, Kind.CAPACITY_REJECTION, "free_memory_below_wanted")],
            Lever.FREE_COTENANT_MEMORY,
        ),
        (
            [cause(Cause.CUDA_OOM, Kind.CAPACITY_REJECTION, "request_exceeds_cache")],
            Lever.LOWER_MAX_MODEL_LEN,
        ),
        ([cause(Cause.HOST_OOM, Kind.SYSTEM)], Lever.RAISE_HOST_MEMORY_LIMIT),
        ([cause(Cause.STALLED, Kind.UNSPECIFIED)], Lever.INSPECT_ENGINE_FAILURE),
    ],
)
def test_a_log_gets_the_lever_of_its_first_cause(causes: list[LogCause], lever: Lever) -> None:
    assert advise_log(causes).lever is lever


def test_why_a_few_preemptions_get_none_is_said() -> None:
    advice = advise_log([cause(Cause.PREEMPTION, Kind.RECOMPUTE, count=7)])
    assert advice.because[0] == "7 preemptions"
    assert "how many requests finished" in advice.because[1]


@given(
    st.lists(
        st.builds(
            cause,
            st.sampled_from(Cause),
            st.sampled_from(Kind),
            st.sampled_from(["orphans_left", "request_exceeds_cache", "x"]),
            count=st.integers(0, 10**9),
        ),
        max_size=5,
    )
)
def test_a_log_never_proves_that_memory_is_free(causes: list[LogCause]) -> None:
    assert advise_log(causes).lever is not Lever.RAISE_KV_CACHE_MEMORY


def labelled() -> list[dict[str, list[str]]]:
    rows = []
    for name in ("logs.jsonl", "log_variants.jsonl"):
        rows += [json.loads(line) for line in (DATA / name).read_text().splitlines()]
    return rows


@pytest.mark.parametrize("row", labelled(), ids=lambda row: row["id"])
def test_logs_of_the_field_get_no_opposite_lever(row: dict[str, list[str]]) -> None:
    found = triage([("\n".join(row["lines"]) + "\n").encode()])
    lever = advise_log(found.causes).lever
    if not found.causes:
        assert lever is Lever.NONE
        return
    first = found.causes[0]
    kinds = {one.kind for one in found.causes if one.cause is Cause.CUDA_OOM}
    if first.cause is Cause.CUDA_OOM and kinds == {Kind.ALLOCATION_FAILURE}:
        assert lever in ALLOCATION_LEVERS
    elif first.cause is Cause.CUDA_OOM:
        assert lever in REFUSAL_LEVERS
    elif first.cause is Cause.HOST_OOM:
        assert lever is Lever.RAISE_HOST_MEMORY_LIMIT
    elif first.cause is not Cause.PREEMPTION:
        assert lever is Lever.INSPECT_ENGINE_FAILURE
