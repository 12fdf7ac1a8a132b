"""A dashboard's table as Grafana's JSON. Every place in the grid and every number is found here."""

import string
from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from sidecar.catalog import exported
from tools.dashboards.fields import Json, arrange, defaults, options, overrides
from tools.dashboards.shape import (
    COLUMNS,
    Board,
    Kind,
    Panel,
    Query,
    Section,
    Variable,
)

SCHEMA_VERSION = 39
REFRESH = "15s"
DATASOURCE: Mapping[str, str] = {"type": "prometheus", "uid": "${datasource}"}
INSTANT = frozenset({Kind.STAT, Kind.TABLE, Kind.BARS})
"""Kinds that show the present moment; the others show the range."""


def render(board: Board) -> Json:
    """A whole dashboard."""
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.about,
        "tags": ["vllm", "vllm-sidecar"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": REFRESH,
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "links": [link(title, uid) for title, uid in board.links],
        "annotations": {"list": [annotation(board.episodes)] if board.episodes else []},
        "templating": {"list": [datasource_variable(), *variables(board.variables)]},
        "panels": list(place(board.sections)),
    }


def place(sections: Iterable[Section]) -> Iterator[Json]:
    """Panels from left to right, a new line where one does not fit, a heading over each section."""
    ids = count(1)
    y = 0
    for section in sections:
        x = tallest = 0
        if section.title:
            yield heading(section.title, next(ids), y)
            y += 1
        for panel in section.panels:
            if x + panel.width > COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            grid = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            yield {"id": next(ids), "gridPos": grid, **panel_json(panel)}
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest


def heading(title: str, number: int, y: int) -> Json:
    """The line over a section."""
    grid = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": grid,
        "panels": [],
    }


def panel_json(panel: Panel) -> Json:
    """A panel without its number and place."""
    queries = list(zip(string.ascii_uppercase, panel.queries, strict=False))
    shown: Json = {
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.about,
        "datasource": dict(DATASOURCE),
        "targets": [target(panel.kind, ref, query) for ref, query in queries],
        "fieldConfig": {"defaults": defaults(panel), "overrides": list(overrides(panel))},
        "options": options(panel),
    }
    if panel.kind is Kind.TABLE:
        shown["transformations"] = arrange(panel)
    return shown


def target(kind: Kind, ref: str, query: Query) -> Json:
    """One query."""
    instant = kind in INSTANT
    return {
        "refId": ref,
        "datasource": dict(DATASOURCE),
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend,
        "instant": instant,
        "range": not instant,
        "format": "table" if kind is Kind.TABLE else "time_series",
    }


def datasource_variable() -> Json:
    """The choice of the Prometheus that is asked."""
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "refresh": 1,
        "regex": "",
        "skipUrlSync": False,
    }


def variables(chosen: Iterable[Variable]) -> Iterator[Json]:
    """A choice for each label, each out of what the choices before it leave."""
    matchers: list[str] = []
    for variable in chosen:
        query = label_values(variable.label, matchers)
        yield {
            "name": variable.label,
            "label": variable.label.capitalize(),
            "type": "query",
            "datasource": dict(DATASOURCE),
            "definition": query,
            "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor"},
            **(choose_all(many=variable.many) if variable.all_of_them else {"includeAll": False}),
            "hide": 0,
            "multi": variable.many,
            "options": [],
            "refresh": 2,
            "regex": "",
            "skipUrlSync": False,
            "sort": 1,
        }
        matchers.append(f'{variable.label}=~"${variable.label}"')


def choose_all(*, many: bool) -> Json:
    """Every value, chosen at first; also servers that lack the label, which no list of values has."""
    text, value = "All", "$__all"
    current = {"text": [text], "value": [value]} if many else {"text": text, "value": value}
    return {"includeAll": True, "allValue": ".*", "current": {"selected": True, **current}}


def label_values(label: str, matchers: Iterable[str]) -> str:
    """The values of a label among our servers, in Grafana's own words."""
    chosen = ", ".join(matchers)
    metric = exported.BUILD_INFO.name + (f"{{{chosen}}}" if chosen else "")
    return f"label_values({metric}, {label})"


def link(title: str, uid: str) -> Json:
    """A link to another of our dashboards, for the same time and the same choices."""
    return {
        "title": title,
        "type": "link",
        "url": f"/d/{uid}",
        "icon": "dashboard",
        "tooltip": "",
        "tags": [],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
    }


def annotation(expr: str) -> Json:
    """Episodes, as regions over all charts."""
    return {
        "name": "Episodes",
        "datasource": dict(DATASOURCE),
        "enable": True,
        "expr": expr,
        "iconColor": "orange",
        "step": REFRESH,
        "titleFormat": "{{cause}}",
        "tagKeys": "cause",
    }
