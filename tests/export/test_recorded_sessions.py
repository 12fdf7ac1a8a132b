"""Expositions of real sessions: parsable, within the budget, and without a finding of the linter."""

import subprocess
from pathlib import Path

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from sidecar.catalog.signals import EVIDENCE
from sidecar.classify.policy import Policy
from sidecar.export.metrics import Exposition, Format
from sidecar.model.report import Report
from sidecar.model.vocabulary import Verdict
from sidecar.pipeline import Pipeline
from sidecar.recording.folder import Recording
from sidecar.recording.gridded_ticks import read_ticks

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
SESSIONS = ("g_no_memory_for_cache_blocks", "h_restart", "j_dp2", "v2_host_oom")


def replay(session: str) -> list[Report]:
    """The report of every tick."""
    recording = Recording(RECORDINGS / session)
    pipeline = Pipeline(window_s=15, policy=Policy(), configured=recording.sources())
    return [pipeline.step(tick).report for tick in read_ticks(recording, 5.0)]


@pytest.mark.parametrize("session", SESSIONS)
def test_every_report_parses_in_both_formats_within_the_budget(session: str) -> None:
    exposition = Exposition(EVIDENCE)
    for report in replay(session):
        text = exposition.payload(report, Format.TEXT, compressed=False).body.decode()
        families = list(text_string_to_metric_families(text))
        assert sum(len(family.samples) for family in families) <= 300
        body = exposition.payload(report, Format.OPENMETRICS, compressed=False).body.decode()
        assert list(openmetrics.text_string_to_metric_families(body))  # type: ignore[no-untyped-call]


@pytest.mark.component("promtool")
@pytest.mark.parametrize("session", SESSIONS)
def test_the_linter_has_no_finding_for_any_verdict(session: str) -> None:
    exposition = Exposition(EVIDENCE)
    first: dict[Verdict, Report] = {}
    for report in replay(session):
        first.setdefault(report.verdict, report)
    for report in first.values():
        checked = subprocess.run(
            ["promtool", "check", "metrics"],
            input=exposition.payload(report, Format.TEXT, compressed=False).body,
            capture_output=True,
            check=False,
            timeout=30,
        )
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
