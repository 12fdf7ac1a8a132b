"""The lever of real sessions. The same load under a watermark and under an admission limit shows what
is right for the thrash: either removes preemptions, so either may be advised."""

from functools import cache
from pathlib import Path

import pytest

from sidecar.advise.hold import HELD, QUIET_WINDOWS
from sidecar.classify.policy import Policy
from sidecar.commands.replay import judge_recording
from sidecar.model.advice import Lever
from sidecar.model.limits import Limit
from sidecar.model.verdict import Judgement
from sidecar.model.vocabulary import Kind, Verdict
from sidecar.recording.folder import Recording

RECORDINGS = Path(__file__).parents[1] / "data/recordings"
EITHER = {Lever.RAISE_WATERMARK, Lever.LOWER_MAX_NUM_SEQS}
FEWER = {Lever.LOWER_MAX_NUM_SEQS}


@cache
def judged(name: str, window_s: float = 10.0) -> tuple[Judgement, ...]:
    recording = Recording(RECORDINGS / name)
    return tuple(judge_recording(recording, interval_s=1.0, window_s=window_s, policy=Policy()))


def levers(name: str, verdict: Verdict) -> set[Lever]:
    return {j.advice.lever for j in judged(name) if j.verdict is verdict}


@pytest.mark.parametrize(
    ("name", "verdict", "allowed"),
    [
        ("c_preempt_thrash", Verdict.PREEMPTION, EITHER),
        ("m_capacity_stages_vllm_bench", Verdict.PREEMPTION, EITHER),
        ("0.26.0_watermark0p05_preempt_thrash", Verdict.PREEMPTION, FEWER),
        ("0.8.5_preempt_thrash", Verdict.PREEMPTION, FEWER),
        ("f1_host_oom_enginecore", Verdict.HOST_OOM, {Lever.RAISE_HOST_MEMORY_LIMIT}),
        ("v2_host_oom", Verdict.HOST_OOM, {Lever.RAISE_HOST_MEMORY_LIMIT}),
        ("i_enginecore_sigkill", Verdict.ENGINE_FAILURE, {Lever.INSPECT_ENGINE_FAILURE}),
        ("g_negative_bad_block_size", Verdict.ENGINE_FAILURE, {Lever.INSPECT_ENGINE_FAILURE}),
        ("g_kv_len_gt_cache_bytes", Verdict.CUDA_OOM, {Lever.LOWER_MAX_MODEL_LEN}),
        ("g_no_memory_for_cache_blocks", Verdict.CUDA_OOM, {Lever.ADD_PARALLELISM}),
        (
            "0.14.1_startup_reject_max_model_len_gt_cache",
            Verdict.CUDA_OOM,
            {Lever.LOWER_MAX_MODEL_LEN},
        ),
    ],
)
def test_a_session_gets_its_lever(name: str, verdict: Verdict, allowed: set[Lever]) -> None:
    found = levers(name, verdict)
    assert found
    assert found <= allowed


@pytest.mark.parametrize(
    "name",
    [
        "a_healthy",
        "0.32.0-rust_healthy",
        "e_prompt_injection_info",
        "0.10.2_prompt_injection",
        "j_two_names_disable_log_stats",
    ],
)
def test_a_healthy_session_gets_none(name: str) -> None:
    assert {j.advice.lever for j in judged(name)} == {Lever.NONE}


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDINGS.iterdir()))
def test_no_session_gets_a_lever_that_nothing_proves(name: str) -> None:
    for judgement in judged(name):
        lever = judgement.advice.lever
        assert lever is not Lever.RAISE_KV_CACHE_MEMORY
        assert lever is not Lever.FREE_COTENANT_MEMORY
        refused = any(c.kind is Kind.CAPACITY_REJECTION for c in judgement.causes)
        assert not (refused and lever is Lever.LOWER_GPU_MEMORY_UTILIZATION)
        if judgement.verdict is Verdict.UNKNOWN:
            assert lever is Lever.NONE


@pytest.mark.parametrize("window_s", [5.0, 10.0, 20.0])
def test_a_sustained_thrash_gets_one_lever_to_its_end(window_s: float) -> None:
    seen = judged("c_preempt_thrash", window_s)
    busy = [i for i, j in enumerate(seen) if j.verdict is Verdict.PREEMPTION]
    shown = {j.advice.lever for j in seen[busy[0] : busy[-1] + 1]}
    assert len(shown) == 1
    assert shown <= EITHER
    calm = seen[busy[-1] + 1 :]
    assert 0 < len(calm) < QUIET_WINDOWS
    assert all(j.advice.because[0] == HELD for j in calm)


def test_the_step_is_what_the_cache_of_the_thrash_holds() -> None:
    """4096 tokens hold 4 to 7 requests that are on their way to 1246 tokens."""
    steps = [
        j.advice.step
        for j in judged("0.26.0_watermark0p05_preempt_thrash")
        if j.advice.lever is Lever.LOWER_MAX_NUM_SEQS
    ]
    assert steps
    for step in steps:
        assert step is not None
        assert step.setting is Limit.MAX_NUM_SEQS
        assert step.now == 32
        assert step.value is not None
        assert 4 <= step.value <= 7


def test_a_watermark_at_its_best_is_no_lever() -> None:
    seen = [
        j.advice.rejected[Lever.RAISE_WATERMARK]
        for j in judged("0.26.0_watermark0p05_preempt_thrash")
        if j.verdict is Verdict.PREEMPTION
    ]
    assert seen
    assert all("0.05 already" in reason for reason in seen)
