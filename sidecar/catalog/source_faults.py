"""Which faults each source can have, as ``source_errors_total`` counts them."""

from collections.abc import Mapping

from sidecar.model.vocabulary import Fault, Source

SOURCE_FAULTS: Mapping[Source, tuple[Fault, ...]] = {
    Source.VLLM_METRICS: (
        Fault.TIMEOUT,
        Fault.REFUSED,
        Fault.DISCONNECTED,
        Fault.HTTP_STATUS,
        Fault.MALFORMED,
        Fault.TOO_LARGE,
        Fault.IO_ERROR,
    ),
    Source.VLLM_HEALTH: (
        Fault.TIMEOUT,
        Fault.REFUSED,
        Fault.DISCONNECTED,
        Fault.IO_ERROR,
    ),
    Source.VLLM_LOG: (
        Fault.ABSENT,
        Fault.DENIED,
        Fault.TIMEOUT,
        Fault.UNSUPPORTED,
        Fault.IO_ERROR,
    ),
    Source.NVML: (
        Fault.ABSENT,
        Fault.NO_DRIVER,
        Fault.DENIED,
        Fault.TIMEOUT,
        Fault.UNSUPPORTED,
        Fault.DEVICE_LOST,
        Fault.IO_ERROR,
    ),
    Source.CGROUP: (
        Fault.ABSENT,
        Fault.DENIED,
        Fault.TIMEOUT,
        Fault.UNSUPPORTED,
        Fault.IO_ERROR,
    ),
    Source.KERNEL_LOG: (Fault.ABSENT, Fault.DENIED, Fault.IO_ERROR),
    Source.PROCESS: (Fault.ABSENT, Fault.DENIED, Fault.IO_ERROR),
    Source.KUBERNETES: (
        Fault.ABSENT,
        Fault.DENIED,
        Fault.TIMEOUT,
        Fault.REFUSED,
        Fault.HTTP_STATUS,
        Fault.IO_ERROR,
    ),
}
"""The faults each source can have. ``io_error`` also counts any that is not in its list."""
SHOWN_AS: Mapping[Fault, Fault] = {Fault.BUSY: Fault.TIMEOUT}
"""Faults that are counted as another: a call that still hangs is the time-out before it, gone on."""
