"""What a row of the table of log lines holds."""

from dataclasses import dataclass
from enum import StrEnum

from sidecar.model.evidence import Weight
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase


class Scope(StrEnum):
    """Whose words they are: ``server`` and ``ray`` stand in vLLM's own log, ``system`` beside it."""

    SERVER = "server"
    RAY = "ray"
    SYSTEM = "system"


LIVE_SCOPES = frozenset({Scope.SERVER, Scope.RAY})
"""What may be believed in vLLM's own log; a kernel line in it is a quotation."""


class Mark(StrEnum):
    """A step in the server's life that speaks for no cause."""

    STARTING = "starting"
    READY = "ready"
    STOP_WANTED = "stop_wanted"
    SLEEPING = "sleeping"
    AWAKE = "awake"


class Facts(StrEnum):
    """How a line tells of the server's limits."""

    NUMBERS = "numbers"  # the named groups of the pattern are limits
    GIB = "gib"  # the same, in GiB
    DICT = "dict"  # a dict as Python prints it stands behind the match
    NAMESPACE = "namespace"  # ``name=value, name=value)`` stands behind the match
    CONFIG = "config"  # ``with config: name=value, name=value`` stands behind the match


@dataclass(frozen=True, slots=True)
class Signature:
    """One wording.

    ``needle`` is a literal that every line with this wording holds. ``quiet`` rows may stand at
    level INFO or DEBUG, all others may not. ``files`` are the only loggers it is believed from,
    where the line names one; with ``levels`` the line must name one of them, and a row with a ``mark``
    is believed at no other level than INFO. Named groups of ``pattern``: ``amount``, all others are
    numbers. With ``facts`` the line tells of limits, which are believed behind vLLM's own head only.
    """

    id: str
    signal: str
    scope: Scope
    needle: str
    pattern: str
    cause: Cause | None = None
    kind: Kind | None = None
    weight: Weight = Weight.ROOT
    confidence: Confidence = Confidence.CONFIRMED
    phase: Phase | None = None
    mark: Mark | None = None
    quiet: bool = False
    files: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    facts: Facts | None = None


SERVER_STOPPING = "server_stopping"


PIN_MEMORY_FRAME = "pin_memory_frame"


ALLOCATION = Kind.ALLOCATION_FAILURE


SUSPECTED = Confidence.SUSPECTED


def failed(
    name: str,
    needle: str,
    pattern: str,
    *,
    signal: str,
    kind: Kind = Kind.CRASHED,
    weight: Weight = Weight.ROOT,
    confidence: Confidence = Confidence.CONFIRMED,
    phase: Phase | None = None,
    scope: Scope = Scope.SERVER,
) -> Signature:
    """A failure of the engine that names itself."""
    return Signature(
        id=name,
        signal=signal,
        scope=scope,
        needle=needle,
        pattern=pattern,
        cause=Cause.ENGINE_FAILURE,
        kind=kind,
        weight=weight,
        confidence=confidence,
        phase=phase,
    )


def aftermath(
    name: str,
    needle: str,
    pattern: str,
    *,
    signal: str,
    kind: Kind = Kind.CRASHED,
    phase: Phase | None = None,
    confidence: Confidence = Confidence.CONFIRMED,
    scope: Scope = Scope.SERVER,
) -> Signature:
    """What a failure leads to: it decides only where no root is known."""
    return failed(
        name,
        needle,
        pattern,
        signal=signal,
        kind=kind,
        weight=Weight.CONSEQUENCE,
        confidence=confidence,
        phase=phase,
        scope=scope,
    )


def marked(
    name: str,
    mark: Mark,
    needle: str,
    pattern: str,
    *,
    scope: Scope = Scope.SERVER,
    files: tuple[str, ...] = (),
    facts: Facts | None = None,
) -> Signature:
    """A step in the server's life; the pattern should tell where the message ends."""
    return Signature(
        id=name,
        signal=mark.value,
        scope=scope,
        needle=needle,
        pattern=pattern,
        weight=Weight.SUPPORT,
        mark=mark,
        quiet=True,
        files=files,
        facts=facts,
    )
