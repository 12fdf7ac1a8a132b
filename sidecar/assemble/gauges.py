"""Gauges over the samples of a window."""

from dataclasses import dataclass

from sidecar.model.window import Spread


@dataclass(slots=True)
class Gauge:
    """Running least, sum and greatest of one gauge."""

    least: float
    greatest: float
    total: float
    last: float
    count: int = 1

    @classmethod
    def of(cls, value: float) -> "Gauge":
        """A gauge seen once."""
        return cls(least=value, greatest=value, total=value, last=value)

    def add(self, value: float) -> None:
        """See the gauge once more."""
        self.least = min(self.least, value)
        self.greatest = max(self.greatest, value)
        self.total += value
        self.last = value
        self.count += 1

    def spread(self) -> Spread:
        """What the window shows of it."""
        return Spread(
            least=self.least,
            # A sum of many equal values may be off by its rounding.
            mean=min(max(self.total / self.count, self.least), self.greatest),
            greatest=self.greatest,
            last=self.last,
        )
