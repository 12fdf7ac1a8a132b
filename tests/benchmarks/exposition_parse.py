"""How fast expositions of a server under load are read, beside ``prometheus_client``'s parser.

``python -m tests.benchmarks.exposition_parse``. Each scrape differs from the one before in all that
rises and in its gauges; what is read must be what the reference reads.
"""

import sys
import time
from collections.abc import Callable, Mapping

from prometheus_client.parser import text_string_to_metric_families

from sidecar.parse.exposition_reader import ExpositionReader
from sidecar.parse.scrape import ScrapeReader
from tests.benchmarks.made_exposition import TEXT, MadeExposition
from tests.benchmarks.row import Row

SIZES = (500, 1600, 3100)
ENGINES = 10
SCRAPES = 30
TARGET = 30.0
Key = tuple[str, tuple[tuple[str, str], ...]]


def key_of(name: str, labels: Mapping[str, str]) -> Key:
    """What a sample is known by."""
    return name, tuple(sorted(labels.items()))


def by_library(body: bytes) -> list[tuple[Key, float]]:
    """Every sample by the reference, sorted."""
    return sorted(
        (key_of(sample.name, sample.labels), sample.value)
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    )


def least_cpu_s(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds of the best of some rounds."""
    costs = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        costs.append(time.process_time() - begun)
    return min(costs)


def check(bodies: list[bytes]) -> None:
    """Raises AssertionError unless every scrape reads as the reference reads it."""
    reader = ScrapeReader(key_of)
    for body in bodies:
        scrape = reader.read(body, TEXT)
        ours = sorted(zip(scrape.series, scrape.numbers, strict=True))
        assert ours == by_library(body), "not what prometheus_client reads"


def library(body: bytes) -> Callable[[], object]:
    """The reference's work on one scrape."""
    return lambda: [
        sample
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    ]


def scrape_by_scrape(
    read: Callable[[bytes, str], object], bodies: list[bytes]
) -> Callable[[], object]:
    """Reads the next scrape each time."""
    rest = iter(bodies)
    return lambda: read(next(rest), TEXT)


def measure(sizes: tuple[int, ...] = SIZES) -> list[Row]:
    """Two rows for each size: the samples, and the whole reading in canonical roles."""
    rows = []
    for samples in sizes:
        made = MadeExposition(ENGINES, samples=samples)
        assert made.samples == samples
        bodies = [made.scrape(number) for number in range(SCRAPES)]
        check(bodies[:4])
        theirs = least_cpu_s(library(bodies[0]), 3)
        scrapes, readings = ScrapeReader(key_of), ExpositionReader()
        feeds: dict[str, Callable[[bytes, str], object]] = {
            "samples": scrapes.read,
            "reading": readings.read,
        }
        for what, read in feeds.items():
            read(bodies[0], TEXT)
            ours = least_cpu_s(scrape_by_scrape(read, bodies[1:]), SCRAPES - 1)
            rows.append(
                Row(
                    what=f"exposition of {samples} samples: {what}",
                    ours=ours * 1e3,
                    unit="ms CPU",
                    reference="prometheus_client's parser",
                    theirs=theirs * 1e3,
                    ratio=theirs / ours,
                    target=f">= {TARGET:.0f}x" if samples == max(sizes) else "",
                    met=theirs / ours >= TARGET if samples == max(sizes) else None,
                )
            )
    return rows


def main() -> None:
    """Print the rows."""
    for row in measure():
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
