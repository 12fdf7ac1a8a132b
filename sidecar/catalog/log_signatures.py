"""What lines in logs mean: one row per wording.

A ``pattern`` is matched at the START of a message, after wrappers, prefixes, the logger's head and
exception names are taken off (``parse.log_line``); so text that is quoted inside a line never counts.
Wordings are of vLLM 0.1 to 0.33, torch 1.12 to 2.13, Linux 3.10 to 7.0, systemd 245 to 257.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

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


@dataclass(frozen=True, slots=True)
class Signature:
    """One wording.

    ``needle`` is a literal that every line with this wording holds. ``quiet`` rows may stand at
    level INFO or DEBUG, all others may not. ``files`` are the only loggers it is believed from,
    where the line names one. Named groups of ``pattern``: ``amount``, all others are numbers.
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


SERVER_STOPPING = "server_stopping"
PIN_MEMORY_FRAME = "pin_memory_frame"

NEEDLES = (
    " blocks: 0",
    " error: ",
    "ALLOC",
    "Background loop",
    "Call to ",
    "DefaultCPU",
    "Engine loop",
    "EngineCore encountered",
    "Errno 12]",
    "EXHAUSTED",
    "Exception in callback",
    "Executor failed",
    "Fatal Python",
    "FATAL ERROR",
    "Got fatal signal",
    "Host",
    "Initializing a",
    "Killed",
    "NCCL",
    "NO_MEMORY",
    "No space left",
    "OOM",
    "OUT_OF",
    "SIG",
    "Start",
    "Stopping ",
    "To serve at least one",
    "Unable to allocate",
    "Watchdog",
    "Xid",
    "allocation failure",
    "as a result of limit",
    "by signal",
    "core dumped",
    "total_vm",
    "viction manager",
    "asleep",
    "background task",
    "bad_alloc",
    "died",
    "egfault",
    "emory",
    "failcnt",
    "failed",
    "fallen off",
    "hut",
    "killable",
    "larger than the maximum",
    "mem_cgroup_",
    "memcg+0x",
    "oom",
    "out of resource",
    "pinned",
    "ready to accept",
    "reempt",
    "server version",
    "startup complete",
    "swap space",
    "terminated abruptly",
    "throughput: 0.0 tokens/s, Running: ",
    "timed out",
    "unexpectedly",
    "us error",
    "validation error",
    "wake up",
    "xit",
)
"""Every row's needle holds one of these: text without any of them matches nothing."""

QUIET_STARTS = (
    "# GPU blocks: 0",
    "# cuda blocks: 0",
    "Application ",
    "Available KV cache memory: -",
    "Initializing a",
    "It took ",
    "No available shared memory broadcast",
    "OpenAI server is ready",
    "Preempted request ",
    "Preempting ",
    "Shutting down",
    "Started server process",
    "Starting vLLM server on",
    "Waiting for application shutdown",
    "[shutdown] ",
    "vLLM API server version",
)
"""How the messages of quiet rows begin, except for statistics that count preemptions."""

_ALLOCATION = Kind.ALLOCATION_FAILURE
_SUSPECTED = Confidence.SUSPECTED

_PREEMPTION = (
    Signature(
        id="v0_preempted_recompute",
        signal="preemption_warning",
        scope=Scope.SERVER,
        needle="preempted",
        pattern=r"Sequence group .{1,400}? is preempted (?:by|in) PreemptionMode\.RECOMPUTE mode"
        r"(?:.{0,400}total_num_cumulative_preemption=(?P<total>\d{1,15}))?",
        cause=Cause.PREEMPTION,
        kind=Kind.RECOMPUTE,
        files=("scheduler.py",),
    ),
    Signature(
        id="v0_preempted_swap",
        signal="preemption_warning",
        scope=Scope.SERVER,
        needle="preempted",
        pattern=r"Sequence group .{1,400}? is preempted (?:by|in) PreemptionMode\.SWAP mode"
        r"(?:.{0,400}total_num_cumulative_preemption=(?P<total>\d{1,15}))?",
        cause=Cause.PREEMPTION,
        kind=Kind.SWAP,
        files=("scheduler.py",),
    ),
    Signature(
        id="v1_stats_preemptions",
        signal="preemption_stats",
        scope=Scope.SERVER,
        needle="Preemptions: ",
        pattern=r"(?:Engine \d+: |\d+ Engines Aggregated: )?Avg prompt throughput: .{1,300}?"
        r",\s*Preemptions: (?P<amount>[1-9]\d{0,14})\b",
        cause=Cause.PREEMPTION,
        kind=Kind.RECOMPUTE,
        quiet=True,
    ),
    Signature(
        id="rust_stats_preemptions",
        signal="preemption_stats",
        scope=Scope.SERVER,
        needle="Preemptions: ",
        pattern=r"(?:Engine \d+: )?Avg prompt tput: .{1,300}?"
        r",\s*Preemptions: (?P<amount>[1-9]\d{0,14})\b",
        cause=Cause.PREEMPTION,
        kind=Kind.RECOMPUTE,
        quiet=True,
    ),
    Signature(
        id="preempted_resumed",
        signal="preemption_resumed",
        scope=Scope.SERVER,
        needle="Preempted request ",
        pattern=r"Preempted request .{1,400}? has been resumed!",
        cause=Cause.PREEMPTION,
        kind=Kind.UNSPECIFIED,
        quiet=True,
        files=("scheduler.py",),
    ),
    Signature(
        id="preempting_request",
        signal="preemption_resumed",
        scope=Scope.SERVER,
        needle="Preempt",
        pattern=r"Preempt(?:ed|ing) (?:the )?request\b",
        cause=Cause.PREEMPTION,
        kind=Kind.UNSPECIFIED,
        quiet=True,
        files=("scheduler.py",),
    ),
    Signature(
        id="request_preempted",
        signal="preemption_resumed",
        scope=Scope.SERVER,
        needle="preempted",
        pattern=r"Request \S{1,200} (?:is |was |has been )?preempted\b",
        cause=Cause.PREEMPTION,
        kind=Kind.UNSPECIFIED,
        files=("scheduler.py",),
    ),
)


def _refused(name: str, needle: str, pattern: str, signal: str | None = None) -> Signature:
    return Signature(
        id=name,
        signal=signal or name,
        scope=Scope.SERVER,
        needle=needle,
        pattern=pattern,
        cause=Cause.CUDA_OOM,
        kind=Kind.CAPACITY_REJECTION,
        phase=Phase.STARTUP,
    )


def _empty(name: str, needle: str, pattern: str) -> Signature:
    return replace(_refused(name, needle, pattern, "no_memory_for_cache_blocks"), quiet=True)


_REJECTIONS = (
    _empty("cache_has_no_blocks", " blocks: 0", r"# (?:GPU|cuda) blocks: 0\b"),
    _empty("cache_memory_negative", "memory: -", r"Available KV cache memory: -\d"),
    _refused(
        "no_memory_for_cache_blocks",
        "memory for the cache",
        r"No available memory for the cache blocks",
    ),
    _refused(
        "max_len_exceeds_cache",
        "is larger than the maximum number of",
        r"The model'?s? ?max(?:imum)? seq(?:uence)? len(?:gth)? \(\d+\) is larger than the maximum"
        r" number of tokens",
    ),
    _refused(
        "request_exceeds_cache",
        "To serve at least one request",
        r"To serve at least one request with the models?'s? ?s? ?max seq len",
    ),
    _refused(
        "cache_needs_more_memory",
        "larger than the available KV cache memory",
        r"\(?[\d.]+ Gi?B KV cache is needed,? which is larger than the available KV cache memory",
        "request_exceeds_cache",
    ),
    _refused(
        "free_memory_below_wanted",
        "emory on ",
        r"(?:Free|Available) memory on (?:device|node)\b.{0,120}?\bis less than"
        r" (?:desired|requested|the)",
    ),
    _refused(
        "not_enough_memory_for_cache",
        "memory",
        r"(?:(?:Not enough|Insufficient) (?:GPU |device |available )?memory (?:for|to) "
        r"(?:allocate |hold |fit )?(?:the |a |even )?(?:KV|kv|cache|one block)"
        r"|Not enough memory to handle \d+ (?:total|prefill) tokens"
        r"|Not enough memory\. Please try to increase --mem-fraction-static)",
    ),
)


def _gpu(
    name: str,
    needle: str,
    pattern: str,
    *,
    signal: str = "gpu_out_of_memory",
    phase: Phase | None = None,
    confidence: Confidence = Confidence.CONFIRMED,
) -> Signature:
    return Signature(
        id=name,
        signal=signal,
        scope=Scope.SERVER,
        needle=needle,
        pattern=pattern,
        cause=Cause.CUDA_OOM,
        kind=_ALLOCATION,
        phase=phase,
        confidence=confidence,
    )


_GPU = (
    _gpu(
        "warmup_out_of_memory",
        "out of memory occurred when warming up",
        r"(?:CUDA|HIP|XPU|[A-Z]{2,6}) out of memory occurred when warming up ",
        signal="warmup_out_of_memory",
        phase=Phase.STARTUP,
    ),
    _gpu(
        "weights_out_of_memory",
        "not enough GPU memory",
        r"Failed to load model - not enough GPU memory",
        signal="weights_out_of_memory",
        phase=Phase.STARTUP,
    ),
    _gpu(
        "torch_out_of_memory",
        "out of memory",
        r"(?:CUDA|HIP|XPU|NPU|MUSA|MLU|HPU|GCU|MACA|SDAA|MPS backend) out of memory"
        r"(?:\. (?!To avoid|You can|Consider|Try (?:to )?(?:reduc|lower))|[.!]*(?:['\")]|\s*$)"
        r"|\.?,? ?Traceback| occurred| while| during | \()",
    ),
    _gpu(
        "torch_exceeds_allowed",
        "would exceed allowed memory",
        r"Allocation on device \S+ would exceed allowed memory",
    ),
    _gpu(
        "cumem_out_of_memory",
        "out of memory at ",
        r"(?:CUDA|HIP) Error: out of memory at ",
        signal="cumem_out_of_memory",
    ),
    _gpu(
        "nccl_out_of_memory",
        "out of memory",
        r"(?:NCCL WARN )?(?:\[[^\]]{0,40}\] )?(?:Cuda|CUDA|HIP|Hip) failure:? ?(?:\d+ )?"
        r"['\"]out of memory['\"]",
        signal="nccl_out_of_memory",
    ),
    _gpu(
        "runtime_out_of_memory",
        "out of memory",
        r"(?:CUDA|HIP|Cuda|cuda|XPU|MUSA)(?:RT)?(?: [Dd]river| [Rr]untime| API)? ?"
        r"(?:[Ee]rror|[Ff]ailure)(?: code| with)?:? ?\(?(?:\d+ ?[:(,]? ?)?['\"]?out of memory\b",
        signal="runtime_out_of_memory",
    ),
    _gpu(
        "driver_out_of_memory",
        "OUT_OF_MEMORY",
        r"(?:[\w.:]{1,60}(?:\([^)]{0,60}\))? ?(?:failed|error|returned|:)[^'\"]{0,60}?)?\(?"
        r"(?:CUDA_ERROR_OUT_OF_MEMORY|CL_OUT_OF_DEVICE_MEMORY)\b",
        signal="runtime_out_of_memory",
    ),
    _gpu(
        "named_out_of_memory",
        "ErrorMemoryAllocation",
        r"(?:Search for [`'])?(?:[\w.:]{1,60}(?:\([^)]{0,60}\))? ?(?:failed|error|returned|:)"
        r"[^'\"]{0,60}?)?(?:cuda|hip)ErrorMemoryAllocation\b",
        signal="runtime_out_of_memory",
    ),
    _gpu(
        "hip_named_out_of_memory",
        "hipErrorOutOfMemory",
        r"(?:Search for [`'])?(?:[\w.:]{1,60}(?:\([^)]{0,60}\))? ?(?:failed|error|returned|:)"
        r"[^'\"]{0,60}?)?hipErrorOutOfMemory\b",
        signal="runtime_out_of_memory",
    ),
    _gpu(
        "library_alloc_failed",
        "ALLOC",
        r"(?:(?:CUDA|HIP|cuda|cuBLAS|cuDNN|cusolver|cusparse|cufft|hipblas|rocblas|\w{1,20})"
        r" ?[Ee]rror:? ?)?(?:(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CURAND|HIPBLAS|CUBLASLT)_STATUS_"
        r"ALLOC(?:ATION)?_FAILED|CUFFT_ALLOC_FAILED|CURAND_STATUS_ALLOCATION_FAILED)\b",
        signal="library_alloc_failed",
    ),
    _gpu(
        "xpu_out_of_memory",
        "OUT_OF_DEVICE_MEMORY",
        r"(?:(?:\w+ backend failed with error: |Native API failed\. Native API returns: )-?\d+ \(?)?"
        r"(?:UR_RESULT_ERROR|PI_ERROR|ZE_RESULT_ERROR|CL)?_?"
        r"OUT_OF_DEVICE_MEMORY\b",
    ),
    _gpu(
        "xla_out_of_memory",
        "RESOURCE_EXHAUSTED",
        r"(?:\w{1,60}: |Bad StatusOr access: )?RESOURCE_EXHAUSTED: (?!Received message|.{0,40}message larger)"
        r".{0,240}?(?:[Oo]ut of memory|memory space|device buffer|HBM|hbm"
        r"|Attempting to (?:reserve|allocate)|Failed to allocate)",
        signal="xla_out_of_memory",
    ),
    _gpu(
        "xla_ran_out_of_memory",
        "an out of memory",
        r"(?:XLA:\w+ compile permanent error\. )?Ran out of memory in memory space ",
        signal="xla_out_of_memory",
    ),
    _gpu(
        "xla_no_room",
        " memory. That was not possible",
        r"(?:Error loading program|Error allocating device buffer): "
        r"Attempting to (?:reserve|allocate) .{1,120} memory\. That was not possible",
        signal="xla_out_of_memory",
    ),
    _gpu(
        "ray_wrapped_out_of_memory",
        "RayTaskError(OutOfMemoryError)",
        r"(?:ray\.exceptions\.)?RayTaskError\(OutOfMemoryError\): ",
        confidence=_SUSPECTED,
    ),
    _gpu(
        "gaudi_out_of_memory",
        "FATAL ERROR :: MODULE:PT_DEVMEM",
        r"(?:\[Rank:\d+\] )?FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed",
    ),
    _gpu(
        "malloc_out_of_memory",
        "failed: out of memory",
        r"(?:\w{1,40}: )?(?:allocating [\d.]+ \w+ on device \d+: )?(?:cuda|hip)(?:Malloc|MemCreate)\w* failed: out of memory",
        signal="runtime_out_of_memory",
    ),
    _gpu(
        "pool_out_of_memory", "Out of memory allocating", r"Out of memory allocating [\d,]+ bytes"
    ),
)


def _host(name: str, needle: str, pattern: str, confidence: Confidence = _SUSPECTED) -> Signature:
    return Signature(
        id=name,
        signal="host_allocation_failed",
        scope=Scope.SERVER,
        needle=needle,
        pattern=pattern,
        cause=Cause.HOST_OOM,
        kind=_ALLOCATION,
        confidence=confidence,
    )


_HOST = (
    _host(
        "cpu_allocator_failed",
        "DefaultCPUAllocator",
        r"(?:\[enforce fail at [^\]]{1,80}\] .{0,80}?)?(?:\. )?DefaultCPUAllocator: "
        r"(?:can'?t allocate|not enough|out of) memory",
        Confidence.CONFIRMED,
    ),
    _host(
        "pinned_memory_failed",
        "Host",
        r"(?:CUDA error: |[\w ]{0,40})?(?:cudaHostAlloc|cudaMallocHost|cudaHostRegister"
        r"|hipHostMalloc|hipHostRegister)\b.{0,60}?(?:out of memory|failed|ErrorMemoryAllocation)",
    ),
    _host(
        "pinning_failed",
        "pinned",
        r"(?:Failed to|Unable to|Could not|Cannot) allocate (?:\S+ ){0,3}?pinned\b",
    ),
    _host("errno_no_memory", "[Errno 12]", r"\[Errno 12\] "),
    _host(
        "call_no_memory",
        "Cannot allocate memory",
        r"(?:unable to mmap \d+ bytes from file .{1,200}: |(?:-?\w{1,20}: )?(?:fork|mmap|clone"
        r"|posix_spawn|pthread_create|mlock)(?:\([^)]{0,80}\))?:? (?:retry: )?(?:failed: )?"
        r"(?:Resource temporarily unavailable: )?)?Cannot allocate memory\b",
    ),
    _host(
        "python_memory_error",
        "MemoryError",
        r"(?:numpy\._?core\._exceptions\.)?_?(?:Array)?MemoryError(?::|\(|\s*$)",
    ),
    _host(
        "array_unable_to_allocate",
        "Unable to allocate",
        r"Unable to allocate [\d.]+ [KMGT]?i?B for an array",
    ),
    _host(
        "bad_alloc",
        "bad_alloc",
        r"(?:terminate called after throwing an instance of ')?std::bad_alloc\b",
    ),
    _host(
        "xpu_no_host_memory",
        "OUT_OF_HOST_MEMORY",
        r"(?:(?:\w+ backend failed with error: |Native API failed\. Native API returns: )-?\d+ \(?)?"
        r"(?:UR_RESULT_ERROR|PI_ERROR|ZE_RESULT_ERROR|CL)?_?"
        r"OUT_OF_HOST_MEMORY\b",
    ),
)


def _failure(
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


_FAILURES = (
    _failure(
        "gpu_fault",
        " error: ",
        r"(?:CUDA|HIP|XPU)(?: driver| runtime)? error: (?!out of memory)[A-Za-z]\w",
        signal="gpu_fault",
    ),
    _failure(
        "triton_out_of_resources",
        "out of resource",
        r"out of resources?: ",
        signal="kernel_does_not_fit",
    ),
    _failure(
        "swap_space_exhausted",
        "CPU swap space",
        r"Aborted due to the lack of CPU swap space",
        signal="swap_space_exhausted",
    ),
    _failure(
        "engine_iteration_timed_out",
        "timed out",
        r"(?:Engine iteration timed out|RPC call to \w+ timed out)",
        signal="engine_timed_out",
        phase=Phase.RUNTIME,
    ),
    _failure(
        "collective_timed_out",
        "Watchdog",
        r"(?:\[[^\]]{1,80}\] ?)*(?:Process group )?Watchdog caught collective operation timeout",
        signal="collective_timed_out",
    ),
    _failure(
        "memory_profiling_disturbed",
        "memory profiling",
        r"Error in memory profiling\. ",
        signal="memory_profiling_disturbed",
        kind=Kind.START_FAILED,
        phase=Phase.STARTUP,
    ),
    _failure(
        "configuration_refused",
        "validation error",
        r"\d+ validation errors? for \w*(?:Config|EngineArgs)\b",
        signal="configuration_refused",
        kind=Kind.START_FAILED,
        phase=Phase.STARTUP,
    ),
    _failure("fatal_signal", "SIG", r"\*{3} SIG[A-Z]+ .{0,40}?received at", signal="fatal_signal"),
    _failure("segfault_banner", "egfault", r"!+ ?Segfault encountered", signal="fatal_signal"),
    _failure(
        "fatal_python_error", "Fatal Python error", r"Fatal Python error: ", signal="fatal_signal"
    ),
    _failure(
        "shared_memory_bus_error",
        "us error",
        r"(?:Unexpected bus error encountered in worker|Bus error\b)",
        signal="shared_memory_exhausted",
        confidence=_SUSPECTED,
    ),
    _failure(
        "shared_memory_full",
        "No space left on device",
        r"(?:\[Errno 28\] No space left on device: .{0,2}/dev/shm"
        r"|unable to (?:write to file </torch_|allocate shared memory|open shared memory)"
        r".{0,200}No space left on device|(?:\S{1,40}: )?/dev/shm/\S{1,120}: No space left on device)",
        signal="shared_memory_exhausted",
        confidence=_SUSPECTED,
    ),
    _failure(
        "shared_memory_segment",
        "shared memory segment",
        r"Error while creating shared memory segment ",
        signal="shared_memory_exhausted",
        confidence=_SUSPECTED,
    ),
    _failure(
        "loader_worker_signal",
        "is killed by signal",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) is killed by signal: (?!Killed)",
        signal="fatal_signal",
    ),
)


def _after(
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
    return _failure(
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


_CONSEQUENCES = (
    _after(
        "engine_dead_error",
        "EngineCore encountered an issue",
        r"EngineCore encountered an issue",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    _after(
        "v0_background_loop",
        "Background loop",
        r"Background loop (?:has errored already|is stopped)",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    _after(
        "v0_task_finished",
        "finished unexpectedly",
        r"Task finished unexpectedly",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    _after(
        "v0_engine_loop",
        "Engine loop",
        r"Engine loop (?:is not running|has died)",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    _after(
        "v0_background_task",
        "background task failed",
        r"Engine background task failed",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    _after(
        "v0_callback",
        "Exception in callback",
        r"Exception in callback .{0,60}?_(?:raise_exception_on_finish|log_task_completion)\b",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    _after(
        "engine_fatal_error",
        "EngineCore encountered a fatal",
        r"EngineCore encountered a fatal error",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    _after(
        "output_handler_failed",
        "output_handler failed",
        r"AsyncLLM output_handler failed",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    _after("executor_failed", "Executor failed", r"Executor failed\.", signal="engine_dead"),
    _after(
        "engine_process_died",
        "died",
        r"(?:Engine core proc(?:ess)? \S{1,60} died unexpectedly"
        r"|Engine process \(pid \d+\) died|EngineCore\S* (?:process )?died unexpectedly)",
        signal="process_died",
        kind=Kind.KILLED,
        confidence=_SUSPECTED,
    ),
    _after(
        "engine_exited_unexpectedly",
        "exited unexpectedly",
        r"\[shutdown\] \w+: engine core exited unexpectedly",
        signal="process_died",
        kind=Kind.KILLED,
        confidence=_SUSPECTED,
    ),
    _after(
        "worker_process_died",
        "died",
        r"(?:(?:Ray)?Worker ?[Pp]roc(?:ess)? \S{1,60} died unexpectedly"
        r"(?:[^\n]{0,20}exit ?code: (?P<exit>-?\d{1,5}))?"
        r"|Process \S{1,60} \(PID: \d+\) died with exit code (?P<process_exit>-?\d{1,5})"
        r"|Worker \S{1,60} pid \d+ died, exit code: (?P<worker_exit>-?\d{1,5}))",
        signal="process_died",
        kind=Kind.KILLED,
        confidence=_SUSPECTED,
    ),
    _after(
        "worker_fatal_signal",
        "Got fatal signal",
        r"Got fatal signal from worker process",
        signal="process_died",
    ),
    _after(
        "pool_process_terminated",
        "terminated abruptly",
        r"A process in the process pool was terminated abruptly",
        signal="process_died",
        kind=Kind.KILLED,
        confidence=_SUSPECTED,
    ),
    _after(
        "engine_start_failed",
        " failed",
        r"(?:(?:EngineCore|WorkerProc|Engine process|DPEngineCore\w*|Engine core)\S{0,12}"
        r" failed to start|WorkerProc initialization failed|Engine core initialization failed"
        r"|Application startup failed)",
        signal="start_failed",
        kind=Kind.START_FAILED,
        phase=Phase.STARTUP,
    ),
    _after(
        "nccl_error",
        "NCCL",
        r"(?:NCCL error\b.{0,200}?unhandled (?:cuda|system) error|NCCL error: )",
        signal="nccl_error",
    ),
    _after(
        "nccl_unhandled",
        "Call to ",
        r"(?:nccl(?:Unhandled\w+|SystemError|InternalError|RemoteError): )?"
        r"Call to CUDA function failed",
        signal="nccl_error",
    ),
    _after(
        "loader_worker_killed",
        "is killed by signal",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) is killed by signal: Killed",
        signal="process_died",
        kind=Kind.KILLED,
        confidence=_SUSPECTED,
    ),
    Signature(
        id="broadcast_block_missing",
        signal="workers_silent",
        scope=Scope.SERVER,
        needle="shared memory broadcast block",
        pattern=r"No available shared memory broadcast block found",
        cause=Cause.STALLED,
        kind=Kind.UNSPECIFIED,
        weight=Weight.SUPPORT,
        confidence=_SUSPECTED,
        quiet=True,
    ),
    Signature(
        id="stats_no_progress",
        signal="no_token_rate",
        scope=Scope.SERVER,
        needle="throughput: 0.0 tokens/s, Running: ",
        pattern=r"(?:Engine \d+: )?Avg prompt throughput: 0\.0 tokens/s, "
        r"Avg generation throughput: 0\.0 tokens/s, Running: [1-9]",
        cause=Cause.STALLED,
        kind=Kind.UNSPECIFIED,
        weight=Weight.SUPPORT,
        confidence=_SUSPECTED,
        quiet=True,
    ),
)


def _mark(
    name: str, mark: Mark, needle: str, pattern: str, *, scope: Scope = Scope.SERVER
) -> Signature:
    return Signature(
        id=name,
        signal=mark.value,
        scope=scope,
        needle=needle,
        pattern=pattern,
        weight=Weight.SUPPORT,
        mark=mark,
        quiet=True,
    )


_MARKS = (
    _mark(
        "engine_initializing",
        Mark.STARTING,
        "Initializing a",
        r"Initializing an? (?:V\d )?LLM engine\b",
    ),
    _mark("api_server_version", Mark.STARTING, "server version", r"vLLM API server version "),
    _mark(
        "server_process_started", Mark.STARTING, "Started server", r"Started server process \[\d+\]"
    ),
    _mark(
        "application_startup_complete",
        Mark.READY,
        "startup complete",
        r"Application startup complete\b",
    ),
    _mark("serving_on", Mark.READY, "Starting vLLM", r"Starting vLLM server on "),
    _mark(
        "rust_ready", Mark.READY, "ready to accept", r"OpenAI server is ready to accept requests"
    ),
    _mark(
        "shutdown_triggered",
        Mark.STOP_WANTED,
        "shutdown triggered",
        r"\[shutdown\] API server: shutdown triggered",
    ),
    _mark(
        "engine_signalled",
        Mark.STOP_WANTED,
        "[shutdown] EngineCore: trigger",
        r"\[shutdown\] EngineCore: trigger received signal=SIG(?:TERM|INT)\b",
    ),
    _mark(
        "http_server_stopping",
        Mark.STOP_WANTED,
        "Shutting down",
        r"Shutting down FastAPI HTTP server",
    ),
    _mark("fell_asleep", Mark.SLEEPING, "to fall asleep", r"It took [\d.]+ seconds to fall asleep"),
    _mark("woke_up", Mark.AWAKE, "to wake up", r"It took [\d.]+ seconds to wake up"),
)


def _ray(name: str, needle: str, pattern: str) -> Signature:
    return Signature(
        id=name,
        signal="ray_memory_monitor",
        scope=Scope.RAY,
        needle=needle,
        pattern=pattern,
        cause=Cause.HOST_OOM,
        kind=Kind.USERSPACE,
    )


_RAY = (
    _ray(
        "ray_workers_killed",
        "memory pressure (OOM)",
        r"(?P<amount>[1-9]\d{0,8}) Workers? \(tasks / ?actors\) killed due to memory pressure",
    ),
    _ray(
        "ray_task_killed",
        "running low on memory",
        r"(?:The )?(?:[Tt]asks?|[Aa]ctors?|[Ww]orkers?)\b[^'\"]{0,160}? (?:was|were) killed"
        r" due to the node running low on memory",
    ),
    _ray(
        "ray_node_memory",
        "emory on the node (IP: ",
        r"Memory on the node \(IP: .{1,160}? where the (?:task|actor|lease|worker)\b.{1,400}?"
        r"(?:exceeds the memory usage threshold|was running was)",
    ),
    _ray(
        "ray_worker_chosen",
        "memory",
        r"Killing (?:worker|task|the worker)\b.{0,160} (?:due to|because of|to free) (?:\w+ ){0,4}memory",
    ),
    _ray(
        "ray_exit_type",
        "NODE_OUT_OF_MEMORY",
        r"[\w ,.()-]{0,60}?Worker exit type: NODE_OUT_OF_MEMORY\b",
    ),
    _ray("ray_node_nearly_full", "of the memory on", r"More than \d+% of the memory on node "),
    _after(
        "ray_actor_died",
        "died",
        r"(?:The actor (?:died|is dead because)\b|ActorDiedError\b)",
        signal="ray_worker_lost",
        scope=Scope.RAY,
    ),
    _after(
        "ray_worker_died",
        "worker died or was killed",
        r"A worker died or was killed (?:while executing|by an unexpected)",
        signal="ray_worker_lost",
        scope=Scope.RAY,
    ),
)


def _system(
    name: str,
    needle: str,
    pattern: str,
    *,
    signal: str,
    kind: Kind | None,
    weight: Weight = Weight.ROOT,
    confidence: Confidence = Confidence.CONFIRMED,
) -> Signature:
    return Signature(
        id=name,
        signal=signal,
        scope=Scope.SYSTEM,
        needle=needle,
        pattern=pattern,
        cause=Cause.HOST_OOM,
        kind=kind,
        weight=weight,
        confidence=confidence,
    )


_EVENT = (
    r"(?:[a-z0-9][a-z0-9-]{0,40} +)?(?:(?:\d+[smhd]){1,3}(?: \(x\d+ over \w+\))? +)?"
    r"(?:Warning|Normal) +"
)

_KERNEL = (
    _system(
        "kernel_summary_cgroup",
        "oom-kill:constraint=",
        r"oom-kill:constraint=CONSTRAINT_MEMCG\b(?:.*,pid=(?P<pid>\d{1,10}))?",
        signal="kernel_kill",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_summary_system",
        "oom-kill:constraint=",
        r"oom-kill:constraint=CONSTRAINT_(?!MEMCG\b)\w+(?:.*,pid=(?P<pid>\d{1,10}))?",
        signal="kernel_kill",
        kind=Kind.SYSTEM,
    ),
    _system(
        "kernel_killed_cgroup",
        "emory cgroup out of memory",
        r"Memory cgroup out of memory[^:]{0,40}: Kill(?:ed)? process (?P<pid>\d{1,10})\b",
        signal="kernel_kill",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_killed_system",
        "ut of memory",
        r"Out of memory(?: \([^)]{1,40}\))?[^:]{0,40}: Kill(?:ed)? process (?P<pid>\d{1,10})\b",
        signal="kernel_kill",
        kind=Kind.SYSTEM,
    ),
    _system(
        "kernel_killed_bare",
        "Killed process ",
        r"Killed process (?P<pid>\d{1,10}),? (?:\(|UID \d+,? \().{1,40}?\),? ?"
        r"(?:UID:? ?\d+,? ?)?total-vm:",
        signal="kernel_kill",
        kind=None,
    ),
    _system(
        "kernel_task_killed_by_limit",
        "killed as a result of limit",
        r"Task in \S+ killed as a result of limit of ",
        signal="kernel_oom_block",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_group_kill",
        "memory.oom.group",
        r"Tasks in \S+ are going to be killed due to memory\.oom\.group set",
        signal="kernel_oom_block",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_oom_invoked",
        "invoked oom-killer",
        r"\S.{0,15}? invoked oom-killer: ",
        signal="kernel_oom_block",
        kind=None,
    ),
    _system(
        "kernel_memcg_usage",
        ", failcnt",
        r"(?:memory|memory\+swap|swap|kmem): usage \d+kB, limit \d+kB, failcnt ",
        signal="kernel_oom_block",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_memcg_stats",
        "emory cgroup stats for",
        r"Memory cgroup stats(?: for \S{1,1000})?:",
        signal="kernel_oom_block",
        kind=Kind.CGROUP,
    ),
    _system(
        "kernel_reaped",
        "oom_reaper: reaped",
        r"oom_reaper: reaped process (?P<pid>\d{1,10})\b",
        signal="kernel_kill",
        kind=None,
    ),
    _system(
        "kernel_victim_exiting",
        "OOM victim",
        r"(?:Memory cgroup o|O)ut of memory: OOM victim (?P<pid>\d{1,10})\b",
        signal="kernel_oom_block",
        kind=None,
    ),
    _system(
        "kernel_task_table",
        "total_vm",
        r"\[ *pid *\] +uid +tgid +total_vm ",
        signal="kernel_oom_block",
        kind=None,
    ),
    _system(
        "kernel_nothing_to_kill",
        "no killable processes",
        r"(?:Memory cgroup out of memory|Out of memory|Kernel panic.{0,60}).{0,40}"
        r"no killable processes",
        signal="kernel_oom_block",
        kind=Kind.SYSTEM,
    ),
    _system(
        "kernel_allocation_failure",
        "page allocation failure",
        r"\S.{0,15}?: page allocation failure",
        signal="kernel_allocation_failed",
        kind=_ALLOCATION,
        weight=Weight.SUPPORT,
        confidence=_SUSPECTED,
    ),
    _system(
        "kernel_memcg_frame",
        "mem_cgroup_",
        r"(?:\[<[0-9a-f]+>\] )?\??\s*(?:__)?mem_cgroup_(?:oom|out_of_memory|try_charge)\w*\+0x",
        signal="kernel_memcg_frame",
        kind=Kind.CGROUP,
        weight=Weight.SUPPORT,
    ),
    _system(
        "kernel_charge_frame",
        "charge_memcg+0x",
        r"\??\s*try_charge_memcg\+0x",
        signal="kernel_memcg_frame",
        kind=Kind.CGROUP,
        weight=Weight.SUPPORT,
    ),
)

_INIT = (
    _system(
        "systemd_unit_oom_killed",
        "by the OOM killer",
        r"[\w@.\\-]+: A process of this unit has been killed by the OOM killer",
        signal="unit_oom_killed",
        kind=None,
    ),
    _system(
        "systemd_unit_oom_some",
        "OOM killer killed some",
        r"[\w@.\\-]+: The kernel OOM killer killed some processes in this unit",
        signal="unit_oom_killed",
        kind=None,
    ),
    _system(
        "systemd_result_oom",
        "oom-kill",
        r"(?:[\w@.\\-]+: Failed with result 'oom-kill'|Result=oom-kill\b"
        r"|Active: failed \(Result: oom-kill\))",
        signal="unit_oom_killed",
        kind=None,
    ),
    _system(
        "oomd_killed",
        "Killed /",
        r"Killed /\S+ due to (?:memory|swap)\b",
        signal="userspace_kill",
        kind=Kind.USERSPACE,
    ),
    _system(
        "oomd_killed_unit",
        "systemd-oomd killed",
        r"[\w@.\\-]+: systemd-oomd killed [1-9]\d* process",
        signal="userspace_kill",
        kind=Kind.USERSPACE,
    ),
    _system(
        "earlyoom_killed",
        "sending SIG",
        r"sending SIG(?:TERM|KILL) to process (?P<pid>\d{1,10}) .{0,120}VmRSS",
        signal="userspace_kill",
        kind=Kind.USERSPACE,
    ),
    _system(
        "slurm_oom_killed",
        "oom",
        r"(?:slurmstepd: )?(?:error: )?Detected [1-9]\d* oom[-_]kill event",
        signal="kernel_kill",
        kind=Kind.CGROUP,
    ),
    _system(
        "batch_memory_limit",
        "emory",
        r"(?:TERM_MEMLIMIT: job killed|srun: error: \S+: tasks? [\d,-]+: Out Of Memory"
        r"|Memory limit of [\d.]+ ?\w+ exceeded with )",
        signal="userspace_kill",
        kind=Kind.USERSPACE,
    ),
)

_CONTAINERS = (
    _system(
        "pod_reason_oom_killed",
        "OOMKilled",
        r"(?:(?:(?:Last )?State: .{0,40}?)?[Rr]eason: *['\"]?OOMKilled\b|\"reason\": ?\"OOMKilled\""
        r"|(?:OOMKilled|['\"]OOMKilled['\"])\s*$)",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "pod_json_oom_killed",
        "OOMKilled",
        r"(?:map\[|\{)\"?(?:terminated|state|lastState|containerID|containerStatuses|apiVersion"
        r"|exitCode|kind|metadata|name|status)\b.{0,4000}?\"?[rR]eason\"?: ?\"?OOMKilled\b",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "pod_status_oom_killed",
        "OOMKilled",
        r"(?:[a-z0-9][\w./-]{0,120} +){1,2}\d+/\d+ +(?:Init:)?OOMKilled\b",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "inspect_oom_killed",
        "OOMKilled",
        r"(?:(?:\"State\": ?)?\{\"Status\".{0,300}?)?\"?OOMKilled\"?[:=] ?true\b",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "inspect_oom_short",
        "oom",
        r"(?:[\w./-]{1,80} )?oom(?:[-_]?killed)?[=:] ?true\b",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "node_event_cgroup_oom",
        "OOM",
        rf"{_EVENT}(?:CgroupOOM|TaskOOM|OOMKilled|ContainerOOM)\b",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "node_event_kill_cgroup",
        "OOMKilling",
        rf"{_EVENT}OOMKilling\b.{{0,160}}?Memory cgroup out of memory",
        signal="kernel_kill",
        kind=Kind.CGROUP,
    ),
    _system(
        "node_event_kill_system",
        "OOM",
        rf"{_EVENT}(?:OOMKilling|SystemOOM)\b",
        signal="kernel_kill",
        kind=Kind.SYSTEM,
    ),
    _system(
        "kubelet_system_oom",
        "ystem OOM",
        r"(?:System OOM encountered|Got sys oom event)",
        signal="kernel_kill",
        kind=Kind.SYSTEM,
    ),
    _system(
        "kubelet_evicted_memory",
        "memory",
        r"(?:(?:[Mm]essage|Status): *['\"]?)?(?:Pod )?(?:was (?:rejected|evicted): )?"
        r"The node was low on resource: memory\b",
        signal="pod_evicted_memory",
        kind=Kind.USERSPACE,
    ),
    _system(
        "kubelet_evicted_event",
        "memory",
        rf"{_EVENT}Evicted\b.{{0,120}}?(?:low on resource: memory\b|memory pressure|MemoryPressure)",
        signal="pod_evicted_memory",
        kind=Kind.USERSPACE,
    ),
    _system(
        "kubelet_memory_pressure",
        "MemoryPressure",
        r"(?:(?:[Mm]essage|Status): *['\"]?)?(?:Pod )?(?:was (?:rejected|evicted): )?"
        r"The node had condition: \[MemoryPressure\]",
        signal="pod_evicted_memory",
        kind=Kind.USERSPACE,
    ),
    _system(
        "kubelet_reclaims_memory",
        "viction manager",
        r"\"?[Ee]viction manager: (?:attempting to reclaim\"? resourceName=\"memory\""
        r"|must evict pod\(s\) to reclaim memory|attempting to reclaim memory)",
        signal="pod_evicted_memory",
        kind=Kind.USERSPACE,
        confidence=_SUSPECTED,
    ),
    _system(
        "containerd_task_oom",
        "oom",
        r"time=\"[^\"]{1,40}\" level=\w+ msg=.{0,200}topic=\"?/tasks/oom\b",
        signal="container_oom_event",
        kind=Kind.CGROUP,
    ),
    _system(
        "containerd_task_oom_event",
        "TaskOOM",
        r"(?:time=\"[^\"]{1,40}\" level=\w+ msg=\")?(?:received )?(?:event )?TaskOOM\b",
        signal="container_oom_event",
        kind=Kind.CGROUP,
    ),
    _system(
        "docker_event_oom",
        "container oom ",
        r"container oom [0-9a-f]{8,64}\b",
        signal="container_oom_event",
        kind=Kind.CGROUP,
    ),
    _system(
        "conmon_oom",
        "OOM",
        r"(?:conmon \w+ )?(?:<\w+>: )?OOM (?:event )?received\b",
        signal="container_oom_event",
        kind=Kind.CGROUP,
    ),
    _system(
        "orchestrator_oom_killed",
        "OOM",
        r"(?:OOM Killed|(?:Terminated +)?(?:Exit Code: \d+, )?Exit Message: \"OOM Killed\""
        r"|Container \S+ (?:in pod \S+ )?(?:was|has been) OOM[- ]?[Kk]illed)",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    _system(
        "task_oom_killed",
        "OutOfMemoryError: Container killed",
        r"(?:\"reason\": ?\")?OutOfMemoryError: Container killed due to memory usage",
        signal="container_oom_killed",
        kind=Kind.CGROUP,
    ),
    Signature(
        id="controller_reports_gpu_oom",
        signal="gpu_out_of_memory",
        scope=Scope.SYSTEM,
        needle="out of memory",
        pattern=r"\"HTTP call done\" .{0,2000}?statusCode=5\d\d .{0,2000}?"
        r"Call to \w+ method failed: CUDA [Ee]rror: out of memory\b",
        cause=Cause.CUDA_OOM,
        kind=_ALLOCATION,
    ),
    Signature(
        id="nvidia_driver_no_memory",
        signal="runtime_out_of_memory",
        scope=Scope.SYSTEM,
        needle="NV_ERR_NO_MEMORY",
        pattern=r"NVRM: .{0,160}?\[?NV_ERR_NO_MEMORY\]?",
        cause=Cause.CUDA_OOM,
        kind=_ALLOCATION,
        confidence=_SUSPECTED,
    ),
)


def _stopping(name: str, needle: str, pattern: str) -> Signature:
    # No Mark: uvicorn says the same after the engine died. It speaks only in a log read whole.
    return Signature(
        id=name,
        signal=SERVER_STOPPING,
        scope=Scope.SYSTEM,
        needle=needle,
        pattern=pattern,
        weight=Weight.SUPPORT,
        quiet=True,
    )


_ENDINGS = (
    _failure(
        "nvidia_gpu_lost",
        "fallen off the bus",
        r"NVRM: .{0,120}fallen off the bus",
        signal="gpu_lost",
        scope=Scope.SYSTEM,
    ),
    _failure(
        "nvidia_xid",
        "NVRM: Xid",
        r"NVRM: Xid \([^)]{1,40}\): (?!(?:43|45|63|92|94|154),)(?P<xid>\d{1,3}),",
        signal="gpu_xid",
        scope=Scope.SYSTEM,
        confidence=_SUSPECTED,
    ),
    _after(
        "nvidia_xid_after",
        "NVRM: Xid",
        r"NVRM: Xid \([^)]{1,40}\): (?P<xid>43|45),",
        signal="gpu_xid",
        scope=Scope.SYSTEM,
        confidence=_SUSPECTED,
    ),
    _failure(
        "kernel_segfault",
        "segfault at",
        r"(?:VLLM::|python|vllm|pt_main|ray::)\S{0,16}\[\d+\]: segfault at ",
        signal="fatal_signal",
        scope=Scope.SYSTEM,
    ),
    _after(
        "shell_killed",
        "Killed",
        r"(?:(?:[\w./-]{1,80}: )?line \d+: +\d+ )?Killed(?: {2,}\S.{0,200}| *\(.{0,200})?\s*$",
        signal="process_killed",
        scope=Scope.SYSTEM,
        kind=Kind.KILLED,
        confidence=_SUSPECTED,
    ),
    _after(
        "shell_crashed",
        "core dumped",
        r"(?:(?:[\w./-]{1,80}: )?line \d+: +\d+ )?(?:Segmentation fault|Aborted|Floating point exception"
        r"|Illegal instruction) +\(core dumped\)",
        signal="process_crashed",
        scope=Scope.SYSTEM,
    ),
    _after(
        "worker_sent_sigkill",
        "SIGKILL",
        r"Worker \(pid:\d+\) was sent SIGKILL",
        signal="process_killed",
        scope=Scope.SYSTEM,
        kind=Kind.KILLED,
        confidence=_SUSPECTED,
    ),
    _after(
        "exit_code_killed",
        "xit",
        r"(?:Exit Code: +137\b|\"?[Ee]xitCode\"?: ?137\b|exitCode=137\b"
        r"|(?:[\w./-]{1,80} )?[Ee]xited (?:with code )?\(?137\b|worker exited with exit code 137\b"
        r"|exit(?: code|=| status)[:=]? ?137\b)",
        signal="process_killed",
        scope=Scope.SYSTEM,
        kind=Kind.KILLED,
        confidence=_SUSPECTED,
    ),
    _after(
        "exit_code_crashed",
        "xit",
        r"(?:Exit Code: +|\"?[Ee]xitCode\"?: ?|exitCode=|(?:[\w./-]{1,80} )?[Ee]xited (?:with code )?\(?"
        r"|worker exited with exit code )13[469]\b",
        signal="process_crashed",
        scope=Scope.SYSTEM,
        confidence=_SUSPECTED,
    ),
    _after(
        "systemd_main_killed",
        "Main process exited",
        r"[\w@.\\-]+: Main process exited, code=killed, status=9/KILL",
        signal="process_killed",
        scope=Scope.SYSTEM,
        kind=Kind.KILLED,
        confidence=_SUSPECTED,
    ),
    _after(
        "systemd_main_crashed",
        "Main process exited",
        r"[\w@.\\-]+: Main process exited, code=(?:dumped|killed), status=(?:4|6|7|8|11)/",
        signal="process_crashed",
        scope=Scope.SYSTEM,
    ),
    _mark(
        "systemd_starting",
        Mark.STARTING,
        "Start",
        r"Start(?:ed|ing) (?:\S*vllm\S*\.service\b|.{0,60}vLLM(?! API| server).{0,60}\.$)",
        scope=Scope.SYSTEM,
    ),
    _mark(
        "systemd_stopping",
        Mark.STOP_WANTED,
        "Stopping ",
        r"Stopping (?:\S*vllm\S*\.service\b|.{0,60}vLLM(?! API| server).{0,60}\.$)",
        scope=Scope.SYSTEM,
    ),
    _stopping("uvicorn_stopping", "Shutting down", r"Shutting down\s*$"),
    _stopping("uvicorn_waiting", "application shutdown", r"Waiting for application shutdown"),
    _stopping("uvicorn_stopped", "shutdown complete", r"Application shutdown complete"),
    Signature(
        id="pin_memory_frame",
        signal=PIN_MEMORY_FRAME,
        scope=Scope.SYSTEM,
        needle="pin_memory",
        pattern=r"(?:File \".{1,200}\", line \d+, in \w*pin_memory|.{0,160}pin_memory=True"
        r"|.{0,120}\.pin_memory\(\))",
        weight=Weight.SUPPORT,
    ),
)

ROWS: tuple[Signature, ...] = (
    *_PREEMPTION,
    *_REJECTIONS,
    *_HOST,
    *_GPU,
    *_RAY,
    *_FAILURES,
    *_CONSEQUENCES,
    *_MARKS,
    *_KERNEL,
    *_INIT,
    *_CONTAINERS,
    *_ENDINGS,
)
"""In order: the first row that matches speaks."""

SIGNATURES: Mapping[str, Signature] = MappingProxyType({row.id: row for row in ROWS})
"""By id."""
