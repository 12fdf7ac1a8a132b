"""The lever that a whole log calls for: the same rows, with what a log alone can tell."""

from collections.abc import Sequence
from typing import Protocol

from sidecar.advise.choose import choose
from sidecar.advise.facts import Facts, Found
from sidecar.model.advice import Advice
from sidecar.model.vocabulary import Cause, Kind, Phase

MANY = 50
"""Preemptions in one log that are no passing thing: V0 prints every 50th, so a second line is there.
With fewer it is not known whether they are too many, because a log does not tell how many requests
finished."""


class Told(Protocol):
    """One cause found in a log, with how often it came."""

    @property
    def cause(self) -> Cause:
        """The cause."""

    @property
    def kind(self) -> Kind:
        """Its kind."""

    @property
    def phase(self) -> Phase:
        """When it was."""

    @property
    def count(self) -> int:
        """Incidents, or preempted requests."""

    @property
    def signals(self) -> tuple[str, ...]:
        """What the lines said."""


def advise_log(causes: Sequence[Told]) -> Advice:
    """The lever of the first cause by precedence. A log never proves that memory is free."""
    order = list(Cause)
    found = sorted(causes, key=lambda one: order.index(one.cause))
    return choose(
        Facts(
            causes=tuple(
                Found(
                    cause=one.cause,
                    kind=one.kind,
                    phase=one.phase,
                    signals=frozenset(one.signals),
                    count=float(one.count),
                    beyond=one.cause is not Cause.PREEMPTION or one.count >= MANY,
                )
                for one in found
            ),
            signals=frozenset(signal for one in found for signal in one.signals),
            from_log=True,
        )
    )
