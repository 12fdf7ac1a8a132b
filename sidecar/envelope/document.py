"""What a report is made of: paragraphs, facts, tables and commands, before any format.

Texts are plain: whoever writes them escapes them for the format. Names that others chose come cut
and printable.
"""

from dataclasses import dataclass

MOST_NAME = 60
MOST_STAGE_NAME = 32
MOST_STAGES = 60
MOST_NOTES = 50
MOST_COMMAND = 6000
"""Characters and rows that a report shows; a longer one says what it left out."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A few sentences. ``strong``: what somebody must not overlook."""

    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, one pair a line."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings. ``marks``: of each row, whether it is good (True), bad, or neither (None)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[bool | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """What somebody copies into a shell."""

    text: str


@dataclass(frozen=True, slots=True)
class Plots:
    """Where a page shows the curves."""


Block = Paragraph | Facts | Table | Command | Plots


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, "" for none, and what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The whole of it."""

    title: str
    accepted: bool
    sections: tuple[Section, ...]
