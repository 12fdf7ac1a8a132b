"""Expositions of any size whose numbers move as a server's under load do, made from a real one."""

import re
from pathlib import Path

EXPOSITION = Path(__file__).parents[1] / "data/expositions/0.26.0.txt"
ENGINE = 'engine="0"'
SAMPLE = re.compile(r"(?P<series>[^#].*) (?P<value>\S+)")
RISES = re.compile(r"\w+:\w+_(?:total|bucket|sum|count)\{")
TEXT = "text/plain; version=0.0.4; charset=utf-8"
WAVE = 7


class MadeExposition:
    """What a vLLM 0.26.0 with so many engines shows, one scrape after the other.

    All that rose in the original rises; gauges go up and down; what is 0 stays so. ``samples`` cuts
    it to so many, whole families first.
    """

    def __init__(self, engines: int = 1, *, samples: int | None = None) -> None:
        self.lines: list[tuple[str, float | None, bool]] = []
        left = samples
        for block in blocks_of(EXPOSITION.read_text(), engines):
            for line in block:
                found = SAMPLE.fullmatch(line)
                if found is None:
                    self.lines.append((line, None, False))
                elif left is None or left > 0:
                    value = float(found["value"])
                    left = None if left is None else left - 1
                    moves = bool(value) and not found["series"].endswith("_created")
                    moves = moves and "config" not in found["series"]
                    rises = RISES.match(line) is not None
                    self.lines.append((found["series"], value, moves and rises))

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return sum(value is not None for _, value, _ in self.lines)

    def scrape(self, number: int) -> bytes:
        """The exposition at scrape ``number``."""
        return "".join(map(self.line, self.lines, [number] * len(self.lines))).encode()

    @staticmethod
    def line(row: tuple[str, float | None, bool], number: int) -> str:
        """One line at scrape ``number``."""
        series, value, rises = row
        if value is None:
            return f"{series}\n"
        if rises:
            return f"{series} {value + number * max(1.0, value // 1000)}\n"
        if value and "num_requests" in series:
            return f"{series} {value + number % WAVE}\n"
        return f"{series} {value}\n"


def blocks_of(text: str, engines: int) -> list[list[str]]:
    """The families of an exposition, every engine's samples in each."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("# HELP") or not blocks:
            blocks.append([])
        blocks[-1].append(line)
    for block in blocks:
        ours = [line for line in block if ENGINE in line]
        block.extend(
            line.replace(ENGINE, f'engine="{engine}"')
            for engine in range(1, engines)
            for line in ours
        )
    return blocks
