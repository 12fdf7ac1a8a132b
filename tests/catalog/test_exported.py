"""The table of families keeps the conventions of metric names."""

import re

import pytest

from sidecar.catalog import exported, series_budget
from sidecar.catalog.family import Family, FamilyType
from sidecar.catalog.source_faults import SHOWN_AS, SOURCE_FAULTS
from sidecar.model.vocabulary import Fault, Source

BY_NAME = pytest.mark.parametrize("family", exported.FAMILIES, ids=lambda family: str(family.name))


@BY_NAME
def test_names_are_snake_case_with_our_prefix_and_the_suffix_of_their_type(family: Family) -> None:
    assert re.fullmatch(r"vllm_sidecar_[a-z]+(_[a-z]+)*", family.name)
    assert family.name.endswith("_total") == (family.type is FamilyType.COUNTER)
    assert family.name.endswith("_info") == (family.type is FamilyType.INFO)


@BY_NAME
def test_help_is_one_line_of_whole_sentences(family: Family) -> None:
    assert family.help.endswith(".")
    assert "\n" not in family.help
    assert "\\" not in family.help


@BY_NAME
def test_complete_sets_have_only_closed_labels(family: Family) -> None:
    if family.complete and family is not exported.EVIDENCE:
        assert all(label.values for label in family.labels)
        assert len(set(family.combinations)) == family.series


@BY_NAME
def test_label_values_are_plain_and_never_twice(family: Family) -> None:
    for label in family.labels:
        assert len(set(label.values)) == len(label.values)
        assert all(re.fullmatch(r"[a-z0-9_.]+", value) for value in label.values)


def test_no_name_is_taken_twice() -> None:
    names = [family.base_name for family in exported.FAMILIES]
    assert len(set(names)) == len(names)


def test_every_source_that_lists_faults_can_have_io_error() -> None:
    for source, faults in SOURCE_FAULTS.items():
        assert Fault.IO_ERROR in faults
        assert len(set(faults)) == len(faults)
        assert source in Source
        assert not set(faults) & set(SHOWN_AS), "what is counted as another has no row"


def test_the_engine_limit_never_breaks_the_series_limit() -> None:
    for wanted in (0, 1, 64, 500, 100_000):
        shown = series_budget.limit_engines((), wanted)
        assert series_budget.bound_series((), shown + 1, 1_000) <= series_budget.SERIES_LIMIT
