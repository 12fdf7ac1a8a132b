"""An envelope as one HTML page that needs nothing else: no script, no font, no other file."""

import math
from collections.abc import Iterator

from sidecar.envelope.document import (
    MOST_STAGES,
    Block,
    Command,
    Facts,
    Paragraph,
    Plots,
    Report,
    Section,
    Table,
)
from sidecar.envelope.figures import BY_NAME, LATENCY_LABELS, QUANTILES, find_stage, repeats_of
from sidecar.envelope.plot import Level, Mark, Plot, Series, draw
from sidecar.envelope.report import build_report
from sidecar.envelope.wording import say_load, say_unit
from sidecar.model.envelope import Envelope
from sidecar.telling.figures import plain
from sidecar.telling.markup import escape

SHORT = 24
"""Characters of a cell that is not broken into lines."""
STYLE = """\
:root{color-scheme:light dark;--paper:#fff;--ink:#1c2126;--quiet:#59636e;--rule:#d5dae0;--box:#f4f6f8;
--good:#0a6b3d;--bad:#b3261e;--level:#7a3e9d;--beyond:#b3261e14;--s0:#0b5cad;--s1:#a4460c;--s2:#5b6570}
@media(prefers-color-scheme:dark){:root{--paper:#14181c;--ink:#e4e8ec;--quiet:#a3adb8;--rule:#39424c;
--box:#1e242a;--good:#5fd39a;--bad:#ff8f85;--level:#cfa3ee;--beyond:#ff8f851f;--s0:#7db8f5;--s1:#f2a166;
--s2:#b4bec9}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1080px;padding:16px;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:break-word}
h1{font-size:1.5rem;line-height:1.25;margin:.4em 0}
h2{font-size:1.15rem;margin:2em 0 .6em;border-bottom:1px solid var(--rule)}
p{max-width:46em;margin:.6em 0}
.verdict{border-left:6px solid;padding:.3em .8em;background:var(--box)}
.good{color:var(--good)}.bad{color:var(--bad)}
.verdict p{color:var(--ink)}.verdict p:first-child{color:inherit;font-weight:600}
dl{display:grid;grid-template-columns:minmax(7em,max-content) 1fr;gap:.3em 1.2em;margin:.8em 0}
dt{color:var(--quiet)}dd{margin:0;min-width:0}
@media(max-width:600px){dl{display:block}dd{margin:0 0 .6em}}
.wide{overflow-x:auto;margin:.8em 0}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums}
th,td{padding:.35em .7em;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
td{white-space:nowrap}td.long{white-space:normal;min-width:12em}
th{color:var(--quiet);font-weight:600;vertical-align:bottom}
td:first-child{min-width:4em;max-width:16em}
tr.good td:first-child,tr.bad td:first-child{box-shadow:inset 4px 0}
tr.good td,tr.bad td{color:var(--ink)}
tr.good td:first-child{color:var(--good)}tr.bad td:first-child{color:var(--bad)}
pre{background:var(--box);border:1px solid var(--rule);padding:.8em;margin:.6em 0;font-size:.86rem;
white-space:pre-wrap;overflow-wrap:anywhere;user-select:all}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:20px}
.small{grid-template-columns:repeat(auto-fill,minmax(min(100%,290px),1fr));margin-top:20px}
figure{margin:0;min-width:0}figcaption{font-weight:600;font-size:.95rem}
figcaption span{font-weight:400;color:var(--quiet)}
svg{display:block;width:100%;height:auto;font:12px system-ui,sans-serif}
svg text{fill:var(--ink);paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}
svg .quiet{fill:var(--quiet)}
@media(min-width:900px){.main svg{font-size:10px}}
svg path{fill:none;stroke:var(--ink)}
svg .grid{stroke:var(--rule)}svg .axis{stroke:var(--quiet)}
svg .line{stroke-width:2}svg .dots{stroke-width:6;stroke-linecap:round;opacity:.75}
svg path.s0{stroke:var(--s0)}svg path.s1{stroke:var(--s1)}svg path.s2{stroke:var(--s2)}
svg .line.s1{stroke-dasharray:7 3}svg .line.s2{stroke-dasharray:2 3}
svg text.s0{fill:var(--s0)}svg text.s1{fill:var(--s1)}svg text.s2{fill:var(--s2)}
svg .beyond{fill:var(--beyond)}
svg path.knee{stroke:var(--bad);stroke-width:1.5}svg text.knee{fill:var(--bad)}
svg path.safe{stroke:var(--good);stroke-width:1.5;stroke-dasharray:5 3}svg text.safe{fill:var(--good)}
svg path.level{stroke:var(--level);stroke-dasharray:9 3 2 3}svg text.level{fill:var(--level)}
"""


def list_marks(envelope: Envelope) -> tuple[Mark, ...]:
    """The knee and the safe load, where they are known."""
    knee = find_stage(envelope, envelope.bounds.first_preempting)
    safe = envelope.bounds.safe_load
    marks = []
    if safe is not None and math.isfinite(safe):
        marks.append(Mark(safe, f"safe up to {say_load(envelope, safe).split()[0]}", "safe"))
    if knee is not None:
        marks.append(Mark(knee.load, f"from {plain(knee.name, 12)} on it preempts", "knee"))
    return tuple(marks)


def make_plot(
    envelope: Envelope,
    key: str,
    title: str,
    curves: tuple[tuple[str, str], ...],
    *,
    level: Level | None = None,
    top: float | None = None,
) -> Plot:
    """A plot of figures of the table, each with the name of its curve."""
    stages = envelope.stages[:MOST_STAGES]
    series = tuple(
        Series(label, tuple((stage.load, repeats_of(stage, BY_NAME[name])) for stage in stages))
        for label, name in curves
    )
    return Plot(
        key=key,
        title=title,
        unit=BY_NAME[curves[0][1]].unit,
        series=series,
        loads=tuple(stage.load for stage in stages),
        load_label=say_unit(envelope),
        marks=list_marks(envelope),
        level=level,
        top=top,
    )


def latency_plot(envelope: Envelope, latency: str) -> Plot:
    """The quantiles of one latency, with what was asked of its p95."""
    asked = getattr(envelope.objectives, f"{latency}_p95")
    label = LATENCY_LABELS[latency]
    return make_plot(
        envelope,
        latency,
        label[0].upper() + label[1:],
        tuple((quantile, f"{latency}_{quantile}") for quantile in QUANTILES),
        level=None if asked is None else Level(asked, "objective for p95"),
    )


def main_plots(envelope: Envelope) -> Iterator[Plot]:
    """What decides how much load is carried."""
    tolerated = Level(envelope.objectives.preemptions_per_request, "tolerated")
    yield make_plot(
        envelope,
        "preemptions",
        "Preemptions per request",
        (("", "preemptions_per_request"),),
        level=tolerated,
    )
    yield make_plot(
        envelope,
        "cache",
        "KV cache in use",
        (("peak", "cache_peak"), ("mean", "cache_mean")),
        top=1.0,
    )
    yield latency_plot(envelope, "ttft")
    yield make_plot(envelope, "output", "Output tokens/s", (("", "output_tokens_per_second"),))


def figure_html(plot: Plot) -> str:
    """A plot under its title."""
    return f"<figure><figcaption>{escape(plot.title)}</figcaption>{draw(plot)}</figure>"


def plots_html(envelope: Envelope) -> str:
    """All plots, over the same axis of loads."""
    small = (latency_plot(envelope, latency) for latency in ("inter_token", "e2e", "queue"))
    return (
        "<p>Dots are repeats, lines go through their medians; every plot has the same axis of load. "
        "Shaded: from the first stage on that preempts beyond the tolerance.</p>"
        f'<div class="plots main">{"".join(map(figure_html, main_plots(envelope)))}</div>'
        f'<div class="plots small">{"".join(map(figure_html, small))}</div>'
    )


def cell_html(text: str) -> str:
    """A cell; what is short stays on one line."""
    kind = "" if len(text) <= SHORT else ' class="long"'
    return f"<td{kind}>{escape(text)}</td>"


def table_html(table: Table) -> str:
    """A table that scrolls by itself where it is wider than the page."""
    kept = [at for at, _ in enumerate(table.columns) if any(row[at] for row in table.rows)] or list(
        range(len(table.columns))
    )
    head = "".join(f'<th scope="col">{escape(table.columns[at])}</th>' for at in kept)
    marks = table.marks or (None,) * len(table.rows)
    kinds = {True: ' class="good"', False: ' class="bad"', None: ""}
    rows = "".join(
        f"<tr{kinds[mark]}>{''.join(f'{cell_html(row[at])}' for at in kept)}</tr>"
        for row, mark in zip(table.rows, marks, strict=True)
    )
    return (
        f'<div class="wide" role="region" aria-label="by {escape(table.columns[0])}" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def block_html(block: Block, envelope: Envelope) -> str:
    """One block."""
    match block:
        case Paragraph():
            text = escape(block.text)
            return f"<p><strong>{text}</strong></p>" if block.strong else f"<p>{text}</p>"
        case Facts():
            pairs = "".join(
                f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in block.pairs
            )
            return f"<dl>{pairs}</dl>"
        case Table():
            return table_html(block)
        case Command():
            return f"<pre>{escape(block.text)}</pre>"
        case Plots():
            return plots_html(envelope)


def verdict_html(report: Report, section: Section) -> str:
    """What somebody must know first, in a box that says it by colour too."""
    kind = "good" if report.accepted else "bad"
    said = "".join(
        f"<p>{escape(block.text)}</p>" for block in section.blocks if isinstance(block, Paragraph)
    )
    return f'<div class="verdict {kind}">{said}</div>'


def section_html(section: Section, envelope: Envelope) -> str:
    """A heading and what stands under it."""
    body = "".join(block_html(block, envelope) for block in section.blocks)
    return f"<section><h2>{escape(section.title)}</h2>{body}</section>"


def write_page(envelope: Envelope) -> str:
    """The page; the same envelope gives the same bytes."""
    report = build_report(envelope)
    first, *others = report.sections
    rest = "".join(
        block_html(block, envelope) for block in first.blocks if not isinstance(block, Paragraph)
    )
    title = escape(report.title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>\n{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        f"{verdict_html(report, first)}\n{rest}\n"
        f"{''.join(section_html(section, envelope) for section in others)}\n</body>\n</html>\n"
    )
