"""A comparison attributes an effect to one setting or to nothing, and calls nothing better by chance."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from sidecar.envelope.compare import Comparison, Confidence, compare
from sidecar.envelope.compare_results import compare_result, compare_text
from sidecar.envelope.figures import BY_NAME
from sidecar.model.budget import Lengths
from sidecar.model.envelope import Envelope, Stage
from tests.envelope import made

CANARY = "sk-canary-0451-abcdef"
BEFORE = made.make_envelope()


def launched(*words: str, **options: str) -> tuple[str, ...]:
    """The launch command with other values of options, and more words."""
    launch = list(made.IDENTITY.launch)
    for name, value in options.items():
        launch[launch.index(f"--{name.replace('_', '-')}") + 1] = value
    return (*launch, *words)


def other(
    *words: str,
    factors: tuple[float, ...] = (1.0, 1.03),
    changes: Mapping[str, object] | None = None,
    **options: str,
) -> Envelope:
    """A second envelope, of a server started otherwise, which tells the limits that it was given."""
    launch = launched(*words, **options)
    identity = replace(made.IDENTITY, launch=launch, **(changes or {}))  # type: ignore[arg-type]  # a test's own word
    limits = dict(identity.limits)
    split = [part for word in launch for part in word.split("=")]
    for option, value in pairwise(split):
        name = option.removeprefix("--").replace("-", "_")
        if name in limits:
            limits[name] = float(value)
    return made.make_envelope(
        name="second",
        identity=replace(identity, limits=limits),
        stages=tuple(made.make_stage(name, factors) for name in made.TOLD),
    )


def names(found: tuple[object, ...]) -> list[str]:
    return [str(getattr(one, "setting")) for one in found]  # noqa: B009


def effect(comparison: Comparison, stage: str, figure: str) -> tuple[Confidence, bool | None]:
    (pair,) = [pair for pair in comparison.pairs if pair.before.name == stage]
    (found,) = [one for one in pair.effects if one.figure.name == figure]
    return found.confidence, found.better


# --- Settings -----------------------------------------------------------------------------------


def test_the_effect_of_the_only_setting_that_differs() -> None:
    found = compare(BEFORE, other(max_num_seqs="16", factors=(1.3, 1.33)))
    assert found.refusal == ""
    assert found.cause == "max_num_seqs"
    assert effect(found, "c8", "e2e_mean") == (Confidence.CLEAR, False)
    assert effect(found, "c8", "output_tokens_per_second") == (Confidence.CLEAR, False)
    assert effect(found, "c8", "preemptions_per_request") == (Confidence.WITHIN, None)
    (c4,) = [pair for pair in found.pairs if pair.before.name == "c4"]
    (e2e,) = [one for one in c4.effects if one.figure.name == "e2e_p95"]
    assert e2e.ratio == pytest.approx(1.315 / 1.015)


@pytest.mark.parametrize(
    ("words", "options", "changes", "cause"),
    [
        ((), {"kv_cache_memory_bytes": "134217728"}, {"capacity": 8256.0}, "kv_cache_memory_bytes"),
        ((), {"max_num_seqs": "8"}, {"capacity": 4300.0}, "max_num_seqs"),
        (("--gpu-memory-utilization", "0.8"), {}, {"capacity": 3900.0}, "gpu_memory_utilization"),
        (("--gpu-memory-utilization=0.8",), {}, {"capacity": 3900.0}, "gpu_memory_utilization"),
        (("-tp", "2"), {}, {"gpus": ("A", "A"), "capacity": 9000.0}, "tensor_parallel_size"),
        (("--enable-prefix-caching",), {}, {}, "enable_prefix_caching"),
        (("--no-enable-chunked-prefill",), {}, {}, "enable_chunked_prefill"),
        (("--watermark", "0.05"), {}, {}, "watermark"),
        ((), {}, {"vllm_version": "0.33.0", "capacity": 4400.0}, "vllm_version"),
        ((), {}, {"environment": {"VLLM_CPU_OMP_THREADS_BIND": "0"}}, "VLLM_CPU_OMP_THREADS_BIND"),
        ((), {}, {"capacity": 3000.0}, "capacity"),
        ((), {}, {"machine": "aarch64"}, "machine"),
    ],
)
def test_what_follows_from_a_setting_counts_with_it(
    words: tuple[str, ...], options: dict[str, str], changes: dict[str, object], cause: str
) -> None:
    before = BEFORE
    if "gpus" in changes:
        before = replace(BEFORE, identity=replace(made.IDENTITY, gpus=("A",)))
    found = compare(before, other(*words, changes=changes, **options))  # type: ignore[arg-type]  # mypy takes them for factors
    assert found.cause == cause, (found.refusal, found.differences)
    followers = {one.follows for one in found.differences.followers}
    assert followers <= {cause}


def test_what_follows_but_was_set_too_counts_by_itself() -> None:
    found = compare(BEFORE, other("--max-num-batched-tokens", "512", max_model_len="1024"))
    assert found.cause is None
    assert names(found.differences.causes) == ["max_model_len", "max_num_batched_tokens"]
    # A default that moved with the setting does not.
    limits = {**made.IDENTITY.limits, "max_model_len": 1024.0, "max_num_batched_tokens": 1024.0}
    moved = replace(made.IDENTITY, launch=launched(max_model_len="1024"), limits=limits)
    was = replace(made.IDENTITY, limits={**made.IDENTITY.limits, "max_num_batched_tokens": 2048.0})
    found = compare(replace(BEFORE, identity=was), replace(BEFORE, identity=moved))
    assert found.cause == "max_model_len"
    assert names(found.differences.followers) == ["max_num_batched_tokens"]


def test_two_settings_are_refused_by_name() -> None:
    found = compare(BEFORE, other(max_num_seqs="16", changes={"vllm_version": "0.33.0"}))
    assert found.cause is None
    assert found.refusal == (
        "2 settings differ: max_num_seqs and vllm_version; change one at a time"
    )
    assert not found.pairs
    text = compare_text(found)
    assert "differs: max_num_seqs: 32 -> 16\n" in text
    assert "differs: vllm_version: 0.32.0 -> 0.33.0\n" in text
    assert "better" not in text
    assert "worse" not in text


def test_where_it_answers_does_not_count() -> None:
    found = compare(BEFORE, other(port="8200", max_num_seqs="16"))
    assert found.cause == "max_num_seqs"
    assert names(found.differences.neutral) == ["port"]


def test_a_new_name_excuses_no_other_capacity() -> None:
    changes = {"model_name": "other"}
    found = compare(BEFORE, other(served_model_name="other", changes=changes))
    assert found.cause is None
    assert found.refusal == ""
    assert names(found.differences.followers) == ["model_name"]
    more = compare(
        BEFORE, other(served_model_name="other", changes={**changes, "capacity": 3000.0})
    )
    assert more.cause == "capacity"


def test_start_ups_that_measure_nearly_the_same_are_the_same() -> None:
    assert compare(BEFORE, other(changes={"capacity": 4120.0})).cause is None
    limits = {**made.IDENTITY.limits, "kv_memory_advice_bytes": 1e9}
    advised = replace(made.IDENTITY, limits=limits)
    found = compare(replace(BEFORE, identity=advised), BEFORE)
    assert found.refusal == ""
    assert found.cause is None


def test_the_same_value_written_otherwise_is_the_same() -> None:
    launch = launched(max_num_seqs="32")
    words = tuple("--max_num_seqs=32" if word == "--max-num-seqs" else word for word in launch)
    identity = replace(made.IDENTITY, launch=tuple(word for word in words if word != "32"))
    found = compare(BEFORE, replace(BEFORE, identity=identity))
    assert not found.differences.causes
    assert not found.refusal
    assert "no setting that counts differs" in compare_text(found)


@pytest.mark.parametrize(
    ("changes", "untold"),
    [
        ({"launch": ()}, "how the server was started"),
        ({"vllm_version": None}, "vLLM's version"),
        ({"model_name": None}, "the model"),
        ({"cpus": None}, "the hardware"),
        ({"gpus": ("A",)}, "the hardware"),
        ({"capacity": None, "limits": {}}, "the capacity of the KV cache"),
    ],
)
def test_what_is_not_known_of_both_is_not_taken_for_the_same(
    changes: dict[str, object], untold: str
) -> None:
    unknown = replace(BEFORE, identity=replace(made.IDENTITY, **changes))  # type: ignore[arg-type]  # a test's own word
    for found in (compare(BEFORE, unknown), compare(unknown, BEFORE), compare(unknown, unknown)):
        if changes == {"gpus": ("A",)} and found.before is found.after:
            continue
        assert found.refusal == f"it is not known of both: {untold}"
        assert found.cause is None


def test_different_loads_are_refused() -> None:
    rate = made.make_envelope(unit="requests_per_second")
    assert compare(BEFORE, rate).refusal == "their loads are counted in different units"
    stage = replace(made.make_stage("c4"), load=5.0)
    assert compare(BEFORE, made.make_envelope(stages=(stage,))).refusal == "they share no load"


def with_lengths(stage: Stage, prompt: float | None, output: float | None) -> Stage:
    runs = (
        replace(run, server=replace(run.server, prompt=Lengths(prompt), output=Lengths(output)))
        for run in stage.runs
    )
    return replace(stage, runs=tuple(runs))


def test_a_stage_with_other_requests_is_not_compared() -> None:
    stages = list(BEFORE.stages)
    stages[3] = with_lengths(stages[3], 64.8, 350.0)
    stages[4] = with_lengths(stages[4], None, 700.0)
    found = compare(BEFORE, replace(other(max_num_seqs="16"), stages=tuple(stages)))
    refusals = {pair.before.name: pair.refusal for pair in found.pairs}
    assert refusals["c8"] == "the requests were others: outputs of 700 and 350 tokens on average"
    assert refusals["c16"] == "the lengths of prompts are not known of both"
    assert not any(refusals[name] for name in ("c1", "c2", "c4"))
    none = tuple(with_lengths(stage, None, None) for stage in stages)
    found = compare(BEFORE, replace(other(max_num_seqs="16"), stages=none))
    assert found.refusal == "at no load were both given the same requests"
    assert found.cause is None


# --- Results ------------------------------------------------------------------------------------


def test_the_text_tells_what_differs_and_what_it_did() -> None:
    found = compare(BEFORE, other(port="8200", max_num_seqs="16", factors=(1.3, 1.33)))
    lines = compare_text(found).splitlines()
    assert lines[:5] == [
        "before: tiny-64-700, 2026-11-29 21:24 UTC",
        "after: second, 2026-11-29 21:24 UTC",
        "differs: max_num_seqs: 32 -> 16",
        "does not count: port: 8100 -> 8200",
        "effect of max_num_seqs:",
    ]
    assert "  c8 at 8 concurrent requests, 2 and 2 repeats" in lines
    told = [line.split() for line in lines if line.startswith("    E2E latency p95")]
    assert told[3] == [
        "E2E",
        "latency",
        "p95",
        "5.04",
        "s",
        "->",
        "6.54",
        "s",
        "x1.30",
        "clear:",
        "worse",
    ]
    assert (
        "safe load: 3.6 concurrent requests -> 3.6 concurrent requests (in steps of stages)"
        in lines
    )
    assert lines[-1].startswith("with two repeats a few figures look clear by chance")


def test_json_has_every_figure_and_the_same_verdicts() -> None:
    found = compare(BEFORE, other(max_num_seqs="16", factors=(1.3, 1.33)))
    told = json.loads(json.dumps(compare_result(found), allow_nan=False))
    assert told["attributed_to"] == "max_num_seqs"
    assert told["refusal"] is None
    assert [one["setting"] for one in told["differs"]] == ["max_num_seqs"]
    (stage,) = [one for one in told["stages"] if one["stage"] == "c8"]
    figures = {one["figure"]: one for one in stage["effects"]}
    assert figures.keys() <= BY_NAME.keys()
    assert figures["e2e_p95"]["confidence"] == "clear"
    assert figures["e2e_p95"]["better"] is False
    assert figures["e2e_p95"]["before"]["repeats"] == 2
    refused = compare_result(compare(BEFORE, made.make_blind()))
    assert refused["attributed_to"] is None
    assert refused["refusal"]
    assert refused["stages"] == []


@pytest.mark.parametrize("word", [*made.HOSTILE, CANARY])
def test_neither_holds_a_secret_or_breaks_a_line(word: str) -> None:
    hostile = made.make_hostile(word)
    identity = replace(
        hostile.identity,
        launch=(
            *hostile.identity.launch,
            "--hf-token",
            CANARY,
            "--chat-template",
            f"token={CANARY}",
        ),
        environment={**hostile.identity.environment, "VLLM_A": f"Bearer {CANARY}"},
    )
    found = compare(BEFORE, replace(hostile, identity=identity, unit="concurrency"))
    text = compare_text(found)
    assert all(line.isprintable() for line in text.split("\n"))
    told = json.dumps(compare_result(found), ensure_ascii=False)
    assert told.isprintable()
    for said in (text, told):
        assert f"token={CANARY}" not in said
        assert f"Bearer {CANARY}" not in said
        if word != CANARY:
            assert CANARY not in said
