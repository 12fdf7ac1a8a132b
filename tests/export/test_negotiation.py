"""Accept and Accept-Encoding decide, as real clients send them."""

import gzip

import pytest
from prometheus_client.openmetrics import parser as openmetrics

from sidecar.export.metrics import Exposition, Format, accepts_gzip, choose_format
from tests.export.reports import EVIDENCE_KEYS, make_report

PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0,"
    "application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Format.TEXT),
        ("*/*", Format.TEXT),
        (PROMETHEUS_2_42, Format.OPENMETRICS),
        (PROMETHEUS_3, Format.OPENMETRICS),
        ("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.2", Format.TEXT),
        ("application/openmetrics-text;version=0.0.1,text/plain;q=0.5", Format.TEXT),
        ("application/openmetrics-text; version=1.0.0; q=0", Format.TEXT),
        ("application/openmetrics-text", Format.OPENMETRICS),
        ("APPLICATION/OpenMetrics-Text; Version=1.0.0", Format.OPENMETRICS),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Format.TEXT),
        ("application/json", Format.TEXT),
        ("application/openmetrics-text;q=nan,;;;=,,", Format.TEXT),
        ("application/openmetrics-text;q=9", Format.TEXT),
    ],
)
def test_the_content_type_follows_the_weights(accept: str, form: Format) -> None:
    assert choose_format(accept) is form


@pytest.mark.parametrize(
    ("accept_encoding", "wanted"),
    [
        ("", False),
        ("gzip", True),
        ("gzip, deflate, br", True),
        ("deflate", False),
        ("gzip;q=0", False),
        ("*", True),
        ("identity;q=1, gzip;q=0.5", False),
        ("gzip;q=0, *", False),
        ("gzip;q=x", False),
    ],
)
def test_gzip_follows_the_weights(accept_encoding: str, wanted: bool) -> None:  # noqa: FBT001
    assert accepts_gzip(accept_encoding) is wanted


def test_gzip_holds_the_same_bytes() -> None:
    exposition = Exposition(EVIDENCE_KEYS)
    report = make_report()
    plain = exposition.payload(report, Format.TEXT, compressed=False)
    packed = exposition.payload(report, Format.TEXT, compressed=True)
    assert gzip.decompress(packed.body) == plain.body
    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(packed.body) * 4 < len(plain.body)


def test_openmetrics_ends_with_its_mark_and_states_units() -> None:
    exposition = Exposition(EVIDENCE_KEYS)
    body = exposition.payload(make_report(), Format.OPENMETRICS, compressed=False).body.decode()
    assert body.endswith("# EOF\n")
    families = {f.name: f for f in openmetrics.text_string_to_metric_families(body)}  # type: ignore[no-untyped-call]
    assert families["vllm_sidecar_gpu_memory_bytes"].unit == "bytes"
    assert families["vllm_sidecar_windows"].type == "counter"
    assert families["vllm_sidecar_target"].type == "info"
    assert families["vllm_sidecar_latency_seconds"].type == "summary"
