"""The GPUs, through NVIDIA's management library; the only file that knows ``pynvml``."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import pynvml

from sidecar.clock import ClockLike
from sidecar.model.readings import Gpu, GpuProcess, NvmlReading
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.sources.base import Tap, sample_of
from sidecar.thread import CallThread, Crew

T = TypeVar("T")

_LOST: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})
_MISSING: Final = frozenset({pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_FOUND})
_UNKNOWN_TO_DRIVER: Final = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_INSUFFICIENT_SIZE,
    }
)
_FAULTS: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: Fault.ABSENT,
    pynvml.NVML_ERROR_INVALID_ARGUMENT: Fault.ABSENT,
    pynvml.NVML_ERROR_NOT_FOUND: Fault.ABSENT,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: Fault.NO_DRIVER,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: Fault.NO_DRIVER,
    pynvml.NVML_ERROR_NO_PERMISSION: Fault.DENIED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: Fault.UNSUPPORTED,
    pynvml.NVML_ERROR_NOT_SUPPORTED: Fault.UNSUPPORTED,
    pynvml.NVML_ERROR_TIMEOUT: Fault.TIMEOUT,
    pynvml.NVML_ERROR_GPU_IS_LOST: Fault.DEVICE_LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED: Fault.DEVICE_LOST,
}
_CLOSE_LIMIT_S: Final = 0.5
_INSTANCES_MOST: Final = 16
"""MIG devices of one card that are looked for; cards so far hold at most seven."""

_SIZE_MOST: Final = 1 << 50
"""Bytes that no card holds."""

_Memory = tuple[int | None, int | None, int | None, int | None]
_Listing = Callable[[object], list[Any]]
_COMPUTING: Final[tuple[_Listing, ...]] = (
    pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
)
_DRAWING: Final[tuple[_Listing, ...]] = (
    pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
    pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2,
)
_SHARING: Final[tuple[_Listing, ...]] = (
    pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
    pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2,
)


class NvmlSource:
    """Reads the GPUs with these ``indexes``, or all of them, within ``limit_s`` seconds.

    A driver that hangs holds one daemon thread; samples are ``BUSY`` until it returns.
    """

    name: Final = Source.NVML

    def __init__(
        self,
        clock: ClockLike,
        *,
        limit_s: float,
        indexes: tuple[int, ...] | None = None,
        tap: Tap | None = None,
        crew: Crew | None = None,
    ) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._driver = _Driver(indexes)
        self._thread = CallThread("nvml", crew)
        self._tap = tap

    async def open(self) -> None:
        """Nothing is held before the first sample."""

    async def close(self) -> None:
        """Let go of the library, unless it hangs."""
        await self._thread.call(self._driver.leave, _CLOSE_LIMIT_S)
        self._thread.close()

    async def sample(self) -> Sample:
        """The GPUs now."""
        begun = self._clock.now()
        got = await self._thread.call(self._driver.read, self._limit_s)
        if self._tap is not None:
            self._tap(begun, {"error": got.value} if isinstance(got, Fault) else _row(got))
        return sample_of(self.name, begun, self._clock.now(), got)


class _Driver:
    """The library's calls; all of them block."""

    def __init__(self, indexes: tuple[int, ...] | None) -> None:
        self._indexes = indexes
        self._entered = False
        self._version = ""
        self._uuids: dict[int, str] = {}
        self._seen: dict[int, Gpu] = {}

    def read(self) -> NvmlReading | Fault:
        """All GPUs that are watched, or why nothing can be said of any."""
        try:
            if not self._entered:
                pynvml.nvmlInit()
                self._entered = True
            # Neither the driver nor the order of the cards can change for who is in.
            self._version = self._version or str(pynvml.nvmlSystemGetDriverVersion())
            return NvmlReading(driver=self._version, gpus=tuple(map(self._gpu, self._watched())))
        except pynvml.NVMLError as error:
            # A driver that was reloaded answers only to those who come in anew.
            self.leave()
            return _FAULTS.get(error.value, Fault.IO_ERROR)
        except pynvml.NVMLLibraryMismatchError:
            # Not an NVMLError: the library lacks a symbol that a call cannot do without.
            return Fault.UNSUPPORTED
        except UnicodeDecodeError:
            return Fault.MALFORMED

    def leave(self) -> None:
        """Shut the library down; what it says to that changes nothing."""
        if not self._entered:
            return
        self._entered = False
        self._version = ""
        self._uuids.clear()
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            return

    def _watched(self) -> tuple[int, ...]:
        if self._indexes is not None:
            return self._indexes
        count = int(pynvml.nvmlDeviceGetCount())
        # A GPU that fell off the bus must not fall out of sight.
        return tuple(sorted({*range(count), *self._seen}))

    def _gpu(self, index: int) -> Gpu:
        before = self._seen.get(index)
        try:
            gpu = _read_gpu(index, before, self._uuids.get(index, ""))
        except pynvml.NVMLError as error:
            gone = error.value in _LOST or (before is not None and error.value in _MISSING)
            if not gone:
                raise
            return _lost(index, before)
        self._seen[index] = gpu
        self._uuids[index] = gpu.uuid
        return gpu


def _read_gpu(index: int, before: Gpu | None, uuid: str) -> Gpu:
    """The card now. ``before``: what was read last; ``uuid``: "" where it must be asked for."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    uuid = uuid or str(_known(lambda: pynvml.nvmlDeviceGetUUID(handle)) or "")
    is_same = before is not None and uuid and before.uuid == uuid
    name = before.name if before is not None and is_same else None
    rates = _known(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    mode = _known(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    is_mig = mode is not None and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    parts = _instances(handle) if is_mig else ()
    memory = _add_memory([_memory(part) for part in parts]) if parts else _memory(handle)
    return Gpu(
        index=index,
        uuid=uuid,
        name=name or str(_known(lambda: pynvml.nvmlDeviceGetName(handle)) or ""),
        total=memory[0],
        used=memory[1],
        free=memory[2],
        reserved=memory[3],
        utilization=None if rates is None else min(1.0, rates.gpu / 100),
        processes=_all_processes(parts or (handle,)),
        mig=is_mig,
    )


def _instances(handle: object) -> tuple[object, ...]:
    """The MIG devices of a card that we may use; none where the driver does not give them.

    A container sees those that it was given, where the card's own figures are over all instances,
    and only for those with rights (``nvml.h``, ``nvmlDeviceGetMemoryInfo``).
    """
    count = _known(lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0
    found = (_instance(handle, number) for number in range(min(count, _INSTANCES_MOST)))
    return tuple(one for one in found if one is not None)


def _instance(handle: object, number: int) -> object | None:
    try:
        return _known(lambda: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number))
    except pynvml.NVMLError as error:
        # The places of instances that were not made are empty.
        if error.value in _MISSING:
            return None
        raise


def _memory(handle: object) -> _Memory:
    """Total, used, free and reserved; without v2, ``used`` counts the driver's reserve too."""
    new = _known(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2))
    if new is not None:
        return _size(new.total), _size(new.used), _size(new.free), _size(new.reserved)
    old = _known(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    if old is not None:
        return _size(old.total), _size(old.used), _size(old.free), None
    return None, None, None, None


def _size(size: int) -> int | None:
    """Bytes; None for what is no size: a driver whose fields lie elsewhere fills in anything."""
    return int(size) if size < _SIZE_MOST else None


def _add_memory(parts: list[_Memory]) -> _Memory:
    """The same figures over several instances; None where one does not say."""
    total, used, free, reserved = (
        None if None in figures else sum(one for one in figures if one is not None)
        for figures in zip(*parts, strict=True)
    )
    return total, used, free, reserved


def _all_processes(handles: tuple[object, ...]) -> tuple[GpuProcess, ...] | None:
    """Who holds memory on any of these; None if one of them does not list who computes."""
    found: list[GpuProcess] = []
    for handle in handles:
        processes = _processes(handle)
        if processes is None:
            return None
        found.extend(processes)
    return tuple(found)


def _processes(handle: object) -> tuple[GpuProcess, ...] | None:
    """Who computes, draws or is a client of MPS; one that does several things is listed once."""
    computing = _listed(handle, _COMPUTING)
    if computing is None:
        return None
    sizes: dict[int, int | None] = {}
    for pid, used in (*computing, *_besides(handle, _DRAWING), *_besides(handle, _SHARING)):
        known = sizes.get(pid)
        sizes[pid] = used if known is None else max(known, used or 0)
    return tuple(GpuProcess(pid=pid, used=used) for pid, used in sizes.items())


def _besides(handle: object, calls: tuple[_Listing, ...]) -> list[tuple[int, int | None]]:
    """As ``_listed``; whatever ails a list that few need must not hide the rest."""
    try:
        return _listed(handle, calls) or []
    except pynvml.NVMLError as error:
        if error.value in _LOST:
            raise
        return []


def _listed(handle: object, calls: tuple[_Listing, ...]) -> list[tuple[int, int | None]] | None:
    """Pids and bytes, by the newest call that this driver knows."""
    for call in calls:
        found = _known(lambda call=call: call(handle))  # type: ignore[misc]
        if found is not None:
            return [
                (int(one.pid), None if one.usedGpuMemory is None else _size(one.usedGpuMemory))
                for one in found
            ]
    return None


def _known(call: Callable[[], T]) -> T | None:
    """The answer; None where this driver, this GPU or our rights have none."""
    try:
        return call()
    except pynvml.NVMLError as error:
        if error.value in _UNKNOWN_TO_DRIVER:
            return None
        raise
    except pynvml.NVMLLibraryMismatchError:
        return None


def _lost(index: int, before: Gpu | None) -> Gpu:
    return Gpu(
        index=index,
        uuid=before.uuid if before else "",
        name=before.name if before else "",
        total=None,
        used=None,
        free=None,
        reserved=None,
        utilization=None,
        processes=None,
        mig=before.mig if before else False,
        lost=True,
    )


def _row(reading: NvmlReading) -> dict[str, object]:
    return {"driver": reading.driver, "gpus": [_gpu_row(gpu) for gpu in reading.gpus]}


def _gpu_row(gpu: Gpu) -> dict[str, object]:
    processes = gpu.processes
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "memory": {
            "total": gpu.total,
            "used": gpu.used,
            "free": gpu.free,
            "reserved": gpu.reserved,
        },
        "utilization": None if gpu.utilization is None else round(gpu.utilization * 100),
        "processes": None
        if processes is None
        else [{"pid": one.pid, "used": one.used} for one in processes],
        "mig": gpu.mig,
        "lost": gpu.lost,
    }
