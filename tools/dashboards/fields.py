"""How a panel's values look: words, colours, units, columns, and what its plugin is told."""

import string
from collections.abc import Iterable, Iterator
from typing import Any

from tools.dashboards.shape import Kind, Panel, State, Steps, Unit
from tools.dashboards.states import GREEN, GREY, UNKNOWN

Json = dict[str, Any]


def defaults(panel: Panel) -> Json:
    """How values look. Where there is none stands that it is unknown, never a number."""
    plain = panel.kind is Kind.TIMESERIES
    first = GREY if panel.states or panel.kind is Kind.TIMELINE else GREEN
    shown: Json = {
        "unit": panel.unit.value,
        "noValue": UNKNOWN,
        "color": {"mode": "palette-classic" if plain else "thresholds"},
        "thresholds": thresholds(panel.steps or ((None, first),)),
        "mappings": mappings(panel.states),
        "custom": custom(panel),
    }
    ends = {"min": panel.least, "max": panel.most}
    return shown | {end: value for end, value in ends.items() if value is not None}


def thresholds(steps: Steps) -> Json:
    """Lower bounds and their colours."""
    return {
        "mode": "absolute",
        "steps": [{"value": bound, "color": colour} for bound, colour in steps],
    }


def mappings(states: Iterable[State]) -> list[Json]:
    """Words and colours for values."""
    shown = {
        state.value: {"text": state.text, "color": state.colour, "index": index}
        for index, state in enumerate(states)
    }
    return [{"type": "value", "options": shown}] if shown else []


def custom(panel: Panel) -> Json:
    """How a field is drawn."""
    match panel.kind:
        case Kind.TIMESERIES:
            return {
                "drawStyle": "bars" if panel.bars else "line",
                # A window's figure holds until the next window closes.
                "lineInterpolation": "stepAfter",
                "lineWidth": 1,
                "fillOpacity": 60 if panel.bars or panel.stacked else 8,
                "showPoints": "auto",
                "spanNulls": False,
                "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "dashed" if panel.steps else "off"},
            }
        case Kind.TIMELINE:
            return {"fillOpacity": 80, "lineWidth": 1}
        case Kind.TABLE:
            return {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False}
        case Kind.STAT | Kind.BARS:
            return {}


def options(panel: Panel) -> Json:
    """What the plugin is told."""
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    tooltip = {"mode": "multi", "sort": "desc"}
    reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    match panel.kind:
        case Kind.TIMESERIES:
            return {"legend": {**legend, "calcs": ["lastNotNull"]}, "tooltip": tooltip}
        case Kind.TIMELINE:
            return {
                "alignValue": "left",
                "mergeValues": True,
                "rowHeight": 0.85,
                "showValue": "auto",
                "legend": {**legend, "calcs": [], "showLegend": False},
                "tooltip": {**tooltip, "sort": "none"},
            }
        case Kind.TABLE:
            order = [{"displayName": panel.sort_by, "desc": not panel.least_first}]
            return {
                "frameIndex": 0,
                "showHeader": True,
                "cellHeight": "sm",
                "sortBy": order if panel.sort_by else [],
            }
        case Kind.STAT:
            return {
                "colorMode": "background",
                "graphMode": "none",
                "justifyMode": "center",
                "orientation": "auto",
                "percentChangeColorMode": "standard",
                "reduceOptions": reduced,
                "showPercentChange": False,
                "textMode": panel.words.value,
                "wideLayout": True,
            }
        case Kind.BARS:
            return {
                "displayMode": "basic",
                "legend": {**legend, "calcs": [], "showLegend": False},
                "maxVizHeight": 300,
                "minVizHeight": 16,
                "minVizWidth": 8,
                "namePlacement": "left",
                "orientation": "horizontal",
                "reduceOptions": reduced,
                "showUnfilled": True,
                "sizing": "auto",
                "valueMode": "color",
            }


def overrides(panel: Panel) -> Iterator[Json]:
    """What differs for single series or columns."""
    table = panel.kind is Kind.TABLE
    for ref, query in zip(string.ascii_uppercase, panel.queries, strict=False):
        properties = list(column_properties(query.states, query.unit, query.steps, cell=table))
        if query.empty:
            properties.append({"id": "noValue", "value": query.empty})
        if properties:
            matcher = ("byName", query.legend) if table else ("byFrameRefID", ref)
            yield override(*matcher, properties)
    for column in panel.columns:
        properties = list(column_properties(column.states, None, (), cell=True))
        if column.link:
            link_to = [{"title": "Show this server", "url": column.link, "targetBlank": False}]
            properties.append({"id": "links", "value": link_to})
        if column.empty:
            properties.append({"id": "noValue", "value": column.empty})
        if properties:
            yield override("byName", column.head, properties)
    for state in panel.painted:
        colour = {"mode": "fixed", "fixedColor": state.colour}
        yield override("byName", state.text, [{"id": "color", "value": colour}])


def override(matcher: str, chosen: str, properties: list[Json]) -> Json:
    """Properties for what a matcher chooses."""
    return {"matcher": {"id": matcher, "options": chosen}, "properties": properties}


def column_properties(
    states: tuple[State, ...], unit: Unit | None, steps: Steps, *, cell: bool
) -> Iterator[Json]:
    """The properties of one query's series, or of one column of a table."""
    if states:
        yield {"id": "mappings", "value": mappings(states)}
    if unit is not None:
        yield {"id": "unit", "value": unit.value}
    if steps or (states and cell):
        yield {"id": "thresholds", "value": thresholds(steps or ((None, GREY),))}
    if cell and (states or steps):
        yield {"id": "custom.cellOptions", "value": {"type": "color-background", "mode": "basic"}}


def arrange(panel: Panel) -> list[Json]:
    """One row for each combination of the labels, in columns of our order and our names.

    A query without a legend gives only its labels: its value is always 1.
    """
    several = len(panel.queries) > 1
    values = {
        f"Value #{ref}" if several else "Value": query.legend
        for ref, query in zip(string.ascii_uppercase, panel.queries, strict=False)
    }
    hidden = ["Time", *(name for name, legend in values.items() if not legend)]
    shown = {name: legend for name, legend in values.items() if legend}
    heads = {column.label: column.title for column in panel.columns if column.title}
    order = [*(column.label for column in panel.columns), *shown]
    arranged = {
        "excludeByName": dict.fromkeys(hidden, True),
        "includeByName": {},
        "indexByName": {name: index for index, name in enumerate(order)},
        "renameByName": heads | shown,
    }
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": arranged}]
