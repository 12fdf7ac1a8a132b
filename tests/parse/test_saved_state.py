"""A checkpoint reads back as it was written; anything else is refused whole."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.catalog.signals import EVIDENCE
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.samples import Instant
from sidecar.model.saved_state import (
    AdviceMemory,
    CgroupMemory,
    Checkpoint,
    IncidentMemory,
    PodMemory,
    WindowMemory,
)
from sidecar.model.vocabulary import Cause, Kind, Phase, Severity, Source, Verdict, Way
from sidecar.parse.saved_state import decode_checkpoint, encode_checkpoint

ROOT = Evidence(
    cause=Cause.CUDA_OOM,
    kind=Kind.ALLOCATION_FAILURE,
    source=Source.VLLM_LOG,
    signal="torch_oom",
    at=Instant(1000.0, 1000.0),
    weight=Weight.ROOT,
    phase=Phase.RUNTIME,
)
FULL = Checkpoint(
    saved_unix=1010.5,
    positions={"/log": {"files": {"/log": [1, 2, 3, "ab", 64]}}},
    evidence={key: float(n + 1) for n, key in enumerate(EVIDENCE)},
    windows={Verdict.NONE: 7, Verdict.CUDA_OOM: 1},
    last_evidence={Cause.CUDA_OOM: 1000.0},
    episodes={Cause.CUDA_OOM: {Severity.CRITICAL: 1005.0}},
    incident=IncidentMemory(
        opened=1000.0,
        last=1001.0,
        stamp=86400.0,
        root=ROOT,
        seen=frozenset({(Cause.CUDA_OOM, "torch_oom"), (Cause.ENGINE_FAILURE, "engine_dead")}),
    ),
    preemption_total=51.0,
    cgroup=CgroupMemory(
        boot="b1",
        path="/pod/a",
        identity=41,
        container="c" * 64,
        counts={"all": 3, "local": 2},
        gone=True,
        way=Way.PID,
        inner=True,
        anchored=True,
        witness_path="/pod",
        witness_identity=40,
        witness_kills=9,
        children={"a#41": 3},
        counted=1,
    ),
    kernel_position={"boot": "b1", "sequence": 1234},
    processes={7: "VLLM::Worker_TP0"},
    rumours=(ROOT,),
    strays=(ROOT,),
    pod=PodMemory(uid="u", restarts={"vllm": 3}),
    unjudged=(WindowMemory(995.0, 1010.0, (ROOT,), kills_unseen=True),),
    advice=AdviceMemory(cotenant=1003.0),
)


@pytest.mark.parametrize("checkpoint", [FULL, Checkpoint(saved_unix=1.0)], ids=["full", "empty"])
def test_a_checkpoint_reads_back_as_it_was_written(checkpoint: Checkpoint) -> None:
    read = decode_checkpoint(encode_checkpoint(checkpoint))
    assert read == checkpoint
    assert read.saved_unix == checkpoint.saved_unix


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_checkpoint(text)


@given(st.integers(0, len(encode_checkpoint(FULL)) - 3))
def test_a_checkpoint_that_is_cut_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_checkpoint(encode_checkpoint(FULL)[:length])


def keys(value: object) -> list[str]:
    return list(value) if isinstance(value, dict) else []


@pytest.mark.parametrize("key", keys(json.loads(encode_checkpoint(FULL))))
@pytest.mark.parametrize("wrong", ["x", -1, [[]], {"a": "b"}, 1e999])
def test_a_field_of_another_form_is_refused_or_harmless(key: str, wrong: object) -> None:
    value = json.loads(encode_checkpoint(FULL))
    value[key] = wrong
    text = json.dumps(value).encode()
    try:
        read = decode_checkpoint(text)
    except ValueError:
        return
    assert replace(read, saved_unix=0.0, preemption_total=None) != FULL


def altered(path: str, moment: float) -> bytes:
    """The full checkpoint with another moment at ``path``."""
    value = json.loads(encode_checkpoint(FULL))
    *above, last = (int(part) if part.isdigit() else part for part in path.split("."))
    place = value
    for part in above:
        place = place[part]
    assert isinstance(place[last], float)
    place[last] = moment
    return json.dumps(value).encode()


MOMENTS = (
    "last_evidence.cuda_oom",
    "episodes.cuda_oom.critical",
    "incident.opened",
    "incident.last",
    "incident.root.at",
    "unjudged.0.start",
    "unjudged.0.end",
    "unjudged.0.evidence.0.at",
    "advice.cotenant",
)


@pytest.mark.parametrize("path", MOMENTS)
@pytest.mark.parametrize("moment", [FULL.saved_unix + 86_401, 1e18])
def test_a_moment_long_after_the_saving_is_refused(path: str, moment: float) -> None:
    with pytest.raises(ValueError, match="moment"):
        decode_checkpoint(altered(path, moment))


def test_the_end_of_a_window_may_be_still_to_come() -> None:
    read = decode_checkpoint(altered("unjudged.0.end", FULL.saved_unix + 900))
    assert read.unjudged[0].end == FULL.saved_unix + 900


def test_a_window_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match="window"):
        decode_checkpoint(altered("unjudged.0.end", FULL.unjudged[0].start - 1))


@pytest.mark.parametrize("saved", [1e11 + 1, 1.7e12, 1e300])
def test_a_saving_that_no_clock_showed_is_refused(saved: float) -> None:
    with pytest.raises(ValueError, match="moment"):
        decode_checkpoint(altered("saved", saved))


def test_a_signal_that_is_known_no_more_is_left_out() -> None:
    value = json.loads(encode_checkpoint(FULL))
    value["evidence"].append(["cuda_oom", "vllm_log", "of_a_later_version", 5])
    assert decode_checkpoint(json.dumps(value).encode()) == FULL
