"""Rows of a recording -> readings, with the parsers of the live sources."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar.assemble.process_roles import party_of
from sidecar.model.readings import (
    Gpu,
    GpuProcess,
    HealthReading,
    NvmlReading,
    Process,
    ProcessReading,
    Reading,
)
from sidecar.model.samples import Instant, Sample
from sidecar.model.vocabulary import Fault, Party, Source
from sidecar.parse.exposition_reader import ExpositionReader
from sidecar.parse.kernel_line import KernelFold
from sidecar.parse.recorded_cgroup import read_cgroup_row
from sidecar.parse.recorded_limits import read_limits_row
from sidecar.parse.version import is_version
from sidecar.recording.folder import FILES, Recording, Row

OK = 200
"""HTTP's own number."""


@dataclass(slots=True)
class Decoder:
    """Rows of a recording -> samples, with the parsers of the live sources."""

    recording: Recording
    version: str | None = None
    expositions: ExpositionReader = field(default_factory=ExpositionReader)
    kernel: KernelFold = field(default_factory=KernelFold)

    def decode(self, source: Source, row: Row, at: Instant) -> Sample | None:
        """The sample of one row of a polled source; None if the row cannot be read."""
        try:
            got = self.read(source, row)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self.recording.unreadable[FILES[source]] += 1
            return None
        if isinstance(got, Fault):
            return Sample(source=source, at=at, fault=got)
        return Sample(source=source, at=at, reading=got)

    def read(self, source: Source, row: Row) -> Reading | Fault:
        """What one row of a polled source says."""
        match source:
            case Source.VLLM_METRICS:
                return self.read_metrics(row)
            case Source.VLLM_HEALTH:
                return self.read_health(row)
            case Source.CGROUP:
                return read_cgroup_row(row)
            case Source.NVML:
                return read_nvml(row)
            case Source.PROCESS:
                if row.get("error"):
                    return fault_named(row["error"])
                return read_processes(row)
            case Source.VLLM_LOG | Source.KERNEL_LOG | Source.KUBERNETES:
                raise ValueError("not a polled source")

    def read_health(self, row: Row) -> Reading | Fault:
        """What one look at the health endpoint says; of the version, else what the recording says."""
        status = 0 if row["status"] is None else whole(row["status"])
        if not status:
            return fault_named(row.get("error"))
        version = row.get("version")
        if not (isinstance(version, str) and is_version(version)):
            version = self.version if status == OK else None
        return HealthReading(status, version, read_limits_row(row.get("limits", {})))

    def read_metrics(self, row: Row) -> Reading | Fault:
        """What one scrape says."""
        status = row.get("status")
        if status is None:
            return fault_named(row.get("error"))
        if status != OK:
            return Fault.HTTP_STATUS
        body = str(row["body"]).encode("utf-8", "surrogatepass")
        try:
            return self.expositions.read(body, str(row.get("content_type", "")))
        except ValueError:
            return Fault.MALFORMED


def fault_named(name: object) -> Fault:
    """The fault a recording names; another program's word for one counts as an I/O error."""
    try:
        return Fault(str(name))
    except ValueError:
        return Fault.REFUSED if name is None else Fault.IO_ERROR


def optional_int(value: object) -> int | None:
    """A whole number, None where the recording has none."""
    return whole(value) if isinstance(value, int | float) else None


def whole(value: str | float) -> int:
    """A whole number.

    Raises:
        ValueError: it is none, or larger than any count, size or pid can be.
    """
    number = int(value)
    if abs(number) >= 1 << 64:
        raise ValueError("too large")
    return number


def size_of(value: object) -> int | None:
    """Bytes, None where the recording has none.

    Raises:
        ValueError: there are less than none.
    """
    size = optional_int(value)
    if size is not None and size < 0:
        raise ValueError("a negative size")
    return size


def share_of(percent: str | float | None) -> float | None:
    """A share of 0 to 1 from percent, None where the recording has none.

    Raises:
        ValueError: it is no share.
    """
    if percent is None:
        return None
    share = float(percent) / 100
    if not 0 <= share <= 1:
        raise ValueError("no share")
    return share


def read_processes(row: Row) -> ProcessReading:
    """One listing. Where the first process is not told, it is the eldest that bears its name."""
    processes = tuple(
        Process(
            pid=whole(one["pid"]),
            comm=str(one["comm"]),
            rss=optional_int(one.get("rss")),
            born=optional_int(one.get("born")),
            pinned=optional_int(one.get("pinned")),
        )
        for one in row["processes"]
    )
    named = (one.pid for one in processes if party_of(one.comm) is Party.API_SERVER)
    return ProcessReading(
        processes,
        root=optional_int(row["root"]) if "root" in row else next(named, None),
        host_pids=row.get("host_pids") is not False,
        limits=read_limits_row(row.get("limits", {})),
    )


def read_nvml(row: Row) -> Reading | Fault:
    """One reading of all GPUs."""
    if row.get("error"):
        return fault_named(row["error"])
    return NvmlReading(
        driver=str(row.get("driver", "")), gpus=tuple(read_gpu(gpu) for gpu in row["gpus"])
    )


def read_gpu(gpu: Mapping[str, Any]) -> Gpu:
    """One GPU; the recording gives utilisation in percent."""
    memory = gpu.get("memory") or {}
    processes = gpu.get("processes")
    return Gpu(
        index=whole(gpu["index"]),
        uuid=str(gpu.get("uuid", "")),
        name=str(gpu.get("name", "")),
        total=size_of(memory.get("total")),
        used=size_of(memory.get("used")),
        free=size_of(memory.get("free")),
        reserved=size_of(memory.get("reserved")),
        utilization=share_of(gpu.get("utilization")),
        processes=None
        if processes is None
        else tuple(GpuProcess(whole(p["pid"]), size_of(p.get("used"))) for p in processes),
        mig=bool(gpu.get("mig", False)),
        lost=bool(gpu.get("lost", False)),
    )
