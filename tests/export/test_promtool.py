"""Prometheus' own linter has nothing to say about our exposition."""

import subprocess

import pytest

from sidecar.export.metrics import Exposition, Format
from sidecar.model.vocabulary import Verdict
from tests.export.reports import EVIDENCE_KEYS, make_report


@pytest.mark.component("promtool")
@pytest.mark.parametrize("up", [True, False], ids=["up", "down"])
@pytest.mark.parametrize("gpus", [0, 2])
@pytest.mark.parametrize("verdict", Verdict)
def test_promtool_finds_nothing(verdict: Verdict, gpus: int, up: bool) -> None:  # noqa: FBT001
    report = make_report(verdict, gpus=gpus, up=up)
    payload = Exposition(EVIDENCE_KEYS).payload(report, Format.TEXT, compressed=False)
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=payload.body,
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert checked.stdout + checked.stderr == b""
    assert checked.returncode == 0
