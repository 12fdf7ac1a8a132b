"""What belongs to one incident counts once; the next incident counts again."""

from dataclasses import replace

import pytest

from sidecar.assemble.incident import Incidents
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause, Kind, Source


def at(t: float) -> Instant:
    return Instant(t, 1000 + t)


def root(t: float, cause: Cause = Cause.CUDA_OOM, signal: str = "oom") -> Evidence:
    return Evidence(cause, Kind.ALLOCATION_FAILURE, Source.VLLM_LOG, signal, at(t))


def death(t: float, signal: str = "engine_dead", stamp: float | None = None) -> Evidence:
    return Evidence(
        Cause.ENGINE_FAILURE,
        Kind.CRASHED,
        Source.VLLM_LOG,
        signal,
        at(t),
        weight=Weight.CONSEQUENCE,
        stamp=stamp,
    )


def test_every_rank_and_request_tells_the_same_root_once() -> None:
    incidents = Incidents()
    assert [incidents.admit(root(t)) is not None for t in (0, 0.1, 0.2, 5)] == [
        True,
        False,
        False,
        False,
    ]


def test_a_death_after_its_root_is_no_second_failure() -> None:
    incidents = Incidents()
    incidents.admit(root(0))
    assert incidents.admit(death(1)) is None


def test_a_death_before_its_root_counts_until_the_root_is_known() -> None:
    incidents = Incidents()
    assert incidents.admit(death(0)) is not None
    kill = root(0.4, Cause.HOST_OOM, "oom_kill")
    assert incidents.admit(kill) == kill
    assert incidents.running is not None
    assert incidents.running.root == kill


def test_stamps_keep_lines_apart_that_were_read_late_at_once() -> None:
    incidents = Incidents()
    incidents.admit(replace(root(0), stamp=100.0))
    assert incidents.admit(death(0.1, stamp=130.0)) is None
    assert incidents.admit(death(0.2, stamp=3700.0)) is not None


def test_a_line_without_a_stamp_lets_the_stamps_around_it_keep_incidents_apart() -> None:
    incidents = Incidents()
    incidents.admit(replace(root(0), stamp=100.0))
    incidents.admit(death(0))
    assert incidents.admit(replace(root(0.1), stamp=10_900.0)) is not None


@pytest.mark.parametrize("stamp", [175.0, 3700.0])
def test_what_follows_a_kill_is_its_consequence_however_old_the_line_before_was(
    stamp: float,
) -> None:
    incidents = Incidents()
    incidents.admit(replace(root(0), stamp=100.0))
    kill = Evidence(Cause.HOST_OOM, Kind.CGROUP, Source.CGROUP, "oom_kill", at(50))
    assert incidents.admit(kill) == kill
    assert incidents.admit(death(62, stamp=stamp)) is None


def test_a_second_incident_minutes_later_counts_again() -> None:
    incidents = Incidents()
    assert incidents.admit(root(0)) is not None
    assert incidents.admit(root(180)) is not None


def test_tokens_end_an_incident_so_that_a_later_death_is_its_own() -> None:
    incidents = Incidents()
    incidents.admit(root(0))
    incidents.see_tokens(at(10))
    assert incidents.admit(death(12)) is None, "another engine may have made them"
    incidents.see_tokens(at(33))
    assert incidents.admit(death(40)) is not None


def test_the_root_that_comes_first_by_precedence_stays_the_root() -> None:
    incidents = Incidents()
    incidents.admit(root(0, Cause.CUDA_OOM))
    incidents.admit(root(1, Cause.HOST_OOM, "oom_kill"))
    incidents.admit(root(2, Cause.CUDA_OOM, "another"))
    assert incidents.running is not None
    assert incidents.running.root is not None
    assert incidents.running.root.cause is Cause.HOST_OOM


@pytest.mark.parametrize("recorded", [Kind.SYSTEM, Kind.CGROUP])
def test_a_count_is_of_the_kind_that_the_kernels_record_told_before(recorded: Kind) -> None:
    incidents = Incidents()
    record = Evidence(Cause.HOST_OOM, recorded, Source.KERNEL_LOG, "oom_kill_record", at(0))
    count = Evidence(Cause.HOST_OOM, Kind.CGROUP, Source.CGROUP, "oom_kill", at(3))
    incidents.admit(record)
    admitted = incidents.admit(count)
    assert admitted is not None
    assert admitted.kind is recorded


def test_the_kind_of_an_incident_that_is_over_says_nothing_of_the_next() -> None:
    incidents = Incidents()
    incidents.admit(
        Evidence(Cause.HOST_OOM, Kind.SYSTEM, Source.KERNEL_LOG, "oom_kill_record", at(0))
    )
    admitted = incidents.admit(
        Evidence(Cause.HOST_OOM, Kind.CGROUP, Source.CGROUP, "oom_kill", at(500))
    )
    assert admitted is not None
    assert admitted.kind is Kind.CGROUP
