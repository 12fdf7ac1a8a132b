"""Texts of others as people and series may see them: short and printable."""

import re
import unicodedata

from sidecar.catalog.exported import OTHER

ENGINE_NAME = re.compile(r"[0-9A-Za-z_.-]{1,32}", re.ASCII)


MAX_TEXT = 64


MOST_MARKS = 3
"""Accents on one letter, which no script exceeds; sixty of them cover the lines above and below."""

MAX_WORDS = 500
"""Characters of one of our own sentences."""


def plain_engine(name: str) -> str:
    """The engine's name if it is a short plain word, else ``other``."""
    return name if ENGINE_NAME.fullmatch(name) else OTHER


def plain_text(text: str) -> str:
    """At most ``MAX_TEXT`` printable characters of a text; ``?`` for those that are not."""
    return printable(text[:MAX_TEXT])


def plain_words(text: str, most: int = MAX_WORDS) -> str:
    """A sentence of ours, cut to ``most`` printable characters."""
    return printable(text[:most])


def printable(text: str) -> str:
    """The text with ``?`` for what cannot be printed, and for accents beyond ``MOST_MARKS``."""
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], 0
    for char in text:
        marks = marks + 1 if unicodedata.category(char).startswith("M") else 0
        shown.append(char if char.isprintable() and marks <= MOST_MARKS else "?")
    return "".join(shown)


def order_engine(name: str) -> tuple[int, str]:
    """A sort key that puts 2 before 10."""
    return len(name), name
