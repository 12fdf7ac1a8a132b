"""Prometheus text -> samples of the series we know, strictly and fast.

A series' text before its value never changes between scrapes, so it is read once and remembered,
up to a bound; only the value is read each time. ``scrape`` does not even look at lines that did not
change. ``prometheus_client``'s parser costs about 12 microseconds a sample and would by itself exceed
this program's CPU budget; it is the oracle of the tests instead.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

Named = TypeVar("Named")

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*+"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*+\s*+=\s*+"(?:[^"\\\n]++|\\.)*"'
SAMPLE = re.compile(
    # No possessive groups: Python before 3.11.5 misreads them; single classes it reads rightly.
    rf"(?P<series>(?P<name>{NAME})(?:\{{\s*+(?P<labels>(?:{LABEL}\s*+,?\s*+)*)\}})?)"
    r"[ \t]++(?P<value>[^\s#]++)"
    r"(?:[ \t]++-?[0-9.]++)?"  # a timestamp, which is not used
    r"(?:[ \t]++#[ \t].*)?[ \t]*+"  # an OpenMetrics exemplar, which is not used
)
ONE_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
MAX_KNOWN = 8 * 1024 * 1024
"""Characters of series that are remembered. Real ones of 64 engines have 3 million."""
MAX_LINE = 65536
"""Characters. vLLM's longest series line is under 3,000; a longer line is an attack or a fault."""


def unescape(text: str) -> str:
    r"""Undo the exposition's escapes ``\\``, ``\"`` and ``\n``."""
    if "\\" not in text:
        return text
    return ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text)


def read_labels(text: str) -> dict[str, str]:
    """The labels between a series' braces."""
    return {name: unescape(value) for name, value in ONE_LABEL.findall(text)}


class SampleReader(Generic[Named]):
    """Reads expositions of one server.

    ``name_series`` says what a series is to the caller, None for one that does not matter; it is
    asked once per series while the memory holds it (``max_series``, then it starts anew).
    """

    def __init__(
        self,
        name_series: Callable[[str, Mapping[str, str]], Named | None],
        *,
        max_series: int = 20_000,
    ) -> None:
        self.name_series = name_series
        self.max_series = max_series
        self.known: dict[str, Named | None] = {}
        self.characters = 0

    def read(self, body: bytes, content_type: str) -> Iterator[tuple[Named, float]]:
        """Yield what matters of one exposition, in its order.

        Raises:
            ValueError: the text is not UTF-8, cut short, or no exposition. Not every sample may
                have been yielded by then, so a caller collects before it believes.
        """
        for line in read_text(body, content_type).split("\n"):
            if not line or line[0] == "#":
                continue
            named, number = self.sample(line)
            if named is not None:
                yield named, number

    def sample(self, line: str) -> tuple[Named | None, float]:
        """What a line's series is to the caller, and its number; (None, 0) for a blank line.

        Raises:
            ValueError: it is no sample.
        """
        series, _, value = line.rpartition(" ")
        if series in self.known and value:
            return self.known[series], float(value)
        return self.meet(line)

    def keep(self, series: Iterable[str]) -> None:
        """Forget all but these series."""
        self.known = {one: self.known[one] for one in series if one in self.known}
        self.characters = sum(map(len, self.known))

    def number_at(self, line: str) -> int:
        """Where the number begins in a line that is a known series, a blank and the number; else 0."""
        series, blank, _ = line.rpartition(" ")
        return len(series) + len(blank) if series in self.known else 0

    def meet(self, line: str) -> tuple[Named | None, float]:
        """Read a line in full, and remember its series where the short way can find it again."""
        if not line.strip():
            return None, 0.0
        match = SAMPLE.fullmatch(line) if len(line) <= MAX_LINE else None
        if match is None:
            raise ValueError("a line is no sample")
        series, value = match["series"], match["value"]
        number = float(value)
        named = self.name_series(match["name"], read_labels(match["labels"] or ""))
        if line == f"{series} {value}":
            self.characters += len(series)
            if len(self.known) >= self.max_series or self.characters > MAX_KNOWN:
                self.known.clear()
                self.characters = len(series)
            self.known[series] = named
        return named, number


def read_text(body: bytes, content_type: str) -> str:
    """The text of a whole exposition.

    Raises:
        ValueError: it is not UTF-8, or cut short.
    """
    text = body.decode("utf-8")
    refuse_cut(text, openmetrics=content_type.startswith("application/openmetrics-text"))
    return text


def refuse_cut(text: str, *, openmetrics: bool) -> None:
    """Refuse a body that was cut short: half an exposition reads like a healthy smaller one."""
    if openmetrics:
        if not text.rstrip("\n").endswith("# EOF"):
            raise ValueError("the exposition is cut short")
    elif text and not text.endswith("\n"):
        raise ValueError("the exposition is cut short")
