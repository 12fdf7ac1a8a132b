"""The table of places: what a ``--log SPEC`` becomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from sidecar.clock import ClockLike
from sidecar.sources.log_places.base import LogPlace
from sidecar.sources.log_places.container_files import finder
from sidecar.sources.log_places.files import FilesPlace
from sidecar.sources.log_places.journald import JournalFeed
from sidecar.sources.log_places.kubernetes import Access, Container, KubernetesFeed
from sidecar.sources.log_places.position import Position
from sidecar.sources.log_places.spec import (
    FileSpec,
    JournalSpec,
    KubernetesSpec,
    StdinSpec,
    parse_spec,
)
from sidecar.sources.log_places.stdin import StdinFeed
from sidecar.sources.log_places.streams import StreamPlace
from sidecar.thread import Crew


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What places must know of where we run. ``pod``: the name of our own pod. ``crew`` reads files."""

    access: Access = field(default_factory=lambda: Access(host=None))
    pod: str | None = None
    stdin: int = 0
    crew: Crew | None = None


def places_of(
    specs: Sequence[str],
    clock: ClockLike,
    *,
    surroundings: Surroundings | None = None,
    positions: Mapping[str, Position] | None = None,
) -> tuple[LogPlace, ...]:
    """A place for each spec, named by it, that begins at its position if there is one.

    Raises:
        ValueError: a spec is of no known form.
    """
    around = Surroundings() if surroundings is None else surroundings
    known = {} if positions is None else positions
    # A log that is named twice is read once.
    return tuple(_place(spec, clock, around, known.get(spec)) for spec in dict.fromkeys(specs))


def _place(text: str, clock: ClockLike, around: Surroundings, resume: Position | None) -> LogPlace:
    spec = parse_spec(text)
    match spec:
        case FileSpec(path, layout):
            return FilesPlace(clock, text, finder(path, layout), resume=resume, crew=around.crew)
        case JournalSpec(unit):
            return StreamPlace(clock, text, JournalFeed(unit), resume=resume)
        case KubernetesSpec(name, namespace, pod):
            container = Container(name, pod or around.pod, namespace)
            feed = KubernetesFeed(around.access, container)
            return StreamPlace(clock, text, feed, resume=resume)
        case StdinSpec():
            return StreamPlace(clock, text, StdinFeed(around.stdin), endless=False)
        case _:
            assert_never(spec)
