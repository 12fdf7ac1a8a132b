"""The fast reader against prometheus_client's parser, which is right and slow."""

import contextlib
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as read_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as read_classic

from sidecar.parse.exposition import SampleReader

DATA = Path(__file__).parents[1] / "data"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
CLASSIC = "text/plain; version=0.0.4"


Key = tuple[str, tuple[tuple[str, str], ...]]


def keep_all(name: str, labels: Mapping[str, str]) -> Key:
    return name, tuple(sorted(labels.items()))


def oracle(text: str, content_type: str) -> list[tuple[Key, float]]:
    read = read_openmetrics if content_type == OPENMETRICS else read_classic
    return sorted(
        ((s.name, tuple(sorted(s.labels.items()))), s.value)
        for family in read(text)
        for s in family.samples
    )


def ours(reader: SampleReader[Key], text: str, content_type: str) -> list[tuple[Key, float]]:
    return sorted(reader.read(text.encode(), content_type))


def real_texts() -> Iterator[tuple[str, str, str]]:
    for path in sorted((DATA / "expositions").glob("*.txt")):
        yield path.name, path.read_text(), OPENMETRICS if "rust" in path.name else CLASSIC
    for path in sorted((DATA / "recordings").glob("*/metrics.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            rows = [row for row in map(json.loads, file) if row.get("status") == 200]
        for row in rows[-2:]:
            yield path.parent.name, row["body"], row["content_type"]


@pytest.mark.parametrize(("name", "text", "content_type"), list(real_texts()))
def test_every_real_exposition_reads_as_the_official_parser_reads_it(
    name: str, text: str, content_type: str
) -> None:
    official = OPENMETRICS if content_type.startswith("application/openmetrics") else CLASSIC
    reader = SampleReader(keep_all)
    expected = oracle(text, official)
    assert expected
    assert ours(reader, text, official) == expected
    assert ours(reader, text, official) == expected, "the second reading goes the short way"


label_text = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]) | st.sampled_from('"\\\n}{,= #'),
    max_size=12,
)
names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
labels = st.dictionaries(
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,6}", fullmatch=True), label_text, max_size=4
)
values = st.floats(allow_nan=False) | st.integers(-(10**6), 10**6)


def escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@given(st.lists(st.tuples(names, labels, values), max_size=12))
def test_hostile_label_values_read_as_the_official_parser_reads_them(
    samples: list[tuple[str, dict[str, str], float]],
) -> None:
    text = "".join(
        name
        + ("{" + ",".join(f'{k}="{escape(v)}"' for k, v in lab.items()) + "}" if lab else "")
        + f" {value!r}\n"
        for name, lab, value in samples
    )
    reader = SampleReader(keep_all)
    expected = sorted(((n, tuple(sorted(lab.items()))), float(v)) for n, lab, v in samples)
    assert ours(reader, text, CLASSIC) == expected
    assert ours(reader, text, CLASSIC) == expected


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused_in_one_way(body: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert list(SampleReader(keep_all).read(body, CLASSIC)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "a 1",
        'a{b="c"} 1\na{b="c"',
        "<html><body>502 Bad Gateway</body></html>\n",
        "a\n",
        "a{b=c} 1\n",
        "a one\n",
        'a{b="c"}1\n',
        '{"error": "not found"}\n',
    ],
)
def test_what_is_no_whole_exposition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(SampleReader(keep_all).read(text.encode(), CLASSIC))


def test_an_openmetrics_body_without_its_end_is_refused() -> None:
    with pytest.raises(ValueError, match="cut short"):
        list(SampleReader(keep_all).read(b"a 1\n", OPENMETRICS))


def test_timestamps_and_exemplars_are_read_past() -> None:
    text = 'a{b="c"} 1 1700000000\nd_total 3 # {trace_id="x y"} 1.0 1700000000.5\n# EOF\n'
    found = dict(SampleReader(keep_all).read(text.encode(), OPENMETRICS))
    assert found == {("a", (("b", "c"),)): 1.0, ("d_total", ()): 3.0}


def test_the_memory_of_series_stays_within_its_bound() -> None:
    reader = SampleReader(keep_all, max_series=100)
    for start in range(0, 1000, 50):
        text = "".join(f'a{{id="{n}"}} 1\n' for n in range(start, start + 50))
        assert len(list(reader.read(text.encode(), CLASSIC))) == 50
        assert len(reader.known) <= 100


def test_a_line_of_a_megabyte_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="no sample"):
        list(SampleReader(keep_all).read(b'a{b="' + b"\\" * 1_000_000 + b'"} 1\n', CLASSIC))
