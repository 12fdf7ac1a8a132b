"""The dashboards on disk: made from their tables, complete, and of nothing but what we export."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.catalog import exported
from sidecar.model.advice import Lever
from sidecar.model.vocabulary import ServerState, Severity, Verdict
from tools import make_dashboards

FOLDER = Path(__file__).parents[2] / "deploy/grafana"
RULES = FOLDER.parent / "prometheus/rules/recording.yml"
BOARDS = ("server", "fleet")
FAMILIES = {family.name: family for family in exported.FAMILIES}
RECORDED = frozenset(re.findall(r"record: (\S+)", RULES.read_text()))
PROMETHEUS_OWN = frozenset({"up"})
KINDS = {"row", "stat", "timeseries", "state-timeline", "table", "bargauge"}
"""Grafana's own: nothing has to be installed."""
SETS = {
    "verdict": set(Verdict),
    "state": set(ServerState),
    "severity": set(Severity),
    "lever": set(Lever),
}
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)(=~|=)"([^"]*)"')
NUMBERED = re.compile(r'(\d+) \* vllm_sidecar_\w+\{[^}]*?\b(\w+)="([^"$]*)"\}')
Json = dict[str, Any]


def board(name: str) -> Json:
    loaded: Json = json.loads((FOLDER / f"{name}.json").read_text())
    return loaded


def panels(name: str) -> list[Json]:
    """Every panel but the headings."""
    return [panel for panel in board(name)["panels"] if panel["type"] != "row"]


def expressions(name: str) -> Iterator[tuple[str, str]]:
    """Every expression of a dashboard, with where it stands."""
    for panel in panels(name):
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for annotation in board(name)["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def selectors() -> Iterator[tuple[str, dict[str, tuple[str, ...]]]]:
    """Every metric that is asked for, and the values that are asked of its labels."""
    for name in BOARDS:
        for _, expr in expressions(name):
            for metric, matchers in SELECTOR.findall(expr):
                yield (
                    metric,
                    {
                        label: tuple(value.split("|"))
                        for label, _, value in MATCHER.findall(matchers)
                    },
                )


def words_of(mappings: list[Json]) -> dict[str, str]:
    """The text that is shown for each value."""
    (mapping,) = mappings
    assert mapping["type"] == "value"
    assert all(shown["color"] for shown in mapping["options"].values())
    return {value: shown["text"] for value, shown in mapping["options"].items()}


def mappings_of(panel: Json, target: Json) -> list[Json]:
    """The mappings that hold for a query's values: its own, else the panel's."""
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"]["options"] in {target["refId"], target["legendFormat"]}:
            for found in override["properties"]:
                if found["id"] == "mappings":
                    return list(found["value"])
    return list(panel["fieldConfig"]["defaults"]["mappings"])


def test_the_files_are_what_the_tables_make() -> None:
    for name, text in make_dashboards.build().items():
        assert (FOLDER / name).read_text() == text, "run: python -m tools.make_dashboards"
    assert {path.name for path in FOLDER.glob("*.json")} == set(make_dashboards.build())


def test_the_generator_writes_them(tmp_path: Path) -> None:
    make_dashboards.write(tmp_path / "new")
    written = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    assert written == make_dashboards.build()


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_can_be_imported_as_it_is(name: str) -> None:
    shown = board(name)
    assert shown["schemaVersion"] == 39
    assert shown["refresh"] == "15s"
    assert "id" not in shown, "Grafana gives it"
    assert {panel["type"] for panel in shown["panels"]} <= KINDS
    assert "vllm:" not in json.dumps(shown)
    first, *others = (variable["name"] for variable in shown["templating"]["list"])
    assert first == "datasource"
    assert others == ["cluster", "namespace", "job", *(["instance"] if name == "server" else [])]
    places = [*shown["panels"], *shown["templating"]["list"][1:], *shown["annotations"]["list"]]
    for place in places:
        for asked in (place, *place.get("targets", ())):
            if asked.get("type") != "row":
                assert asked["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize("name", BOARDS)
def test_panels_lie_side_by_side_and_have_numbers_of_their_own(name: str) -> None:
    shown = board(name)["panels"]
    ids = [panel["id"] for panel in shown]
    assert len(ids) == len(set(ids))
    taken: dict[tuple[int, int], str] = {}
    for panel in shown:
        x, y, w, h = (panel["gridPos"][key] for key in "xywh")
        assert x + w <= 24
        for cell in ((column, row) for column in range(x, x + w) for row in range(y, y + h)):
            assert cell not in taken, (taken.get(cell), panel["title"])
            taken[cell] = panel["title"]


@pytest.mark.parametrize("name", BOARDS)
def test_every_panel_says_what_it_is_and_what_is_not_known(name: str) -> None:
    for panel in panels(name):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"], panel["title"]
        assert defaults["noValue"] == "unknown", panel["title"]
        assert defaults["custom"].get("spanNulls", False) is False, "a gap is a gap"
        refs = [target["refId"] for target in panel["targets"]]
        assert refs == sorted(set(refs))
        assert refs


def test_titles_are_told_apart() -> None:
    for name in BOARDS:
        titles = [panel["title"] for panel in board(name)["panels"]]
        assert len(titles) == len(set(titles))


@pytest.mark.parametrize("name", BOARDS)
def test_sizes_are_in_powers_of_1024_and_times_in_seconds(name: str) -> None:
    for panel in panels(name):
        unit = panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            for metric, _ in SELECTOR.findall(target["expr"]):
                if panel["type"] == "table" or metric not in FAMILIES:
                    continue
                family = FAMILIES[metric]
                if family.unit == "bytes":
                    assert unit in {"bytes", "binBps"}, panel["title"]
                if family.unit == "seconds" and not metric.endswith("timestamp_seconds"):
                    assert unit == "s", panel["title"]
                if family.unit == "ratio" and metric.endswith("_ratio"):
                    assert unit == "percentunit", panel["title"]


def test_only_what_is_exported_or_recorded_is_asked_for() -> None:
    known = set(FAMILIES) | set(exported.PROCESS_FAMILIES) | RECORDED | PROMETHEUS_OWN
    asked = {metric for metric, _ in selectors()}
    assert asked <= known, asked - known
    for name in BOARDS:
        for where, expr in expressions(name):
            rest = SELECTOR.sub("", expr)
            assert not re.search(r"vllm_sidecar|process_|\w:\w+:", rest), (where, rest)


def test_every_rule_that_is_recorded_is_shown() -> None:
    assert RECORDED
    assert {metric for metric, _ in selectors()} >= RECORDED


CHOSEN = {"cluster", "namespace", "job", "instance"}


def test_labels_and_their_values_are_those_of_the_families() -> None:
    for metric, labels in selectors():
        if metric not in FAMILIES:
            continue
        closed = {label.name: set(label.values) for label in FAMILIES[metric].labels}
        for label, values in labels.items():
            if label in CHOSEN:
                assert values == (f"${label}",)
            else:
                assert set(values) <= closed[label], (metric, label)


@pytest.mark.parametrize("name", BOARDS)
def test_every_selector_is_of_the_chosen_servers(name: str) -> None:
    wanted = {"cluster", "namespace", "job"} | ({"instance"} if name == "server" else set())
    for where, expr in expressions(name):
        found = SELECTOR.findall(expr)
        assert found, where
        for metric, matchers in found:
            labels = {label for label, _, _ in MATCHER.findall(matchers)}
            assert labels >= ({"cluster"} if metric in RECORDED else wanted), where


def test_numbers_of_states_are_shown_as_their_words_and_none_is_missing() -> None:
    seen = set()
    for name in BOARDS:
        for panel in panels(name):
            for target in panel["targets"]:
                terms = NUMBERED.findall(target["expr"])
                if not terms:
                    continue
                (label,) = {label for _, label, _ in terms}
                words = words_of(mappings_of(panel, target))
                nothing = words.pop("0")
                assert words == {number: value for number, _, value in terms}, panel["title"]
                assert set(words.values()) == SETS[label]
                assert nothing == ("no episode" if label == "severity" else "unknown")
                seen.add(label)
    assert seen == set(SETS)


def test_words_of_labels_are_coloured_and_none_is_missing() -> None:
    (servers,) = (panel for panel in panels("fleet") if panel["title"] == "Servers")
    coloured = {}
    for override in servers["fieldConfig"]["overrides"]:
        for found in override["properties"]:
            if found["id"] == "mappings":
                coloured[override["matcher"]["options"]] = words_of(found["value"])
    for label in ("verdict", "state", "lever"):
        assert set(coloured[label]) == SETS[label]
        assert all(value == text for value, text in coloured[label].items())


def test_series_are_painted_by_every_word_of_their_label() -> None:
    seen = set()
    for panel in panels("fleet"):
        painted = {
            override["matcher"]["options"]
            for override in panel["fieldConfig"]["overrides"]
            if any(found["id"] == "color" for found in override["properties"])
        }
        if painted:
            (target,) = panel["targets"]
            label = target["legendFormat"].strip("{}")
            assert painted == SETS[label]
            seen.add(label)
    assert seen == {"verdict", "state", "lever"}


def test_a_row_of_the_fleet_leads_to_its_server() -> None:
    links = [
        found["value"][0]["url"]
        for panel in panels("fleet")
        for override in panel["fieldConfig"]["overrides"]
        for found in override["properties"]
        if found["id"] == "links"
    ]
    (url,) = links
    server = board("server")
    assert url.startswith(f"/d/{server['uid']}?")
    for variable in server["templating"]["list"]:
        if variable["name"] != "datasource":
            assert f"var-{variable['name']}=${{__data.fields.{variable['name']}:" in url
    (back,) = server["links"]
    assert back["url"] == f"/d/{board('fleet')['uid']}"
