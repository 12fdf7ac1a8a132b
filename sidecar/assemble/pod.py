"""What the kubelet tells of our pod -> evidence that the server's container ended."""

from dataclasses import dataclass

from sidecar.model.checkpoint import PodMemory
from sidecar.model.evidence import Evidence
from sidecar.model.readings import PodReading
from sidecar.model.samples import Instant


@dataclass(slots=True)
class Pod:
    """What was seen of our pod so far."""

    known: PodMemory | None = None

    def see(
        self, reading: PodReading, at: Instant, *, container_id: str | None
    ) -> tuple[Evidence, ...]:
        """What ended since the reading before. ``container_id``: the server's, by its cgroup."""
        raise NotImplementedError
