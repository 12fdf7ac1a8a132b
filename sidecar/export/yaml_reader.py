"""A YAML file read as what it says: only known keys, each once, and scalars as they are written.

Faults name a line and a known key. What else stands in the file may be a password or a user's name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import yaml

from sidecar.errors import ConfigError, hint_at

NULL = "tag:yaml.org,2002:null"
BOOL = "tag:yaml.org,2002:bool"
INT = "tag:yaml.org,2002:int"
SCALARS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "timestamp")
)
FLAGS: Mapping[str, bool] = {
    word: meant
    for words, meant in (("true yes on", True), ("false no off", False))
    for plain in words.split()
    for word in (plain, plain.capitalize(), plain.upper())
}
MAX_DIGITS = 9


def wrong(line: int, text: str) -> ConfigError:
    """A fault at a line of the file."""
    return ConfigError(f"web-config-file: line {line}: {text}")


def line_of(node: yaml.Node) -> int:
    """The line at which something begins, from 1."""
    return int(node.start_mark.line) + 1


@dataclass(frozen=True, slots=True, repr=False)
class Entry:
    """What stands under a key, and how faults name it."""

    name: str
    node: yaml.Node

    @property
    def line(self) -> int:
        """Its line."""
        return line_of(self.node)

    def wrong(self, text: str) -> ConfigError:
        """A fault with it."""
        return wrong(self.line, f"{self.name}: {text}")

    def text(self) -> str:
        """A scalar as it is written, also one that YAML takes for a number."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag not in SCALARS:
            raise self.wrong("must be text")
        return str(self.node.value)

    def flag(self) -> bool:
        """True or false."""
        value = str(self.node.value)
        if self.node.tag != BOOL or value not in FLAGS:
            raise self.wrong("must be true or false")
        return FLAGS[value]

    def number(self) -> int:
        """A whole number from 0."""
        value = str(self.node.value)
        fits = value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS
        if self.node.tag != INT or not fits:
            raise self.wrong("must be a whole number from 0")
        return int(value)

    def items(self) -> tuple["Entry", ...]:
        """The elements of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.wrong("must be a list")
        return tuple(Entry(self.name, element) for element in self.node.value)

    def pairs(self) -> Iterable[tuple["Entry", "Entry"]]:
        """Keys and values of a mapping, each key once."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.wrong("must be a mapping")
        seen = set[str]()
        for key, value in self.node.value:
            name = Entry(self.name, key)
            if name.text() in seen:
                raise name.wrong("a key is given twice")
            seen.add(name.text())
            yield name, Entry(self.name, value)

    def section(self, known: Iterable[str]) -> dict[str, "Entry"]:
        """What stands under each known key; nothing (``key:``) is as good as left out."""
        found = {}
        for key, value in self.pairs():
            name = key.text()
            if name not in known:
                raise key.wrong(f"unknown key{hint_at(name, known)}")
            if value.node.tag != NULL:
                found[name] = Entry(name, value.node)
        return found


def read_document(text: str) -> Entry | None:
    """The one document of a file, None if there is none.

    Raises:
        ConfigError: it is not YAML, or more than one document.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise wrong(1 if mark is None else mark.line + 1, "not one document of YAML") from None
    except yaml.YAMLError:
        raise ConfigError("web-config-file: not text that YAML allows") from None
    except RecursionError:
        raise ConfigError("web-config-file: nested too deeply") from None
    return None if node is None or node.tag == NULL else Entry("the file", node)
