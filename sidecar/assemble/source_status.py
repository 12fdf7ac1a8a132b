"""The health of the sources, apart from what they read."""

from collections.abc import Mapping

from sidecar.assemble.window import blindness
from sidecar.model.report import SourceStatus
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Source

OPTIONAL = frozenset({Source.NVML, Source.KUBERNETES})
NOT_HERE = frozenset({Fault.ABSENT, Fault.NO_DRIVER})
"""A machine without a GPU, or outside of a cluster, lacks no source unless one is asked for by name."""


def next_status(before: SourceStatus, sample: Sample) -> SourceStatus:
    """The health of a source with one more sample."""
    fault = sample.fault or blindness(sample.reading)
    errors: Mapping[Fault, int] = before.errors
    if fault is not None:
        errors = {**errors, fault: errors.get(fault, 0) + 1}
    is_elsewhere = sample.source in OPTIONAL and fault in NOT_HERE
    return SourceStatus(
        configured=before.configured or not is_elsewhere,
        up=fault is None,
        last_fault=fault,
        last_at=sample.at,
        duration_s=sample.duration_s,
        errors=errors,
    )
