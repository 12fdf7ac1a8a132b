"""Our own rendering against prometheus_client's, byte for byte, and what it remembers."""

from collections.abc import Callable, Iterable
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest as render_text
from prometheus_client.openmetrics.exposition import generate_latest as render_openmetrics

from sidecar.catalog.exported import FAMILIES
from sidecar.catalog.family import Family, FamilyType
from sidecar.export.bounded import Row
from sidecar.export.render import SPARE_ROWS, Metrics, Renderer, metric_of

LIBRARIES: dict[str, tuple[Callable[[Metrics], bytes], str]] = {
    "text": (render_text, ""),
    "openmetrics": (render_openmetrics, "# EOF\n"),
}
Tables = list[tuple[Family, list[Row]]]


def by_library(
    library: Callable[[Metrics], bytes], tables: Tables, others: Iterable[Metric]
) -> str:
    """The same rows, every time as a whole, by the library alone."""
    metrics = []
    for family, rows in tables:
        metric = metric_of(family)
        sample = family.base_name if family.type is FamilyType.SUMMARY else family.name
        for values, value in rows:
            if value is not None and abs(value) < float("inf"):
                labels = dict(zip(family.label_names, values, strict=True))
                shown = {name: text for name, text in labels.items() if text}
                metric.add_sample(sample, shown, float(value) + 0.0)
        if metric.samples:
            metrics.append(metric)
    return library(Metrics((*metrics, *others))).decode()


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)
numbers = (
    st.none()
    | st.floats()
    | st.integers(-(10**12), 10**12)
    | st.sampled_from([0.0, 1.0, 1e6, 999_999.5, 1_234_567.25, 1e21, 1e-7, 0.1 + 0.2])
)


@st.composite
def rows_of(draw: st.DrawFn, family: Family) -> list[Row]:
    values = st.tuples(*(st.sampled_from(one.values or ("0", "")) | texts for one in family.labels))
    found: dict[tuple[str, ...], float | None] = draw(st.dictionaries(values, numbers, max_size=3))
    return list(found.items())


def finite_rows(rows: list[Row]) -> list[Row]:
    return [(values, None if value is None or isnan(value) else value) for values, value in rows]


@pytest.mark.parametrize("form", LIBRARIES)
@given(st.data())
def test_scrape_after_scrape_is_what_the_library_writes(form: str, data: st.DataObject) -> None:
    library, end = LIBRARIES[form]
    renderer = Renderer(library, end=end)
    families = data.draw(st.lists(st.sampled_from(FAMILIES), max_size=4, unique_by=id))
    own = Metric("process_start_time_seconds", "When it began.", "gauge")
    for step in range(3):
        own.samples.clear()
        own.add_sample("process_start_time_seconds", {}, 1.7e9 + step)
        tables = [(family, finite_rows(data.draw(rows_of(family)))) for family in families]
        assert renderer.render(tables, (own,)).decode() == by_library(library, tables, (own,))


def test_what_is_remembered_stays_within_its_bound() -> None:
    family = next(one for one in FAMILIES if len(one.labels) == 1 and not one.labels[0].values)
    renderer = Renderer(render_text)
    for step in range(20):
        rows: list[Row] = [((f"{step}.{n}",), 1.0) for n in range(10)]
        assert renderer.render([(family, rows)], ()).decode().count("} 1.0\n") == 10
        assert len(renderer.lines[family.name]) <= 2 * 10 + SPARE_ROWS
