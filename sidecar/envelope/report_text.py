"""An envelope as Markdown, short enough to paste beside a change."""

import re
from collections.abc import Iterator

from sidecar.envelope.document import Block, Command, Facts, Paragraph, Plots, Table
from sidecar.envelope.report import build_report
from sidecar.model.envelope import Envelope

_MARKS = re.compile(r"[\\`*\[\]<>|~$&#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
"""What Markdown could read as more than text; an underscore within a word is none."""
_BEGIN = re.compile(r"^(\s*\d*)([-+=.)])(?=\s|$|-|=)")
"""What begins a list or a heading at the head of a line."""


def escape(text: str) -> str:
    """A text that Markdown shows as it stands, within a line."""
    return _MARKS.sub(lambda found: f"\\{found[0]}", text)


def escape_line(text: str) -> str:
    """The same at the head of a line."""
    return _BEGIN.sub(r"\1\\\2", escape(text))


def fence(text: str) -> str:
    """A block that holds the text as it is, whatever marks are in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}sh\n{text}\n{ticks}"


def table_lines(table: Table) -> Iterator[str]:
    """A table; columns in which nothing stands are left out."""
    kept = [at for at, _ in enumerate(table.columns) if any(row[at] for row in table.rows)] or list(
        range(len(table.columns))
    )
    yield f"| {' | '.join(escape(table.columns[at]) for at in kept)} |"
    yield f"|{'---|' * len(kept)}"
    for row in table.rows:
        yield f"| {' | '.join(escape(row[at]) for at in kept)} |"


def block_text(block: Block) -> str:
    """One block; plots are a page's alone."""
    match block:
        case Paragraph():
            return f"**{escape(block.text)}**" if block.strong else escape_line(block.text)
        case Facts():
            return "\n".join(f"- {escape(name)}: {escape(value)}" for name, value in block.pairs)
        case Table():
            return "\n".join(table_lines(block))
        case Command():
            return fence(block.text)
        case Plots():
            return ""


def write_text(envelope: Envelope) -> str:
    """The report as Markdown; the same envelope gives the same bytes."""
    report = build_report(envelope)
    parts = [f"# {escape(report.title)}"]
    for section in report.sections:
        if section.title:
            parts.append(f"## {escape(section.title)}")
        parts += [text for block in section.blocks if (text := block_text(block))]
    return "\n\n".join(parts) + "\n"
