"""Lines of vLLM's own log: vLLM, torch, CUDA, ROCm and XPU libraries, NCCL, Python."""

from dataclasses import replace

from sidecar.catalog.signatures.row import (
    ALLOCATION,
    SUSPECTED,
    Facts,
    Mark,
    Scope,
    Signature,
    aftermath,
    failed,
    marked,
)
from sidecar.model.evidence import Weight
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase

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
        kind=ALLOCATION,
        phase=phase,
        confidence=confidence,
    )


_WARNING = ("WARN", "WARNING")
_DEVICE = r"(?:CUDA|HIP|XPU|NPU|MUSA|MLU|HPU|GCU|MACA|SDAA|MPS backend)"
_OUT_OF_MEMORY = (
    rf"{_DEVICE} out of memory"
    r"(?:\. (?!To avoid|You can|Consider|Try (?:to )?(?:reduc|lower))|[.!]*(?:['\")]|\s*$)"
    r"|\.?,? ?Traceback| occurred| while| during | \()"
)
_SCRATCHPAD = r"memory space (?:smem|vmem|cmem|sflag|dreg|tmem|semaphore)"
_RECOVERS = (
    r"(?:\bautotun|\bretry(?:ing)?\b|\bfall(?:s|ing) ?back\b|\bskip(?:s|ped|ping)\b|\bcontinuing\b"
    r"|\bignoring\b|\bwith (?:a )?smaller\b)"
)
"""Words of a program that caught the failure, and goes on."""

_GPU = (
    Signature(
        # It speaks for no cause: without it the next rows would speak for one.
        id="caught_out_of_memory",
        signal="gpu_out_of_memory_caught",
        scope=Scope.SERVER,
        needle="out of memory",
        pattern=rf"(?:[\w ,:'-]{{0,80}}?\b)?{_DEVICE} out of memory\b.{{0,600}}?{_RECOVERS}",
        weight=Weight.SUPPORT,
        confidence=SUSPECTED,
        levels=_WARNING,
    ),
    replace(
        _gpu("warned_out_of_memory", "out of memory", _OUT_OF_MEMORY, confidence=SUSPECTED),
        levels=_WARNING,
    ),
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
        _OUT_OF_MEMORY,
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
        r"(?:[Ee]rror|[Ff]ailure)(?: code| with| in| at)?:? ?"
        r"(?:\(?[\w./:-]{1,160}:\d{1,6}\)?:? |[\w:]{1,60}\([^)]{0,80}(?:\(\))?\): )?"
        r"\(?(?:\d+ ?[:(,]? ?)?['\"]?out of memory\b",
        signal="runtime_out_of_memory",
    ),
    _gpu(
        "triton_out_of_memory",
        "out of memory",
        r"Triton Error \[(?:CUDA|HIP|XPU)\]: +(?:Code: \d{1,4}, Mess\w{2,6}: )?out of memory\b",
        signal="runtime_out_of_memory",
    ),
    _gpu(
        "virtual_gpu_refused",
        "cuMemoryAllocate failed",
        r"\[(?:HAMI-core|4pdvGPU) ERROR [^\]]{1,120}\]: ?cuMemoryAllocate failed res=2\b",
    ),
    _gpu(
        "virtual_gpu_limit",
        " OOM ",
        r"(?:\[(?:HAMI-core|4pdvGPU) ERROR [^\]]{1,120}\]: ?)Device \d{1,3} OOM \d{1,20} / \d",
    ),
    _gpu(
        "driver_out_of_memory",
        "OUT_OF_MEMORY",
        r"(?:\[\d{1,4}\] Call to \w{1,60} results in |DriverError\(|(?:CUDA|HIP) driver error "
        r"\([\w./:-]{1,160}\): \d{1,4} |[\w.:]{1,60}(?:\([^)]{0,60}\))? ?(?:failed|error|returned|:)[^'\"]{0,60}?)?\(?"
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
        r"(?:\w{1,60}: |Bad StatusOr access: )?RESOURCE_EXHAUSTED: (?!Received message|.{0,40}message larger"
        rf"|.{{0,240}}{_SCRATCHPAD})"
        r".{0,240}?(?:[Oo]ut of memory|memory space|device buffer|HBM|hbm"
        r"|Attempting to (?:reserve|allocate)|Failed to allocate)",
        signal="xla_out_of_memory",
    ),
    _gpu(
        "xla_ran_out_of_memory",
        "an out of memory",
        r"(?:XLA:\w+ compile permanent error\. )?Ran out of memory in memory space "
        r"(?!smem|vmem|cmem|sflag|dreg|tmem|semaphore)",
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
        confidence=SUSPECTED,
    ),
    _gpu(
        "gaudi_out_of_memory",
        "FATAL ERROR :: MODULE:PT_DEVMEM",
        r"(?:\[Rank:\d+\] )?FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed",
    ),
    _gpu(
        "malloc_out_of_memory",
        "failed: out of memory",
        r"(?:\w{1,80}: )?(?:allocating [\d.]+ \w+ on device \d+: )?(?:cu|cuda|hip)"
        r"(?:M(?:em)?[Aa]lloc|Mem(?:Create|Alloc|Map)|Graph|ModuleLoad|LibraryLoad|CtxCreate)\w*"
        r"(?:\([^)]{0,80}\))? failed: out of memory",
        signal="runtime_out_of_memory",
    ),
    _gpu(
        "device_bad_alloc",
        "bad_alloc",
        r"std::bad_alloc: (?:out_of_memory: )?(?:CUDA|HIP) error (?:at|\()",
        signal="runtime_out_of_memory",
    ),
    _gpu(
        "pool_out_of_memory", "Out of memory allocating", r"Out of memory allocating [\d,]+ bytes"
    ),
)


_DEVICE_BAD_ALLOC = r"std::bad_alloc: (?:out_of_memory: )?(?:CUDA|HIP) error\b"


def _host(name: str, needle: str, pattern: str, confidence: Confidence = SUSPECTED) -> Signature:
    return Signature(
        id=name,
        signal="host_allocation_failed",
        scope=Scope.SERVER,
        needle=needle,
        pattern=pattern,
        cause=Cause.HOST_OOM,
        kind=ALLOCATION,
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
        rf"(?:numpy\._?core\._exceptions\.)?_?(?:Array)?MemoryError(?::(?! {_DEVICE_BAD_ALLOC})|\(|\s*$)",
    ),
    _host(
        "array_unable_to_allocate",
        "Unable to allocate",
        r"Unable to allocate [\d.]+ [KMGT]?i?B for an array",
    ),
    _host(
        "bad_alloc",
        "bad_alloc",
        rf"(?!{_DEVICE_BAD_ALLOC})(?:terminate called after throwing an instance of ')?std::bad_alloc\b",
    ),
    _host(
        "rust_allocation_failed",
        "memory allocation of",
        r"memory allocation of \d{1,20} bytes failed",
        Confidence.CONFIRMED,
    ),
    _host(
        "go_allocation_failed",
        " error: runtime: ",
        r"fatal error: runtime: (?:out of memory|cannot (?:allocate|map) )",
        Confidence.CONFIRMED,
    ),
    _host(
        "arrow_allocation_failed",
        "malloc of size ",
        r"(?:re)?malloc of size \d{1,20} failed",
    ),
    _host(
        "xpu_no_host_memory",
        "OUT_OF_HOST_MEMORY",
        r"(?:(?:\w+ backend failed with error: |Native API failed\. Native API returns: )-?\d+ \(?)?"
        r"(?:UR_RESULT_ERROR|PI_ERROR|ZE_RESULT_ERROR|CL)?_?"
        r"OUT_OF_HOST_MEMORY\b",
    ),
)


_FAILURES = (
    failed(
        "gpu_fault",
        " error: ",
        r"(?:CUDA|HIP|XPU)(?: driver| runtime)? error: (?!out of memory)[A-Za-z]\w",
        signal="gpu_fault",
    ),
    failed(
        "triton_out_of_resources",
        "out of resource",
        r"out of resources?: ",
        signal="kernel_does_not_fit",
    ),
    failed(
        "scratchpad_exceeded",
        "memory space",
        r"(?:(?:Bad StatusOr access: )?RESOURCE_EXHAUSTED: )?(?:XLA:\w+ compile permanent error\. )?"
        rf"Ran out of memory in {_SCRATCHPAD}\b",
        signal="kernel_does_not_fit",
    ),
    failed(
        "swap_space_exhausted",
        "CPU swap space",
        r"Aborted due to the lack of CPU swap space",
        signal="swap_space_exhausted",
    ),
    failed(
        "engine_iteration_timed_out",
        "timed out",
        r"(?:Engine iteration timed out|RPC call to \w+ timed out)",
        signal="engine_timed_out",
        phase=Phase.RUNTIME,
    ),
    failed(
        "collective_timed_out",
        "Watchdog",
        r"(?:\[[^\]]{1,80}\] ?)*(?:Process group )?Watchdog caught collective operation timeout",
        signal="collective_timed_out",
    ),
    failed(
        "memory_profiling_disturbed",
        "memory profiling",
        r"Error in memory profiling\. ",
        signal="memory_profiling_disturbed",
        kind=Kind.START_FAILED,
        phase=Phase.STARTUP,
    ),
    failed(
        "configuration_refused",
        "validation error",
        r"\d+ validation errors? for \w*(?:Config|EngineArgs)\b",
        signal="configuration_refused",
        kind=Kind.START_FAILED,
        phase=Phase.STARTUP,
    ),
    failed("fatal_signal", "SIG", r"\*{3} SIG[A-Z]+ .{0,40}?received at", signal="fatal_signal"),
    failed("segfault_banner", "egfault", r"!+ ?Segfault encountered", signal="fatal_signal"),
    failed(
        "fatal_python_error", "Fatal Python error", r"Fatal Python error: ", signal="fatal_signal"
    ),
    failed(
        "shared_memory_bus_error",
        "us error",
        r"(?:Unexpected bus error encountered in worker|Bus error\b)",
        signal="shared_memory_exhausted",
        confidence=SUSPECTED,
    ),
    failed(
        "shared_memory_full",
        "No space left on device",
        r"(?:\[Errno 28\] No space left on device: .{0,2}/dev/shm"
        r"|unable to (?:write to file </torch_|allocate shared memory|open shared memory)"
        r".{0,200}No space left on device|(?:\S{1,40}: )?/dev/shm/\S{1,120}: No space left on device)",
        signal="shared_memory_exhausted",
        confidence=SUSPECTED,
    ),
    failed(
        "shared_memory_segment",
        "shared memory segment",
        r"Error while creating shared memory segment ",
        signal="shared_memory_exhausted",
        confidence=SUSPECTED,
    ),
    failed(
        "loader_worker_signal",
        "is killed by signal",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) is killed by signal: (?!Killed)",
        signal="fatal_signal",
    ),
)


_CONSEQUENCES = (
    aftermath(
        "engine_dead_error",
        "EngineCore encountered an issue",
        r"EngineCore encountered an issue",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    aftermath(
        "v0_background_loop",
        "Background loop",
        r"Background loop (?:has errored already|is stopped)",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    aftermath(
        "v0_task_finished",
        "finished unexpectedly",
        r"Task finished unexpectedly",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    aftermath(
        "v0_engine_loop",
        "Engine loop",
        r"Engine loop (?:is not running|has died)",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    aftermath(
        "v0_background_task",
        "background task failed",
        r"Engine background task failed",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    aftermath(
        "v0_callback",
        "Exception in callback",
        r"Exception in callback .{0,60}?_(?:raise_exception_on_finish|log_task_completion)\b",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    aftermath(
        "engine_fatal_error",
        "EngineCore encountered a fatal",
        r"EngineCore encountered a fatal error",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    aftermath(
        "output_handler_failed",
        "output_handler failed",
        r"AsyncLLM output_handler failed",
        signal="engine_dead",
        phase=Phase.RUNTIME,
    ),
    aftermath("executor_failed", "Executor failed", r"Executor failed\.", signal="engine_dead"),
    aftermath(
        "engine_process_died",
        "died",
        r"(?:Engine core proc(?:ess)? \S{1,60} died unexpectedly"
        r"|Engine process \(pid \d+\) died|EngineCore\S* (?:process )?died unexpectedly)",
        signal="process_died",
        kind=Kind.KILLED,
        confidence=SUSPECTED,
    ),
    aftermath(
        "engine_exited_unexpectedly",
        "exited unexpectedly",
        r"\[shutdown\] \w+: engine core exited unexpectedly",
        signal="process_died",
        kind=Kind.KILLED,
        confidence=SUSPECTED,
    ),
    aftermath(
        "worker_process_died",
        "died",
        r"(?:(?:Ray)?Worker ?[Pp]roc(?:ess)? \S{1,60} died unexpectedly"
        r"(?:[^\n]{0,20}exit ?code: (?P<exit>-?\d{1,5}))?"
        r"|Process \S{1,60} \(PID: \d+\) died with exit code (?P<process_exit>-?\d{1,5})"
        r"|Worker \S{1,60} pid \d+ died, exit code: (?P<worker_exit>-?\d{1,5}))",
        signal="process_died",
        kind=Kind.KILLED,
        confidence=SUSPECTED,
    ),
    aftermath(
        "worker_fatal_signal",
        "Got fatal signal",
        r"Got fatal signal from worker process",
        signal="process_died",
    ),
    aftermath(
        "pool_process_terminated",
        "terminated abruptly",
        r"A process in the process pool was terminated abruptly",
        signal="process_died",
        kind=Kind.KILLED,
        confidence=SUSPECTED,
    ),
    aftermath(
        "engine_start_failed",
        " failed",
        r"(?:(?:EngineCore|WorkerProc|Engine process|DPEngineCore\w*|Engine core)\S{0,12}"
        r" failed to start|WorkerProc initialization failed|Engine core initialization failed"
        r"|Application startup failed)",
        signal="start_failed",
        kind=Kind.START_FAILED,
        phase=Phase.STARTUP,
    ),
    aftermath(
        "nccl_error",
        "NCCL",
        r"(?:NCCL error\b.{0,200}?unhandled (?:cuda|system) error|NCCL error: )",
        signal="nccl_error",
    ),
    aftermath(
        "nccl_unhandled",
        "Call to ",
        r"(?:nccl(?:Unhandled\w+|SystemError|InternalError|RemoteError): )?"
        r"Call to CUDA function failed",
        signal="nccl_error",
    ),
    aftermath(
        "loader_worker_killed",
        "is killed by signal",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) is killed by signal: Killed",
        signal="process_died",
        kind=Kind.KILLED,
        confidence=SUSPECTED,
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
        confidence=SUSPECTED,
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
        confidence=SUSPECTED,
        quiet=True,
    ),
)


_ENGINE_FILES = ("core.py", "llm_engine.py", "async_llm_engine.py", "async_llm.py", "engine.py")
_SERVER_FILES = ("launcher.py", "api_server.py", "api_utils.py", "utils.py", "entry.py", "serve.py")
_UVICORN_FILES = ("server.py", "on.py", "error.py", "launcher.py")


_MARKS = (
    marked(
        "engine_initializing",
        Mark.STARTING,
        "Initializing a",
        r"Initializing an? (?:V\d )?LLM engine\b",
        files=_ENGINE_FILES,
        facts=Facts.CONFIG,
    ),
    marked(
        "api_server_version",
        Mark.STARTING,
        "server version",
        r"vLLM API server version [\w.+-]{1,100}\s*$",
        files=_SERVER_FILES,
    ),
    marked(
        "server_process_started",
        Mark.STARTING,
        "Started server",
        r"Started server process \[\d+\]\s*$",
        files=_UVICORN_FILES,
    ),
    marked(
        "application_startup_complete",
        Mark.READY,
        "startup complete",
        r"Application startup complete\.?\s*$",
        files=_UVICORN_FILES,
    ),
    marked(
        "serving_on",
        Mark.READY,
        "Starting vLLM",
        r"Starting vLLM server on \S{1,200}\s*$",
        files=_SERVER_FILES,
    ),
    marked(
        "rust_ready",
        Mark.READY,
        "ready to accept",
        r"OpenAI server is ready to accept requests\b",
        files=("lib.rs", "server.rs", "main.rs"),
    ),
    marked(
        "shutdown_triggered",
        Mark.STOP_WANTED,
        "shutdown triggered",
        r"\[shutdown\] API server: shutdown triggered\.?\s*$",
        files=_SERVER_FILES,
    ),
    marked(
        "engine_signalled",
        Mark.STOP_WANTED,
        "[shutdown] EngineCore: trigger",
        r"\[shutdown\] EngineCore: trigger received signal=SIG(?:TERM|INT)\.?\s*$",
        files=_ENGINE_FILES,
    ),
    marked(
        "http_server_stopping",
        Mark.STOP_WANTED,
        "Shutting down",
        r"Shutting down FastAPI HTTP server\.?\s*$",
        files=_SERVER_FILES,
    ),
    marked(
        "fell_asleep",
        Mark.SLEEPING,
        "to fall asleep",
        r"It took [\d.]+ seconds to fall asleep\.?\s*$",
    ),
    marked(
        "woke_up",
        Mark.AWAKE,
        "to wake up",
        r"It took [\d.]+ seconds to wake up(?: tags \{.{0,80}\})?\.?\s*$",
    ),
)

SERVER_ROWS = (
    *_PREEMPTION,
    *_REJECTIONS,
    *_HOST,
    *_GPU,
)
AFTERMATH_ROWS = (
    *_FAILURES,
    *_CONSEQUENCES,
    *_MARKS,
)
