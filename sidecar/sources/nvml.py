"""The GPUs, through NVIDIA's management library; the only file that knows ``pynvml``."""

from collections.abc import Callable
from typing import Final, TypeVar

import pynvml

from sidecar.clock import ClockLike
from sidecar.model.readings import Gpu, GpuProcess, NvmlReading
from sidecar.model.samples import Sample
from sidecar.model.vocabulary import Fault, Source
from sidecar.sources.base import Tap, sample_of
from sidecar.sources.thread import CallThread

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
    ) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._driver = _Driver(indexes)
        self._thread = CallThread("nvml")
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
        self._seen: dict[int, Gpu] = {}

    def read(self) -> NvmlReading | Fault:
        """All GPUs that are watched, or why nothing can be said of any."""
        try:
            if not self._entered:
                pynvml.nvmlInit()
                self._entered = True
            driver = str(pynvml.nvmlSystemGetDriverVersion())
            return NvmlReading(driver=driver, gpus=tuple(map(self._gpu, self._watched())))
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
            gpu = _read_gpu(index)
        except pynvml.NVMLError as error:
            gone = error.value in _LOST or (before is not None and error.value in _MISSING)
            if not gone:
                raise
            return _lost(index, before)
        self._seen[index] = gpu
        return gpu


def _read_gpu(index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = _memory(handle)
    rates = _known(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    mig = _known(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    return Gpu(
        index=index,
        uuid=str(_known(lambda: pynvml.nvmlDeviceGetUUID(handle)) or ""),
        name=str(_known(lambda: pynvml.nvmlDeviceGetName(handle)) or ""),
        total=memory[0],
        used=memory[1],
        free=memory[2],
        reserved=memory[3],
        utilization=None if rates is None else min(1.0, rates.gpu / 100),
        processes=_processes(handle),
        mig=mig is not None and mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE,
    )


def _memory(handle: object) -> tuple[int | None, int | None, int | None, int | None]:
    """Total, used, free and reserved; without v2, ``used`` counts the driver's reserve too."""
    new = _known(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2))
    if new is not None:
        return int(new.total), int(new.used), int(new.free), int(new.reserved)
    old = _known(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    if old is not None:
        return int(old.total), int(old.used), int(old.free), None
    return None, None, None, None


def _processes(handle: object) -> tuple[GpuProcess, ...] | None:
    for call in (
        pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
        pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
    ):
        found = _known(lambda call=call: call(handle))  # type: ignore[misc]
        if found is not None:
            return tuple(
                GpuProcess(
                    pid=int(one.pid),
                    used=None if one.usedGpuMemory is None else int(one.usedGpuMemory),
                )
                for one in found
            )
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
