"""A cause that cannot be observed has a reason: what each source that could show it says."""

import pytest

from sidecar.catalog.shown_by import SHOWN_BY
from sidecar.model.vocabulary import Cause, Fault, Source
from sidecar.telling.blind_spots import ABSENT_WORDS, FAULT_WORDS, Standpoint, say_darkness


def test_every_cause_is_shown_by_some_source() -> None:
    assert set(SHOWN_BY) == set(Cause)
    assert all(SHOWN_BY.values())


@pytest.mark.parametrize(
    ("sources", "cause", "said"),
    [
        ({}, Cause.CUDA_OOM, "vllm_log is not read"),
        (
            {Source.CGROUP: Fault.ABSENT, Source.KERNEL_LOG: Fault.DENIED},
            Cause.HOST_OOM,
            f"cgroup: {ABSENT_WORDS[Source.CGROUP]}; kernel_log: {FAULT_WORDS[Fault.DENIED]}",
        ),
        ({Source.VLLM_METRICS: None}, Cause.PREEMPTION, ""),
        (
            {Source.VLLM_METRICS: Fault.REFUSED},
            Cause.STALLED,
            f"vllm_metrics: {FAULT_WORDS[Fault.REFUSED]}",
        ),
    ],
)
def test_darkness_is_told_by_the_sources_that_could_show_the_cause(
    sources: dict[Source, Fault | None], cause: Cause, said: str
) -> None:
    assert say_darkness(Standpoint(sources), cause) == said
