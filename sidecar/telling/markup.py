"""HTML and SVG as text. What comes in as plain text is escaped here; only ``Markup`` passes as it is."""

import html
from collections.abc import Iterable


class Markup(str):
    """Text that is markup already, made by ``element`` and its like."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """Text that cannot become markup."""
    return text if isinstance(text, Markup) else Markup(html.escape(text, quote=True))


def join(parts: Iterable[str]) -> Markup:
    """Parts one after another, plain text escaped."""
    return Markup("".join(map(escape, parts)))


VOID = frozenset({"meta", "link"})
"""Elements of HTML that hold nothing and have no end."""


def element(name: str, /, *inside: str, **attributes: str | float | None) -> Markup:
    """An element; an attribute that is None is left out.

    Of an attribute's name ``_`` becomes ``-``, and a ``_`` at its end goes (``class_``).
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{told}>")
    return Markup(f"<{name}{told}>{join(inside)}</{name}>")
