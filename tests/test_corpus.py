"""Labelled logs from the field, and our own variants of them: each is read as labelled."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sidecar.catalog.signatures import SIGNATURES, Mark
from sidecar.log_triage import LogTriage, triage
from sidecar.model.evidence import Weight
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase, Verdict
from sidecar.parse.log_cuts import is_continued
from sidecar.parse.log_match import read_line

DATA = Path(__file__).parent / "data"
ACCEPTED = {
    "preemption": {"preemption"},
    "cuda_oom": {"cuda_oom"},
    "startup_capacity": {"cuda_oom"},
    "host_oom": {"host_oom"},
    "crash_other": {"engine_failure", "none", "unknown"},
    "healthy": {"none"},
}
KINDS = {
    "cuda_oom": Kind.ALLOCATION_FAILURE,
    "startup_capacity": Kind.CAPACITY_REJECTION,
}
OOMS = {Cause.CUDA_OOM, Cause.HOST_OOM}
RECORDINGS = sorted(path.parent for path in (DATA / "recordings").glob("*/log.jsonl.gz"))


@dataclass(frozen=True, slots=True)
class Case:
    identity: str
    category: str
    accepted: frozenset[str]
    decidable: bool
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return self.identity


def cases() -> Iterator[Case]:
    for name in ("logs.jsonl", "log_variants.jsonl"):
        for line in (DATA / name).read_text().splitlines():
            row: dict[str, Any] = json.loads(line)
            yield Case(
                identity=row["id"],
                category=row["category"],
                accepted=frozenset(row.get("accept") or ACCEPTED[row["category"]]),
                decidable=row["decidable_from_text"] is not False,
                lines=tuple(row["lines"]),
            )


CASES = tuple(cases())


def triage_of(lines: tuple[str, ...]) -> LogTriage:
    return triage([("\n".join(lines) + "\n").encode()])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_log_is_read_as_it_is_labelled(case: Case) -> None:
    found = triage_of(case.lines)
    if not case.decidable:
        sure = {one.cause for one in found.causes if one.confidence is Confidence.CONFIRMED}
        assert not sure & OOMS
        return
    assert found.verdict.value in case.accepted
    if case.category in KINDS:
        assert KINDS[case.category] in {one.kind for one in found.causes}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_size_of_the_portions_changes_nothing(case: Case) -> None:
    data = "\n".join(case.lines).encode()
    whole = triage([data])
    for size in (1, 7, 100):
        assert triage(data[at : at + size] for at in range(0, len(data), size)) == whole


@pytest.mark.parametrize("case", [case for case in CASES if case.category == "healthy"], ids=str)
def test_no_healthy_log_speaks_of_memory_line_by_line(case: Case) -> None:
    lines = [line.encode() for line in case.lines]
    own = [line for at, line in enumerate(lines) if not is_continued(lines, at)]
    said = [SIGNATURES[match.signature.id] for line in own for match in read_line(line)]
    assert not {row.cause for row in said} & OOMS


def recorded(folder: Path) -> list[str]:
    with gzip.open(folder / "log.jsonl.gz", "rt") as file:
        return [json.loads(line)["line"] for line in file]


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda folder: folder.name)
def test_a_recorded_server_is_never_accused_of_what_it_did_not_do(folder: Path) -> None:
    never = set(json.loads((folder / "expected.json").read_text())["never"])
    lines = recorded(folder)
    assert not {one.cause.value for one in triage_of(tuple(lines)).causes} & never


@pytest.mark.parametrize(
    ("name", "verdict", "kind", "phase"),
    [
        (
            "0.14.1_startup_reject_max_model_len_gt_cache",
            Verdict.CUDA_OOM,
            Kind.CAPACITY_REJECTION,
            Phase.STARTUP,
        ),
        ("g_kv_len_gt_cache_bytes", Verdict.CUDA_OOM, Kind.CAPACITY_REJECTION, Phase.STARTUP),
        ("g_no_memory_for_cache_blocks", Verdict.CUDA_OOM, Kind.CAPACITY_REJECTION, Phase.STARTUP),
        ("g_negative_bad_block_size", Verdict.ENGINE_FAILURE, Kind.START_FAILED, Phase.STARTUP),
        ("i_enginecore_sigkill", Verdict.ENGINE_FAILURE, Kind.KILLED, Phase.RUNTIME),
        ("f1_host_oom_enginecore", Verdict.ENGINE_FAILURE, Kind.KILLED, Phase.RUNTIME),
        ("v2_host_oom", Verdict.ENGINE_FAILURE, Kind.KILLED, Phase.RUNTIME),
        ("0.8.5_preempt_thrash", Verdict.PREEMPTION, Kind.RECOMPUTE, Phase.RUNTIME),
    ],
)
def test_a_recorded_failure_is_named_once(
    name: str, verdict: Verdict, kind: Kind, phase: Phase
) -> None:
    found = triage_of(tuple(recorded(DATA / "recordings" / name)))
    assert found.verdict is verdict
    (one,) = found.causes
    assert (one.kind, one.phase) == (kind, phase)
    assert one.count == (751 if verdict is Verdict.PREEMPTION else 1)


@pytest.mark.parametrize(
    "name", ["m_capacity_stages_vllm_bench", "j_dp2", "h_restart", "0.10.2_prompt_injection"]
)
def test_a_wanted_stop_is_seen_and_is_no_failure(name: str) -> None:
    lines = recorded(DATA / "recordings" / name)
    marks = {match.signature.mark for line in lines for match in read_line(line)}
    assert {Mark.STARTING, Mark.READY, Mark.STOP_WANTED} <= marks
    assert triage_of(tuple(lines)).verdict is Verdict.NONE


def test_requests_that_quote_every_signature_give_no_evidence() -> None:
    for name in ("0.10.2_prompt_injection", "e_prompt_injection_info"):
        for line in recorded(DATA / "recordings" / name):
            assert all(match.signature.weight is Weight.SUPPORT for match in read_line(line))
