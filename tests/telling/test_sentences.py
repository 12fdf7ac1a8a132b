"""A window as a line that a person understands."""

from dataclasses import replace

import pytest

from sidecar.catalog import signals
from sidecar.model.advice import Advice, Lever
from sidecar.model.evidence import Evidence, Parties
from sidecar.model.vocabulary import (
    Cause,
    Confidence,
    Kind,
    LimitOwner,
    Party,
    Source,
    Verdict,
)
from sidecar.telling.figures import iso_time
from sidecar.telling.sentences import (
    MAX_LINE,
    SIGNAL_WORDS,
    lever_lines,
    say_found,
    window_line,
    window_text,
)
from tests.export.reports import AT, make_causes, make_judgement


def test_a_quiet_window_says_that_all_could_be_seen() -> None:
    assert window_line(make_judgement()) == (
        "2025-11-30T05:20:15Z none: no cause was seen; 40 requests finished"
    )


def test_a_server_whose_gpus_rest_while_tokens_flow_is_told_of() -> None:
    judgement = make_judgement()
    gpus = tuple(replace(gpu, utilization=0.0) for gpu in judgement.window.gpus)
    idle = replace(judgement, window=replace(judgement.window, gpus=gpus))
    assert window_line(idle) == (
        f"{window_line(judgement)}; tokens flow, but no GPU that holds the server shows any work"
    )


def test_preemption_is_said_with_its_counts() -> None:
    assert window_line(make_judgement(Verdict.PREEMPTION)) == (
        "2025-11-30T05:20:15Z preemption (critical): 12 preemptions in 15 s while 40 requests "
        "finished, KV cache up to 98% full"
    )


def test_a_failure_is_said_with_its_signs() -> None:
    line = window_line(make_judgement(Verdict.HOST_OOM, up=False))
    assert line.endswith(
        "host_oom (critical): the kernel killed at the memory limit of the control group "
        "(cgroup oom_kill x2)"
    )


def killed(signal: str, parties: Parties | None = None) -> Evidence:
    return Evidence(Cause.HOST_OOM, Kind.CGROUP, Source.KERNEL_LOG, signal, at=AT, parties=parties)


def say(*evidence: Evidence) -> str:
    (found,) = make_judgement(Verdict.HOST_OOM).causes
    return say_found(replace(found, evidence=evidence))


def test_a_record_of_the_kernel_says_who_was_killed_for_whose_limit() -> None:
    parties = Parties(Party.ENGINE, Party.OTHER, LimitOwner.ABOVE)
    assert say(killed(signals.OOM_KILL_RECORD, parties)) == (
        "the kernel killed an engine at the limit of a control group above the server's when a "
        "process that is none of vLLM's by its name asked for memory (kernel_log oom_kill_record x1)"
    )


def test_the_victims_of_one_kill_stand_in_one_sentence() -> None:
    own = LimitOwner.OWN
    engine, worker = Parties(Party.ENGINE, None, own), Parties(Party.WORKER, None, own)
    text = say(*(killed(signals.OOM_KILL_RECORD, one) for one in (engine, worker, worker)))
    assert text.startswith(
        "the kernel killed an engine and a worker at the limit of the server's own control group ("
    )


@pytest.mark.parametrize("parties", [None, Parties(), Parties(trigger=Party.WORKER)])
def test_a_record_that_tells_nobody_leaves_the_words_of_the_kind(parties: Parties | None) -> None:
    text = say(killed(signals.OOM_KILL_RECORD, parties))
    assert text.startswith("the kernel killed at the memory limit of the control group (")


@pytest.mark.parametrize("victim", [*Party, None])
@pytest.mark.parametrize("trigger", [*Party, None])
@pytest.mark.parametrize("owner", [*LimitOwner, None])
def test_every_combination_of_parties_has_words(
    victim: Party | None, trigger: Party | None, owner: LimitOwner | None
) -> None:
    text = say(killed(signals.OOM_KILL_RECORD, Parties(victim, trigger, owner)))
    assert text.startswith("the kernel killed ")
    assert "None" not in text
    assert "_" not in text.partition("(")[0]


def test_orphans_are_said_to_hold_their_memory() -> None:
    assert "they hold their GPU memory until they are killed" in say(killed(signals.ORPHANS_LEFT))


def test_a_sign_that_came_often_is_explained_once() -> None:
    text = say(*[killed(signals.ENGINE_PROCESS_LOST)] * 3)
    assert text.count("while the API server still answers") == 1
    assert text.endswith("engine_process_lost x3)")


@pytest.mark.parametrize("name", SIGNAL_WORDS)
def test_only_signs_that_exist_are_explained(name: str) -> None:
    assert name in {key.signal for key in signals.EVIDENCE}
    assert SIGNAL_WORDS[name] in say(killed(name))


def test_a_stall_is_said_with_its_length() -> None:
    judgement = make_judgement(Verdict.STALLED)
    line = window_line(replace(judgement, window=replace(judgement.window, stalled_s=12.5)))
    assert "no token moved for 12.5 s while up to 8 requests ran and 3 waited" in line


def test_unknown_says_what_could_not_be_seen_and_why() -> None:
    line = window_line(make_judgement(Verdict.UNKNOWN, up=False))
    assert "host_oom, cuda_oom, engine_failure, stalled and preemption could not" in line
    assert line.endswith("(vllm_metrics refused x3)")


def test_a_blind_window_is_not_called_healthy() -> None:
    judgement = make_judgement(Verdict.UNKNOWN)
    line = window_line(replace(judgement, window=replace(judgement.window, blind=True)))
    assert "answered but showed no series that is known" in line


def test_the_other_causes_are_named() -> None:
    judgement = make_judgement(Verdict.HOST_OOM)
    both = replace(judgement, causes=(*judgement.causes, *make_causes(Verdict.PREEMPTION)))
    assert window_line(both).endswith("; also preemption")


def test_the_two_ways_to_lack_gpu_memory_are_told_apart() -> None:
    judgement = make_judgement(Verdict.CUDA_OOM)
    (found,) = judgement.causes
    refused = replace(judgement, causes=(replace(found, kind=Kind.CAPACITY_REJECTION),))
    assert "allocation of GPU memory failed" in window_line(judgement)
    assert "refused to start for lack of GPU memory" in window_line(refused)


def test_a_suspicion_is_called_one_and_a_partial_window_too() -> None:
    judgement = make_judgement(Verdict.ENGINE_FAILURE)
    (found,) = judgement.causes
    unsure = replace(
        judgement,
        causes=(replace(found, confidence=Confidence.SUSPECTED),),
        window=replace(judgement.window, partial=True),
    )
    assert "suspected only" in window_line(unsure)
    assert window_line(unsure).endswith(", partial window")


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("kind", Kind)
def test_every_cause_and_kind_has_a_line(cause: Cause, kind: Kind) -> None:
    judgement = make_judgement(cause.verdict)
    (found,) = judgement.causes
    line = window_line(replace(judgement, causes=(replace(found, kind=kind),)))
    assert f" {cause.value} (critical): " in line
    assert "\n" not in line


@pytest.mark.parametrize("unix", [float("inf"), float("nan"), 1e18, -1e18])
def test_a_time_outside_the_calendar_is_no_error(unix: float) -> None:
    assert iso_time(unix) == "?"


def test_the_lever_stands_below_the_verdict_with_its_step_first() -> None:
    judgement = make_judgement(Verdict.PREEMPTION)
    first, *lever = window_text(judgement).splitlines()
    assert first == window_line(judgement)
    assert lever[:3] == [
        "  lever raise_watermark: keep more of the KV cache free when requests are let in",
        "    step: --watermark 0.05",
        "    because: 0.3 preemptions per finished request",
    ]
    assert [line.partition(":")[0].strip() for line in lever[3:5]] == ["cost", "verify"]


def test_the_same_lever_is_told_once() -> None:
    judgement = make_judgement(Verdict.PREEMPTION)
    assert window_text(judgement, before=judgement) == window_line(judgement)


def test_without_a_lever_there_is_no_further_line() -> None:
    assert window_text(make_judgement()) == window_line(make_judgement())
    assert lever_lines(Advice(Lever.NONE, because=("not at all",))) == []


@pytest.mark.parametrize("lever", [lever for lever in Lever if lever is not Lever.NONE])
def test_every_lever_has_words_in_short_lines(lever: Lever) -> None:
    first, because = lever_lines(Advice(lever, because=("a\nb" * 9_000,)))
    assert first.startswith(f"lever {lever.value}: ")
    assert all("\n" not in line and len(line) < MAX_LINE + 20 for line in (first, because))
