"""What a row of the table of exported families is made of."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from math import prod

PREFIX = "vllm_sidecar_"
UNITS = ("seconds", "bytes", "ratio", "tokens")


class FamilyType(StrEnum):
    """Types of OpenMetrics that we use."""

    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"
    INFO = "info"


class Scope(StrEnum):
    """What a family's label sets are repeated for."""

    SERVER = "server"
    ENGINE = "engine"
    GPU = "gpu"


@dataclass(frozen=True, slots=True)
class Label:
    """A label and its closed set of values. Empty: open, bounded in length and in number."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """One exported family.

    ``complete``: every combination of label values is present from the first scrape.
    ``listed``: only these combinations can occur, instead of the product of the labels' values.
    """

    name: str
    type: FamilyType
    help: str
    labels: tuple[Label, ...] = ()
    complete: bool = False
    listed: tuple[tuple[str, ...], ...] = field(default=())

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels' names, in the order of the rows' values."""
        return tuple(label.name for label in self.labels)

    @property
    def base_name(self) -> str:
        """The name without the suffix that OpenMetrics gives to the type."""
        suffix = {FamilyType.COUNTER: "_total", FamilyType.INFO: "_info"}.get(self.type, "")
        return self.name.removesuffix(suffix)

    @property
    def unit(self) -> str:
        """The unit that the name ends with, "" for none."""
        return next((unit for unit in UNITS if self.base_name.endswith(f"_{unit}")), "")

    @property
    def scope(self) -> Scope:
        """Whether the family is repeated per engine or per GPU."""
        if ENGINE in self.labels:
            return Scope.ENGINE
        return Scope.GPU if GPU in self.labels else Scope.SERVER

    @property
    def combinations(self) -> tuple[tuple[str, ...], ...]:
        """Every combination of values of the closed labels, in fixed order."""
        if self.listed:
            return self.listed
        return tuple(product(*(label.values for label in self.labels if label.values)))

    @property
    def series(self) -> int:
        """The greatest number of series, for one engine or one GPU where it is repeated."""
        if self.listed:
            return len(self.listed)
        return prod(len(label.values) for label in self.labels if label.values)


ENGINE = Label("engine")
GPU = Label("gpu")


def gauge(name: str, text: str, *labels: Label, complete: bool = False) -> Family:
    """A row of type gauge."""
    return Family(f"{PREFIX}{name}", FamilyType.GAUGE, text, labels, complete=complete)


def counter(
    name: str,
    text: str,
    *labels: Label,
    complete: bool = False,
    listed: Iterable[tuple[str, ...]] = (),
) -> Family:
    """A row of type counter."""
    return Family(
        f"{PREFIX}{name}_total", FamilyType.COUNTER, text, labels, complete, tuple(listed)
    )
